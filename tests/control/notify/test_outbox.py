"""Is each message sent at least once, the same event to nobody twice, and never too many at once?"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import psycopg
import pytest

from backhaul.clock import Clock, FixedClock
from backhaul.control.notify.base import Channel, Kind, Message
from backhaul.control.notify.config import NotifyConfig
from backhaul.control.notify.dispatch import open_channels
from backhaul.control.notify.outbox import LEASE, MAX_ATTEMPTS, REST, Sender, backoff, enqueue
from backhaul.control.notify.post import ChannelUnavailable
from backhaul.control.notify.recipients import Recipient
from backhaul.control.notify.render import Outgoing, delivery_id
from backhaul.errors import StateUnavailable, TerminalError
from backhaul.state.database import State
from backhaul.state.session import Connection, connect
from tests.control.notify.conftest import NOW
from tests.control.notify.receiver import Answer, Receiver
from tests.control.notify.samples import RUN, add_pipeline, add_run, config, message, rows

MINUTE = timedelta(minutes=1)


class Killed(BaseException):
    """A sender that stops as SIGKILL stops it: nothing after it is done."""


class Recorder:
    """A channel that keeps what it gets, and fails as it is told."""

    def __init__(self) -> None:
        self.got: list[tuple[int, Message]] = []
        self.errors: list[BaseException | None] = []
        self.tried = 0

    def send(self, message: Message, notification_id: int) -> None:
        self.tried += 1
        error = self.errors.pop(0) if self.errors else None
        if isinstance(error, Exception):
            raise error
        self.got.append((notification_id, message))
        if error is not None:
            raise error

    @property
    def titles(self) -> list[str]:
        return [message.title for _, message in self.got]


@pytest.fixture
def database(state: State) -> Iterator[Connection]:
    with closing(connect(state.url)) as connection:
        yield connection


def sender(
    state: State,
    channels: Mapping[str, Channel],
    clock: Clock,
    known: NotifyConfig,
    name: str = "a",
) -> Sender:
    return Sender(partial(connect, state.url), channels, known, clock, name=name)


def ops(**settings: Any) -> NotifyConfig:
    return config(ops={"type": "log", **settings})


def add(
    connection: Connection,
    said: Message | None = None,
    *channels: Recipient | str,
    pipeline_id: int | None = None,
    now: datetime = NOW,
) -> int:
    with connection.transaction():
        return enqueue(
            connection,
            message=said or message(),
            channels=channels or ("ops",),
            pipeline_id=pipeline_id,
            now=now,
        )


def add_many(connection: Connection, count: int, kind: Kind = Kind.FAILURE, first: int = 0) -> None:
    for number in range(first, first + count):
        add(connection, message(kind, f"{kind}:{number}", dates=f"date {number}"))


def test_one_row_per_channel_and_event(database: Connection) -> None:
    assert add(database, None, "ops", "mail") == 2
    assert add(database, None, "ops", "mail", "hook", "hook") == 1
    assert add(database, message(key="other"), "ops") == 1
    found = rows(database, "notification_channel, event_key, notification_status, attempts")
    assert found == [
        ("mail", "failure:1:1", "pending", 0),
        ("ops", "failure:1:1", "pending", 0),
        ("hook", "failure:1:1", "pending", 0),
        ("ops", "other", "pending", 0),
    ]


def test_a_row_knows_its_pipeline_and_run(database: Connection) -> None:
    pipeline = add_pipeline(database)
    add_run(database, pipeline)
    said = Message(
        Kind.QUALITY, "k", "t" * 500, "a\0b\n" + "x" * 9000, "orders", RUN, "https://x", {"n": 1}
    )
    add(database, said, Recipient("ops", to=("a@example.com",)), pipeline_id=pipeline)
    columns = "pipeline_id, run_id::text, notification_type, created_at, next_attempt_at, message"
    ((found, run, kind, created, due, stored),) = rows(database, columns)
    assert (found, run, kind, created, due) == (pipeline, RUN, "quality", NOW, NOW)
    assert (stored["to"], stored["facts"], stored["run_id"]) == (["a@example.com"], {"n": 1}, RUN)
    assert len(stored["title"]) == 200 and len(stored["text"]) == 3000
    assert stored["text"].startswith("ab\nxxx")


def test_only_the_kinds_that_are_wanted(database: Connection) -> None:
    wants = Recipient("ops", frozenset((Kind.RECOVERY,)))
    assert add(database, message(Kind.FAILURE, "a"), wants) == 0
    assert add(database, message(Kind.RECOVERY, "b"), wants) == 1
    assert add(database, message(Kind.TEST, "c"), wants) == 1


def test_the_news_and_the_message_are_one(state: State, database: Connection) -> None:
    with database.transaction(force_rollback=True):
        enqueue(database, message=message(), channels=["ops"], pipeline_id=None, now=NOW)
    assert rows(database) == []


def test_a_long_event_key_is_still_one_event(database: Connection) -> None:
    long = "k" * 100_000
    assert add(database, message(key=long)) == 1
    assert add(database, message(key=long)) == 0
    assert add(database, message(key=long + "x")) == 1


def test_an_event_noticed_by_eight_at_once_is_one(state: State, database: Connection) -> None:
    barrier = threading.Barrier(8)

    def notice(order: list[str]) -> int:
        with closing(connect(state.url)) as connection, connection.transaction():
            barrier.wait(10)
            return enqueue(connection, message=message(), channels=order, pipeline_id=None, now=NOW)

    orders = [["a", "b", "c"], ["c", "b", "a"]] * 4
    with ThreadPoolExecutor(8) as pool:
        new = list(pool.map(notice, orders))
    assert sum(new) == 3
    assert len(rows(database)) == 3


def test_who_listens_hears_of_it_once_it_is_true(state: State, database: Connection) -> None:
    with closing(connect(state.url, autocommit=True)) as listener:
        listener.execute("LISTEN backhaul_notify")
        add(database)
        heard = list(listener.notifies(timeout=5, stop_after=1))
        assert [one.channel for one in heard] == ["backhaul_notify"]
        add(database)  # nothing new
        assert list(listener.notifies(timeout=0.05)) == []


def test_sent(state: State, database: Connection, clock: FixedClock) -> None:
    recorder = Recorder()
    add(database, None, Recipient("ops", to=("a@example.com",), also=("@here",)))
    work = sender(state, {"ops": recorder}, clock, ops())
    assert work.next_due() == NOW
    clock.move_to(NOW + MINUTE)
    assert work.send_due() == 1
    assert work.send_due() == 0
    assert work.next_due() is None
    columns = "notification_status, sent_at, attempts, claimed_by, next_attempt_at, error_message"
    assert rows(database, columns) == [("sent", NOW + MINUTE, 1, "a", None, None)]
    ((number, got),) = recorder.got
    assert isinstance(got, Outgoing)
    assert (got.to, got.also) == (("a@example.com",), ("@here",))
    assert (got.title, got.facts["attempt"]) == (message().title, 1)
    assert number == rows(database, "notification_id")[0][0]


def test_by_the_channels_template(state: State, database: Connection, clock: FixedClock) -> None:
    recorder = Recorder()
    add(database)
    sender(state, {"ops": recorder}, clock, ops(template="{{ kind }} {{ pipeline }}\nx")).send_due()
    assert (recorder.titles, recorder.got[0][1].text) == (["failure orders"], "x")


def test_at_most_so_many_and_the_channels_in_turn(
    state: State, database: Connection, clock: FixedClock
) -> None:
    first, other = Recorder(), Recorder()
    add_many(database, 5)
    add(database, message(key="x"), "other")
    known = config(ops={"type": "log"}, other={"type": "log"})
    work = sender(state, {"ops": first, "other": other}, clock, known)
    assert work.send_due(2) == 2
    assert (len(first.got), len(other.got)) == (1, 1)
    assert work.send_due() == 4


def test_a_failure_is_tried_again_later(
    state: State, database: Connection, clock: FixedClock
) -> None:
    recorder = Recorder()
    recorder.errors = [ChannelUnavailable("down", remedy="wait")] * 3
    add(database)
    work = sender(state, {"ops": recorder}, clock, ops())
    waits = []
    for _ in range(3):
        assert work.send_due() == 0
        due = work.next_due()
        assert due is not None
        waits.append(due - clock.now())
        clock.move_to(due - timedelta(seconds=1))
        assert work.send_due() == 0
        clock.move_to(due)
    assert waits == [timedelta(seconds=30), timedelta(seconds=60), timedelta(seconds=120)]
    assert rows(database, "error_message") == [("down\n  → wait",)]
    assert work.send_due() == 1
    assert rows(database, "notification_status, attempts, error_message") == [("sent", 4, None)]


def test_the_receivers_own_wish(state: State, database: Connection, clock: FixedClock) -> None:
    recorder, busy = Recorder(), ChannelUnavailable("busy")
    busy.retry_after = timedelta(minutes=20)
    recorder.errors = [busy]
    add_many(database, 3)
    work = sender(state, {"ops": recorder}, clock, ops())
    assert work.send_due() == 0
    assert recorder.tried == 1
    assert work.next_due() == NOW + timedelta(minutes=20)
    assert rows(database, "attempts") == [(1,), (0,), (0,)]
    clock.move_to(NOW + timedelta(minutes=20))
    assert work.send_due() == 3


def test_a_channel_that_is_down_rests_and_the_others_go_on(
    state: State, database: Connection, clock: FixedClock
) -> None:
    down, up = Recorder(), Recorder()
    down.errors = [ChannelUnavailable("down")] * 2
    for number in range(4):
        add(database, message(key=str(number)), "down", "up")
    known = config(down={"type": "log"}, up={"type": "log"})
    work = sender(state, {"down": down, "up": up}, clock, known)
    assert work.send_due() == 4
    assert (down.tried, len(up.got)) == (1, 4)
    clock.move_to(NOW + REST)
    assert work.send_due() == 0
    assert down.tried == 2
    clock.move_to(NOW + timedelta(hours=1))
    assert work.send_due() == 4


def test_given_up_after_so_many_attempts(
    state: State, database: Connection, clock: FixedClock
) -> None:
    recorder = Recorder()
    recorder.errors = [ChannelUnavailable("down")] * 100
    add(database)
    work = sender(state, {"ops": recorder}, clock, ops())
    while (due := work.next_due()) is not None:
        clock.move_to(due)
        work.send_due()
    assert recorder.tried == MAX_ATTEMPTS
    ((status, error),) = rows(database, "notification_status, error_message")
    assert (status, error) == ("failed", f"given up after {MAX_ATTEMPTS} attempts: down")
    assert timedelta(hours=3) < clock.now() - NOW < timedelta(hours=4)


def test_backoff_is_bounded() -> None:
    assert backoff(0) == backoff(1) == timedelta(seconds=30)
    assert backoff(10**9) == timedelta(hours=1)


def test_what_cannot_work_is_not_tried_again(
    state: State, database: Connection, clock: FixedClock
) -> None:
    recorder = Recorder()
    recorder.errors = [TerminalError("no_service", remedy="put right the address")]
    add(database)
    sender(state, {"ops": recorder}, clock, ops()).send_due()
    columns = "notification_status, error_message, next_attempt_at"
    expected = ("failed", "no_service\n  → put right the address", None)
    assert rows(database, columns) == [expected]


def test_a_bug_in_a_channel_stops_no_other_and_tells_no_secret(
    state: State, database: Connection, clock: FixedClock
) -> None:
    broken, well = Recorder(), Recorder()
    broken.errors = [ValueError("https://hidden")]
    add(database, None, "broken", "well")
    known = config(broken={"type": "log"}, well={"type": "log"})
    assert sender(state, {"broken": broken, "well": well}, clock, known).send_due() == 1
    (error, _) = rows(database, "error_message")
    assert error == ("the channel failed in a way that it should not: ValueError",)


def test_an_unknown_channel_fails_with_a_remedy(
    state: State, database: Connection, clock: FixedClock
) -> None:
    add(database, None, "opps")
    sender(state, {"ops": Recorder()}, clock, ops()).send_due()
    ((status, error),) = rows(database, "notification_status, error_message")
    assert status == "failed"
    assert "there is no channel 'opps'" in error and "(valid: log, ops)" in error


def test_rows_by_hand(state: State, database: Connection, clock: FixedClock) -> None:
    """A person at psql gives less than we do, or nonsense."""
    for kind, stored in (("failure", "{}"), ("nonsense", "{}"), ("test", "[1]")):
        database.execute(
            "INSERT INTO pipeline_notifications (notification_type, notification_channel, event_key,"
            " message, created_at) VALUES (%s, 'ops', %s, %s, %s)",
            [kind, kind, stored, NOW],
        )
    database.commit()
    recorder = Recorder()
    assert sender(state, {"ops": recorder}, clock, ops(rate="5 per 1m")).send_due() == 2
    assert recorder.titles == ["failure", "test"]
    found = rows(database, "notification_status, error_message")
    assert [status for status, _ in found] == ["sent", "failed", "sent"]
    assert "notification_type 'nonsense' is not known; valid: failure," in found[1][1]


def test_killed_between_sending_and_marking(
    state: State, database: Connection, clock: FixedClock
) -> None:
    recorder = Recorder()
    recorder.errors = [Killed()]
    add(database)
    with pytest.raises(Killed):
        sender(state, {"ops": recorder}, clock, ops(), "dead").send_due()
    assert rows(database, "notification_status, claimed_by") == [("sending", "dead")]
    other = sender(state, {"ops": recorder}, clock, ops(), "alive")
    clock.move_to(NOW + LEASE - timedelta(seconds=1))
    assert other.send_due() == 0
    clock.move_to(NOW + LEASE)
    assert other.send_due() == 1
    assert len({delivery_id(said, number) for number, said in recorder.got}) == 1
    assert len(recorder.got) == 2
    columns = "notification_status, claimed_by, attempts"
    assert rows(database, columns) == [("sent", "alive", 2)]


def test_what_kills_each_sender_is_given_up(
    state: State, database: Connection, clock: FixedClock
) -> None:
    recorder = Recorder()
    recorder.errors = [Killed()] * 100
    add(database)
    for _ in range(MAX_ATTEMPTS):
        with pytest.raises(Killed):
            sender(state, {"ops": recorder}, clock, ops()).send_due()
        clock.move_to(clock.now() + LEASE)
    sender(state, {"ops": recorder}, clock, ops()).send_due()
    ((status, error),) = rows(database, "notification_status, error_message")
    assert status == "failed" and "did not come back" in error


def test_a_sender_that_slept_through_its_lease_changes_nothing(
    state: State, database: Connection, clock: FixedClock
) -> None:
    other = Recorder()

    class Slow(Recorder):
        def send(self, message: Message, notification_id: int) -> None:
            clock.move_to(NOW + LEASE)
            assert sender(state, {"ops": other}, clock, ops(), "quick").send_due() == 1
            raise ChannelUnavailable("too late")

    add(database)
    sender(state, {"ops": Slow()}, clock, ops(), "slow").send_due()
    columns = "notification_status, claimed_by, error_message"
    assert rows(database, columns) == [("sent", "quick", None)]


def test_two_senders_under_load(state: State, database: Connection, clock: FixedClock) -> None:
    names = ("ops", "mail", "hook")
    shared = {name: Recorder() for name in names}
    known = config((), **{name: {"type": "log"} for name in names})
    for number in range(40):
        add(database, message(key=str(number)), *names)

    def drain(name: str) -> int:
        work = sender(state, shared, clock, known, name)
        return sum(iter(partial(work.send_due, 10), 0))

    with ThreadPoolExecutor(2) as pool:
        sent = list(pool.map(drain, ("a", "b")))
    assert sum(sent) == 120
    assert all(sent)
    ids = [number for recorder in shared.values() for number, _ in recorder.got]
    assert len(ids) == len(set(ids)) == 120
    assert set(rows(database, "notification_status, attempts")) == {("sent", 1)}


def test_news_of_one_pipeline_stay_in_their_order(
    state: State, database: Connection, clock: FixedClock
) -> None:
    recorder = Recorder()
    orders, users = add_pipeline(database), add_pipeline(database, "users")
    add(database, message(Kind.RETRY_EXHAUSTED, "a", dates="a"), pipeline_id=orders)
    recorder.errors = [ChannelUnavailable("down")] * 3
    work = sender(state, {"ops": recorder}, clock, ops())
    for _ in range(3):
        work.send_due()
        clock.move_to(work.next_due() or NOW)
    clock.move_to(clock.now() - MINUTE)
    add(database, message(Kind.RECOVERY, "b", dates="b"), pipeline_id=orders, now=clock.now())
    add(database, message(Kind.RECOVERY, "c", dates="c"), pipeline_id=users, now=clock.now())
    assert work.send_due() == 1
    clock.move_to(clock.now() + MINUTE)
    assert work.send_due() == 2
    assert [title.split()[1].rstrip(":") for title in recorder.titles] == ["c", "a", "b"]


def test_above_its_rate_a_channel_gets_a_digest(
    state: State, database: Connection, clock: FixedClock
) -> None:
    recorder = Recorder()
    add_many(database, 24)
    work = sender(state, {"ops": recorder}, clock, ops(rate="10 per 10m"))
    assert work.send_due() == 10
    assert work.send_due() == 0
    assert work.next_due() == NOW + timedelta(minutes=10)
    clock.move_to(NOW + timedelta(minutes=9))
    add_many(database, 1, Kind.RETRY_EXHAUSTED)
    assert work.send_due() == 0
    clock.move_to(NOW + timedelta(minutes=10))
    assert work.send_due() == 1
    assert recorder.titles[-1] == "15 more: 1 failed for good, 14 failed attempts"
    assert recorder.got[-1][1].kind is Kind.RETRY_EXHAUSTED
    found = rows(database, "notification_status, error_message")
    digest = rows(database, "notification_id")[-1][0]
    told = ("suppressed", f"too many at once: told in notification {digest}")
    assert found == [("sent", None)] * 10 + [told] * 15 + [("sent", None)]
    assert work.next_due() is None


def test_one_that_waited_goes_out_as_it_is(
    state: State, database: Connection, clock: FixedClock
) -> None:
    recorder = Recorder()
    add_many(database, 3)
    work = sender(state, {"ops": recorder}, clock, ops(rate="2 per 10m"))
    work.send_due()
    clock.move_to(NOW + timedelta(minutes=10))
    assert work.send_due() == 1
    assert recorder.titles[-1].startswith("orders date 2")


def test_the_rate_is_of_any_stretch_of_time(
    state: State, database: Connection, clock: FixedClock
) -> None:
    recorder = Recorder()
    work = sender(state, {"ops": recorder}, clock, ops(rate="2 per 10m"))
    times = []
    for minute in range(60):
        clock.move_to(NOW + minute * MINUTE)
        add(database, message(key=str(minute), dates=f"date {minute}"), now=clock.now())
        times += [minute] * work.send_due()
    assert all(later - first >= 10 for first, later in zip(times, times[2:], strict=False))
    assert len(times) == 12
    ended = rows(database, "notification_status")
    assert len(ended) == 60 + sum("more" in title for title in recorder.titles)


def test_a_digest_that_fails_is_tried_again_and_never_folded(
    state: State, database: Connection, clock: FixedClock
) -> None:
    recorder = Recorder()
    add_many(database, 4)
    work = sender(state, {"ops": recorder}, clock, ops(rate="1 per 10m"))
    work.send_due()
    recorder.errors = [ChannelUnavailable("down")]
    clock.move_to(NOW + timedelta(minutes=10))
    assert work.send_due() == 0
    add_many(database, 2, Kind.RECOVERY)
    clock.move_to(NOW + timedelta(minutes=11))
    assert work.send_due() == 1
    clock.move_to(NOW + timedelta(minutes=21))
    assert work.send_due() == 1
    assert recorder.titles[1:] == ["3 more: 3 failed attempts", "2 more: 2 well again"]


def test_digests_are_told_to_those_whom_their_messages_are_for(
    state: State, database: Connection, clock: FixedClock
) -> None:
    recorder = Recorder()
    for number in range(6):
        team = Recipient("ops", to=(f"team{number % 2}@example.com",))
        add(database, message(key=str(number)), team)
    work = sender(state, {"ops": recorder}, clock, ops(rate="1 per 10m"))
    for minutes in (0, 10, 20):
        clock.move_to(NOW + minutes * MINUTE)
        assert work.send_due() == 1
    got = [(said.title[:6], said.to) for _, said in recorder.got if isinstance(said, Outgoing)]
    one, other = ("team1@example.com",), ("team0@example.com",)
    assert got == [("orders", other), ("3 more", one), ("2 more", other)]


def test_what_a_program_reads_waits_and_is_not_folded(
    state: State, database: Connection, clock: FixedClock
) -> None:
    recorder = Recorder()
    known = config(ops={"type": "pagerduty", "routing_key": "x", "rate": "2 per 10m"})
    add_many(database, 5)
    work = sender(state, {"ops": recorder}, clock, known)
    sent = []
    for minutes in (0, 10, 20):
        clock.move_to(NOW + minutes * MINUTE)
        sent.append(work.send_due())
    assert sent == [2, 2, 1]
    assert set(rows(database)) == {("sent",)}


def test_two_senders_keep_one_rate(state: State, database: Connection, clock: FixedClock) -> None:
    recorder = Recorder()
    add_many(database, 60)

    def drain(name: str) -> int:
        return sender(state, {"ops": recorder}, clock, ops(rate="7 per 10m"), name).send_due()

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(drain, "abcd")) == 7
    clock.move_to(NOW + timedelta(minutes=10))
    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(drain, "abcd")) == 1
    assert recorder.titles[-1] == "53 more: 53 failed attempts"


def test_a_dead_sender_counts_until_its_lease_ends(
    state: State, database: Connection, clock: FixedClock
) -> None:
    recorder = Recorder()
    recorder.errors = [Killed()]
    add_many(database, 2)
    known = ops(rate="1 per 1m")
    with pytest.raises(Killed):
        sender(state, {"ops": recorder}, clock, known).send_due()
    other = sender(state, {"ops": recorder}, clock, known, "b")
    clock.move_to(NOW + LEASE - MINUTE)
    assert other.send_due() == 0
    clock.move_to(NOW + LEASE)
    assert other.send_due() == 1
    clock.move_to(NOW + LEASE + MINUTE)
    assert other.send_due() == 1
    assert set(rows(database)) == {("sent",)}


def test_the_states_server_is_gone(state: State, clock: FixedClock) -> None:
    def refuse() -> Connection:
        raise psycopg.OperationalError("connection refused")

    work = Sender(refuse, {}, NotifyConfig(), clock)
    for call in (work.send_due, work.next_due):
        with pytest.raises(StateUnavailable, match="notifications in backhaul's database"):
            _call(call)


def _call(call: Callable[[], object]) -> None:
    call()


def test_over_the_wire(
    state: State, database: Connection, clock: FixedClock, receiver: Receiver
) -> None:
    """A webhook that is busy, then hangs up after reading, then answers: one delivery, three times."""
    known = config(hook={"type": "webhook", "url": receiver.url, "secret": "only-for-tests"})
    receiver.answers = [Answer(429, {"Retry-After": "90"}), Answer(hang_up=True), Answer(204)]
    add(database, None, "hook")
    work = sender(state, open_channels(known, clock), clock, known)
    waits = []
    while (due := work.next_due()) is not None:
        waits.append(due - clock.now())
        clock.move_to(due)
        work.send_due()
    assert waits == [timedelta(), timedelta(seconds=90), timedelta(seconds=60)]
    assert rows(database, "notification_status, attempts") == [("sent", 3)]
    assert len({one.headers["backhaul-delivery"] for one in receiver.requests}) == 1
    assert len({one.body for one in receiver.requests}) == 1
