-- What a tick reads and writes. Every instant is a parameter: time is the caller's, not the server's.

-- name: take_looks
-- The pipelines to look at, longest overdue first; those that another scheduler looks at are its own.
SELECT pipeline_id, picked_until, swept, added_at
FROM pipeline_clock
WHERE look_at <= %(now)s
ORDER BY look_at, pipeline_id
LIMIT %(limit)s
FOR NO KEY UPDATE SKIP LOCKED;

-- name: next_look
-- When there is something to do at the latest, as far as the state knows.
SELECT least(
    (SELECT min(look_at) FROM pipeline_clock WHERE look_at IS NOT NULL),
    (SELECT min(sla_at) + %(grace)s FROM pipeline_dates WHERE sla_met IS NULL AND sla_at IS NOT NULL),
    (SELECT min(risk_at) FROM pipeline_dates WHERE sla_met IS NULL AND risk_at IS NOT NULL)
);

-- name: due_dates
-- Dates that came due and that no run has yet, of each pipeline the oldest.
SELECT found.*
FROM unnest(%(ids)s::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT {dates} FROM pipeline_dates
    WHERE pipeline_id = wanted.id AND status = 'due'
    ORDER BY scheduled_at, data_date, slot
    LIMIT 2000
) AS found;

-- name: active_runs
-- How many runs each pipeline has under way.
SELECT pipeline_id,
       count(*) FILTER (WHERE NOT is_backfill),
       count(*) FILTER (WHERE is_backfill)
FROM pipeline_run_log
WHERE pipeline_id = ANY(%(ids)s) AND status IN ('queued', 'running', 'retrying', 'cancelling')
GROUP BY pipeline_id;

-- name: heads
-- Of each pipeline the backfills whose turn it is; one that a person is editing waits for the next tick.
SELECT found.*
FROM pipelines AS wanted
CROSS JOIN LATERAL (
    SELECT {backfills} FROM backfill_queue
    WHERE pipeline_id = wanted.pipeline_id AND status = 'queued'
    ORDER BY turn_at, position, backfill_id
    LIMIT greatest(%(depth)s, least(2000, 2 * greatest(wanted.backfill_concurrency, 1)::bigint
        * CASE WHEN wanted.multi_date_allowed THEN least(wanted.max_dates_per_run, 2000) ELSE 1 END))
    FOR NO KEY UPDATE SKIP LOCKED
) AS found
WHERE wanted.pipeline_id = ANY(%(ids)s);

-- name: statuses
-- Where the dates of these spans stand: of the pipeline itself, or of an upstream.
SELECT DISTINCT dates.pipeline_id, dates.data_date, dates.slot, dates.status
FROM unnest(%(ids)s::bigint[], %(firsts)s::date[], %(lasts)s::date[]) AS span (id, first, last)
JOIN pipeline_dates AS dates
  ON dates.pipeline_id = span.id AND dates.data_date BETWEEN span.first AND span.last;

-- name: recent_backfills
-- When backfill runs began within the rate's window.
SELECT pipeline_id, created_at
FROM pipeline_run_log
WHERE pipeline_id = ANY(%(ids)s) AND is_backfill AND created_at > %(since)s;

-- name: dependencies
SELECT one.pipeline_id, one.upstream_id, other.pipeline_name AS upstream_name,
       one.first_offset, one.last_offset
FROM pipeline_dependencies AS one
JOIN pipelines AS other ON other.pipeline_id = one.upstream_id
WHERE one.pipeline_id = ANY(%(ids)s) AND other.archived_at IS NULL;

-- name: durations
-- How long the last runs took, from due to done, for those that have an SLA.
SELECT found.pipeline_id, found.seconds
FROM unnest(%(ids)s::bigint[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT pipeline_id, extract(epoch FROM end_time - start_time)::float8 AS seconds
    FROM pipeline_run_log
    WHERE pipeline_id = wanted.id AND status = 'succeeded' AND NOT is_backfill
    ORDER BY created_at DESC
    LIMIT 20
) AS found;

-- name: add_dates
-- What another scheduler, or a former schedule, has picked already stays as it is.
INSERT INTO pipeline_dates (pipeline_id, data_date, slot, scheduled_date, scheduled_at, sla_at,
                            risk_at, updated_at)
SELECT pipeline_id, data_date, slot, scheduled_date, scheduled_at, sla_at, risk_at, %(now)s
FROM jsonb_to_recordset(%(rows)s) AS new (
    pipeline_id bigint, data_date date, slot integer, scheduled_date date,
    scheduled_at timestamptz, sla_at timestamptz, risk_at timestamptz)
ON CONFLICT DO NOTHING
RETURNING {dates};

-- name: add_runs
INSERT INTO pipeline_run_log (run_id, pipeline_id, run_date, dates, slot, platform, is_backfill,
                              backfill_id, started_by, reason, created_at, ready_at, turn_at)
SELECT run_id, pipeline_id, run_date, dates, slot, platform, is_backfill, backfill_id, started_by,
       reason, %(now)s, %(now)s, %(now)s::timestamptz - priority * interval '1 minute'
FROM jsonb_to_recordset(%(rows)s) AS new (
    run_id uuid, pipeline_id bigint, run_date date, dates date[], slot integer, platform text,
    is_backfill boolean, backfill_id bigint, started_by text, reason text, priority integer);

-- name: take_dates
-- A date that was never picked gets its row with its first run.
INSERT INTO pipeline_dates (pipeline_id, data_date, slot, scheduled_date, scheduled_at, status,
                            run_id, updated_at)
SELECT pipeline_id, data_date, slot, scheduled_date, scheduled_at, 'running', run_id, %(now)s
FROM jsonb_to_recordset(%(rows)s) AS new (
    pipeline_id bigint, data_date date, slot integer, scheduled_date date,
    scheduled_at timestamptz, run_id uuid)
ON CONFLICT (pipeline_id, data_date, slot) DO UPDATE
SET status = 'running', run_id = excluded.run_id, why = NULL, stale = NULL,
    updated_at = excluded.updated_at;

-- name: take_backfills
UPDATE backfill_queue SET status = 'running', run_id = taken.run_id
FROM jsonb_to_recordset(%(rows)s) AS taken (backfill_id bigint, run_id uuid)
WHERE backfill_queue.backfill_id = taken.backfill_id;

-- name: drop_needless
UPDATE backfill_queue SET status = 'done', ended_at = %(now)s
WHERE backfill_id = ANY(%(ids)s) AND status = 'queued';

-- name: say_why
UPDATE pipeline_dates AS dates SET why = told.why, updated_at = %(now)s
FROM jsonb_to_recordset(%(rows)s) AS told (
    pipeline_id bigint, data_date date, slot integer, why text)
WHERE dates.pipeline_id = told.pipeline_id AND dates.data_date = told.data_date
  AND dates.slot = told.slot AND dates.status = 'due' AND dates.why IS DISTINCT FROM told.why;

-- name: set_clocks
UPDATE pipeline_clock AS clock
SET picked_until = coalesce(new.picked_until, clock.picked_until), look_at = new.look_at,
    swept = coalesce(new.swept, clock.swept)
FROM jsonb_to_recordset(%(rows)s) AS new (
    pipeline_id bigint, picked_until timestamptz, look_at timestamptz, swept text)
WHERE clock.pipeline_id = new.pipeline_id;

-- name: say_problems
-- A row that a person is editing is left alone: the edit has it looked at again.
UPDATE pipelines SET problem = new.problem, updated_at = %(now)s
FROM jsonb_to_recordset(%(rows)s) AS new (pipeline_id bigint, problem text), (
    SELECT pipeline_id FROM pipelines
    WHERE pipeline_id = ANY(%(ids)s) ORDER BY pipeline_id FOR NO KEY UPDATE SKIP LOCKED
) AS free
WHERE pipelines.pipeline_id = new.pipeline_id AND pipelines.pipeline_id = free.pipeline_id
  AND pipelines.problem IS DISTINCT FROM new.problem;

-- name: outdate_code
-- What an older version of the code made.
UPDATE pipeline_dates SET status = 'outdated', why = 'made by ' || code_version, updated_at = %(now)s
WHERE pipeline_id = %(pipeline_id)s AND status = 'done' AND code_version <> %(code_version)s;

-- name: open_dates
SELECT data_date, slot, status FROM pipeline_dates
WHERE pipeline_id = %(pipeline_id)s AND status IN ('failed', 'outdated')
ORDER BY data_date, slot;

-- name: queue_backfills
-- What is queued already stays in its place.
INSERT INTO backfill_queue (pipeline_id, date_to_process, slot, priority, requested_at, position,
                            requested_by, reason, request_id)
SELECT pipeline_id, date_to_process, slot, %(priority)s, %(now)s, position, %(requested_by)s,
       %(reason)s, %(request_id)s
FROM unnest(%(pipelines)s::bigint[], %(days)s::date[], %(slots)s::integer[], %(positions)s::integer[])
    AS new (pipeline_id, date_to_process, slot, position)
ON CONFLICT DO NOTHING
RETURNING date_to_process, slot;

-- name: breaches
-- Dates whose SLA has passed while they were not done; each is found once.
UPDATE pipeline_dates AS dates SET sla_met = false, risk_at = NULL, updated_at = %(now)s
FROM (
    SELECT pipeline_id, data_date, slot FROM pipeline_dates
    WHERE sla_met IS NULL AND sla_at <= %(before)s
    ORDER BY sla_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
) AS late
WHERE dates.pipeline_id = late.pipeline_id AND dates.data_date = late.data_date
  AND dates.slot = late.slot
RETURNING {dates_of};

-- name: risks
-- Dates that would be late if they took as long as usual. One that began in time is given until then.
WITH near AS (
    SELECT pipeline_id, data_date, slot, CASE WHEN status = 'running' THEN run_id END AS run_id
    FROM pipeline_dates
    WHERE sla_met IS NULL AND risk_at <= %(now)s
    ORDER BY risk_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE pipeline_dates AS dates
SET updated_at = %(now)s, risk_at = CASE
        WHEN runs.start_time + (sla_at - risk_at) > %(now)s
         AND runs.start_time + (sla_at - risk_at) < sla_at
        THEN runs.start_time + (sla_at - risk_at) END
FROM near LEFT JOIN pipeline_run_log AS runs ON runs.run_id = near.run_id
WHERE dates.pipeline_id = near.pipeline_id AND dates.data_date = near.data_date
  AND dates.slot = near.slot
RETURNING {dates_of};
