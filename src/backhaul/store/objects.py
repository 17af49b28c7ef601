"""How are S3 and GCS a store? By obstore: conditional puts, multipart uploads, range reads."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import GCSStore, S3Store

from backhaul.errors import StoreRefused
from backhaul.store.adapter import Stored
from backhaul.store.layout import is_hidden
from backhaul.store.location import Location
from backhaul.store.refusal import bucket_missing, explain
from backhaul.store.remote_file import RemoteFile

if TYPE_CHECKING:
    from obstore.store import S3Credential

# Up to this size one request carries the file; above it, parts do, a few at a time in memory.
_PART_BYTES = 8 * 1024 * 1024
_MAX_PARTS = 9_000
_PARTS_AT_ONCE = 4
# S3 copies no object above this in one request.
_COPY_LIMIT_BYTES = 5 * 1024**3
_LIST_PAGE = 1_000
_RETRY: Any = {
    "max_retries": 8,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=5),
        "base": 2,
    },
}
_CLIENT: Any = {"connect_timeout": timedelta(seconds=5), "timeout": timedelta(minutes=10)}
_FAILURES = (BaseError, FileNotFoundError, OSError)


class Objects:
    """A bucket, or a folder in it."""

    def __init__(self, location: Location) -> None:
        self._location = location
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._explained("open", ""))
            self._bucket = _s3(location) if location.scheme == "s3" else _gcs(location)

    def describe(self) -> str:
        return str(self._location)

    def put(self, path: str, source: Path | bytes, *, take: bool) -> None:  # noqa: ARG002
        with self._explained("write", path):
            self._upload(path, source)

    def create(self, path: str, source: Path | bytes) -> bool:
        with self._explained("write", path):
            try:
                if _size(source) <= _PART_BYTES:
                    self._bucket.put(path, source, mode="create", use_multipart=False)
                else:
                    self._create_large(path, source)
            except (AlreadyExistsError, PreconditionError):
                return False
            return True

    def read(self, path: str) -> bytes:
        with self._explained("read", path):
            return bytes(self._bucket.get(path).bytes())

    def open(self, path: str, size: int | None) -> Any:
        if size is None:
            found = self.head(path)
            if found is None:
                raise self._missing(path)
            size = found.bytes
        return pa.PythonFile(RemoteFile(lambda low, high: self._range(path, low, high), size), "r")

    def head(self, path: str) -> Stored | None:
        with self._explained("read", path):
            try:
                return _stored(self._bucket.head(path))
            except FileNotFoundError as error:
                if bucket_missing(error):
                    raise
                return None

    def list(self, prefix: str) -> Iterator[Stored]:
        with self._explained("list", prefix):
            for page in self._bucket.list(prefix or None, chunk_size=_LIST_PAGE):
                yield from (_stored(meta) for meta in page if not is_hidden(meta["path"]))

    def move(self, source: str, target: str) -> None:
        found = self.head(source)
        if found is None:
            if self.head(target) is None:
                raise self._missing(source)
            return
        with self._explained("move", source):
            if found.bytes <= _COPY_LIMIT_BYTES:
                self._bucket.copy(source, target)
            else:
                self._copy_large(source, target, found.bytes)
        self.delete([source])

    def delete(self, paths: Iterable[str]) -> None:
        wanted = list(paths)
        for start in range(0, len(wanted), _LIST_PAGE):
            some = wanted[start : start + _LIST_PAGE]
            with self._explained("delete", some[0]):
                self._delete_some(some)

    def delete_prefix(self, prefix: str) -> None:
        with self._explained("delete", prefix):
            for page in self._bucket.list(prefix or None, chunk_size=_LIST_PAGE):
                self._delete_some([meta["path"] for meta in page])

    def _upload(self, path: str, source: Path | bytes) -> None:
        size = _size(source)
        self._bucket.put(
            path,
            source,
            use_multipart=size > _PART_BYTES,
            chunk_size=_part_bytes(size),
            max_concurrency=_PARTS_AT_ONCE,
        )

    def _create_large(self, path: str, source: Path | bytes) -> None:
        """A condition on an upload in parts is not on offer; on a copy inside the store it is."""
        folder, slash, _ = path.rpartition("/")
        temporary = f"{folder}{slash}.{secrets.token_hex(8)}.tmp"
        self._upload(temporary, source)
        try:
            self._bucket.copy(temporary, path, overwrite=False)
        finally:
            self._delete_some([temporary])

    def _copy_large(self, source: str, target: str, size: int) -> None:
        """Through this machine, a few parts at a time."""
        # obstore streams from object to object only when awaited; in a thread of its own, because
        # the caller may be in an event loop already (a notebook).
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, self._stream(source, target, size)).result()

    async def _stream(self, source: str, target: str, size: int) -> None:
        content = await self._bucket.get_async(source)
        await self._bucket.put_async(
            target,
            content.stream(min_chunk_size=_PART_BYTES),
            chunk_size=_part_bytes(size),
            max_concurrency=_PARTS_AT_ONCE,
        )

    def _delete_some(self, paths: Iterable[str]) -> None:
        batch = list(paths)
        try:
            self._bucket.delete(batch)
        except FileNotFoundError as error:
            if bucket_missing(error):
                raise
            # GCS stops at the first that is missing; the others are still to be deleted.
            for path in batch:
                with contextlib.suppress(FileNotFoundError):
                    self._bucket.delete(path)

    def _range(self, path: str, low: int, high: int) -> bytes:
        with self._explained("read", path):
            return bytes(self._bucket.get_range(path, start=low, end=high))

    def _missing(self, path: str) -> StoreRefused:
        return StoreRefused(
            f"{path} is not in {self.describe()}",
            remedy="it was moved or deleted; see what else uses this store",
        )

    @contextlib.contextmanager
    def _explained(self, verb: str, path: str) -> Iterator[None]:
        try:
            yield
        except _FAILURES as error:
            failed = f"cannot {verb} {path or 'files'} in {self.describe()}"
            raise explain(error, failed, self._location) from error


def _s3(location: Location) -> S3Store:
    config: dict[str, Any] = {"copy_if_not_exists": "multipart", **location.options}
    if location.endpoint:
        # Under this name, because AWS_ENDPOINT_URL_S3 of the environment beats `endpoint`.
        config["aws_endpoint_url_s3"] = location.endpoint
    if location.region:
        config["region"] = location.region
    return S3Store(
        location.root,
        prefix=location.prefix or None,
        config=config,  # type: ignore[arg-type]  # the user's options are checked by obstore
        client_options=_client(location),
        retry_config=_RETRY,
        credential_provider=_own_keys(location),
    )


def _own_keys(location: Location) -> Callable[[], S3Credential] | None:
    """The keys of the project's own; as plain options they would be mixed with an AWS_SESSION_TOKEN
    that the environment has for other keys."""
    key, secret = location.access_key_id, location.secret_access_key
    if key is None or secret is None:
        return None
    credential: S3Credential = {
        "access_key_id": key.get_secret_value(),
        "secret_access_key": secret.get_secret_value(),
        "token": location.options.get("session_token"),
        "expires_at": None,
    }
    return lambda: credential


def _gcs(location: Location) -> GCSStore:
    config: dict[str, Any] = dict(location.options)
    if location.endpoint:
        config["base_url"] = location.endpoint
        if not config.keys() & {"service_account", "service_account_key", "bearer_token"}:
            # An endpoint of one's own is an emulator; Google's sign-in knows nothing of it. (With
            # skip_signature obstore 0.12 still asks for a token before it writes.)
            config["bearer_token"] = "none"  # noqa: S105
    return GCSStore(
        location.root,
        prefix=location.prefix or None,
        config=config,  # type: ignore[arg-type]  # the user's options are checked by obstore
        client_options=_client(location),
        retry_config=_RETRY,
    )


def _client(location: Location) -> Any:
    return {**_CLIENT, "allow_http": (location.endpoint or "").startswith("http://")}


def _size(source: Path | bytes) -> int:
    return len(source) if isinstance(source, bytes) else source.stat().st_size


def _part_bytes(size: int) -> int:
    return max(_PART_BYTES, -(-size // _MAX_PARTS))


def _stored(meta: Any) -> Stored:
    return Stored(meta["path"], meta["size"], meta["last_modified"])
