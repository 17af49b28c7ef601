-- name: follow_platforms
-- A pipeline went to another platform: so do its runs that wait and were not begun on the old one.
WITH moved AS (
    SELECT run_id, pipelines.platform FROM pipeline_run_log AS runs
    JOIN pipelines USING (pipeline_id)
    WHERE runs.status IN ('queued', 'retrying') AND runs.platform <> pipelines.platform
      AND runs.external_run_id IS NULL AND NOT EXISTS (
        SELECT FROM run_attempts AS begun
        WHERE begun.run_id = runs.run_id AND begun.attempt = runs.retry_attempts + 1)
    FOR UPDATE OF runs SKIP LOCKED
)
UPDATE pipeline_run_log AS runs SET platform = moved.platform
FROM moved WHERE runs.run_id = moved.run_id;
