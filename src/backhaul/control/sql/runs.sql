-- What a worker reads and writes of runs. Every instant is a parameter.

-- name: claim
-- The runs whose turn it is, ours from now on; what others are claiming is skipped, nobody waits.
WITH mine AS (
    SELECT run_id FROM pipeline_run_log
    WHERE status IN ('queued', 'retrying') AND ready_at <= %(now)s
      AND platform = ANY(%(platforms)s) AND (%(with_backfills)s OR NOT is_backfill)
    ORDER BY turn_at, run_date, run_id
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
UPDATE pipeline_run_log AS runs
SET status = 'running', claimed_by = %(worker)s, claim = runs.claim + 1, heartbeat_at = %(now)s,
    start_time = coalesce(runs.start_time, %(now)s)
FROM mine WHERE runs.run_id = mine.run_id
RETURNING {runs_of};

-- name: next_ready
-- When the next retry's time comes, or a signal is looked for again.
SELECT min(ready_at) FROM pipeline_run_log
WHERE status IN ('queued', 'retrying') AND ready_at > %(now)s;

-- name: adopt_cancelling
-- Runs that were to be cancelled when their worker died.
WITH mine AS (
    SELECT run_id FROM pipeline_run_log
    WHERE status = 'cancelling' AND heartbeat_at < %(before)s AND platform = ANY(%(platforms)s)
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
UPDATE pipeline_run_log AS runs
SET claimed_by = %(worker)s, claim = runs.claim + 1, heartbeat_at = %(now)s
FROM mine WHERE runs.run_id = mine.run_id
RETURNING {runs_of};

-- name: take_slot
-- A free place under a limit; none: it is reached.
UPDATE run_slots SET run_id = %(run_id)s
WHERE (scope, number) = (
    SELECT scope, number FROM run_slots WHERE scope = %(scope)s AND run_id IS NULL
    ORDER BY number LIMIT 1 FOR UPDATE SKIP LOCKED
)
RETURNING number;

-- name: free_slots
UPDATE run_slots SET run_id = NULL WHERE run_id = ANY(%(run_ids)s::uuid[]);

-- name: limit_slots
-- As many places as the limit says; one that is taken goes when its run has ended.
WITH gone AS (
    DELETE FROM run_slots WHERE scope = %(scope)s AND number > %(limit)s AND run_id IS NULL
)
INSERT INTO run_slots (scope, number)
SELECT %(scope)s, number FROM generate_series(1, %(limit)s) AS places (number)
ON CONFLICT DO NOTHING;

-- name: limits
SELECT DISTINCT scope FROM run_slots;

-- name: forget_limits
-- Limits that the project does not have any more.
DELETE FROM run_slots WHERE NOT scope = ANY(%(scopes)s);

-- name: begin_attempt
INSERT INTO run_attempts (run_id, attempt, started_at, worker)
VALUES (%(run_id)s, %(attempt)s, %(now)s, %(worker)s)
ON CONFLICT (run_id, attempt) DO UPDATE SET worker = excluded.worker
RETURNING started_at;

-- name: started
-- What the platform calls it: written as soon as it is known, so that another worker can ask for it.
WITH attempt AS (
    UPDATE run_attempts SET external_run_id = %(external_id)s, external_url = %(url)s
    WHERE run_id = %(run_id)s AND attempt = %(attempt)s
)
UPDATE pipeline_run_log SET external_run_id = %(external_id)s, external_url = %(url)s
WHERE run_id = %(run_id)s AND claimed_by = %(worker)s AND claim = %(claim)s
RETURNING run_id;

-- name: beat
-- Those that are still ours, and whether they are to be cancelled.
UPDATE pipeline_run_log AS runs SET heartbeat_at = %(now)s
FROM jsonb_to_recordset(%(rows)s) AS ours (run_id uuid, claim integer)
WHERE runs.run_id = ours.run_id AND runs.claimed_by = %(worker)s AND runs.claim = ours.claim
  AND runs.status IN ('running', 'cancelling')
RETURNING runs.run_id::text, runs.status;

-- name: beat_worker
INSERT INTO workers (worker, host, process_id, lanes, platforms, started_at, heartbeat_at)
VALUES (%(worker)s, %(host)s, %(process_id)s, %(lanes)s, %(platforms)s, %(now)s, %(now)s)
ON CONFLICT (worker) DO UPDATE SET heartbeat_at = excluded.heartbeat_at;

-- name: forget_workers
DELETE FROM workers WHERE heartbeat_at < %(before)s OR worker = %(worker)s;

-- name: give_back_lost
-- Runs whose worker is silent: the next one asks the platform what became of them.
WITH lost AS (
    SELECT run_id FROM pipeline_run_log
    WHERE status = 'running' AND heartbeat_at < %(before)s
    LIMIT 500
    FOR UPDATE SKIP LOCKED
), freed AS (
    UPDATE run_slots SET run_id = NULL FROM lost WHERE run_slots.run_id = lost.run_id
)
UPDATE pipeline_run_log AS runs
SET status = 'queued', claimed_by = NULL, heartbeat_at = NULL, ready_at = %(now)s
FROM lost WHERE runs.run_id = lost.run_id
RETURNING runs.run_id::text;

-- name: wait_for_signal
-- Not yet: the run waits without a worker, and without having used an attempt.
UPDATE pipeline_run_log
SET status = 'queued', claimed_by = NULL, heartbeat_at = NULL, ready_at = %(ready_at)s
WHERE run_id = %(run_id)s AND claimed_by = %(worker)s AND claim = %(claim)s AND status = 'running'
RETURNING run_id;

-- name: lock_clocks
-- First of all locks, and in this order, so that a tick and workers never wait for each other in a ring.
SELECT pipeline_id FROM pipeline_clock
WHERE pipeline_id = %(pipeline_id)s
   OR pipeline_id IN (SELECT pipeline_id FROM pipeline_dependencies WHERE upstream_id = %(pipeline_id)s)
ORDER BY pipeline_id
FOR UPDATE;

-- name: lock_run
SELECT {runs} FROM pipeline_run_log WHERE run_id = %(run_id)s FOR UPDATE;

-- name: end_run
UPDATE pipeline_run_log
SET status = %(status)s, end_time = %(end_time)s, retry_attempts = %(retry_attempts)s,
    retry_schedule_used = %(retry_schedule_used)s, error_message = %(error_message)s,
    data_quality_passed = %(data_quality_passed)s, sla_met = %(sla_met)s, ready_at = %(ready_at)s,
    result = %(result)s, claimed_by = NULL, heartbeat_at = NULL,
    external_run_id = CASE WHEN %(status)s = 'retrying' THEN NULL ELSE external_run_id END,
    external_url = coalesce(%(external_url)s, external_url)
WHERE run_id = %(run_id)s;

-- name: end_attempt
INSERT INTO run_attempts (run_id, attempt, status, started_at, ended_at, error_message, result)
VALUES (%(run_id)s, %(attempt)s, %(status)s, %(now)s, %(now)s, %(error_message)s, %(result)s)
ON CONFLICT (run_id, attempt) DO UPDATE
SET status = excluded.status, ended_at = excluded.ended_at,
    error_message = excluded.error_message, result = excluded.result;

-- name: quality
-- How many results a run has, and how many of them are bad enough.
SELECT count(*), count(*) FILTER (WHERE NOT check_result AND coalesce(severity, 'error') = 'error'),
       min(check_name) FILTER (WHERE NOT check_result AND coalesce(severity, 'error') = 'error')
FROM data_quality_log WHERE run_id = %(run_id)s;

-- name: add_quality
-- A check that is written twice (a worker died in between) is there once.
INSERT INTO data_quality_log (run_id, check_name, check_result, error_details, created_at, kind,
                              severity, bad_rows)
SELECT %(run_id)s, new.name, new.passed, new.details, %(now)s, new.kind, new.severity, new.bad_rows
FROM jsonb_to_recordset(%(rows)s) AS new (
    name text, passed boolean, details text, kind text, severity text, bad_rows bigint)
WHERE NOT EXISTS (
    SELECT FROM data_quality_log AS old
    WHERE old.run_id = %(run_id)s AND old.check_name = new.name
      AND old.check_result = new.passed AND old.created_at >= %(since)s
);

-- name: end_dates_done
UPDATE pipeline_dates
SET status = 'done', why = NULL, done_at = %(ended_at)s, code_version = %(code_version)s,
    sla_met = coalesce(sla_met, CASE WHEN sla_at IS NOT NULL THEN %(ended_at)s <= sla_at END),
    risk_at = NULL, updated_at = %(now)s
WHERE run_id = %(run_id)s AND status = 'running'
RETURNING data_date, slot, sla_met;

-- name: end_dates_failed
UPDATE pipeline_dates SET status = 'failed', why = %(why)s, updated_at = %(now)s
WHERE run_id = %(run_id)s AND status = 'running'
RETURNING data_date, slot, sla_met;

-- name: end_dates_cancelled
-- What was done before the run is outdated again, not forgotten.
UPDATE pipeline_dates
SET status = CASE WHEN done_at IS NULL THEN 'skipped' ELSE 'outdated' END,
    why = %(why)s, sla_at = CASE WHEN sla_met IS NULL THEN NULL ELSE sla_at END, risk_at = NULL,
    updated_at = %(now)s
WHERE run_id = %(run_id)s AND status = 'running'
RETURNING data_date, slot, sla_met;

-- name: say_retry
UPDATE pipeline_dates SET why = %(why)s, updated_at = %(now)s
WHERE run_id = %(run_id)s AND status = 'running';

-- name: end_backfills
UPDATE backfill_queue
SET status = %(status)s, ended_at = %(now)s, retry_attempts = %(retry_attempts)s,
    error_message = %(error_message)s
WHERE run_id = %(run_id)s AND status = 'running'
RETURNING request_id::text;

-- name: requests_done
-- Which of these requests have nothing left to do, and how they went.
SELECT request_id::text, count(*), count(*) FILTER (WHERE status = 'failed'),
       min(date_to_process), max(date_to_process)
FROM backfill_queue WHERE request_id = ANY(%(requests)s::uuid[])
GROUP BY request_id
HAVING count(*) FILTER (WHERE status IN ('queued', 'paused', 'running')) = 0;

-- name: outdate_dependents
-- What was made from the dates that have just been made anew.
UPDATE pipeline_dates AS dates
SET status = 'outdated', why = %(why)s, updated_at = %(now)s
FROM pipeline_dependencies AS one, unnest(%(days)s::date[]) AS made (day)
WHERE one.upstream_id = %(pipeline_id)s AND one.pipeline_id <> %(pipeline_id)s
  AND dates.pipeline_id = one.pipeline_id AND dates.status = 'done'
  AND dates.data_date BETWEEN made.day - one.last_offset AND made.day - one.first_offset
RETURNING dates.pipeline_id, dates.data_date, dates.slot;

-- name: look_at_dependents
UPDATE pipeline_clock SET look_at = 'epoch'
WHERE pipeline_id = %(pipeline_id)s
   OR pipeline_id IN (SELECT pipeline_id FROM pipeline_dependencies WHERE upstream_id = %(pipeline_id)s);

-- name: freshen
-- The newest date that is done: a backfill of an old one does not raise it.
UPDATE pipeline_clock SET fresh_date = greatest(fresh_date, %(day)s)
WHERE pipeline_id = %(pipeline_id)s;

-- name: failed_before
-- Whether people were told that one of these dates failed.
SELECT EXISTS (
    SELECT FROM pipeline_notifications
    WHERE pipeline_id = %(pipeline_id)s AND run_id IN (
        SELECT run_id FROM pipeline_run_log
        WHERE pipeline_id = %(pipeline_id)s AND dates && %(dates)s
    ) AND notification_type IN ('failure', 'retry_exhausted', 'quality')
);

-- name: auto_pipelines
SELECT pipeline_id, priority FROM pipelines
WHERE pipeline_id = ANY(%(ids)s) AND auto_backfill AND archived_at IS NULL;
