-- What a worker reads and writes of runs. Every instant is a parameter.

-- name: claim
-- The runs whose turn it is, ours from now on; what others are claiming is skipped, nobody waits.
WITH mine AS (
    SELECT run_id FROM pipeline_run_log
    WHERE status IN ('queued', 'retrying') AND ready_at <= %(now)s
      AND platform = ANY(%(platforms)s) AND (%(with_backfills)s OR NOT is_backfill)
    ORDER BY turn_at, run_date, slot, run_id
    LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED
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
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE pipeline_run_log AS runs
SET claimed_by = %(worker)s, claim = runs.claim + 1, heartbeat_at = %(now)s
FROM mine WHERE runs.run_id = mine.run_id
RETURNING {runs_of};

-- name: take_slot
-- A free place under a limit; none: it is reached, or was lowered, and what was begun before holds more.
UPDATE run_slots SET run_id = %(run_id)s
WHERE (scope, number) = (
    SELECT scope, number FROM run_slots
    WHERE scope = %(scope)s AND run_id IS NULL AND NOT retired AND NOT EXISTS (
        SELECT FROM run_slots AS old
        WHERE old.scope = %(scope)s AND old.retired AND old.run_id IS NOT NULL)
    ORDER BY number LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
)
RETURNING number;

-- name: free_slots
WITH gone AS (
    DELETE FROM run_slots WHERE run_id = ANY(%(run_ids)s::uuid[]) AND retired
)
UPDATE run_slots SET run_id = NULL WHERE run_id = ANY(%(run_ids)s::uuid[]) AND NOT retired;

-- name: lock_slots
-- Nobody takes or frees a place while limits change.
LOCK TABLE run_slots IN SHARE ROW EXCLUSIVE MODE;

-- name: add_places
INSERT INTO run_slots (scope, number, retired)
SELECT %(scope)s, number, number = 0 FROM generate_series(0, greatest(%(limit)s, 0)) AS places (number)
ON CONFLICT DO NOTHING;

-- name: seat_running
-- Runs that are under way count for a limit that is new.
INSERT INTO run_slots (scope, number, run_id)
SELECT %(scope)s, (SELECT max(number) FROM run_slots WHERE scope = %(scope)s) + row_number() OVER (),
       run_id
FROM pipeline_run_log AS runs
WHERE status IN ('running', 'cancelling') AND claimed_by IS NOT NULL
  AND (%(scope)s IN ('all', 'platform:' || platform) OR %(scope)s = 'backfills' AND is_backfill)
  AND NOT EXISTS (
    SELECT FROM run_slots AS taken WHERE taken.scope = %(scope)s AND taken.run_id = runs.run_id
);

-- name: retire_places
-- As many as the limit says, those first that are taken; a taken one too many goes with its run.
WITH ranked AS (
    SELECT number, row_number() OVER (ORDER BY run_id IS NULL, number) > %(limit)s AS surplus
    FROM run_slots WHERE scope = %(scope)s AND number > 0
), gone AS (
    DELETE FROM run_slots USING ranked
    WHERE scope = %(scope)s AND run_slots.number = ranked.number AND surplus AND run_id IS NULL
)
UPDATE run_slots SET retired = surplus
FROM ranked
WHERE scope = %(scope)s AND run_slots.number = ranked.number AND retired <> surplus
  AND NOT (surplus AND run_id IS NULL);

-- name: limits
SELECT DISTINCT scope FROM run_slots;

-- name: forget_limits
-- Limits that the project does not have any more.
DELETE FROM run_slots WHERE NOT scope = ANY(%(scopes)s::text[]);

-- name: begin_attempt
-- Nothing for a worker whose run is another's by now.
INSERT INTO run_attempts (run_id, attempt, started_at, worker)
SELECT run_id, %(attempt)s, %(now)s, %(worker)s FROM pipeline_run_log
WHERE run_id = %(run_id)s AND claimed_by = %(worker)s AND claim = %(claim)s
  AND status IN ('running', 'cancelling')
ON CONFLICT (run_id, attempt) DO UPDATE SET worker = excluded.worker
RETURNING started_at;

-- name: started
-- What the platform calls it: written as soon as it is known, so that another worker can ask for it.
WITH ours AS (
    UPDATE pipeline_run_log SET external_run_id = %(external_id)s, external_url = %(url)s
    WHERE run_id = %(run_id)s AND claimed_by = %(worker)s AND claim = %(claim)s
      AND status IN ('running', 'cancelling')
    RETURNING run_id
), attempt AS (
    UPDATE run_attempts SET external_run_id = %(external_id)s, external_url = %(url)s
    FROM ours WHERE run_attempts.run_id = ours.run_id AND attempt = %(attempt)s
)
SELECT run_id FROM ours;

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
    FOR NO KEY UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM run_slots USING lost WHERE run_slots.run_id = lost.run_id AND retired
), freed AS (
    UPDATE run_slots SET run_id = NULL FROM lost
    WHERE run_slots.run_id = lost.run_id AND NOT retired
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
WHERE pipeline_id = ANY(ARRAY(
    SELECT %(pipeline_id)s::bigint
    UNION SELECT pipeline_id FROM pipeline_dependencies WHERE upstream_id = %(pipeline_id)s))
ORDER BY pipeline_id
FOR NO KEY UPDATE;

-- name: lock_run
-- Not against those whose row refers to it (NO KEY): a tick that tells of a breach would wait for us,
-- and we for its date.
SELECT {runs} FROM pipeline_run_log WHERE run_id = %(run_id)s FOR NO KEY UPDATE;

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
-- How many checks the attempt has, and how many of them are bad enough: the last word of each.
SELECT count(*), count(*) FILTER (WHERE bad), min(check_name) FILTER (WHERE bad)
FROM (
    SELECT DISTINCT ON (check_name, table_name, destination, target)
           check_name, NOT check_result AND coalesce(severity, 'error') = 'error' AS bad
    FROM data_quality_log
    WHERE run_id = %(run_id)s AND created_at > coalesce(
        (SELECT max(ended_at) FROM run_attempts
         WHERE run_id = %(run_id)s AND attempt < %(attempt)s), '-infinity')
    ORDER BY check_name, table_name, destination, target, quality_check_id DESC
) AS last_words;

-- name: add_quality
-- What a check of this attempt has said last is not said again (a program that repeats its report).
INSERT INTO data_quality_log (run_id, check_name, check_result, error_details, created_at, kind,
                              severity, bad_rows)
SELECT %(run_id)s, new.name, new.passed, new.details, %(now)s, new.kind, new.severity, new.bad_rows
FROM jsonb_to_recordset(%(rows)s) AS new (
    name text, passed boolean, details text, kind text, severity text, bad_rows bigint)
WHERE new.passed IS DISTINCT FROM (
    SELECT check_result FROM data_quality_log AS old
    WHERE old.run_id = %(run_id)s AND old.check_name = new.name AND old.created_at > coalesce(
        (SELECT max(ended_at) FROM run_attempts
         WHERE run_id = %(run_id)s AND attempt < %(attempt)s), '-infinity')
    ORDER BY quality_check_id DESC LIMIT 1
);

-- name: late_dates
-- Those whose SLA is missed with this end, and was not noticed before.
SELECT {dates} FROM pipeline_dates
WHERE run_id = %(run_id)s AND status = 'running' AND sla_met IS NULL AND sla_at < %(ended_at)s;

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

-- name: outdate_stale
-- What was done while its code, or what it is made from, changed.
UPDATE pipeline_dates
SET status = 'outdated', why = coalesce(stale, 'made by ' || code_version), stale = NULL,
    updated_at = %(now)s
WHERE run_id = %(run_id)s AND status = 'done' AND (stale IS NOT NULL OR code_version <> (
    SELECT code_version FROM pipelines WHERE pipeline_id = %(pipeline_id)s))
RETURNING data_date, slot;

-- name: say_retry
-- The next attempt takes what it is made from as it is then.
UPDATE pipeline_dates SET why = %(why)s, stale = NULL, updated_at = %(now)s
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
FROM backfill_queue WHERE request_id = ANY(ARRAY(
    SELECT id FROM unnest(%(requests)s::uuid[]) AS request (id)
    WHERE NOT EXISTS (
        SELECT FROM backfill_queue
        WHERE request_id = id AND status IN ('queued', 'paused', 'running'))
))
GROUP BY request_id;

-- name: changed_schemas
-- The tables to which this run's loads brought other columns than they had.
SELECT string_agg(DISTINCT versions.target, ', ')
FROM pipeline_metadata AS loads
JOIN schema_versions AS versions ON versions.load_id = loads.load_id
WHERE loads.run_id = %(run_id)s AND versions.verdict = 'compatible';

-- name: done_days
SELECT DISTINCT data_date FROM pipeline_dates
WHERE pipeline_id = %(pipeline_id)s AND status = 'done';

-- name: outdate_dependents
-- What was made from the dates that have just been made anew.
UPDATE pipeline_dates AS dates
SET status = 'outdated', why = %(why)s, updated_at = %(now)s
FROM pipeline_dependencies AS one, unnest(%(days)s::date[]) AS made (day)
WHERE one.upstream_id = %(pipeline_id)s AND one.pipeline_id <> %(pipeline_id)s
  AND dates.pipeline_id = one.pipeline_id AND dates.status = 'done'
  AND dates.data_date BETWEEN made.day - one.last_offset AND made.day - one.first_offset
RETURNING dates.pipeline_id, dates.data_date, dates.slot;

-- name: mark_stale
-- What is being made from the dates that have just been made anew.
UPDATE pipeline_dates AS dates
SET stale = %(why)s
FROM pipeline_dependencies AS one, unnest(%(days)s::date[]) AS made (day), pipeline_run_log AS runs
WHERE one.upstream_id = %(pipeline_id)s AND one.pipeline_id <> %(pipeline_id)s
  AND dates.pipeline_id = one.pipeline_id AND dates.status = 'running'
  AND dates.data_date BETWEEN made.day - one.last_offset AND made.day - one.first_offset
  AND runs.run_id = dates.run_id AND (
    runs.status IN ('running', 'cancelling') OR EXISTS (
        SELECT FROM run_attempts AS begun
        WHERE begun.run_id = runs.run_id AND begun.attempt = runs.retry_attempts + 1));

-- name: look_at_dependents
UPDATE pipeline_clock SET look_at = 'epoch'
WHERE look_at IS DISTINCT FROM 'epoch' AND pipeline_id = ANY(ARRAY(
    SELECT %(pipeline_id)s::bigint
    UNION SELECT pipeline_id FROM pipeline_dependencies WHERE upstream_id = %(pipeline_id)s));

-- name: freshen
-- The newest date that is done: a backfill of an old one does not raise it.
UPDATE pipeline_clock SET fresh_date = greatest(fresh_date, %(day)s)
WHERE pipeline_id = %(pipeline_id)s;

-- name: failed_before
-- Whether the last that people were told of one of these dates is that it failed.
SELECT bool_or(notification_type <> 'recovery')
FROM (
    SELECT DISTINCT ON (day) told.notification_type
    FROM pipeline_notifications AS told
    JOIN pipeline_run_log AS runs ON runs.run_id = told.run_id
    JOIN unnest(%(dates)s::date[]) AS wanted (day) ON day = ANY(runs.dates)
    WHERE told.pipeline_id = %(pipeline_id)s
      AND (runs.slot = %(slot)s
           OR cardinality(runs.dates) > 1 OR cardinality(%(dates)s::date[]) > 1)
      AND told.notification_type IN
          ('failure', 'retry_exhausted', 'quality', 'budget', 'recovery')
    ORDER BY day, told.notification_id DESC
) AS last_words;

-- name: left_failed
-- Dates that failed for good, less those that a few backfills of ours could not make good either.
SELECT data_date, slot FROM pipeline_dates AS dates
WHERE pipeline_id = %(pipeline_id)s AND status = 'failed'
  AND %(most)s > (
      SELECT count(*) FROM backfill_queue AS tried
      WHERE tried.pipeline_id = %(pipeline_id)s AND tried.status = 'failed'
        AND tried.date_to_process = dates.data_date AND tried.slot = dates.slot
        AND tried.reason = %(reason)s
  )
ORDER BY data_date, slot
LIMIT 1000;
