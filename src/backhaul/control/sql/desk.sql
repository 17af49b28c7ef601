-- What people ask and change, through commands and the API.

-- name: pipeline_named
SELECT {pipelines} FROM pipelines WHERE pipeline_name = %(name)s;

-- name: pipeline_names
SELECT pipeline_name FROM pipelines WHERE archived_at IS NULL ORDER BY pipeline_name;

-- name: list_pipelines
-- With the next look's instant, the newest date that is done, and how many dates failed.
SELECT {pipelines_of}
FROM pipelines AS pipelines
WHERE (%(archived)s OR archived_at IS NULL)
  AND (%(after)s::text IS NULL OR pipeline_name > %(after)s)
ORDER BY pipeline_name
LIMIT %(limit)s;

-- name: standing
-- How a pipeline stands: freshness, failures, what is under way, what waits in the queue.
SELECT clock.pipeline_id, clock.picked_until, clock.fresh_date,
       (SELECT count(*) FROM pipeline_dates AS d
        WHERE d.pipeline_id = clock.pipeline_id AND d.status IN ('failed', 'outdated')
          AND d.status = 'failed'),
       (SELECT count(*) FROM pipeline_run_log AS r WHERE r.pipeline_id = clock.pipeline_id
          AND r.status IN ('queued', 'running', 'retrying', 'cancelling')),
       (SELECT count(*) FROM (SELECT FROM backfill_queue AS b
          WHERE b.pipeline_id = clock.pipeline_id AND b.status = 'queued' LIMIT 10000) AS waiting)
FROM pipeline_clock AS clock
WHERE clock.pipeline_id = ANY(%(ids)s);

-- name: dates_between
SELECT {dates} FROM pipeline_dates
WHERE pipeline_id = %(pipeline_id)s AND data_date BETWEEN %(first)s AND %(last)s
ORDER BY data_date, slot;

-- name: queued_between
-- Dates that wait in the queue: status by date.
SELECT date_to_process, slot, status FROM backfill_queue
WHERE pipeline_id = %(pipeline_id)s AND date_to_process BETWEEN %(first)s AND %(last)s
  AND status IN ('queued', 'paused', 'running');

-- name: list_runs
SELECT {runs} FROM pipeline_run_log
WHERE (%(pipeline_id)s::bigint IS NULL OR pipeline_id = %(pipeline_id)s)
  AND (%(status)s::text IS NULL OR status = %(status)s)
  AND (%(day)s::date IS NULL OR %(day)s = ANY(dates))
ORDER BY created_at DESC
LIMIT %(limit)s;

-- name: run
SELECT {runs} FROM pipeline_run_log WHERE run_id = %(run_id)s;

-- name: runs_like
-- The ids that begin so are a range of the primary key.
SELECT {runs} FROM pipeline_run_log
WHERE run_id BETWEEN rpad(replace(%(begin)s, '-', ''), 32, '0')::uuid
                 AND rpad(replace(%(begin)s, '-', ''), 32, 'f')::uuid
LIMIT 2;

-- name: attempts
SELECT run_id::text, attempt, status, started_at, ended_at, worker, external_run_id, external_url,
       error_message, result
FROM run_attempts WHERE run_id = %(run_id)s ORDER BY attempt;

-- name: changes
SELECT change_id, changed_at, actor, kind, subject, pipeline_id, from_status, to_status, reason, details
FROM changes
WHERE (%(kind)s::text IS NULL OR kind = %(kind)s)
  AND (%(subject)s::text IS NULL OR subject = %(subject)s)
  AND (%(pipeline_id)s::bigint IS NULL OR pipeline_id = %(pipeline_id)s)
  AND (%(before)s::bigint IS NULL OR change_id < %(before)s)
ORDER BY change_id DESC
LIMIT %(limit)s;

-- name: quality_of
SELECT quality_check_id, run_id::text, check_name, check_result, error_details, created_at,
       kind, severity, bad_rows, table_name, destination, target
FROM data_quality_log
WHERE (%(run_id)s::uuid IS NULL OR run_id = %(run_id)s)
  AND (%(before)s::bigint IS NULL OR quality_check_id < %(before)s)
ORDER BY quality_check_id DESC
LIMIT %(limit)s;

-- name: notifications
SELECT notification_id, pipeline_id, run_id::text, notification_type, notification_status, sent_at,
       notification_channel, created_at, attempts, error_message
FROM pipeline_notifications
WHERE (%(pipeline_id)s::bigint IS NULL OR pipeline_id = %(pipeline_id)s)
  AND (%(before)s::bigint IS NULL OR notification_id < %(before)s)
ORDER BY notification_id DESC
LIMIT %(limit)s;

-- name: list_backfills
SELECT {backfills} FROM backfill_queue
WHERE (%(pipeline_id)s::bigint IS NULL OR pipeline_id = %(pipeline_id)s)
  AND (%(status)s::text IS NULL OR status = %(status)s)
  AND (%(request_id)s::uuid IS NULL OR request_id = %(request_id)s)
  AND (%(after)s::bigint IS NULL OR backfill_id > %(after)s)
ORDER BY backfill_id
LIMIT %(limit)s;

-- name: count_backfills
-- Capped: nobody reads a count of a million every second.
SELECT status, count(*) FROM (
    SELECT status FROM backfill_queue
    WHERE pipeline_id = %(pipeline_id)s AND status IN ('queued', 'paused', 'running')
    LIMIT 100000
) AS waiting GROUP BY status;

-- name: lock_queues
-- The clocks of those whose entries are meant, and of what depends on them.
WITH meant AS (
    SELECT DISTINCT pipeline_id FROM backfill_queue
    WHERE (%(pipeline_id)s::bigint IS NULL OR pipeline_id = %(pipeline_id)s)
      AND (%(request_id)s::uuid IS NULL OR request_id = %(request_id)s)
      AND (%(ids)s::bigint[] IS NULL OR backfill_id = ANY(%(ids)s))
)
SELECT pipeline_id FROM pipeline_clock
WHERE pipeline_id = ANY(ARRAY(
    SELECT pipeline_id FROM meant
    UNION SELECT pipeline_id FROM pipeline_dependencies
    WHERE upstream_id IN (SELECT pipeline_id FROM meant)))
ORDER BY pipeline_id
FOR NO KEY UPDATE;

-- name: steer_backfills
-- Pause, resume or cancel what waits; the ones that are running have a run to be cancelled.
UPDATE backfill_queue SET status = %(to)s, ended_at = CASE WHEN %(to)s = 'cancelled' THEN %(now)s END
WHERE status = ANY(%(from)s)
  AND (%(pipeline_id)s::bigint IS NULL OR pipeline_id = %(pipeline_id)s)
  AND (%(request_id)s::uuid IS NULL OR request_id = %(request_id)s)
  AND (%(ids)s::bigint[] IS NULL OR backfill_id = ANY(%(ids)s))
RETURNING pipeline_id;

-- name: prioritise_backfills
UPDATE backfill_queue SET priority = %(priority)s
WHERE status IN ('queued', 'paused') AND priority <> %(priority)s
  AND (%(pipeline_id)s::bigint IS NULL OR pipeline_id = %(pipeline_id)s)
  AND (%(request_id)s::uuid IS NULL OR request_id = %(request_id)s)
  AND (%(ids)s::bigint[] IS NULL OR backfill_id = ANY(%(ids)s))
RETURNING pipeline_id;

-- name: running_backfills
SELECT DISTINCT run_id::text FROM backfill_queue
WHERE status = 'running' AND run_id IS NOT NULL
  AND (%(pipeline_id)s::bigint IS NULL OR pipeline_id = %(pipeline_id)s)
  AND (%(request_id)s::uuid IS NULL OR request_id = %(request_id)s)
  AND (%(ids)s::bigint[] IS NULL OR backfill_id = ANY(%(ids)s));

-- name: cancel_run
-- One that waits is cancelled; one that runs is cancelled on its platform, by its worker. So is one
-- whose worker died after it had begun: its job may still run, and the next worker stops it.
UPDATE pipeline_run_log AS runs
SET status = CASE WHEN state.begun THEN 'cancelling' ELSE 'cancelled' END,
    end_time = CASE WHEN NOT state.begun THEN %(now)s END,
    heartbeat_at = CASE WHEN state.begun THEN coalesce(heartbeat_at, 'epoch') END,
    error_message = CASE WHEN state.begun THEN error_message ELSE %(why)s END
FROM (
    SELECT run_id, status = 'running' OR status = 'queued' AND EXISTS (
        SELECT FROM run_attempts AS one
        WHERE one.run_id = found.run_id AND one.attempt = found.retry_attempts + 1) AS begun
    FROM pipeline_run_log AS found
    WHERE run_id = %(run_id)s AND status IN ('queued', 'retrying', 'running')
    FOR NO KEY UPDATE
) AS state
WHERE runs.run_id = state.run_id
RETURNING runs.status;

-- name: look_at
UPDATE pipeline_clock SET look_at = 'epoch' WHERE pipeline_id = ANY(%(ids)s);

-- name: mark_dates
UPDATE pipeline_dates
SET status = %(to)s, why = %(why)s, updated_at = %(now)s,
    done_at = CASE WHEN %(to)s = 'done' THEN %(now)s ELSE done_at END,
    sla_met = CASE WHEN %(to)s = 'done' AND sla_met IS NULL AND sla_at IS NOT NULL
                   THEN %(now)s <= sla_at ELSE sla_met END,
    sla_at = CASE WHEN %(to)s = 'skipped' AND sla_met IS NULL THEN NULL ELSE sla_at END,
    risk_at = CASE WHEN %(to)s IN ('done', 'skipped') THEN NULL ELSE risk_at END
WHERE pipeline_id = %(pipeline_id)s AND data_date = ANY(%(days)s) AND status = ANY(%(from)s)
RETURNING data_date, slot;

-- name: add_marked
-- A date that nobody ever picked gets its row with the mark.
INSERT INTO pipeline_dates (pipeline_id, data_date, slot, scheduled_date, scheduled_at, status, why,
                            done_at, updated_at)
SELECT pipeline_id, data_date, slot, scheduled_date, scheduled_at, %(to)s, %(why)s,
       CASE WHEN %(to)s = 'done' THEN %(now)s END, %(now)s
FROM jsonb_to_recordset(%(rows)s) AS new (
    pipeline_id bigint, data_date date, slot integer, scheduled_date date, scheduled_at timestamptz)
ON CONFLICT DO NOTHING
RETURNING data_date, slot;

-- name: pause
UPDATE pipelines SET paused = %(paused)s, updated_at = %(now)s
WHERE pipeline_id = %(pipeline_id)s AND paused <> %(paused)s
RETURNING pipeline_id;

-- name: fail_late
-- A check that came after the run had ended, and failed.
UPDATE pipeline_dates SET status = 'failed', why = %(why)s, updated_at = %(now)s
WHERE run_id = %(run_id)s AND status = 'done'
RETURNING data_date, slot;

-- name: workers
SELECT worker, host, process_id, lanes, platforms, started_at, heartbeat_at
FROM workers ORDER BY worker;

-- name: counts
-- For the metrics; each of these is answered by a partial index.
SELECT 'runs', status, count(*) FROM pipeline_run_log
WHERE status IN ('queued', 'running', 'retrying', 'cancelling') GROUP BY status
UNION ALL
SELECT 'dates', status, count(*) FROM pipeline_dates
WHERE status IN ('due', 'failed', 'outdated') GROUP BY status
UNION ALL
SELECT 'notifications', notification_status, count(*) FROM pipeline_notifications
WHERE notification_status IN ('pending', 'sending') GROUP BY notification_status
UNION ALL
SELECT 'sla', 'open', count(*) FROM pipeline_dates WHERE sla_met IS NULL AND sla_at IS NOT NULL;

-- name: ended_since
SELECT status, count(*) FROM pipeline_run_log
WHERE created_at > %(since)s AND status IN ('succeeded', 'failed', 'cancelled') GROUP BY status;

-- name: overdue
-- How long the oldest look waits for a scheduler.
SELECT min(look_at) FROM pipeline_clock WHERE look_at <= %(now)s AND look_at > 'epoch';
