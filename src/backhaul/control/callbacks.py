"""What did a job say of itself, and was it really the job? Kept until the worker that waits reads it.

A job is handed a token that is good for this one attempt of this one run and for nothing else. It is
made by HMAC from a key in the state, so that no token is stored, a repeated start hands out the same
one, and any worker and any API process of the same state make and know it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from psycopg.types.json import Jsonb

from backhaul.clock import Clock
from backhaul.control.desk import Connect
from backhaul.control.ledger import acting, record_change, sql
from backhaul.control.records import ENDED
from backhaul.control.triggers.base import Fate, JobCheck, Progress
from backhaul.errors import Conflict, NotFound
from backhaul.state.errors import translated
from backhaul.state.jsonable import plain
from backhaul.state.session import Connection

ACTOR = "callback"
# A row of `api_tokens` with a name that no person can give; nobody comes in with it.
_KEY = "*callbacks"
_TOKEN = re.compile(r"bhc_([1-9][0-9]{0,8})_[A-Za-z0-9_-]{43}", re.ASCII)


def callback_token(run_id: str, attempt: int, secret: str) -> str:
    """`bhc_<attempt>_<43 characters>`: what the job of an attempt reports with."""
    said = f"{run_id}:{attempt}".encode()
    made = hmac.new(secret.encode(), said, hashlib.sha256).digest()
    return f"bhc_{attempt}_{base64.urlsafe_b64encode(made).decode().rstrip('=')}"


def attempt_of(token: str, run_id: str, secret: str) -> int | None:
    """The attempt that a token is for; None for one that is not of this run."""
    found = _TOKEN.fullmatch(token)
    if found is None:
        return None
    attempt = int(found[1])
    right = callback_token(run_id, attempt, secret)
    return attempt if hmac.compare_digest(token.encode(), right.encode()) else None


@dataclass
class Callbacks:
    """What jobs report, and with what. `get` is what HttpTrigger asks."""

    connect: Connect
    clock: Clock
    _key: str | None = field(default=None, repr=False)

    def token(self, run_id: str, attempt: int) -> str:
        """What the job of this attempt is handed, as `Authorization: Bearer …`."""
        return callback_token(run_id, attempt, self.key())

    def attempt_of(self, token: str, run_id: str) -> int | None:
        return attempt_of(token, run_id, self.key())

    def key(self) -> str:
        """What the tokens are made from; the first who asks makes it.

        It is in the state because every worker and every API process need the same one. Whoever can
        read the state could report in a job's name.
        """
        if self._key is None:
            values = {"name": _KEY, "key": secrets.token_hex(32), "now": self.clock.now()}
            with translated("read the callbacks' key"), self.connect() as connection:
                connection.execute(sql("api", "add_callback_key"), values)
                row = connection.execute(sql("api", "callback_key"), values).fetchone()
            assert row is not None
            self._key = str(row[0])
        return self._key

    def get(self, run_id: str, attempt: int) -> Progress | None:
        """None: nothing so far."""
        values = {"run_id": run_id, "attempt": attempt}
        with translated("read a callback"), self.connect() as connection:
            row = connection.execute(sql("api", "callback"), values).fetchone()
        return _progress(row[0]) if row else None

    def put(self, run_id: str, attempt: int, progress: Progress) -> None:
        """The same report again changes nothing; another one after the end is a Conflict."""
        body, now = _body(progress), self.clock.now()
        values = {"run_id": run_id, "attempt": attempt, "now": now, "body": Jsonb(body)}
        with (
            translated("write down a callback"),
            self.connect() as connection,
            acting(connection, ACTOR, now, "the job reported"),
        ):
            pipeline_id = _check_run(connection, run_id, attempt)
            if connection.execute(sql("api", "put_callback"), values).fetchone() is None:
                _same(connection, values, body)
                return
            record_change(
                connection,
                actor=ACTOR,
                at=now,
                kind="callback",
                subject=run_id,
                pipeline_id=pipeline_id,
                reason="the job reported",
                details={"attempt": attempt, "status": body["status"]},
            )


def _check_run(connection: Connection, run_id: str, attempt: int) -> int | None:
    """Its pipeline. The row stays as it is until this is written: a run ends with it or without it."""
    row = connection.execute(sql("api", "lock_run_status"), {"run_id": run_id}).fetchone()
    if row is None:
        raise NotFound(f"there is no run {run_id}")
    status, current, pipeline_id = row
    if status in ENDED or current != attempt:
        raise Conflict(
            f"attempt {attempt} of run {run_id} is over: the run is {status}, attempt {current}",
            remedy="nothing is to be done; the report came too late",
        )
    found: int | None = pipeline_id
    return found


def _same(connection: Connection, values: Mapping[str, Any], body: Mapping[str, Any]) -> None:
    row = connection.execute(sql("api", "callback"), values).fetchone()
    if row is not None and row[0] != body:
        raise Conflict(
            f"the job of run {values['run_id']} has reported {row[0].get('status')} already",
            remedy="a report of the end is final",
        )


def _body(progress: Progress) -> dict[str, Any]:
    found: dict[str, Any] = plain(
        {
            "status": progress.fate.value,
            "message": progress.message,
            "result": progress.result,
            "checks": [asdict(one) for one in progress.checks],
        }
    )
    return found


def _progress(body: Mapping[str, Any]) -> Progress:
    return Progress(
        Fate(body["status"]),
        body.get("message"),
        checks=tuple(JobCheck(**one) for one in body.get("checks") or ()),
        result=body.get("result") or {},
    )
