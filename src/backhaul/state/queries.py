"""What does the driver ask of exports and chunks, beyond single rows?"""

from __future__ import annotations

from sqlalchemy import text

from backhaul.state.history import FILES

# The unfinished exports that new ones take the place of: of rows or of keys, as the new one.
UNFINISHED = text("""
    SELECT e.id
    FROM exports AS e
    JOIN unnest(CAST(:sources AS text[]), CAST(:names AS text[]), CAST(:keys_only AS boolean[]))
        AS new (source_name, table_name, keys_only)
      ON (e.source_name, e.table_name, e.kind = 'deletes')
       = (new.source_name, new.table_name, new.keys_only)
    WHERE e.status = 'running'
""")

READY = text("""
    SELECT e.id FROM exports AS e
    WHERE e.run_id = :run_id AND e.status = 'running'
      AND (CAST(:ids AS bigint[]) IS NULL OR e.id = ANY(CAST(:ids AS bigint[])))
      AND NOT EXISTS (
        SELECT FROM export_chunks AS c WHERE c.export_id = e.id AND c.status = 'waiting')
    ORDER BY e.id
    FOR UPDATE
""")

COMPLETE = text(f"""
    WITH total AS (
        SELECT e.id, count(f.upload_file_name) AS files, coalesce(sum(f.bytes), 0) AS bytes,
               coalesce(sum(f.chunk_row_count), 0) AS row_count
        FROM exports AS e LEFT JOIN ({FILES}) AS f ON f.export_id = e.id
        WHERE e.id = ANY(:ids) GROUP BY e.id
    ), replaced AS (
        SELECT export_id, jsonb_object_agg(name, count) AS counts
        FROM (
            SELECT export_id, name, sum(value::bigint) AS count
            FROM ({FILES}) AS f, jsonb_each_text(replaced) AS one (name, value)
            WHERE export_id = ANY(:ids) GROUP BY export_id, name
        ) AS summed
        GROUP BY export_id
    )
    UPDATE exports AS e
    SET status = 'complete', completed_at = :now, error = NULL, row_count = total.row_count,
        bytes = total.bytes, file_count = total.files,
        replaced = coalesce(replaced.counts, '{{}}')
    FROM total LEFT JOIN replaced ON replaced.export_id = total.id
    WHERE e.id = total.id AND e.run_id = :run_id
""")

CHUNKS = text("""
    SELECT export_id, number, position, relation, range, estimated_rows, status, attempt_count,
           CAST(failed_run AS text) AS failed_run, error
    FROM export_chunks WHERE export_id = :id
    ORDER BY position, string_to_array(number, '.')::int[]
""")

PROGRESS = text("""
    SELECT e.id AS export_id, e.source_name, e.table_name, e.kind, e.status,
           count(c.number) FILTER (WHERE c.status <> 'split') AS chunks_total,
           count(*) FILTER (WHERE c.status = 'done') AS chunks_done,
           count(*) FILTER (WHERE c.status = 'waiting') AS chunks_waiting,
           count(*) FILTER (
               WHERE c.status = 'waiting' AND c.failed_run = e.run_id) AS chunks_failed,
           CAST(coalesce(sum(c.row_count), 0) AS bigint) AS rows,
           (SELECT CAST(coalesce(sum(l.row_count), 0) AS bigint)
            FROM lanes AS l JOIN export_chunks AS o
              ON (o.export_id, o.number) = (l.export_id, l.chunk_number)
            WHERE l.run_id = e.run_id AND l.export_id = e.id AND o.status = 'waiting'
           ) AS rows_in_flight,
           CAST(coalesce(sum(c.bytes), 0) AS bigint) AS bytes,
           coalesce(e.error, (array_agg(c.error) FILTER (
               WHERE c.status = 'waiting' AND c.failed_run = e.run_id))[1]) AS error
    FROM exports AS e LEFT JOIN export_chunks AS c ON c.export_id = e.id
    WHERE e.run_id = :run_id
    GROUP BY e.id
    ORDER BY e.id
""")

# Of runs that nobody watches any more.
FORGET_LANES = text("DELETE FROM lanes WHERE told_at < now() - interval '1 day'")

CLEAR_EXPORTS = text("""
    UPDATE exports SET error = NULL
    WHERE run_id = :run_id AND id = ANY(:ids) AND status = 'running'
""")

CLEAR_CHUNKS = text("""
    UPDATE export_chunks SET failed_run = NULL
    WHERE export_id = ANY(:ids) AND status = 'waiting' AND failed_run = :run_id
""")

TAKE = text("""
    SELECT CAST(run_id AS text) FROM exports WHERE id = :id AND status = 'running' FOR UPDATE
""")

END_LANES = text("""
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name = :application AND usename = current_user
      AND datname = current_database()
""")
