-- name: server
-- What a server is and allows, as this session sees it.
SELECT current_setting('server_version_num')::int AS version,
       current_setting('server_version') AS version_name,
       current_setting('wal_level') AS wal_level,
       pg_is_in_recovery() AS in_recovery,
       pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS sees_writers,
       current_user::text AS user_name;

-- name: standby
-- How a replica treats long reads, and how long ago it replayed a commit.
SELECT pg_is_in_recovery() AS in_recovery,
       extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8 AS age,
       current_setting('hot_standby_feedback')::boolean AS feedback,
       extract(epoch FROM current_setting('max_standby_streaming_delay')::interval)::float8 AS patience;

-- name: indexed
-- Which of the asked columns lead a whole, valid index that a range can use.
SELECT asked.position::int
FROM unnest(%(schemas)s::text[], %(names)s::text[], %(columns)s::text[])
    WITH ORDINALITY AS asked(schema_name, name, column_name, position)
JOIN pg_catalog.pg_namespace AS n ON n.nspname = asked.schema_name
JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relname = asked.name
WHERE EXISTS (
    SELECT FROM pg_catalog.pg_index AS i
    JOIN pg_catalog.pg_class AS ic ON ic.oid = i.indexrelid
    JOIN pg_catalog.pg_am AS am ON am.oid = ic.relam AND am.amname IN ('btree', 'brin')
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
    WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NULL AND a.attname = asked.column_name
);
