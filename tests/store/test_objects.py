"""Are buckets handled with few bytes in memory and over the wire, and are their refusals explained?"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import Request, urlopen

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backhaul.errors import StoreRefused, StoreUnavailable
from backhaul.store import objects
from backhaul.store.location import Location
from backhaul.store.parquet import read_schema
from backhaul.store.store import Store
from tests.store import places

# Peak memory before and after an upload, as the uploading process sees it.
UPLOADER = """
import sys
from pathlib import Path
from backhaul.store.store import Store
from tests.memory import peak_bytes
from tests.store import places
store = Store(places.s3(sys.argv[1], "memory"))
store.put("a/warm", b"x")
before = peak_bytes()
store.put("a/big", Path(sys.argv[2]))
print(peak_bytes() - before)
"""
MEGABYTE = 1024 * 1024


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the range requests."""
    sizes: list[int] = []
    original = objects.Objects._range

    def counted(self: objects.Objects, path: str, low: int, high: int) -> bytes:
        content = original(self, path, low, high)
        sizes.append(len(content))
        return content

    monkeypatch.setattr(objects.Objects, "_range", counted)
    return sizes


@pytest.fixture(params=["moto", pytest.param("versitygw", marks=pytest.mark.all)])
def versitygw_or_moto(request: pytest.FixtureRequest) -> str:
    endpoint: str = request.getfixturevalue(request.param)
    return endpoint


@pytest.fixture
def strict(moto: str) -> Iterator[str]:
    """moto, while it knows no user at all."""

    def after(count: str) -> None:
        kind = {"Content-Type": "text/plain"}
        request = Request(f"{moto}/moto-api/reset-auth", count.encode(), kind)  # noqa: S310
        urlopen(request).close()  # noqa: S310

    after("0")
    try:
        yield moto
    finally:
        after("inf")


def test_a_footer_costs_one_request_for_the_tail(
    s3_store: Store, tmp_path: Path, fetched: list[int]
) -> None:
    table = pa.table({f"c{number}": pa.array(range(200_000)) for number in range(4)})
    pq.write_table(table, tmp_path / "t.parquet", compression="none", use_dictionary=False)
    s3_store.put("a/t.parquet", tmp_path / "t.parquet")
    file = next(s3_store.list("a"))
    assert file.bytes > 5 * MEGABYTE
    assert read_schema(s3_store, file).names == ("c0", "c1", "c2", "c3")
    assert fetched == [64 * 1024]


def test_one_column_is_read_without_the_others(
    s3_store: Store, tmp_path: Path, fetched: list[int]
) -> None:
    table = pa.table({f"c{number}": pa.array(range(200_000)) for number in range(10)})
    pq.write_table(table, tmp_path / "t.parquet", compression="none", use_dictionary=False)
    s3_store.put("a/t.parquet", tmp_path / "t.parquet")
    with s3_store.open("a/t.parquet") as content:
        read = pq.ParquetFile(content).read(columns=["c3"])
    assert read["c3"].equals(table["c3"])
    assert sum(fetched) < 0.3 * (tmp_path / "t.parquet").stat().st_size


def test_an_upload_stays_out_of_memory(moto: str, tmp_path: Path) -> None:
    big = tmp_path / "big"
    with big.open("wb") as file:
        file.truncate(160 * MEGABYTE)
    run = [sys.executable, "-c", UPLOADER, moto, str(big)]
    done = subprocess.run(run, capture_output=True, text=True, check=True, timeout=200)
    assert int(done.stdout) < 80 * MEGABYTE
    store = Store(places.s3(moto, "memory"))
    assert {file.path: file.bytes for file in store.list()}["a/big"] == 160 * MEGABYTE
    store.delete_prefix("a")


def test_parts_never_become_too_many() -> None:
    terabyte = 1024**4
    assert terabyte / objects._part_bytes(terabyte) <= 10_000
    assert objects._part_bytes(1024) == objects._PART_BYTES


def test_an_object_too_large_to_copy_is_moved(
    s3_store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(objects, "_COPY_LIMIT_BYTES", MEGABYTE)
    content = bytes(range(256)) * (20 * MEGABYTE // 256)
    s3_store.put("a/big", content)
    s3_store.move("a/big", "b/big")
    assert s3_store.read("b/big") == content
    assert not s3_store.exists("a/big")


def test_listing_and_deleting_go_past_one_page(s3_store: Store) -> None:
    names = [f"many/{number:04d}" for number in range(1_050)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: s3_store.put(name, b""), names))
    assert sorted(file.path for file in s3_store.list("many")) == names
    s3_store.delete(names[:1_020])
    assert sorted(file.path for file in s3_store.list("many")) == names[1_020:]


def test_hidden_objects_are_not_listed_but_deleted(s3_store: Store, moto: str) -> None:
    location = s3_store.location
    below = Store(places.s3(moto, f"{location.prefix}/a/.hidden"))
    below.put("b", b"x")
    assert list(s3_store.list()) == [] and len(list(below.list())) == 1
    s3_store.delete_prefix("a")
    assert list(below.list()) == []


ATTEMPTS: list[Callable[[Store], object]] = [
    lambda store: store.put("staging/credentials/403", b"x"),
    lambda store: store.create("staging/credentials/403", b"x"),
    lambda store: list(store.list("staging")),
    lambda store: store.delete_prefix("staging"),
    lambda store: store.read("staging/credentials/403"),
]
NAMES = ["put", "create", "list", "delete_prefix", "read"]


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=NAMES)
def test_a_missing_bucket_is_named(moto: str, attempt: Callable[[Store], object]) -> None:
    with pytest.raises(StoreRefused, match="there is no bucket no-such-bucket") as caught:
        attempt(Store(places.s3(moto, bucket="no-such-bucket")))
    assert "create the bucket no-such-bucket" in str(caught.value.remedy)


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=NAMES)
def test_unknown_credentials(strict: str, attempt: Callable[[Store], object]) -> None:
    with pytest.raises(StoreRefused, match="does not accept our credentials") as caught:
        attempt(Store(places.s3(strict)))
    assert "store.secret_access_key" in str(caught.value.remedy)
    assert places.SECRET not in str(caught.value)


def test_the_projects_own_settings_beat_the_environment(
    versitygw_or_moto: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = f"http://127.0.0.1:{places.free_port()}"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "other")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "other")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-the-other-keys")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", away)
    monkeypatch.setenv("AWS_ENDPOINT_URL", away)
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    store = Store(places.s3(versitygw_or_moto, "environment"))
    store.put("a", b"x")
    assert store.read("a") == b"x"


def test_the_environments_keys_serve_where_none_are_set(
    versitygw_or_moto: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", places.ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", places.SECRET)
    bare = Location("s3", places.BUCKET, "environment", versitygw_or_moto, places.REGION)
    Store(bare).put("b", b"x")
    assert Store(bare).read("b") == b"x"


@pytest.mark.all
@pytest.mark.parametrize("attempt", ATTEMPTS, ids=NAMES)
def test_a_wrong_secret(versitygw: str, attempt: Callable[[Store], object]) -> None:
    with pytest.raises(StoreRefused, match="does not accept our credentials"):
        attempt(Store(places.s3(versitygw, secret="wrong")))


def test_a_store_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(objects._RETRY, "max_retries", 1)
    endpoint = f"http://127.0.0.1:{places.free_port()}"
    # The name of the table must not be taken for the server's words.
    with pytest.raises(StoreUnavailable, match="staging/credentials") as caught:
        Store(places.s3(endpoint)).put("staging/credentials/403 AccessDenied", b"x")
    assert endpoint in str(caught.value.remedy)


def test_gcs_without_an_endpoint_opens_lazily() -> None:
    store = Store(Location("gs", "bucket", options={"bearer_token": "none"}))
    assert store.describe() == "gs://bucket"
