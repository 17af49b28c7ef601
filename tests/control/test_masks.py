"""What nobody sees, and what comes back unseen."""

from __future__ import annotations

from typing import Any

import pytest

from backhaul.control.masks import has_mask, looks_secret, masked, masked_url, unmasked
from backhaul.project.secret import MASK


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"password": "x"}, {"password": MASK}),
        ({"auth": {"user": "ada", "token": "x"}}, {"auth": {"user": "ada", "token": MASK}}),
        ({"tokens": 3, "rows": 5}, {"tokens": 3, "rows": 5}),
        ({"api_key": 7}, {"api_key": MASK}),
        ({"Authorization": "Bearer x"}, {"Authorization": MASK}),
        ({"headers": {"X-A": "x", "B": ["y"]}}, {"headers": {"X-A": MASK, "B": [MASK]}}),
        ({"secrets": ["a", {"b": "c"}]}, {"secrets": [MASK, {"b": "c"}]}),
        ({"token": '{{ env("T") }}'}, {"token": '{{ env("T") }}'}),
        ({"token": '{{ env("T", "s3cr3t") }}'}, {"token": MASK}),
        ({"token": 'a{{ env("T") }}'}, {"token": MASK}),
        ({"token": None, "password": True}, {"token": None, "password": True}),
        ({"settings.auth.token": "x"}, {"settings.auth.token": MASK}),
    ],
)
def test_what_is_shown(value: Any, shown: Any) -> None:
    assert masked(value) == shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (None, None),
        ("https://hooks.example", "https://hooks.example"),
        ("https://hooks.example/", "https://hooks.example/"),
        ("https://hooks.example/s3cr3t", f"https://hooks.example/{MASK}"),
        ("https://ada:pw@hooks.example?key=1", f"https://hooks.example/{MASK}"),
        ('{{ env("URL") }}', '{{ env("URL") }}'),
        ("https://[", MASK),
    ],
)
def test_what_is_shown_of_an_address(url: str | None, shown: str | None) -> None:
    assert masked_url(url) == shown


def test_a_mask_stands_for_what_was_there_and_for_nothing_else() -> None:
    kept = {"token": "x", "list": [{"password": "y"}], "rows": 1}
    shown = masked(kept)
    assert unmasked(shown, kept, shown) == kept
    moved = {"other": MASK, "token": "new", "list": [{"password": MASK}, 1]}
    found = unmasked(moved, kept, shown)
    assert (found["other"], found["token"]) == (MASK, "new")
    assert has_mask(found)
    assert not has_mask(kept)


def test_words_that_look_secret() -> None:
    assert all(map(looks_secret, ["password", "X-Token", "a.api-key", "client_secret", "headers"]))
    assert not any(map(looks_secret, ["rows", "token_path", "tokenizer", "user", "body"]))
