"""Which place does the project's `store` section mean?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pydantic import SecretStr

from backhaul.errors import ConfigError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_OBJECTS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs"}


class StoreSettings(Protocol):
    """The part of the project's StoreConfig that we read."""

    @property
    def url(self) -> str: ...
    @property
    def endpoint(self) -> str | None: ...
    @property
    def region(self) -> str | None: ...
    @property
    def access_key_id(self) -> SecretStr | None: ...
    @property
    def secret_access_key(self) -> SecretStr | None: ...
    @property
    def options(self) -> Mapping[str, str]: ...


@dataclass(frozen=True)
class Location:
    """A place that can be carried to another process. For a folder, `root` is its absolute path;
    for S3 and GCS it is the bucket, and `prefix` the folder in it."""

    scheme: str
    root: str
    prefix: str = ""
    endpoint: str | None = None
    region: str | None = None
    access_key_id: SecretStr | None = None
    secret_access_key: SecretStr | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.scheme == "file":
            return f"file://{self.root}"
        place = f"{self.scheme}://{self.root}" + (f"/{self.prefix}" if self.prefix else "")
        return f"{place} at {self.endpoint}" if self.endpoint else place


def locate(settings: StoreSettings, root: Path) -> Location:
    """The place that the settings name; a relative folder is relative to the project."""
    scheme, rest = _split(settings.url)
    if scheme == "file":
        return Location("file", str((root / rest).resolve()))
    bucket, _, prefix = rest.partition("/")
    if scheme not in _OBJECTS or not bucket:
        raise ConfigError(
            f"store.url: {settings.url!r} names no place that we can use",
            remedy="use a folder, file:///folder, s3://bucket/prefix or gs://bucket/prefix",
        )
    if (settings.access_key_id is None) != (settings.secret_access_key is None):
        raise ConfigError(
            "store: of access_key_id and secret_access_key only one is set",
            remedy="set both, or none to use the environment's credentials",
        )
    return Location(
        _OBJECTS[scheme],
        bucket,
        "/".join(part for part in prefix.split("/") if part),
        settings.endpoint,
        settings.region,
        settings.access_key_id,
        settings.secret_access_key,
        dict(settings.options),
    )


def _split(url: str) -> tuple[str, str]:
    match = _SCHEME.fullmatch(url)
    return (match[1].lower(), match[2]) if match else ("file", url.removeprefix("file:"))
