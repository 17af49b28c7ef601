"""Which values must never be shown, and how is a secret read from a file?"""

from __future__ import annotations

import re
from pathlib import Path

from backhaul.project.document import Node

MASK = "••••"
MAX_SECRET_BYTES = 64 * 1024
_SECRET = re.compile(
    r"(?:^|_)(?:pass|password|passwd|pwd|url|token)(?:$|_)|secret|access_key|sslpass"
)
_SHOWN_CHARACTERS = 60


class SecretUnreadable(ValueError):
    """The message says why; it holds the path and nothing of the content."""


def is_secret(key: str) -> bool:
    """Whether a key's value may be one: by its name, as the values themselves cannot tell."""
    return bool(_SECRET.search(key.lower())) and not key.endswith("_path")


def shown(node: Node, *keys: str) -> str:
    """A value as a message may show it. What an environment variable gave may be a secret too."""
    if node.value is None:
        return "nothing"
    if isinstance(node.value, dict | list):
        return node.kind()
    if node.origin is not None or any(is_secret(key) for key in keys):
        return MASK
    text = node.text if len(node.text) <= _SHOWN_CHARACTERS else node.text[:_SHOWN_CHARACTERS] + "…"
    return repr(text)


def read_secret(folder: Path, path: str) -> str:
    """A secret file's content without the newline that editors and `echo` leave at the end."""
    try:
        with (folder / Path(path).expanduser()).open("rb") as file:
            content = file.read(MAX_SECRET_BYTES + 1)
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise SecretUnreadable(f"the file {path!r} is not UTF-8 text") from None
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise SecretUnreadable(f"the file {path!r} cannot be read: {reason}") from None
    if len(content) > MAX_SECRET_BYTES:
        raise SecretUnreadable(f"the file {path!r} is longer than {MAX_SECRET_BYTES:,} bytes")
    if not (secret := text.rstrip("\r\n")) or "\0" in secret:
        raise SecretUnreadable(
            f"the file {path!r} is empty" if not secret else f"the file {path!r} is binary"
        )
    return secret
