"""One fixture, `store`, that is each kind of place in turn; empty at the start of every test."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from backhaul.store.location import Location
from backhaul.store.store import Store
from tests.store import places

_STRICT = [pytest.mark.all, pytest.mark.timeout(900)]
PLACES = [
    "file",
    "moto",
    pytest.param("versitygw", marks=_STRICT),
    pytest.param("fake_gcs", marks=_STRICT),
]


@pytest.fixture(scope="session")
def moto() -> Iterator[str]:
    with places.running_moto() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def versitygw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with places.running_versitygw(tmp_path_factory.mktemp("versitygw")) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def fake_gcs() -> Iterator[str]:
    with places.running_fake_gcs() as endpoint:
        yield endpoint


@pytest.fixture
def s3_store(moto: str) -> Store:
    return Store(places.s3(moto, secrets.token_hex(8)))


@pytest.fixture
def file_store(tmp_path: Path) -> Store:
    return Store(Location("file", str(tmp_path / "store")))


@pytest.fixture(params=PLACES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "file":
        return Store(Location("file", str(tmp_path / "store")))
    endpoint: str = request.getfixturevalue(request.param)
    prefix = f"tests/{secrets.token_hex(8)}"
    if request.param == "fake_gcs":
        return Store(Location("gs", places.BUCKET, prefix, endpoint))
    return Store(places.s3(endpoint, prefix))
