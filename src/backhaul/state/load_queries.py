"""What does a target lack? Asked of the exports, their files, and the loads that readers see."""

from __future__ import annotations

from sqlalchemy import text

from backhaul.state.history import FILES

# Loads of one target whose data readers see, and the exports that these took or made needless.
_SETTLED = """
    settled AS MATERIALIZED (
        SELECT load_id, exports, superseded, key_export_id FROM pipeline_metadata
        WHERE destination = :destination AND target = :target
          AND status IN ('published', 'complete')
    ), named AS MATERIALIZED (
        SELECT DISTINCT CAST(one AS bigint) AS id
        FROM settled, jsonb_array_elements_text(exports || superseded) AS one
    ), taken AS MATERIALIZED (
        SELECT DISTINCT f.path FROM load_files AS f JOIN settled USING (load_id)
    )
"""
# An export without a file has no other trace of its load than its name there.
_WAITING = f"""
    file AS MATERIALIZED (
        SELECT f.export_id, f.upload_file_name AS path, f.chunk_row_count AS rows, f.bytes,
               string_to_array(f.chunk_number, '.')::int[] AS place, t.path IS NOT NULL AS is_taken
        FROM ({FILES}) AS f JOIN candidate AS c ON c.id = f.export_id
        LEFT JOIN taken AS t ON t.path = f.upload_file_name
        WHERE f.upload_file_name IS NOT NULL
    ), judged AS MATERIALIZED (
        SELECT c.id, c.kind, bool_or(f.is_taken) OR bool_or(n.id IS NOT NULL) AS has_begun,
               CASE WHEN count(f.path) = 0 THEN c.status = 'complete' AND bool_and(n.id IS NULL)
                    ELSE NOT bool_and(f.is_taken) AND (c.status = 'complete' OR :unfinished)
               END AS waits
        FROM candidate AS c
        LEFT JOIN file AS f ON f.export_id = c.id
        LEFT JOIN named AS n ON n.id = c.id
        GROUP BY c.id, c.kind, c.status
    )
"""
_FOUND = """
    SELECT j.id, newest.id AS newest,
           coalesce(jsonb_agg(jsonb_build_array(f.path, f.rows, f.bytes) ORDER BY f.place)
                        FILTER (WHERE NOT f.is_taken), '[]') AS files
    FROM judged AS j CROSS JOIN newest LEFT JOIN file AS f ON f.export_id = j.id
    WHERE j.waits
    GROUP BY j.id, newest.id
    ORDER BY j.id
"""

# `newest`: the last backfill that the target has, or has begun to have, or could have now.
ROWS = text(f"""
    WITH {_SETTLED}, candidate AS MATERIALIZED (
        SELECT id, kind, status FROM exports
        WHERE source_name = :source AND table_name = :table
          AND (status = 'complete' AND kind <> 'deletes' OR status = 'running' AND kind = 'backfill')
    ), {_WAITING}, newest AS (
        SELECT max(id) AS id FROM judged WHERE kind = 'backfill' AND (waits OR has_begun)
    )
    {_FOUND}
""")

# `newest`: the last list of keys that the target was compared with, or could be now.
KEYS = text(f"""
    WITH {_SETTLED}, candidate AS MATERIALIZED (
        SELECT id, kind, status FROM exports
        WHERE source_name = :source AND table_name = :table
          AND status = 'complete' AND kind = 'deletes'
          AND id NOT IN (SELECT key_export_id FROM settled WHERE key_export_id IS NOT NULL)
          AND id NOT IN (SELECT id FROM named)
    ), {_WAITING}, newest AS (
        SELECT greatest(max(j.id) FILTER (WHERE j.waits),
                        (SELECT max(key_export_id) FROM settled)) AS id
        FROM judged AS j
    )
    {_FOUND}
""")

_WANTED = """
    unnest(CAST(:destinations AS text[]), CAST(:targets AS text[])) AS wanted (destination, target)
"""
_OF_WANTED = """
    (l.destination, l.target) = (wanted.destination, wanted.target)
    AND l.status IN ('published', 'complete')
"""

# A file of the same name is the same file, whatever the load's export list says.
LOADED_PATHS = text(f"""
    SELECT asked.path FROM unnest(CAST(:paths AS text[])) AS asked (path)
    WHERE NOT EXISTS (
        SELECT FROM {_WANTED}
        WHERE NOT EXISTS (
            SELECT FROM load_files AS f JOIN pipeline_metadata AS l USING (load_id)
            WHERE f.path = asked.path AND {_OF_WANTED}))
""")

# An export and a destination that lacks it: by a file, or by its name where it has none.
LACKING = text(f"""
    SELECT e.id
    FROM exports AS e CROSS JOIN {_WANTED}
    WHERE e.id = ANY(:ids) AND CASE
        WHEN EXISTS (SELECT FROM ({FILES}) AS m
                     WHERE m.export_id = e.id AND m.upload_file_name IS NOT NULL)
        THEN EXISTS (
            SELECT FROM ({FILES}) AS m
            WHERE m.export_id = e.id AND m.upload_file_name IS NOT NULL AND NOT EXISTS (
                SELECT FROM load_files AS f JOIN pipeline_metadata AS l USING (load_id)
                WHERE f.path = m.upload_file_name AND {_OF_WANTED}))
        ELSE NOT EXISTS (
            SELECT FROM pipeline_metadata AS l
            WHERE {_OF_WANTED} AND (
                l.exports @> to_jsonb(e.id) OR l.superseded @> to_jsonb(e.id)
                OR l.key_export_id = e.id))
        END
    LIMIT 1
""")
