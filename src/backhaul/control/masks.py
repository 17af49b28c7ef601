"""What of a pipeline must nobody see? Values whose keys look secret, and the paths of webhooks.

Who reads a pipeline, changes one column and writes all of it back has masks in it: these stand for
what the state has there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from backhaul.project.secret import MASK, is_secret

# Most headers that a person sets are tokens, whatever they are called.
_HEADERS = frozenset({"headers", "header"})
_MORE = frozenset({"authorization", "cookie", "api_key", "apikey", "private_key", "auth"})


def masked(value: Any, key: str = "") -> Any:
    """The value with masks in it; a template names a secret without holding it, and is shown."""
    if isinstance(value, Mapping):
        inside = key if key.lower() in _HEADERS else ""
        return {name: masked(one, inside or str(name)) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [masked(one, key) for one in value]
    if value is None or isinstance(value, bool) or not looks_secret(key):
        return value
    text = str(value)
    return text if _only_template(text) else MASK


def looks_secret(key: str) -> bool:
    """Also of a path: `settings.auth.token`."""
    return any(_looks_secret(step) for step in key.split("."))


def _looks_secret(step: str) -> bool:
    word = step.lower().replace("-", "_")
    return is_secret(word) or word in _HEADERS or word in _MORE


def masked_url(url: str | None) -> str | None:
    """Scheme and host: the path and the query of a webhook may be its password."""
    if url is None or "://" not in url:
        return url
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return MASK
    rest = parts.path.strip("/") or parts.query or parts.username
    return f"{parts.scheme}://{host}/{MASK}" if rest else url


def unmasked(given: Any, kept: Any, shown: Any) -> Any:
    """What was given, with what is kept where the mask that was shown came back."""
    if isinstance(given, Mapping) and isinstance(kept, Mapping) and isinstance(shown, Mapping):
        return {name: unmasked(one, kept.get(name), shown.get(name)) for name, one in given.items()}
    if isinstance(given, list) and isinstance(kept, list | tuple) and len(given) == len(kept):
        return [unmasked(*three) for three in zip(given, kept, shown, strict=True)]
    return kept if has_mask(given) and given == shown else given


def has_mask(value: Any) -> bool:
    """Whether a mask is left anywhere in it."""
    if isinstance(value, Mapping):
        return any(has_mask(one) for one in value.values())
    if isinstance(value, list | tuple):
        return any(has_mask(one) for one in value)
    return isinstance(value, str) and MASK in value


def _only_template(text: str) -> bool:
    """`{{ env("TOKEN") }}` and nothing else; a default would be shown with it."""
    inner = text.strip()
    return (
        inner.startswith("{{")
        and inner.endswith("}}")
        and inner.count("{{") == 1
        and "default" not in inner
        and "," not in inner
    )
