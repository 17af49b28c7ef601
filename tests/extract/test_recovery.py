"""What stays valid when something dies in the middle, and what does the next run still have to read?"""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from backhaul.errors import LeaseHeld, SourceUnavailable, StateUnavailable, StoreUnavailable
from backhaul.extract import rounds
from backhaul.extract.decide import Action
from backhaul.extract.lane import LaneJob, LaneReport
from backhaul.findings import Finding
from backhaul.project.connection import PostgresConnection
from backhaul.state.claims import ChunkQueue, Claim
from backhaul.store.store import Store
from tests import servers as running
from tests.extract.project import (
    Bench,
    FlakyStore,
    Session,
    Watch,
    run_in_threads,
    same_as_source,
)

ROWS = "generate_series(1, 1000) AS g"


@pytest.fixture
def large(bench: Bench) -> Bench:
    """Five chunks."""
    bench.source.execute(
        f"CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT g FROM {ROWS}; ANALYZE t"
    )
    bench.table("t", chunk_rows=250)
    assert len(bench.planned("t").chunks) == 5
    return bench


def interrupted(bench: Bench, puts: int = 2) -> list[str]:
    """Let the store go away after some files; what it has then."""
    result = bench.extract("t", store=FlakyStore(bench.store, puts))["t"]
    assert result.status == "failed"
    assert isinstance(result.error, StoreUnavailable)
    return bench.files()


def test_resume_reads_only_what_is_missing(large: Bench) -> None:
    kept = interrupted(large)
    assert len(kept) == 2
    times = {path: large.store.head(path) for path in kept}
    rows = {row.upload_file_name for row in large.state.metadata.of_export(1)}
    assert rows == set(kept)
    assert large.status()["t"].unfinished_chunks == 3
    plan = large.planned("t")
    assert (plan.action, len(plan.chunks)) == (Action.RESUME, 3)
    (result,) = large.execute([plan]).values()
    same_as_source(large, result, "SELECT * FROM t")
    assert {path: large.store.head(path) for path in kept} == times
    attempts = large.sql("SELECT sum(attempt_count) FROM export_chunks WHERE status = 'done'")
    assert attempts[0][0] >= 5
    assert large.sql("SELECT count(*), count(DISTINCT chunk_number) FROM backfill_metadata") == [
        (5, 5)
    ]


def test_each_chunk_keeps_the_snapshot_that_it_was_read_under(large: Bench) -> None:
    interrupted(large)
    large.source.execute("INSERT INTO t VALUES (2000)")
    large.extracted("t")
    snapshots = {row.snapshot for row in large.state.metadata.of_export(1)}
    assert len(snapshots) == 2
    assert large.export("t").snapshot in snapshots


def test_an_old_one_starts_anew_and_its_files_are_gone(large: Bench) -> None:
    old = interrupted(large)
    large.clock.ahead = timedelta(hours=25)
    plan = large.planned("t")
    assert (plan.action, plan.decision.discard) == (Action.BACKFILL, 1)
    (result,) = large.execute([plan]).values()
    assert not set(old) & set(large.files())
    same_as_source(large, result, "SELECT * FROM t")
    assert large.sql("SELECT status FROM exports ORDER BY id") == [("discarded",), ("complete",)]
    assert large.sql("SELECT count(*) FROM backfill_metadata WHERE export_id = 1") == [(0,)]


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE t ADD note text",
        "ALTER TABLE t ALTER id TYPE bigint",
        "ALTER TABLE t RENAME TO u; CREATE VIEW t AS SELECT id, 1 AS one FROM u",
    ],
)
def test_what_reads_something_else_is_not_resumed(large: Bench, change: str) -> None:
    old = interrupted(large)
    large.source.execute(change)
    plan = large.planned("t")
    assert (plan.action, plan.decision.discard) == (Action.BACKFILL, 1)
    large.execute([plan])
    assert not set(old) & set(large.files())


def test_block_ranges_are_resumed_only_if_nothing_was_written(bench: Bench) -> None:
    bench.source.execute(f"CREATE TABLE t AS SELECT g AS a FROM {ROWS}; ANALYZE t")
    bench.table("t", chunk_rows=250)
    interrupted(bench)
    assert bench.planned("t").action is Action.RESUME
    with bench.source.connect() as session:
        session.execute("UPDATE t SET a = -a WHERE a = 7")
        session.execute("SELECT pg_stat_force_next_flush()")
    plan = bench.planned("t")
    assert plan.action is Action.BACKFILL
    (result,) = bench.execute([plan]).values()
    same_as_source(bench, result, "SELECT * FROM t")


def test_a_file_without_a_row_is_gone_after_the_resume(large: Bench) -> None:
    """Its writer died, or lost the answer, between the put and the row."""
    store = FlakyStore(large.store, puts=1, lands=True)
    assert large.extract("t", store=store)["t"].status == "failed"
    recorded = [row.upload_file_name for row in large.state.metadata.of_export(1)]
    orphans = set(large.files()) - set(recorded)
    assert orphans
    stray = f"{large.files()[0].rpartition('/')[0]}/20261119t000000.000000z_t_9.parquet"
    large.store.put(stray, b"half a file of nobody's")
    result = large.extracted("t")
    assert result.action is Action.RESUME
    assert stray not in large.files()
    same_as_source(large, result, "SELECT * FROM t")


def test_what_failed_is_tried_again_in_the_same_run(large: Bench) -> None:
    """A store that was away for a moment costs a round, not the run."""
    result = large.extract("t", store=FlakyStore(large.store, puts=2, away=3))["t"]
    assert result.status == "complete"
    same_as_source(large, result, "SELECT * FROM t")


def test_a_file_without_a_row_is_gone_before_the_next_round(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its chunk has grown by then, and comes in pieces of other names."""

    def growing(session: Session, job: LaneJob) -> list[LaneReport]:
        reports = run_in_threads(session, job)
        bench.source.execute("INSERT INTO t SELECT max(id) + 1 FROM t")
        return reports

    monkeypatch.setattr(rounds, "run_lanes", growing)
    bench.source.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    bench.table("t", chunk_rows=1)
    result = bench.extract(store=FlakyStore(bench.store, puts=0, away=1, lands=True))["t"]
    assert result.status == "complete"
    assert sorted(row["id"] for row in bench.rows_of(result)) == [1, 2]
    assert len(bench.files()) == 2


def test_a_plan_from_before_another_command_died(large: Bench) -> None:
    """It knows nothing of that command's export; nothing of its files may stay all the same."""
    plans = large.plan()
    dead = interrupted(large)
    (result,) = large.execute(plans).values()
    assert result.status == "complete"
    assert not set(dead) & set(large.files())
    same_as_source(large, result, "SELECT * FROM t")


def test_a_plan_whose_export_another_command_has_completed(large: Bench) -> None:
    interrupted(large)
    plans = large.plan()
    large.extracted("t")
    (late,) = large.execute(plans).values()
    assert isinstance(late.error, LeaseHeld)
    assert large.sql("SELECT status FROM exports") == [("complete",)]


def test_a_lane_of_a_former_run_that_is_still_alive(large: Bench) -> None:
    """It can put nothing any more, not even between the deletion of the files and of their rows."""
    interrupted(large)
    (former,) = large.sql("SELECT run_id::text FROM exports")[0]
    with large.state.engine.begin() as session:
        session.exec_driver_sql("UPDATE export_chunks SET failed_run = NULL, error = NULL")
        session.exec_driver_sql("UPDATE exports SET error = NULL")
    large.clock.ahead = timedelta(hours=25)
    with ChunkQueue(large.state.url, former, 0, "shop") as queue, queue.claim() as claim:
        assert claim is not None
        folder = claim.export.folder
        store = InterferingStore(large.store, claim)
        result = large.extract("t", store=store)["t"]
        assert store.answers == ["refused"]
    assert result.status == "complete"
    assert large.files(folder) == []
    same_as_source(large, result, "SELECT * FROM t")


class InterferingStore(Store):
    """While files are deleted, the former run's lane asks whether it may put another."""

    def __init__(self, store: Store, claim: Claim) -> None:
        super().__init__(store.location)
        self._claim, self.answers = claim, list[str]()

    def delete_prefix(self, prefix: str) -> None:
        super().delete_prefix(prefix)
        try:
            ours = self._claim.still_ours()
        except StateUnavailable:
            ours = False
        self.answers.append("granted" if ours else "refused")


def test_other_tables_go_on(large: Bench) -> None:
    large.source.execute("CREATE TABLE other (id int PRIMARY KEY)")
    large.table("missing")
    large.table("other")
    results = large.extract()
    assert {name: result.status for name, result in results.items()} == {
        "t": "complete", "missing": "failed", "other": "complete",
    }  # fmt: skip


def test_a_failed_table_is_settled_while_others_complete(large: Bench) -> None:
    """A query that fails on a row; its error names the table, and what is done stays."""
    large.table("bad", query="SELECT id, 1 / (id - 400) AS x FROM t", key="id", chunk_rows=250)
    results = large.extract()
    assert results["t"].status == "complete"
    bad = results["bad"]
    assert bad.status == "failed"
    assert bad.error is not None
    assert "division by zero" in bad.error.message
    assert large.status()["bad"].last_error == bad.error.message
    large.source.execute("DELETE FROM t WHERE id = 400")
    assert large.extracted("bad").action is Action.RESUME


def test_two_commands_on_one_table(large: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second says so, and does its other tables."""
    large.source.execute("CREATE TABLE other (id int PRIMARY KEY)")
    reading, go_on = threading.Event(), threading.Event()

    def held(session: Session, job: LaneJob) -> list[LaneReport]:
        if not reading.is_set():
            reading.set()
            assert go_on.wait(60)
        return run_in_threads(session, job)

    monkeypatch.setattr(rounds, "run_lanes", held)
    first: list[str] = []
    command = threading.Thread(target=lambda: first.append(large.extracted("t").status))
    command.start()
    assert reading.wait(60)
    large.table("other")
    results = large.extract()
    go_on.set()
    command.join(60)
    assert isinstance(results["t"].error, LeaseHeld)
    assert results["other"].status == "complete"
    assert first == ["complete"]
    assert large.sql("SELECT count(*) FROM exports WHERE table_name = 't'") == [(1,)]


def test_keys_and_rows_of_one_table_at_once(large: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    during: list[str] = []

    def with_deletes(session: Session, job: LaneJob) -> list[LaneReport]:
        if not during:
            during.append("running")
            during.append(large.extract("t", deletes=True)["t"].status)
        return run_in_threads(session, job)

    monkeypatch.setattr(rounds, "run_lanes", with_deletes)
    assert large.extracted("t").status == "complete"
    assert during == ["running", "complete"]


def test_a_source_that_dies_half_way(large: Bench, servers: running.Servers) -> None:
    """Its tables fail with what to do; after its restart only the missing chunks are read."""
    server = servers.start("18", "mortal")
    url = server.create_database()
    mortal = running.SourceDatabase(url, server, running.open_source(server).connection)
    with mortal.connect() as session:
        session.execute(f"CREATE TABLE t AS SELECT g AS id FROM {ROWS}".encode())
        session.execute("ALTER TABLE t ADD PRIMARY KEY (id)")
        session.execute("ANALYZE t")
        # The tests' servers commit without waiting for the disk: what was not written yet is lost.
        session.execute("CHECKPOINT")
    large.connection = mortal.model("shop")
    plans = large.plan()
    store = KillingStore(large, server, after=2)
    result = large.execute(plans, store=store)["t"]
    assert result.status == "failed"
    assert isinstance(result.error, SourceUnavailable)
    assert result.error.remedy is not None
    kept = large.files()
    assert 2 <= len(kept) < 5
    down = large.planned("t")
    assert isinstance(down.error, SourceUnavailable)
    server.restart()
    large.connection = moved(large.connection, server.port)
    plan = large.planned("t")
    assert (plan.action, len(plan.chunks)) == (Action.RESUME, 5 - len(kept))
    (result,) = large.execute([plan]).values()
    assert sorted(row["id"] for row in large.rows_of(result)) == list(range(1, 1001))
    assert set(kept) < set(large.files())
    server.kill()


class KillingStore(FlakyStore):
    """Takes every file; when it has some, the source's power fails."""

    def __init__(self, bench: Bench, server: running.RunningPostgres, after: int) -> None:
        super().__init__(bench.store, puts=1_000)
        self._server, self._after = server, after

    def put(self, path: str, source: object, *, take: bool = False) -> None:
        super().put(path, source, take=take)  # type: ignore[arg-type]
        with self._lock:
            self._after -= 1
            if self._after == 0:
                self._server.kill()


def moved(connection: PostgresConnection, port: int) -> PostgresConnection:
    return connection.model_copy(update={"port": port})


class Witness(Watch):
    """Lets a test wait until something was noticed."""

    def __init__(self) -> None:
        super().__init__()
        self.noticing = threading.Event()

    def noticed(self, finding: Finding) -> None:
        super().noticed(finding)
        self.noticing.set()


def test_a_lost_snapshot_is_told_and_followed_by_a_new_one(
    large: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    witness = Witness()
    large.watch = witness

    def robbed(session: Session, job: LaneJob) -> list[LaneReport]:
        if not witness.noticing.is_set():
            large.source.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'backhaul snapshot' AND datname = current_database()"
            )
            assert witness.noticing.wait(60)
        return run_in_threads(session, job)

    monkeypatch.setattr(rounds, "run_lanes", robbed)
    monkeypatch.setattr(rounds, "CHECK_SECONDS", 0.0)
    result = large.extracted("t")
    assert witness.findings[0].code == "snapshot-lost"
    same_as_source(large, result, "SELECT * FROM t")


def test_full_starts_anew_over_an_unfinished_one(large: Bench) -> None:
    old = interrupted(large)
    result = large.extracted("t", full=True)
    assert not set(old) & set(large.files())
    same_as_source(large, result, "SELECT * FROM t")


def test_a_window_is_resumed_with_its_own_bounds(bench: Bench) -> None:
    bench.source.execute("CREATE TABLE t (id int PRIMARY KEY, at timestamptz)")
    bench.table("t", watermark="at", chunk_rows=100)
    bench.extracted("t")
    bench.source.execute(f"INSERT INTO t SELECT g, now() FROM {ROWS}")
    plan = bench.planned("t")
    failed = bench.execute([plan], store=FlakyStore(bench.store, puts=3))["t"]
    assert failed.status == "failed"
    before = bench.watermark("t")
    bench.source.execute("INSERT INTO t VALUES (5000, now())")
    result = bench.extracted("t")
    assert (result.action, result.kind) == (Action.RESUME, "incremental")
    assert sorted(row["id"] for row in bench.rows_of(result)) == list(range(1, 1001))
    assert bench.watermark("t") == plan.watermark_after != before
    assert 5000 in [row["id"] for row in bench.rows_of(bench.extracted("t"))]
