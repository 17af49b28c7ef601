"""Is everything that may be a secret masked, and read from a file without a byte too many?"""

from __future__ import annotations

from pathlib import Path

import pytest

from backhaul.project.document import Node
from backhaul.project.secret import MASK, SecretUnreadable, is_secret, read_secret, shown


@pytest.mark.parametrize(
    "key",
    ["pass", "replica_pass", "password", "url", "secret_access_key", "access_key_id",
     "client_secret", "token", "sslpassword"],
)  # fmt: skip
def test_keys_of_secrets(key: str) -> None:
    assert is_secret(key)


@pytest.mark.parametrize("key", ["passfile", "host", "key", "pass_path", "bypass", "passenger"])
def test_other_keys(key: str) -> None:
    assert not is_secret(key)


def test_what_is_shown() -> None:
    assert shown(Node("x", 1, "x"), "host") == "'x'"
    assert shown(Node("x", 1, "x"), "store", "url") == MASK
    assert shown(Node("x", 1, "x", origin='{{ env("X") }}'), "host") == MASK
    assert shown(Node(None, 1), "pass") == "nothing"
    assert shown(Node([], 1), "pass") == "a list"
    assert len(shown(Node("x" * 999, 1, "x" * 999), "where")) < 70


def test_a_secret_keeps_its_spaces_and_loses_its_newline(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(" ü \n".encode())
    assert read_secret(tmp_path, "s") == " ü "
    assert read_secret(Path("/nowhere"), str(tmp_path / "s")) == " ü "


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff", b"a\0b", b"x" * 70_000])
def test_files_that_hold_no_secret(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "s").write_bytes(content)
    with pytest.raises(SecretUnreadable, match="the file 's'"):
        read_secret(tmp_path, "s")


@pytest.mark.parametrize("path", ["gone", ".", "a\0b", ""])
def test_paths_that_cannot_be_read(tmp_path: Path, path: str) -> None:
    with pytest.raises(SecretUnreadable):
        read_secret(tmp_path, path)
