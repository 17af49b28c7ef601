"""Is it understood what a platform answers, and is nothing shown that must not be?"""

from __future__ import annotations

import pickle
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import Field, SecretStr

from backhaul.clock import FixedClock
from backhaul.control.triggers.base import Job
from backhaul.control.triggers.remote import (
    AskedToWait,
    Pool,
    asked_to_wait,
    masked,
    mistakes,
    read,
    secrets_of,
)
from backhaul.control.triggers.rest import Call, Rest, parse_retry_after
from backhaul.errors import TerminalError, TransientError
from backhaul.project.settings import Settings
from tests.control.triggers.standin_platforms import AnyJob
from tests.control.triggers.standins import Fault, Reply

NOW = datetime(2026, 3, 2, 6, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("7", timedelta(seconds=7)),
        ("0.5", timedelta(seconds=0.5)),
        ("Mon, 02 Mar 2026 06:01:00 GMT", timedelta(minutes=1)),
        ("Mon, 02 Mar 2026 05:00:00 GMT", timedelta(0)),
        ("-3", timedelta(0)),
        ("99999999", timedelta(days=1)),
        ("99999999999999999999", None),
        ("1e999", None),
        ("nan", None),
        ("soon", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after(text: str | None, wait: timedelta | None) -> None:
    assert parse_retry_after(text, NOW) == wait


def test_a_wait_survives_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(asked_to_wait("slow down", timedelta(seconds=7))))  # noqa: S301
    assert isinstance(error, AskedToWait)
    assert error.message == "slow down"


class Inner(Settings):
    key: SecretStr


class Outer(Settings):
    name: str = "n"
    token: SecretStr | None = None
    inner: Inner
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    more: tuple[Inner, ...] = ()


SETTINGS: dict[str, Any] = {
    "token": "abc",
    "inner": {"key": "abcdef"},
    "headers": {"X": "h"},
    "more": [{"key": "m"}],
}


def test_every_secret_is_found_and_none_is_left_over() -> None:
    found = secrets_of(Outer.model_validate(SETTINGS))
    assert sorted(found) == ["abc", "abcdef", "h", "m"]
    assert masked("abcdef, abc", found) == "••••, ••••"
    assert masked("a  b\n c", ("", "zzz")) == "a b c"
    assert len(masked("x" * 5000, ())) < 500


def test_settings_are_read_or_told_what_is_wrong() -> None:
    job = Job("run-1", "orders", 1, "t", settings=SETTINGS)
    assert mistakes(Outer, job) == []
    assert read(Outer, job).name == "n"
    wrong = Job("run-1", "orders", 1, "t", settings={"inner": {"kee": "abcdef"}, "name": 3})
    assert [one.split(":")[0] for one in mistakes(Outer, wrong)] == [
        "name",
        "inner.key",
        "inner.kee",
    ]
    with pytest.raises(TerminalError, match=r"orders are not valid: name: "):
        read(Outer, wrong)


def test_one_client_per_key_however_many_ask() -> None:
    closed: list[object] = []
    pool: Pool[str, object] = Pool(closed.append)
    barrier = threading.Barrier(8)
    got: list[object] = []

    def ask() -> None:
        barrier.wait()
        got.append(pool.get("a", object))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, got))) == 1
    made_in_vain = len(closed)
    assert pool.get("b", object) is not got[0]
    pool.drop("a", object())
    assert pool.get("a", object) is got[0]
    pool.drop("a", got[0])
    assert pool.get("a", object) is not got[0]
    pool.close()
    assert len(closed) == made_in_vain + 3


def test_a_call_shows_names_only() -> None:
    call = Call(
        "POST",
        "http://h/secret-path",
        "X: POST /run",
        headers={"Authorization": "secret-token"},
        content=b'{"colour": "secret-colour"}',
        secrets=("secret-token",),
    )
    assert "secret" not in repr(call)
    assert call.sent == "sent were colour"
    assert Call("POST", "u", "s", content=b"text").sent == "sent were 4 bytes"
    assert Call("POST", "u", "s").sent == "sent were 0 bytes"


@pytest.fixture
def service() -> Any:
    opened = AnyJob()
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((status, TerminalError) for status in (400, 401, 403, 404, 405, 409, 410, 422, 501)),
        *((status, TransientError) for status in (408, 425, 429, 500, 502, 503, 504, 520)),
    ],
)
def test_which_answers_are_worth_asking_again(
    service: AnyJob, status: int, kind: type[Exception]
) -> None:
    service.break_with(Fault(reply=Reply(status, {"message": "no"})))
    rest = Rest(FixedClock(NOW))
    with pytest.raises(kind, match=f"X was answered with {status}") as caught:
        rest.ask(Call("GET", service.url, "X"))
    assert (getattr(caught.value, "remedy", None) is not None) is (kind is TerminalError)
    rest.close()


def test_half_an_answer_is_asked_for_again(service: AnyJob) -> None:
    service.break_with(Fault(reply=Reply(200, content=b'{"a": ')))
    rest = Rest(FixedClock(NOW))
    with pytest.raises(TransientError, match="not JSON"):
        rest.ask(Call("GET", service.url, "X")).json()
    rest.close()


@pytest.mark.parametrize("url", ["http://[::1", "http://h\x00st/", "gopher://h/"])
def test_what_cannot_be_asked_is_terminal(url: str) -> None:
    rest = Rest(FixedClock(NOW))
    with pytest.raises(TerminalError, match="cannot be sent"):
        rest.ask(Call("GET", url, "X"))
    with pytest.raises(TerminalError, match="cannot be sent"):
        rest.ask(Call("GET", "http://127.0.0.1:1/", "X", headers={"X": "ü\n"}))
    rest.close()
