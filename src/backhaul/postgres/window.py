"""From when to when may the next window read, so that no row is ever between two windows?

A row carries its time from before its commit. So a window may end only where every transaction that
could still commit older rows has ended: below the start of the oldest one that is writing. Whatever
a window cannot know (clocks of applications, transactions that write late) is the overlap's work:
the next window begins that much earlier.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from backhaul.findings import Finding, Level

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class SilentTransaction:
    """An open transaction that has not written yet; its first write would carry its old start."""

    pid: int
    since: datetime
    application: str


@dataclass(frozen=True)
class WriterFacts:
    """What a server said about who is writing, all times by its own clock."""

    now: datetime
    oldest_writer_start: datetime | None
    writer_pid: int | None
    oldest_prepared: datetime | None
    can_see_all: bool
    from_replica: bool
    replayed_at: datetime | None
    asked_lsn: str | None
    silent: tuple[SilentTransaction, ...] = ()


@dataclass(frozen=True)
class SafeEnd:
    """Where a window may end (exclusive), why there, and the overlap that its begin needs."""

    at: datetime
    why: str
    findings: tuple[Finding, ...]
    overlap: timedelta


@dataclass(frozen=True)
class Window:
    """[begin, end); `capped` if more is left for the next run."""

    begin: datetime
    end: datetime
    capped: bool


def safe_end(facts: WriterFacts, overlap: timedelta) -> SafeEnd:
    """The latest end below which no unseen row can appear, beyond what the overlap catches."""
    if facts.from_replica:
        return _replica_end(facts, overlap)
    at, why = min(_limits(facts, overlap))
    findings = _silent_findings(facts, overlap)
    if facts.can_see_all:
        return SafeEnd(at, why, findings, overlap)
    return SafeEnd(at, why, (*findings, _HIDDEN), overlap * 2)


def next_window(
    stored: datetime, end: datetime, overlap: timedelta, cap: timedelta | None
) -> Window | None:
    """The window after the watermark `stored`, or None where the end has not moved past it.

    The cap counts from the watermark, not from the begin: with a cap below the overlap a run would
    otherwise read the same rows for ever.
    """
    if end <= stored:
        return None
    limit = end if cap is None else min(end, stored + cap)
    if limit <= stored:
        return None
    return Window(stored - overlap, limit, capped=limit < end)


def _limits(facts: WriterFacts, overlap: timedelta) -> list[tuple[datetime, str]]:
    limits = [(facts.now, "the source's clock")]
    if facts.oldest_writer_start:
        start = facts.oldest_writer_start
        limits.append((start, f"session {facts.writer_pid} has been writing since {_said(start)}"))
    if facts.oldest_prepared:
        # A prepared transaction has lost its session, and with it the time of its start; only when
        # it was prepared is known. The overlap stands for how long it had been running by then.
        at = facts.oldest_prepared
        limits.append((at - overlap, f"a prepared transaction waits since {_said(at)}"))
    return limits


def _replica_end(facts: WriterFacts, overlap: timedelta) -> SafeEnd:
    if facts.replayed_at is None:
        return SafeEnd(
            _NEVER, "the replica has replayed nothing yet", (_NOTHING_REPLAYED,), overlap
        )
    # Never past the replica's own clock, should the primary's be ahead of it.
    at = min(facts.replayed_at, facts.now)
    why = f"the replica has replayed up to {_said(facts.replayed_at)}"
    return SafeEnd(at, why, (_ONLY_REPLICA,), overlap * 2)


def _silent_findings(facts: WriterFacts, overlap: timedelta) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            Level.WARNING,
            "transaction-open-long",
            f"session {one.pid} ({one.application or 'no application name'}) has a transaction "
            f"open since {_said(one.since)} that has not written yet; if it still does, its rows "
            "carry a time older than the overlap, and no window reads them",
            remedy=f"end it (SELECT pg_terminate_backend({one.pid})), or set `overlap:` longer "
            "than the longest transaction",
        )
        for one in facts.silent
        if facts.now - one.since > overlap
    )


def _said(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


_HIDDEN = Finding(
    Level.WARNING,
    "writers-hidden",
    "other users' transactions are hidden from this user, so a window cannot end below the oldest "
    "one; the overlap is doubled instead",
    remedy="GRANT pg_read_all_stats TO the user of the connection",
)
_ONLY_REPLICA = Finding(
    Level.WARNING,
    "watermark-from-replica",
    "only a replica can be asked, and it does not know who is writing on the primary; windows end "
    "at its replay time and the overlap is doubled",
    remedy="let `host` name the primary and `replica_host` the replica: rows are still read from "
    "the replica",
)
_NOTHING_REPLAYED = Finding(
    Level.WARNING,
    "replica-replayed-nothing",
    "the replica has replayed no transaction since it started, so nothing says how far it is",
    remedy="look at its replication (SELECT * FROM pg_stat_wal_receiver), then run again",
)
