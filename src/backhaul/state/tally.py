"""How far is a lane in the chunk that it is reading? A row that nobody relies on, for whoever watches.

A chunk of five million rows takes minutes over a slow line, and its own row is locked by its claim.
So a lane tells its count beside it, on a session of its own, once a second at the most. Losing any
of it loses nothing: errors are swallowed.
"""

from __future__ import annotations

import time
from contextlib import suppress
from types import TracebackType
from typing import Self

import psycopg

from backhaul.state.session import Connection, connect

TELL_SECONDS = 1.0

_TELL = b"""
    INSERT INTO lanes (run_id, source_name, lane, export_id, chunk_number, row_count, told_at)
    VALUES (%(run_id)s, %(source)s, %(lane)s, %(export_id)s, %(number)s, %(rows)s, now())
    ON CONFLICT (run_id, source_name, lane) DO UPDATE
    SET export_id = excluded.export_id, chunk_number = excluded.chunk_number,
        row_count = excluded.row_count, told_at = excluded.told_at
"""


class LaneTally:
    """One lane's count. The session is opened at the first chunk that takes longer than a second."""

    def __init__(self, url: str, run_id: str, source: str, lane: int) -> None:
        self._url = url
        self._who = {"run_id": run_id, "source": source, "lane": lane}
        self._told = time.monotonic()
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._connection is not None:
            self._connection.close()

    def begin(self) -> None:
        """A chunk begins: nothing is told of one that is read within the second."""
        self._told = time.monotonic()

    def tell(self, export_id: int, number: str, rows: int) -> None:
        now = time.monotonic()
        if now - self._told < TELL_SECONDS:
            return
        self._told = now
        with suppress(psycopg.Error):
            if self._connection is None:
                self._connection = connect(self._url, application="backhaul tally", autocommit=True)
            values = {**self._who, "export_id": export_id, "number": number, "rows": rows}
            self._connection.execute(_TELL, values)
