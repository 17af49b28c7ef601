"""What is a project, once its files are read and found right?

One small frozen model for each section of `backhaul.yml`, and `Project`, which holds them all.
Inner code takes these and never a dict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from backhaul.control.notify.config import NotifyConfig
from backhaul.findings import Finding
from backhaul.project.connection import PostgresConnection
from backhaul.project.load import Prices
from backhaul.project.manifest import TableEntry
from backhaul.project.pipeline import PipelineEntry
from backhaul.project.settings import Duration, RangePolicy, Settings

STORE_SCHEMES = ("file", "s3", "gs")


class StoreConfig(Settings):
    """Where files go: a folder, or a bucket with a prefix."""

    url: str = Field(default="data", min_length=1)
    endpoint: str | None = None
    region: str | None = None
    access_key_id: SecretStr | None = None
    secret_access_key: SecretStr | None = None
    options: dict[str, str] = Field(default_factory=dict)

    @field_validator("url")
    @classmethod
    def _reachable(cls, url: str) -> str:
        scheme, separator, rest = url.partition("://")
        if not separator:
            return url
        if scheme not in STORE_SCHEMES:
            raise ValueError(
                "a store is a folder, file://…, s3://bucket/prefix or gs://bucket/prefix"
            )
        if scheme != "file" and not rest.split("/")[0]:
            raise ValueError(f"the bucket is missing: {scheme}://bucket/prefix")
        return url


class StateConfig(Settings):
    """backhaul's own database; none given means the embedded one."""

    url: SecretStr | None = None

    @field_validator("url")
    @classmethod
    def _postgres(cls, url: SecretStr | None) -> SecretStr | None:
        if url and urlsplit(url.get_secret_value()).scheme not in ("postgres", "postgresql"):
            raise ValueError(
                "the state is a PostgreSQL database: postgresql://user:pass@host/database"
            )
        return url


class SparkConfig(Settings):
    """The Spark session: its master, its configuration, further packages by Maven coordinates."""

    master: str = Field(default="local[*]", min_length=1)
    conf: dict[str, str] = Field(default_factory=dict)
    packages: tuple[str, ...] = ()


class LakeConfig(Settings):
    """The Iceberg lake: its catalog's name in Spark, where its tables' files are, how they are made.

    `properties` are those of new tables; `conf` becomes `spark.sql.catalog.<catalog>.<key>`.
    """

    warehouse: str | None = None
    catalog: str = Field(default="lake", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    format_version: int = Field(default=3, ge=2, le=3)
    properties: dict[str, str] = Field(default_factory=dict)
    conf: dict[str, str] = Field(default_factory=dict)
    batch_rows: int | None = Field(default=None, ge=1)
    max_concurrency: int | None = Field(default=None, ge=1)


class PricesSettings(Settings):
    """What an hour of an executor and a terabyte cost; zero: that is not counted."""

    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$")
    executor_hour: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    read_tb: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    write_tb: float = Field(default=0.0, ge=0, allow_inf_nan=False)

    def prices(self) -> Prices:
        return Prices(**self.model_dump())


class QualitySettings(Settings):
    """How checks judge: `history` is how many past loads a distribution is compared with."""

    history: int = Field(default=20, ge=1)


class ExtractSettings(Settings):
    """How tables are read, for those that do not say it themselves."""

    chunk_rows: int = Field(default=5_000_000, ge=1)
    resume_within: Duration = timedelta(hours=24)
    overlap: Duration = timedelta(minutes=30)
    window_cap: Duration | None = None
    numeric: Literal["text", "double"] = "text"
    out_of_range: RangePolicy = "null"
    advanced_metadata: bool = False


class PlatformLimits(Settings):
    """How much of one platform may be in use at once; None is no limit."""

    max_runs: int | None = Field(default=None, ge=1)


class ApiConfig(Settings):
    """Where the control plane's API listens."""

    host: str = Field(default="127.0.0.1", min_length=1)
    port: int = Field(default=8642, ge=0, le=65535)


Pause = Annotated[Duration, Field(ge=timedelta(milliseconds=100), le=timedelta(days=1))]


class ControlConfig(Settings):
    """How many runs at once, in all and for a platform; how workers show that they are alive."""

    max_runs: int | None = Field(default=None, ge=1)
    platforms: dict[str, PlatformLimits] = Field(default_factory=dict)
    max_backfills: int | None = Field(default=None, ge=1)
    lanes: int = Field(default=4, ge=1, le=1_000)
    heartbeat: Pause = timedelta(seconds=10)
    lost_after: Pause = timedelta(seconds=60)
    poll: Pause = timedelta(seconds=5)
    api: ApiConfig = ApiConfig()

    @model_validator(mode="after")
    def _alive(self) -> ControlConfig:
        if self.lost_after < 2 * self.heartbeat:
            raise ValueError(
                "`lost_after` must be at least twice `heartbeat`: a worker that is one heartbeat "
                "late would lose its runs to another"
            )
        return self


@dataclass(frozen=True)
class Project:
    """Everything that the user wrote. `findings` are warnings: none of them prevents anything."""

    folder: Path
    name: str
    connections: Mapping[str, PostgresConnection] = field(default_factory=dict)
    store: StoreConfig = field(default_factory=StoreConfig)
    state: StateConfig = field(default_factory=StateConfig)
    spark: SparkConfig = field(default_factory=SparkConfig)
    lake: LakeConfig = field(default_factory=LakeConfig)
    extract: ExtractSettings = field(default_factory=ExtractSettings)
    prices: Prices = field(default_factory=Prices)
    quality: QualitySettings = field(default_factory=QualitySettings)
    variables: Mapping[str, str] = field(default_factory=dict)
    tables: tuple[TableEntry, ...] = ()
    control: ControlConfig = field(default_factory=ControlConfig)
    notify: NotifyConfig = field(default_factory=NotifyConfig)
    pipelines: tuple[PipelineEntry, ...] = ()
    findings: tuple[Finding, ...] = ()

    def table(self, name: str) -> TableEntry | None:
        return next((table for table in self.tables if table.name == name), None)

    def pipeline(self, name: str) -> PipelineEntry | None:
        return next((one for one in self.pipelines if one.pipeline_name == name), None)
