"""Which stores do the tests run on? A folder and moto always; stricter servers where Go builds them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import boto3
import pytest
from pydantic import SecretStr

from backhaul.store.location import Location
from tests.store.gcs_front import in_front_of

BUCKET = "backhaul-tests"
ACCESS, SECRET = "tester", "tester-secret"
REGION = "us-east-1"
_VERSITYGW = ("versitygw", "github.com/versity/versitygw/cmd/versitygw@v1.8.0")
_FAKE_GCS = ("fake-gcs-server", "github.com/fsouza/fake-gcs-server@v1.56.1")


def s3(endpoint: str, prefix: str = "", *, bucket: str = BUCKET, secret: str = SECRET) -> Location:
    return Location("s3", bucket, prefix, endpoint, REGION, SecretStr(ACCESS), SecretStr(secret))


@contextmanager
def running_moto() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    try:
        endpoint = f"http://127.0.0.1:{port}"
        make_bucket(endpoint)
        yield endpoint
    finally:
        server.stop()


@contextmanager
def running_versitygw(folder: Path) -> Iterator[str]:
    binary, port = _go_tool(*_VERSITYGW), free_port()
    keys = ["--access", ACCESS, "--secret", SECRET]
    with _running([binary, "--port", f"127.0.0.1:{port}", *keys, "posix", str(folder)], port):
        endpoint = f"http://127.0.0.1:{port}"
        make_bucket(endpoint)
        yield endpoint


@contextmanager
def running_fake_gcs() -> Iterator[str]:
    binary, port = _go_tool(*_FAKE_GCS), free_port()
    where = ["-host", "127.0.0.1", "-port", str(port), "-public-host", f"127.0.0.1:{port}"]
    with _running([binary, "-scheme", "http", "-backend", "memory", *where], port):
        endpoint = f"http://127.0.0.1:{port}"
        body = f'{{"name": "{BUCKET}"}}'.encode()
        kind = {"Content-Type": "application/json"}
        urlopen(Request(f"{endpoint}/storage/v1/b?project=tests", body, kind)).close()  # noqa: S310
        with in_front_of(port) as front:
            yield front


def make_bucket(endpoint: str) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=ACCESS,
        aws_secret_access_key=SECRET,
        region_name=REGION,
    )
    client.create_bucket(Bucket=BUCKET)


@contextmanager
def _running(command: list[str], port: int) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_until_open(process, port)
        yield
    finally:
        process.terminate()
        process.wait(timeout=20)


def _wait_until_open(process: subprocess.Popen[bytes], port: int) -> None:
    for _ in range(400):
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        threading.Event().wait(0.05)
    raise TimeoutError(f"{process.args!r} does not listen on {port}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _go_tool(name: str, module: str) -> str:
    """The tool, built once per user."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "backhaul" / "go-tools" / module.replace("/", "_")
    if not (folder / name).exists():
        if shutil.which("go") is None:
            pytest.skip(f"{name} is built with Go, and there is none")
        environment = {**os.environ, "GOBIN": str(folder)}
        built = subprocess.run(
            ["go", "install", module], env=environment, capture_output=True, text=True, check=False
        )
        if built.returncode:
            pytest.skip(f"{name} cannot be built here: {built.stderr[-400:]}")
    return str(folder / name)
