"""Is the place that we open the one that the project names?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from backhaul.errors import ConfigError, StoreRefused
from backhaul.project.models import StoreConfig
from backhaul.store.location import locate
from backhaul.store.store import open_store


def config(**values: Any) -> StoreConfig:
    return StoreConfig.model_validate(values)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("data", "/project/data"),
        ("./a/b", "/project/a/b"),
        ("file://./rel", "/project/rel"),
        ("file://rel/er", "/project/rel/er"),
        ("file:///abs/path", "/abs/path"),
        ("/abs/path/", "/abs/path"),
        ("a folder/ü", "/project/a folder/ü"),
    ],
)
def test_a_folder(url: str, expected: str) -> None:
    location = locate(config(url=url), Path("/project"))
    assert (location.scheme, location.root) == ("file", expected)
    assert str(location) == f"file://{expected}"


def test_the_default_is_in_the_project(tmp_path: Path) -> None:
    store = open_store(config(), tmp_path)
    store.put("staging/x", b"1")
    assert (tmp_path / "data" / "staging" / "x").read_bytes() == b"1"


@pytest.mark.parametrize(
    ("url", "scheme", "bucket", "prefix"),
    [
        ("s3://b", "s3", "b", ""),
        ("s3://b/", "s3", "b", ""),
        ("s3://b/a//c/", "s3", "b", "a/c"),
        ("gs://b/a", "gs", "b", "a"),
    ],
)
def test_a_bucket(url: str, scheme: str, bucket: str, prefix: str) -> None:
    location = locate(config(url=url, region="eu-west-1"), Path("/project"))
    assert (location.scheme, location.root, location.prefix) == (scheme, bucket, prefix)
    assert location.region == "eu-west-1"


def test_half_a_credential_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="only one is set"):
        locate(config(url="s3://b", access_key_id="a"), Path("/project"))


def test_an_unknown_option_is_named() -> None:
    settings = config(url="s3://b", options={"no_such_thing": "1"})
    with pytest.raises(StoreRefused, match="no_such_thing") as caught:
        open_store(settings, Path("/project"))
    assert "store.options" in str(caught.value.remedy)
