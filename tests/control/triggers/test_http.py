"""Is any HTTP job run as documented: fired, polled, called back; signed; bounded; at home?"""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from backhaul.clock import FixedClock
from backhaul.control.triggers.base import Fate, Job, Progress, Started
from backhaul.control.triggers.http import HttpTrigger
from backhaul.control.triggers.rest import pick, signature
from backhaul.errors import BackhaulError, NotSupported, TerminalError, TransientError
from tests.control.triggers.standin_platforms import AnyJob
from tests.control.triggers.standins import BROKEN, GATEWAY, SECRET, THROTTLED, Asked, Fault, Reply

CLOCK = FixedClock(datetime(2026, 3, 2, 6, tzinfo=UTC))


@pytest.fixture
def service() -> Iterator[AnyJob]:
    opened = AnyJob()
    yield opened
    opened.close()


@pytest.fixture
def trigger() -> Iterator[HttpTrigger]:
    opened = HttpTrigger(CLOCK)
    yield opened
    opened.close()


def job(service: AnyJob, **settings: Any) -> Job:
    return Job(
        run_id="run-1",
        pipeline="orders",
        attempt=2,
        token="run-1-2",
        dates=(date(2026, 2, 28), date(2026, 3, 1)),
        parameters={"region": "eu"},
        settings={"auth": {"token": SECRET}, "timeout": "5s", **settings},
        trigger_url=service.url + "/jobs",
    )


def test_a_fired_job_is_done_with_its_good_answer(service: AnyJob, trigger: HttpTrigger) -> None:
    fired = job(service)
    started = trigger.start(fired)
    assert started == Started("run-1-2")
    assert trigger.poll(fired, started) == Progress(Fate.SUCCEEDED)
    trigger.cancel(fired, started)
    assert service.starts == 1


def test_what_is_sent_unless_a_body_is_set(service: AnyJob, trigger: HttpTrigger) -> None:
    trigger.start(job(service))
    asked = service.last("POST", "/jobs")
    assert asked.json == {
        "run_id": "run-1",
        "pipeline": "orders",
        "attempt": 2,
        "dates": ["2026-02-28", "2026-03-01"],
        "start": "2026-02-28",
        "end": "2026-03-01",
        "is_backfill": False,
        "parameters": {"region": "eu"},
    }
    assert asked.headers["idempotency-key"] == "run-1-2"
    assert (asked.headers["x-backhaul-run"], asked.headers["x-backhaul-attempt"]) == ("run-1", "2")


def test_a_mapping_is_json_and_a_text_goes_as_it_is(service: AnyJob, trigger: HttpTrigger) -> None:
    trigger.start(job(service, body={"day": "2026-03-01", "deep": [1, None]}))
    assert service.last("POST", "/jobs").json == {"day": "2026-03-01", "deep": [1, None]}
    trigger.start(job(service, body="day=2026-03-01&ü", headers={"content-type": "text/x"}))
    asked = service.last("POST", "/jobs")
    assert asked.body.decode() == "day=2026-03-01&ü"
    assert asked.headers["content-type"] == "text/x"


def test_the_job_can_verify_who_asked(service: AnyJob, trigger: HttpTrigger) -> None:
    trigger.start(job(service, secret=SECRET, headers={"X-Backhaul-Signature": "sha256=forged"}))
    asked = service.last("POST", "/jobs")
    stamp = asked.headers["x-backhaul-timestamp"]
    assert int(stamp) == CLOCK.now().timestamp()
    expected = hmac.new(SECRET.encode(), f"{stamp}.".encode() + asked.body, hashlib.sha256)
    assert asked.headers["x-backhaul-signature"] == f"sha256={expected.hexdigest()}"


def test_the_signature_of_the_documentation() -> None:
    assert signature("key", "1772431200", b'{"a":1}') == (
        "sha256=" + hmac.new(b"key", b'1772431200.{"a":1}', hashlib.sha256).hexdigest()
    )


def test_user_and_password(service: AnyJob, trigger: HttpTrigger) -> None:
    with pytest.raises(TerminalError, match="401"):
        trigger.start(job(service, auth={"user": "me", "password": "öl"}))
    assert service.last("POST", "/jobs").headers["authorization"] == "Basic bWU6w7Zs"


def polled(service: AnyJob, **poll: Any) -> Job:
    url = service.url + "/jobs/{id}"
    return job(service, id="data.0.id", poll={"url": url, "status": "job.state", **poll})


def test_a_polled_job_says_when_to_ask_again(service: AnyJob, trigger: HttpTrigger) -> None:
    asked = polled(service, every="90s", message="job.why")
    started = trigger.start(asked)
    service.end(started.external_id, "running", "3 of 7")
    assert trigger.poll(asked, started) == Progress(
        Fate.RUNNING, "3 of 7", retry_after=timedelta(seconds=90)
    )


@pytest.mark.parametrize(
    ("state", "poll", "fate"),
    [
        ("succeeded", {}, Fate.SUCCEEDED),
        ("green", {"succeeded": "green"}, Fate.SUCCEEDED),
        ("error", {}, Fate.FAILED),
        ("red", {"failed": ["red", "black"]}, Fate.FAILED),
        ("canceled", {}, Fate.CANCELLED),
        ("in the queue", {}, Fate.RUNNING),
        ("busy", {"running": ["Busy"]}, Fate.RUNNING),
    ],
)
def test_words_of_the_service(
    service: AnyJob, trigger: HttpTrigger, state: str, poll: dict[str, Any], fate: Fate
) -> None:
    asked = polled(service, **poll)
    started = trigger.start(asked)
    service.end(started.external_id, state)
    assert trigger.poll(asked, started).fate is fate


def test_a_word_that_nobody_knows_ends_the_wait(service: AnyJob, trigger: HttpTrigger) -> None:
    asked = polled(service, running=["busy"])
    started = trigger.start(asked)
    service.end(started.external_id, "paused")
    with pytest.raises(TerminalError, match="'PAUSED'") as caught:
        trigger.poll(asked, started)
    assert "poll.succeeded" in str(caught.value)
    with pytest.raises(TerminalError, match=r"nothing at 'job\.phase'"):
        trigger.poll(polled(service, status="job.phase"), started)


def test_an_id_that_is_not_where_it_should_be(service: AnyJob, trigger: HttpTrigger) -> None:
    with pytest.raises(TerminalError, match=r"'data\.id'"):
        trigger.start(job(service, id="data.id"))


def test_an_id_cannot_lead_elsewhere(service: AnyJob, trigger: HttpTrigger) -> None:
    with pytest.raises(TransientError):
        # The stand-in knows no such run, and drops the connection.
        trigger.poll(polled(service), Started("../../admin?x=1"))
    assert service.asked[-1].path == "/jobs/..%2F..%2Fadmin%3Fx%3D1"


def test_a_job_that_calls_back(service: AnyJob) -> None:
    reported: dict[tuple[str, int], Progress] = {}
    trigger = HttpTrigger(CLOCK, callbacks=lambda run_id, attempt: reported.get((run_id, attempt)))
    called = job(service, callback=True, cancel={"url": service.url + "/jobs/{id}"})
    assert trigger.check(called) == []
    started = trigger.start(called)
    assert trigger.poll(called, started).fate is Fate.RUNNING
    reported["run-1", 1] = Progress(Fate.FAILED, "of the attempt before")
    assert trigger.poll(called, started).fate is Fate.RUNNING
    reported["run-1", 2] = Progress(Fate.SUCCEEDED, result={"rows": 7})
    assert trigger.poll(called, started) == reported["run-1", 2]
    trigger.close()


def test_the_job_is_handed_what_it_reports_with(service: AnyJob, trigger: HttpTrigger) -> None:
    handing = HttpTrigger(
        CLOCK, lambda _run, _attempt: None, lambda run_id, attempt: f"bhc_{run_id}_{attempt}"
    )
    handing.start(job(service, callback=True))
    assert service.asked[-1].headers["x-backhaul-callback-token"] == "bhc_run-1_2"
    service.break_with(Fault(reply=Reply(400, {"said": "bhc_run-1_2"})))
    with pytest.raises(TerminalError) as caught:
        handing.start(job(service, callback=True))
    assert "bhc_run-1_2" not in str(caught.value)
    service.mend()
    handing.start(job(service))
    assert "x-backhaul-callback-token" not in service.asked[-1].headers
    handing.close()


def test_callbacks_need_somebody_who_receives_them(service: AnyJob, trigger: HttpTrigger) -> None:
    assert "callback" in trigger.check(job(service, callback=True))[0]


def test_a_job_without_cancel_cannot_be_cancelled(service: AnyJob, trigger: HttpTrigger) -> None:
    asked = polled(service)
    with pytest.raises(NotSupported, match="cancelled from here") as caught:
        trigger.cancel(asked, trigger.start(asked))
    assert "cancel:" in (caught.value.remedy or "")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"poll": {"url": "ftp://x/y"}}, "poll.url"),
        ({"poll": {"url": "http://h/{id}"}}, "{id}"),
        ({"poll": {"url": "http://h/1"}, "callback": True}, "either poll or callback"),
        ({"headers": {"X-A": "a\r\nX-B: b"}}, "X-A"),
        ({"headers": {"X A": "a"}}, "X A"),
        ({"headers": {"X-A": "ü"}}, "ASCII"),
        ({"method": "BREW"}, "method"),
        ({"auth": {"token": "a", "user": "b", "password": "c"}}, "auth"),
        ({"auth": {}}, "auth"),
        ({"expect": "fine"}, "expect"),
    ],
)
def test_settings_that_make_no_sense(
    service: AnyJob, trigger: HttpTrigger, settings: dict[str, Any], said: str
) -> None:
    assert said in trigger.check(job(service, **settings))[0]


@pytest.mark.parametrize(
    "url", [None, "", "orders", "file:///etc/passwd", "http://", "//host/x", "http://h:70000"]
)
def test_only_web_addresses_are_asked(trigger: HttpTrigger, service: AnyJob, url: Any) -> None:
    assert any(
        "trigger_url" in one for one in trigger.check(replace(job(service), trigger_url=url))
    )


def test_expected_codes(service: AnyJob, trigger: HttpTrigger) -> None:
    with pytest.raises(TerminalError, match="202"):
        trigger.start(job(service, expect=[200]))
    trigger.start(job(service, expect=[202, 409]))


# Where a second request would be a second job.


@pytest.mark.parametrize(
    "fault",
    [Fault(lost=True), Fault(slow=True), Fault(reply=BROKEN), Fault(reply=GATEWAY)],
    ids=["lost", "slow", "500", "502"],
)
def test_a_job_that_is_not_idempotent_is_never_asked_twice_blindly(
    service: AnyJob, trigger: HttpTrigger, fault: Fault
) -> None:
    service.break_with(fault)
    with pytest.raises(TerminalError, match="whether it has begun is not known") as caught:
        trigger.start(job(service, idempotent=False, timeout="0.2s"))
    assert "mark it done" in (caught.value.remedy or "")


def test_what_was_surely_not_begun_is_asked_again(service: AnyJob, trigger: HttpTrigger) -> None:
    service.break_with(Fault(reply=THROTTLED))
    with pytest.raises(TransientError):
        trigger.start(job(service, idempotent=False))
    service.close()
    with pytest.raises(TransientError, match="no connection"):
        HttpTrigger(CLOCK).start(job(service, idempotent=False))


def test_asking_what_became_of_it_may_always_be_repeated(
    service: AnyJob, trigger: HttpTrigger
) -> None:
    asked = polled(service)
    asked = replace(asked, settings={**asked.settings, "idempotent": False})
    started = trigger.start(asked)
    service.break_with(Fault(reply=BROKEN))
    with pytest.raises(TransientError):
        trigger.poll(asked, started)


# Where credentials may go, and how much is read.


def test_a_redirect_on_the_same_host_is_followed(service: AnyJob, trigger: HttpTrigger) -> None:
    service.redirect = "/jobs"
    trigger.start(replace(job(service), trigger_url=service.url + "/hop"))
    assert service.starts == 1
    assert service.last("POST", "/jobs").headers["idempotency-key"] == "run-1-2"


def test_credentials_are_not_taken_to_another_host(service: AnyJob, trigger: HttpTrigger) -> None:
    other = AnyJob()
    service.redirect = other.url + "/jobs?token=of-theirs"
    with pytest.raises(TerminalError, match="another host") as caught:
        trigger.start(replace(job(service), trigger_url=service.url + "/hop"))
    assert other.asked == []
    assert "of-theirs" not in str(caught.value)
    other.close()


def test_a_redirect_to_nowhere(service: AnyJob, trigger: HttpTrigger) -> None:
    for target in ("http://h:99999/", "http://[::1/"):
        service.redirect = target
        with pytest.raises(BackhaulError):
            trigger.start(replace(job(service), trigger_url=service.url + "/hop"))


def test_a_post_is_not_turned_into_a_get(service: AnyJob, trigger: HttpTrigger) -> None:
    with pytest.raises(TerminalError, match="it has moved"):
        trigger.start(replace(job(service), trigger_url=service.url + "/moved"))


def test_endless_redirects_end(service: AnyJob, trigger: HttpTrigger) -> None:
    service.redirect = "/hop"
    with pytest.raises(TerminalError, match="307"):
        trigger.start(replace(job(service), trigger_url=service.url + "/hop"))


def test_no_more_is_read_than_an_answer_needs(service: AnyJob, trigger: HttpTrigger) -> None:
    big = replace(job(service, id="id"), trigger_url=service.url + "/big")
    with pytest.raises(TerminalError, match="1,048,576 bytes"):
        trigger.start(big)
    assert trigger.start(replace(big, settings={**big.settings, "id": None})) == Started("run-1-2")


def test_a_server_that_drips_does_not_hold_us(service: AnyJob, trigger: HttpTrigger) -> None:
    service.break_with(Fault(drip=True))
    with pytest.raises(TransientError, match="ReadTimeout"):
        trigger.start(job(service, timeout="0.2s"))


def test_nothing_of_the_environment_sees_a_request(
    service: AnyJob, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login eve password eve")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    trigger = HttpTrigger(CLOCK)
    with pytest.raises(TerminalError, match="401"):
        trigger.start(job(service, auth=None))
    assert "authorization" not in service.asked[-1].headers
    trigger.close()


def test_a_proxy_is_used_where_it_is_set(service: AnyJob, trigger: HttpTrigger) -> None:
    elsewhere = replace(job(service, proxy=service.url), trigger_url="http://jobs.invalid/jobs")
    trigger.start(elsewhere)
    assert service.asked[-1].headers["host"] == "jobs.invalid"


def test_cookies_are_not_carried_from_one_job_to_the_next(
    service: AnyJob, trigger: HttpTrigger
) -> None:
    service.break_with(Fault(reply=Reply(200, {}, headers={"Set-Cookie": "who=me; Path=/"})))
    trigger.start(job(service))
    trigger.start(job(service))
    assert "cookie" not in service.asked[-1].headers


def test_neither_url_nor_header_nor_body_is_shown(
    service: AnyJob, trigger: HttpTrigger, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    hidden = replace(
        job(service, headers={"X-Key": "of-header"}, body={"pin": "of-body"}),
        trigger_url=service.url + "/404/of-path/jobs?key=of-query",
    )
    service.break_with(Fault(reply=Reply(400, {"said": "of-header of-query no", "is": SECRET})))
    with pytest.raises(TerminalError) as caught:
        trigger.start(hidden)
    said = str(caught.value) + repr(caught.value) + caplog.text
    for secret in ("of-header", "of-path", "of-query", "of-body", SECRET):
        assert secret not in said
    assert "sent were pin" in said


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a.b", 1),
        ("$.a.b", 1),
        ("c[1].d", "x"),
        ("$.c.1.d", "x"),
        ("c[7]", None),
        ("a.b.c", None),
        ("", {"a": {"b": 1}, "c": [0, {"d": "x"}]}),
    ],
)
def test_json_paths(path: str, found: Any) -> None:
    assert pick({"a": {"b": 1}, "c": [0, {"d": "x"}]}, path) == found


def test_asked_is_what_was_sent() -> None:
    assert Asked("GET", "/", {}, {}, b"").json is None
