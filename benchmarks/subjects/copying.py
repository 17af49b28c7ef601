"""How fast can the server give the rows at all? COPY to STDOUT in binary, thrown away unread.

The least that any reader has to do: the bytes are taken from the socket and nothing looks at them,
not even for where a row ends (psql would). One connection per core, each with its share of blocks.
"""

from __future__ import annotations

import os
import re
import socket
from concurrent.futures import ThreadPoolExecutor

import psycopg

from benchmarks.subjects.subject import Stopwatch, Task

BUFFER_BYTES = 4 * 1024 * 1024
# CommandComplete with the count of rows, then ReadyForQuery: how the answer to a COPY ends.
ENDING = re.compile(rb"C....COPY (\d+)\x00Z\x00\x00\x00\x05I\Z", re.DOTALL)
LONGEST_ENDING = 64


def drain(url: str, select: str) -> tuple[int, int]:
    """Rows and bytes of one COPY."""
    connection = psycopg.connect(url, autocommit=True, sslmode="disable")
    connection.pgconn.send_query(f"COPY ({select}) TO STDOUT (FORMAT BINARY)".encode())
    connection.pgconn.flush()
    stream = socket.socket(fileno=os.dup(connection.pgconn.socket))
    stream.setblocking(True)
    buffer, tail, total = bytearray(BUFFER_BYTES), b"", 0
    while not (ended := ENDING.search(tail)):
        count = stream.recv_into(buffer)
        if not count:
            raise RuntimeError(f"the server hung up: {tail!r}")
        total += count
        tail = (tail + bytes(buffer[max(0, count - LONGEST_ENDING) : count]))[-LONGEST_ENDING:]
    stream.close()
    connection.close()
    return int(ended[1]), total


def block_shares(url: str, relation: str, shares: int) -> list[str]:
    """Selects that read the whole table together, each a run of blocks."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT pg_relation_size(%s::regclass) / current_setting('block_size')::int", [relation]
        ).fetchone()
    blocks = row[0] if row else 0
    cuts = [blocks * share // shares for share in range(shares)]
    selects = []
    for share, low in enumerate(cuts):
        condition = f"ctid >= '({low},0)'"
        if share + 1 < shares:
            condition += f" AND ctid < '({cuts[share + 1]},0)'"
        selects.append(f"SELECT * FROM {relation} WHERE {condition}")
    return selects


def main() -> None:
    task, watch = Task.given(), Stopwatch()
    selects = block_shares(task.url, task.relation, task.cores)
    watch.begin()
    with ThreadPoolExecutor(task.cores) as pool:
        found = list(pool.map(lambda select: drain(task.url, select), selects))
    watch.end(rows=sum(rows for rows, _ in found), bytes=sum(size for _, size in found))


if __name__ == "__main__":
    main()
