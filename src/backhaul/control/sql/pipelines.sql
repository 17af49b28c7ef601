-- What a sync of the project's pipelines reads and writes. Every instant is a parameter.

-- name: one_at_a_time
-- "pipeline" in ASCII: two syncs wait for each other, until the end of the transaction.
SELECT pg_advisory_xact_lock(x'706970656c696e65'::bigint);

-- name: read_pipelines
SELECT {pipelines} FROM pipelines ORDER BY pipeline_name;

-- name: lock_pipelines
-- A person who edits a pipeline at the same moment is waited for.
SELECT {pipelines} FROM pipelines ORDER BY pipeline_name FOR NO KEY UPDATE;

-- name: read_parameters
SELECT pipeline_id, parameter_name, parameter_value FROM pipeline_parameters
ORDER BY pipeline_id, parameter_name;

-- name: read_dependencies
SELECT dependencies.pipeline_id, upstreams.pipeline_name AS upstream_name,
       dependencies.first_offset, dependencies.last_offset
FROM pipeline_dependencies AS dependencies
JOIN pipelines AS upstreams ON upstreams.pipeline_id = dependencies.upstream_id;

-- name: last_done
-- The newest date that each pipeline has done.
SELECT pipelines.pipeline_id, newest.data_date
FROM pipelines
CROSS JOIN LATERAL (
    SELECT data_date FROM pipeline_dates
    WHERE pipeline_dates.pipeline_id = pipelines.pipeline_id AND status = 'done'
    ORDER BY data_date DESC LIMIT 1
) AS newest;

-- name: create_pipeline
INSERT INTO pipelines ({declared}, managed_by, created_at, updated_at)
SELECT {declared}, %(managed_by)s, %(now)s, %(now)s
FROM jsonb_populate_record(
    NULL::pipelines,
    %(declared)s || jsonb_build_object('paused',
        coalesce((%(declared)s ->> 'paused')::boolean, false))
)
RETURNING pipeline_id;

-- name: update_pipeline
-- What is declared, and back from the archive; `paused` stays where nothing is declared of it.
UPDATE pipelines
SET ({declared}) = (
        SELECT {declared} FROM jsonb_populate_record(
            NULL::pipelines,
            %(declared)s || jsonb_build_object('paused',
                coalesce((%(declared)s ->> 'paused')::boolean, pipelines.paused))
        )
    ),
    managed_by = %(managed_by)s,
    archived_at = NULL,
    updated_at = %(now)s
WHERE pipeline_id = %(pipeline_id)s
RETURNING pipeline_id;

-- name: archive_pipeline
UPDATE pipelines SET archived_at = %(now)s, updated_at = %(now)s
WHERE pipeline_id = %(pipeline_id)s
RETURNING pipeline_id;

-- name: drop_parameters
DELETE FROM pipeline_parameters
WHERE pipeline_id = %(pipeline_id)s AND NOT (%(parameters)s ? parameter_name);

-- name: set_parameters
INSERT INTO pipeline_parameters (pipeline_id, parameter_name, parameter_value, created_at)
SELECT %(pipeline_id)s, key, value, %(now)s FROM jsonb_each_text(%(parameters)s)
ON CONFLICT (pipeline_id, parameter_name) DO UPDATE SET parameter_value = excluded.parameter_value
WHERE pipeline_parameters.parameter_value IS DISTINCT FROM excluded.parameter_value;

-- name: drop_dependencies
DELETE FROM pipeline_dependencies AS old
USING pipelines AS upstreams
WHERE old.pipeline_id = %(pipeline_id)s AND upstreams.pipeline_id = old.upstream_id
  AND NOT EXISTS (
    SELECT FROM jsonb_to_recordset(%(upstreams)s)
        AS new (upstream text, first_offset integer, last_offset integer)
    WHERE new.upstream = upstreams.pipeline_name
      AND new.first_offset = old.first_offset AND new.last_offset = old.last_offset
);

-- name: set_dependencies
INSERT INTO pipeline_dependencies (pipeline_id, upstream_id, first_offset, last_offset)
SELECT %(pipeline_id)s, upstreams.pipeline_id, new.first_offset, new.last_offset
FROM jsonb_to_recordset(%(upstreams)s)
    AS new (upstream text, first_offset integer, last_offset integer)
JOIN pipelines AS upstreams ON upstreams.pipeline_name = new.upstream
ON CONFLICT DO NOTHING;
