"""Does the lake's catalog come to be in the state's database, unless the user says otherwise?"""

from __future__ import annotations

import pytest

from backhaul.destinations.iceberg.config import (
    catalog_settings,
    default_warehouse,
    jdbc_address,
)
from backhaul.errors import ConfigError
from backhaul.project.models import LakeConfig
from backhaul.store.location import Location

URL = "postgresql://ann%40x:s%2Fp%3F@db.example:5433/my%20state?sslmode=require&gssencmode=disable"


def test_by_default_the_catalog_is_in_the_state() -> None:
    assert catalog_settings(LakeConfig(), URL, "file:///data/lake") == {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "jdbc",
        "spark.sql.catalog.lake.uri": "jdbc:postgresql://db.example:5433/my%20state"
        "?sslmode=require&currentSchema=backhaul_lake",
        "spark.sql.catalog.lake.jdbc.user": "ann@x",
        "spark.sql.catalog.lake.jdbc.password": "s/p?",
        "spark.sql.catalog.lake.jdbc.schema-version": "V1",
        "spark.sql.catalog.lake.warehouse": "file:///data/lake",
        "spark.sql.catalog.lake.cache-enabled": "false",
    }


def test_another_catalog_knows_nothing_of_the_state() -> None:
    config = LakeConfig(catalog="wh", conf={"type": "rest", "uri": "https://x", "warehouse": "w"})
    settings = catalog_settings(config, URL, "s3://bucket/lake")
    assert "ann@x" not in settings.values()
    assert settings["spark.sql.catalog.wh.uri"] == "https://x"
    assert settings["spark.sql.catalog.wh.warehouse"] == "w"


def test_a_setting_of_the_user_wins() -> None:
    settings = catalog_settings(LakeConfig(conf={"cache-enabled": "true"}), URL, "file:///x")
    assert settings["spark.sql.catalog.lake.cache-enabled"] == "true"
    assert settings["spark.sql.catalog.lake.type"] == "jdbc"


def test_several_hosts_stay_several() -> None:
    address = jdbc_address("postgresql://u@a:1,b:2/d", "s")
    assert address.url == "jdbc:postgresql://a:1,b:2/d?currentSchema=s"
    assert (address.user, address.password) == ("u", "")


@pytest.mark.parametrize(
    "url", ["postgresql:///d?host=/run", "postgresql://u@/d", "postgresql:///d"]
)
def test_a_socket_is_no_address_for_java(url: str) -> None:
    with pytest.raises(ConfigError, match="socket"):
        jdbc_address(url, "s")


def test_the_lake_is_beside_the_store() -> None:
    assert default_warehouse(Location("file", "/a b/data")) == "file:///a b/data/lake"
    assert default_warehouse(Location("s3", "bucket", "x/y")) == "s3://bucket/x/y/lake"
    assert default_warehouse(Location("gs", "bucket")) == "gs://bucket/lake"
