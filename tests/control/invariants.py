"""What must hold of a control plane's history, whatever died on the way? Asked of the tables alone.

`during` holds at any moment between two turns, `afterwards` once trouble has ended and all that
could be done is done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from backhaul.control.calendar import due_between
from backhaul.control.gather import read_pipelines
from backhaul.control.records import Pipeline
from backhaul.control.triggers.base import Fate

if TYPE_CHECKING:
    from tests.control.simulation import Simulation

# Nothing: each of these queries tells of what may not be.
DURING = {
    "more runs at once than the pipeline allows": """
        SELECT p.pipeline_id, is_backfill, count(*) FROM pipeline_run_log AS r JOIN pipelines AS p
        USING (pipeline_id) WHERE status IN ('queued', 'running', 'retrying', 'cancelling')
        GROUP BY p.pipeline_id, is_backfill
        HAVING count(*) > CASE WHEN is_backfill THEN p.backfill_concurrency ELSE p.max_active_runs END
    """,
    "more runs than the limits allow": """
        SELECT scope, count(*) FROM pipeline_run_log AS r JOIN (
            SELECT scope, count(*) AS places FROM run_slots WHERE NOT retired GROUP BY scope
        ) AS s ON scope IN ('all', 'platform:' || platform) OR scope = 'backfills' AND is_backfill
        WHERE status = 'running' GROUP BY scope, places HAVING count(*) > places
    """,
    "a place that leaks": """
        SELECT s.* FROM run_slots AS s LEFT JOIN pipeline_run_log AS r USING (run_id)
        WHERE s.run_id IS NOT NULL AND r.status NOT IN ('running', 'cancelling')
    """,
    "a date without the run that has it": """
        SELECT d.* FROM pipeline_dates AS d LEFT JOIN pipeline_run_log AS r USING (run_id)
        WHERE d.status = 'running' AND (r.run_id IS NULL OR r.status NOT IN
            ('queued', 'running', 'retrying', 'cancelling') OR NOT d.data_date = ANY(r.dates))
    """,
    "a date that two runs have": """
        SELECT pipeline_id, day, count(*) FROM pipeline_run_log, unnest(dates) AS day
        WHERE status IN ('queued', 'running', 'retrying', 'cancelling')
        GROUP BY pipeline_id, day, CASE WHEN cardinality(dates) = 1 THEN slot END HAVING count(*) > 1
    """,
    "a backfill without the run that has it": """
        SELECT b.* FROM backfill_queue AS b LEFT JOIN pipeline_run_log AS r USING (run_id)
        WHERE b.status = 'running' AND (r.run_id IS NULL OR r.status NOT IN
            ('queued', 'running', 'retrying', 'cancelling'))
    """,
    "a cancelled backfill that was queued and ran": """
        SELECT * FROM backfill_queue AS b JOIN pipeline_run_log AS r USING (run_id)
        WHERE b.status = 'cancelled' AND r.status <> 'cancelled'
    """,
}  # fmt: skip
AFTERWARDS = {
    "a run that hangs": """
        SELECT * FROM pipeline_run_log WHERE status IN ('queued', 'running', 'retrying', 'cancelling')
    """,
    "a date that hangs": "SELECT * FROM pipeline_dates WHERE status = 'running'",
    "a due date that waits for nothing": """
        SELECT * FROM pipeline_dates WHERE status = 'due' AND coalesce(why, '') NOT LIKE 'waits for p%%'
    """,
    "a queued backfill that waits for nothing": """
        SELECT b.* FROM backfill_queue AS b
        WHERE status = 'queued' AND NOT EXISTS (
            SELECT FROM pipeline_dependencies AS o, LATERAL (
                SELECT count(*) FILTER (WHERE d.status = 'done') AS done, count(*) AS there
                FROM pipeline_dates AS d WHERE d.pipeline_id = o.upstream_id AND d.data_date BETWEEN
                    b.date_to_process + o.first_offset AND b.date_to_process + o.last_offset) AS up
            WHERE o.pipeline_id = b.pipeline_id AND done < CASE WHEN o.upstream_id = o.pipeline_id
                THEN there ELSE o.last_offset - o.first_offset + 1 END)
    """,
    "a place that is still taken": "SELECT * FROM run_slots WHERE run_id IS NOT NULL",
    "a date that was scheduled twice": """
        SELECT pipeline_id, day, count(*) FROM pipeline_run_log, unnest(dates) AS day
        WHERE NOT is_backfill
        GROUP BY pipeline_id, day, CASE WHEN cardinality(dates) = 1 THEN slot END HAVING count(*) > 1
    """,
    "a date that is not as its last run": """
        SELECT d.pipeline_id, d.data_date, d.status, r.status
        FROM pipeline_dates AS d JOIN pipeline_run_log AS r USING (run_id)
        WHERE d.status <> CASE r.status WHEN 'succeeded' THEN 'done' WHEN 'failed' THEN 'failed'
              ELSE 'skipped' END
          AND NOT (d.status = 'outdated' AND r.status IN ('succeeded', 'cancelled'))
    """,
    "a run that failed before its retries were used up": """
        SELECT r.run_id, r.retry_attempts FROM pipeline_run_log AS r JOIN pipelines AS p USING (pipeline_id)
        WHERE r.status = 'failed' AND r.error_message = 'it broke'
          AND r.retry_attempts <> p.max_retry_attempts AND NOT EXISTS (
            SELECT FROM changes WHERE subject = r.run_id::text AND to_status = 'cancelling')
    """,
    "attempts that are missing, or too many": """
        SELECT r.run_id, r.retry_attempts, count(a.attempt), max(a.attempt)
        FROM pipeline_run_log AS r LEFT JOIN run_attempts AS a USING (run_id)
        WHERE r.status IN ('succeeded', 'failed')
        GROUP BY r.run_id HAVING count(a.attempt) <> retry_attempts + 1
    """,
    "an SLA that was not decided": """
        SELECT d.* FROM pipeline_dates AS d WHERE sla_at IS NOT NULL AND sla_met IS NULL
    """,
    "an SLA that was missed and not told, or told and not missed": """
        SELECT d.pipeline_id, d.data_date, d.sla_met, n.event_key
        FROM (SELECT *, format('sla_breach:%%s:%%s:%%s', pipeline_id, data_date, slot) AS key
              FROM pipeline_dates) AS d
        FULL JOIN (SELECT * FROM pipeline_notifications WHERE notification_type = 'sla_breach') AS n
        ON n.event_key = d.key
        WHERE (d.sla_met IS NOT DISTINCT FROM false) <> (n.event_key IS NOT NULL)
    """,
    "an SLA that is said to be met and was not": """
        SELECT d.pipeline_id, d.data_date, d.sla_at, min(r.end_time)
        FROM pipeline_dates AS d JOIN pipeline_run_log AS r
        ON r.pipeline_id = d.pipeline_id AND d.data_date = ANY(r.dates) AND r.status = 'succeeded'
        WHERE d.sla_met GROUP BY d.pipeline_id, d.data_date, d.sla_at HAVING min(r.end_time) > d.sla_at
    """,
    "freshness that is not the newest date that was done": """
        SELECT c.pipeline_id, fresh_date, max(data_date) FROM pipeline_clock AS c
        JOIN pipeline_dates AS d ON d.pipeline_id = c.pipeline_id AND done_at IS NOT NULL
        GROUP BY c.pipeline_id HAVING fresh_date IS DISTINCT FROM max(data_date)
    """,
    "a date that failed for good and was not queued by itself": """
        SELECT r.run_id FROM pipeline_run_log AS r JOIN pipelines AS p USING (pipeline_id)
        WHERE p.auto_backfill AND r.status = 'failed' AND NOT r.is_backfill AND EXISTS (
            SELECT FROM unnest(r.dates) AS day WHERE NOT EXISTS (
                SELECT FROM backfill_queue AS b
                WHERE b.pipeline_id = r.pipeline_id AND b.date_to_process = day))
    """,
    "an outdated date of a pipeline that makes them anew": """
        SELECT d.* FROM pipeline_dates AS d JOIN pipelines AS p USING (pipeline_id)
        WHERE p.auto_backfill AND d.status = 'outdated' AND NOT EXISTS (
            SELECT FROM backfill_queue AS b WHERE b.pipeline_id = d.pipeline_id
               AND b.date_to_process = d.data_date AND b.status IN ('queued', 'cancelled', 'failed'))
    """,
    "a request that is done and not told": """
        SELECT request_id FROM backfill_queue WHERE request_id IS NOT NULL
        GROUP BY request_id
        HAVING bool_and(status IN ('done', 'failed')) AND NOT EXISTS (
            SELECT FROM pipeline_notifications WHERE event_key = 'backfill_done:' || request_id)
    """,
    "a request that is told and not done": """
        SELECT event_key FROM pipeline_notifications
        WHERE notification_type = 'backfill_done' AND EXISTS (
            SELECT FROM backfill_queue WHERE event_key = 'backfill_done:' || request_id
               AND status IN ('queued', 'paused', 'running'))
    """,
}  # fmt: skip


def during(simulation: Simulation) -> None:
    _nothing(simulation, DURING)


def afterwards(simulation: Simulation) -> None:
    _nothing(simulation, DURING | AFTERWARDS)
    _all_picked(simulation)
    _in_order(simulation)
    _as_the_platform_says(simulation)
    _each_told_once(simulation)


def _nothing(simulation: Simulation, queries: dict[str, str]) -> None:
    for what, query in queries.items():
        found = simulation.world.rows(query.replace("%%", "%"))
        assert not found, f"seed {simulation.seed}, {simulation.world.now}: {what}: {found[:5]}"


def _all_picked(simulation: Simulation) -> None:
    """The calendar alone says which dates came due; each has its row, and no other was picked."""
    for pipeline in _pipelines(simulation):
        dues = due_between(pipeline.schedule(), simulation.begun_at, simulation.world.now)
        wanted = {(due.data_date, due.slot) for due in dues}
        rows = simulation.world.rows(
            "SELECT data_date, slot FROM pipeline_dates WHERE pipeline_id = %s",
            pipeline.pipeline_id,
        )
        assert wanted <= set(rows), (
            f"lost: {pipeline.pipeline_name} {sorted(wanted - set(rows))[:5]}"
        )
        if pipeline.auto_backfill:
            _none_missing(simulation, pipeline, set(rows))


def _none_missing(simulation: Simulation, pipeline: Pipeline, known: set[Any]) -> None:
    """From the start date on; a person took it out of the queue, or it waits there for another."""
    begin = simulation.begun_at - timedelta(days=100)
    owed = due_between(pipeline.schedule(), begin, simulation.world.now)
    missing = {(due.data_date, due.slot) for due in owed} - known
    entries = simulation.world.rows(
        "SELECT date_to_process, slot, status FROM backfill_queue WHERE pipeline_id = %s",
        pipeline.pipeline_id,
    )
    left = {(row[0], row[1]) for row in entries if row[2] in ("cancelled", "queued")}
    assert missing <= left, f"missing: {pipeline.pipeline_name} {missing - left}"


def _pipelines(simulation: Simulation) -> Iterable[Pipeline]:
    ids = [row[0] for row in simulation.world.rows("SELECT pipeline_id FROM pipelines")]
    return read_pipelines(simulation.world.connection, ids).values()


def _in_order(simulation: Simulation) -> None:
    """Scheduled dates of a pipeline that waits for nothing start in the order of their instants."""
    rows = simulation.world.rows("""
        SELECT r.pipeline_id, d.scheduled_at FROM changes AS c
        JOIN pipeline_run_log AS r ON r.run_id::text = c.subject
        JOIN pipeline_dates AS d ON d.pipeline_id = r.pipeline_id AND d.slot = r.slot
             AND d.data_date = r.dates[1]
        WHERE c.kind = 'run' AND c.from_status = 'queued' AND c.to_status = 'running'
          AND NOT r.is_backfill AND r.pipeline_id NOT IN (SELECT pipeline_id FROM pipeline_dependencies)
          AND NOT EXISTS (SELECT FROM changes AS before WHERE before.subject = c.subject
               AND before.kind = 'run' AND before.to_status = 'running'
               AND before.change_id < c.change_id)
        ORDER BY c.change_id
    """)
    latest: dict[int, datetime] = {}
    for pipeline_id, at in rows:
        assert latest.get(pipeline_id, at) <= at, f"{pipeline_id}: {at} after {latest[pipeline_id]}"
        latest[pipeline_id] = at


def _as_the_platform_says(simulation: Simulation) -> None:
    """Each attempt that ended well or badly is a job that did, and no job was forgotten."""
    rows = simulation.world.rows(
        "SELECT a.run_id::text, attempt, a.status, a.error_message FROM run_attempts AS a "
        "ORDER BY 1, 2"
    )
    jobs = dict(simulation.platform.jobs)
    for run_id, attempt, status, message in rows:
        job = jobs.pop(f"{run_id}-{attempt}", None)
        fate = job.progress(simulation.world.now).fate if job else None
        by_gate = status == "failed" and (message or "").startswith("quality")
        if status == "succeeded" or by_gate:
            assert fate is Fate.SUCCEEDED, (run_id, attempt, status, fate)
        elif status == "failed":
            assert fate is Fate.FAILED, (run_id, attempt, status, fate)
    assert not jobs, f"started, and not in the state: {list(jobs)[:5]}"


def _each_told_once(simulation: Simulation) -> None:
    """Played again from the changes: what is to be told is told, and nothing else."""
    wanted: set[tuple[str, str]] = set()
    failing: dict[int, set[tuple[int, date, int | None]]] = defaultdict(set)
    for key, run, kind in _ends(simulation):
        dates = {(run[0], day, run[2] if len(run[1]) == 1 else None) for day in run[1]}
        if kind == "succeeded":
            if run[3] or any(failing[run[0]] & _either(one) for one in dates):
                wanted.add(("recovery", f"recovery:{key}"))
            failing[run[0]] -= {two for one in dates for two in _either(one)}
        else:
            wanted |= {(kind, f"{kind}:{key}")}
            failing[run[0]] |= dates
    kinds = ("failure", "retry_exhausted", "quality", "recovery")
    told = {one for one in simulation.world.messages() if one[0] in kinds}
    assert told == wanted, f"missing {wanted - told}, too many {told - wanted}"


def _either(one: tuple[int, date, int | None]) -> set[tuple[int, date, int | None]]:
    """With its slot, or as one of several dates."""
    return {one, (one[0], one[1], None)}


def _ends(simulation: Simulation) -> Iterable[tuple[str, Any, str]]:
    """What became of attempts, in order: its key, (pipeline, dates, slot, late) and what is told."""
    rows = simulation.world.rows("""
        SELECT r.run_id::text, r.pipeline_id, r.dates, r.slot, c.to_status, c.reason,
               r.sla_met IS NOT DISTINCT FROM false
        FROM changes AS c JOIN pipeline_run_log AS r ON r.run_id::text = c.subject
        WHERE c.kind = 'run' AND c.to_status IN ('retrying', 'failed', 'succeeded')
        ORDER BY c.change_id
    """)
    attempts: dict[str, int] = defaultdict(int)
    for run_id, pipeline_id, dates, slot, status, reason, late in rows:
        attempts[run_id] += 1
        about = (pipeline_id, tuple(dates), slot, late)
        if status == "retrying":
            yield f"{run_id}:{attempts[run_id]}", about, "failure"
        elif status == "succeeded":
            yield run_id, about, "succeeded"
        else:
            by_gate = (reason or "").startswith("quality")
            yield run_id, about, "quality" if by_gate else "retry_exhausted"
