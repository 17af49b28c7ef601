"""Which message does a channel get next, and how does nobody else send it too? Short transactions.

A row of `pipeline_notifications` is

    pending      enqueue writes it; a sender takes it at `next_attempt_at`
    sending      a sender's, until `next_attempt_at`: the end of its lease; then anybody's again
    sent         the channel took it
    failed       given up; `error_message` says why and what to do
    suppressed   told in the digest that `error_message` names

Whatever concerns more than one row of a channel is decided under the channel's lock, so that two
senders see the same count, and never wait for each other's rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg.types.json import Jsonb

from backhaul.control.notify.base import Kind, Message
from backhaul.control.notify.rate import Rate
from backhaul.control.notify.render import Folded, digest
from backhaul.control.statements import statements
from backhaul.state.session import Connection

SQL = statements("notifications")


@dataclass(frozen=True)
class Pace:
    """How fast a channel may be told, and whether what is too much may become one message."""

    rate: Rate | None = None
    folds: bool = True


@dataclass(frozen=True)
class Claimed:
    """A message that is ours to send. `problem`: why its row is none."""

    notification_id: int
    channel: str
    attempts: int
    message: Message
    to: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    problem: str | None = None


class Claims:
    """One sender's rows, on one connection."""

    def __init__(self, connection: Connection, sender: str, lease: timedelta) -> None:
        self._connection = connection
        self._sender = sender
        self._lease = lease

    def channels(self, now: datetime) -> list[str]:
        """Those that have something due."""
        with self._connection.transaction():
            found = self._connection.execute(SQL["channels"], {"now": now})
            return [str(row[0]) for row in found]

    def next_due(self) -> datetime | None:
        with self._connection.transaction():
            row = self._connection.execute(SQL["next_due"]).fetchone()
            return row[0] if row else None

    def take(self, channel: str, pace: Pace, now: datetime) -> Claimed | None:
        """The channel's next message, unless nothing is due or its rate is used up."""
        with self._locked(channel):
            if pace.rate is not None:
                opens = self._opens(channel, pace.rate, now)
                if opens is not None:
                    self._run("hold", channel=channel, until=opens, now=now)
                    return None
                if pace.folds and (folded := self._fold(channel, now)):
                    return folded
            row = self._run(
                "claim", channel=channel, now=now, lease=now + self._lease, sender=self._sender
            ).fetchone()
        return _claimed(channel, *row) if row else None

    def sent(self, claimed: Claimed, now: datetime) -> bool:
        """Whether it was still ours."""
        with self._connection.transaction():
            return self._mark("sent", claimed, now=now)

    def failed(self, claimed: Claimed, error: str) -> bool:
        with self._connection.transaction():
            return self._mark("failed", claimed, error=error)

    def again(self, claimed: Claimed, error: str, at: datetime, rest: datetime) -> bool:
        """Later; and the channel's other messages not before `rest`."""
        with self._locked(claimed.channel):
            ours = self._mark("again", claimed, error=error, at=at)
            self._run("rest", channel=claimed.channel, until=rest)
            return ours

    def _opens(self, channel: str, rate: Rate, now: datetime) -> datetime | None:
        """When the rate has room again; None if it has now."""
        row = self._run(
            "nth_newest", channel=channel, since=now - rate.per, now=now, skipped=rate.count - 1
        ).fetchone()
        return row[0] + rate.per if row else None

    def _fold(self, channel: str, now: datetime) -> Claimed | None:
        """What waited for its turn as one message; None where a single one did, or none."""
        rows = self._run("held", channel=channel, now=now).fetchall()
        if len(rows) < 2:
            return None
        told = rows[0][2]
        folded = [
            Folded(number, _kind(kind) or Kind.FAILURE, str(message.get("title") or kind))
            for number, kind, message in rows
        ]
        message = digest(channel, folded)
        stored = stored_message(message, to=_texts(told, "to"), also=_texts(told, "also"))
        row = self._run(
            "add_digest",
            kind=message.kind.value,
            channel=channel,
            event_key=message.event_key,
            message=Jsonb({**stored, "digest": True}),
            now=now,
            lease=now + self._lease,
            sender=self._sender,
        ).fetchone()
        number = row[0] if row else 0
        ids = [one.notification_id for one in folded]
        self._run("suppress", digest=str(number), folded=ids)
        return _claimed(channel, number, message.kind.value, 1, message.event_key, stored)

    def _mark(self, block: str, claimed: Claimed, **values: Any) -> bool:
        found = self._run(
            block,
            notification_id=claimed.notification_id,
            attempts=claimed.attempts,
            sender=self._sender,
            **values,
        )
        return bool(found.rowcount == 1)

    def _run(self, block: str, **values: Any) -> Any:
        return self._connection.execute(SQL[block], values)

    @contextmanager
    def _locked(self, channel: str) -> Iterator[None]:
        with self._connection.transaction():
            self._run("lock_channel", channel=channel)
            yield


def stored_message(
    message: Message, *, to: tuple[str, ...] = (), also: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The column `message`; what the row has in columns of its own is not repeated."""
    stored = {
        "title": message.title,
        "text": message.text,
        "pipeline": message.pipeline,
        "run_id": message.run_id,
        "url": message.url,
        "facts": dict(message.facts),
        "to": list(to),
        "also": list(also),
    }
    return {name: value for name, value in stored.items() if value}


def _claimed(
    channel: str, number: int, kind: str, attempts: int, event_key: str, stored: Any
) -> Claimed:
    told = stored if isinstance(stored, dict) else {}
    facts = told.get("facts")
    known = _kind(kind)
    message = Message(
        kind=known or Kind.FAILURE,
        event_key=event_key,
        title=str(told.get("title") or kind),
        text=str(told.get("text") or ""),
        pipeline=told.get("pipeline"),
        run_id=told.get("run_id"),
        url=told.get("url"),
        facts=facts if isinstance(facts, dict) else {},
    )
    valid = ", ".join(Kind)
    problem = None if known else f"notification_type {kind!r} is not known; valid: {valid}"
    to, also = _texts(told, "to"), _texts(told, "also")
    return Claimed(number, channel, attempts, message, to, also, problem)


def _kind(written: str) -> Kind | None:
    return Kind(written) if written in set(Kind) else None


def _texts(told: Any, key: str) -> tuple[str, ...]:
    listed = told.get(key) if isinstance(told, dict) else None
    return tuple(str(one) for one in listed) if isinstance(listed, list) else ()
