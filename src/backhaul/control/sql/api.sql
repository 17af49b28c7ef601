-- What only the API asks: pages of runs, tokens, callbacks, health. Every instant is a parameter.

-- name: runs_page
-- Many runs are made in one tick, at one instant: the id tells which of them a page ended with.
SELECT {runs} FROM pipeline_run_log
WHERE (%(pipeline_id)s::bigint IS NULL OR pipeline_id = %(pipeline_id)s)
  AND (%(status)s::text IS NULL OR status = %(status)s)
  AND (%(day)s::date IS NULL OR %(day)s = ANY(dates))
  AND (%(is_backfill)s::boolean IS NULL OR is_backfill = %(is_backfill)s)
  AND (%(at)s::timestamptz IS NULL OR (created_at, run_id) < (%(at)s, %(run_id)s::uuid))
ORDER BY created_at DESC, run_id DESC
LIMIT %(limit)s;

-- name: pipeline_names_of
SELECT pipeline_id, pipeline_name FROM pipelines WHERE pipeline_id = ANY(%(ids)s);

-- name: parts_of
-- Parameters and dependencies of some pipelines: id, kind, name, value, first and last offset.
SELECT pipeline_id, 'parameter', parameter_name, parameter_value, 0, 0
FROM pipeline_parameters WHERE pipeline_id = ANY(%(ids)s)
UNION ALL
SELECT mine.pipeline_id, 'upstream', upstreams.pipeline_name, NULL, mine.first_offset, mine.last_offset
FROM pipeline_dependencies AS mine
JOIN pipelines AS upstreams ON upstreams.pipeline_id = mine.upstream_id
WHERE mine.pipeline_id = ANY(%(ids)s)
ORDER BY 1, 2, 3, 5, 6;

-- name: lock_pipeline
SELECT {pipelines} FROM pipelines WHERE pipeline_name = %(name)s FOR NO KEY UPDATE;

-- name: dependency_edges
SELECT mine.pipeline_name, upstreams.pipeline_name, edges.last_offset
FROM pipeline_dependencies AS edges
JOIN pipelines AS mine ON mine.pipeline_id = edges.pipeline_id
JOIN pipelines AS upstreams ON upstreams.pipeline_id = edges.upstream_id;

-- name: every_name
SELECT pipeline_name FROM pipelines;

-- name: add_token
INSERT INTO api_tokens (token_name, role, token_hash, created_at)
VALUES (%(name)s, %(role)s, %(hash)s, %(now)s)
ON CONFLICT (token_name) DO NOTHING
RETURNING token_id, token_name, role, created_at, revoked_at;

-- name: token_by_hash
SELECT token_id, token_name, role, created_at, revoked_at, token_hash
FROM api_tokens WHERE token_hash = %(hash)s AND revoked_at IS NULL;

-- name: list_tokens
-- A name that no person can give is ours.
SELECT token_id, token_name, role, created_at, revoked_at
FROM api_tokens WHERE token_name NOT LIKE '*%%' ORDER BY token_name;

-- name: revoke_token
UPDATE api_tokens SET revoked_at = %(now)s
WHERE token_name = %(name)s AND token_name NOT LIKE '*%%' AND revoked_at IS NULL
RETURNING token_id;

-- name: usable_tokens
SELECT count(*) FROM api_tokens WHERE revoked_at IS NULL;

-- name: add_callback_key
INSERT INTO api_tokens (token_name, role, token_hash, created_at, revoked_at)
VALUES (%(name)s, 'viewer', %(key)s, %(now)s, %(now)s)
ON CONFLICT (token_name) DO NOTHING;

-- name: callback_key
SELECT token_hash FROM api_tokens WHERE token_name = %(name)s;

-- name: lock_run_status
SELECT status, retry_attempts + 1, pipeline_id FROM pipeline_run_log
WHERE run_id = %(run_id)s FOR SHARE;

-- name: put_callback
-- Progress is written over; how it ended stays.
INSERT INTO run_callbacks (run_id, attempt, received_at, body)
VALUES (%(run_id)s, %(attempt)s, %(now)s, %(body)s)
ON CONFLICT (run_id, attempt) DO UPDATE
SET received_at = excluded.received_at, body = excluded.body
WHERE run_callbacks.body ->> 'status' = 'running'
RETURNING attempt;

-- name: callback
SELECT body FROM run_callbacks WHERE run_id = %(run_id)s AND attempt = %(attempt)s;
