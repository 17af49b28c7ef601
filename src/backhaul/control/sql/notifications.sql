-- name: add
-- A row for each channel that does not have this event yet; the new ones come back.
INSERT INTO pipeline_notifications (
    pipeline_id, run_id, notification_type, notification_channel, event_key, message,
    created_at, next_attempt_at
)
SELECT %(pipeline_id)s, %(run_id)s, %(kind)s, asked.channel, %(event_key)s, asked.message,
       %(now)s, %(now)s
FROM unnest(%(channels)s::text[], %(messages)s::jsonb[]) AS asked (channel, message)
ORDER BY asked.channel
ON CONFLICT (event_key, notification_channel) DO NOTHING
RETURNING notification_id;

-- name: tell
-- Whoever sends looks at once; it hears of it when the transaction commits.
SELECT pg_notify('backhaul_notify', '');

-- name: channels
-- The channels that have something due, the longest waiting first.
SELECT notification_channel
FROM pipeline_notifications
WHERE notification_status IN ('pending', 'sending') AND coalesce(next_attempt_at, created_at) <= %(now)s
GROUP BY notification_channel
ORDER BY min(notification_id);

-- name: next_due
-- When something is due next; NULL if nothing waits.
SELECT min(coalesce(next_attempt_at, created_at))
FROM pipeline_notifications
WHERE notification_status IN ('pending', 'sending');

-- name: lock_channel
-- One at a time decides what a channel gets next: what is counted stays true until it is claimed.
SELECT pg_advisory_xact_lock(hashtextextended('backhaul notify ' || %(channel)s, 0));

-- name: nth_newest
-- When the last but so many were sent, of those within the rate's stretch; what is being sent counts.
SELECT at
FROM (
    SELECT sent_at AS at FROM pipeline_notifications
    WHERE notification_channel = %(channel)s AND notification_status = 'sent'
        AND sent_at > %(since)s
    UNION ALL
    SELECT %(now)s::timestamptz FROM pipeline_notifications
    WHERE notification_channel = %(channel)s AND notification_status = 'sending'
        AND next_attempt_at > %(now)s
) AS lately
ORDER BY at DESC
OFFSET %(skipped)s LIMIT 1;

-- name: hold
-- What is due waits for its turn in the rate, and is marked as having waited.
UPDATE pipeline_notifications
SET next_attempt_at = %(until)s, message = message || '{"held": true}'
WHERE notification_channel = %(channel)s AND notification_status = 'pending'
    AND coalesce(next_attempt_at, created_at) <= %(now)s;

-- name: held
-- What has waited for its turn, told to the same people as the oldest of it.
WITH waiting AS (
    SELECT notification_id, notification_type, pipeline_id, event_key, message,
           message -> 'to' AS told, message -> 'also' AS also
    FROM pipeline_notifications
    WHERE notification_channel = %(channel)s AND notification_status = 'pending'
        AND coalesce(next_attempt_at, created_at) <= %(now)s
        AND message -> 'held' IS NOT NULL AND message -> 'digest' IS NULL
),
oldest AS (SELECT told, also FROM waiting ORDER BY notification_id LIMIT 1)
SELECT w.notification_id, w.notification_type, w.message
FROM waiting AS w
JOIN oldest AS o ON w.told IS NOT DISTINCT FROM o.told AND w.also IS NOT DISTINCT FROM o.also
ORDER BY w.notification_id
LIMIT 1000;

-- name: add_digest
-- One message for many, claimed as it is made.
INSERT INTO pipeline_notifications (
    notification_type, notification_status, notification_channel, event_key, message,
    created_at, next_attempt_at, attempts, claimed_by
)
VALUES (%(kind)s, 'sending', %(channel)s, %(event_key)s, %(message)s, %(now)s, %(lease)s, 1, %(sender)s)
RETURNING notification_id;

-- name: suppress
-- These are told by the digest, and not each by itself.
UPDATE pipeline_notifications
SET notification_status = 'suppressed', next_attempt_at = NULL,
    error_message = 'too many at once: told in notification ' || %(digest)s
WHERE notification_id = ANY(%(folded)s) AND notification_status = 'pending';

-- name: claim
-- The oldest due message of a channel, before which none of its pipeline waits or is being sent. One
-- whose sender did not come back within its lease is due again.
WITH due AS (
    SELECT n.notification_id
    FROM pipeline_notifications AS n
    WHERE n.notification_channel = %(channel)s
        AND n.notification_status IN ('pending', 'sending')
        AND coalesce(n.next_attempt_at, n.created_at) <= %(now)s
        AND NOT EXISTS (
            SELECT FROM pipeline_notifications AS earlier
            WHERE earlier.notification_channel = %(channel)s
                AND earlier.notification_status IN ('pending', 'sending')
                AND earlier.pipeline_id = n.pipeline_id
                AND earlier.notification_id < n.notification_id
        )
    ORDER BY n.notification_id
    LIMIT 1
    FOR UPDATE SKIP LOCKED
)
UPDATE pipeline_notifications AS n
SET notification_status = 'sending', claimed_by = %(sender)s, next_attempt_at = %(lease)s,
    attempts = n.attempts + 1
FROM due
WHERE n.notification_id = due.notification_id
RETURNING n.notification_id, n.notification_type, n.attempts, n.event_key, n.message;

-- name: sent
-- The channel took it. Nothing changes if somebody else has it by now.
UPDATE pipeline_notifications
SET notification_status = 'sent', sent_at = %(now)s, next_attempt_at = NULL, error_message = NULL
WHERE notification_id = %(notification_id)s AND notification_status = 'sending'
    AND claimed_by = %(sender)s AND attempts = %(attempts)s;

-- name: again
-- The channel may take it later.
UPDATE pipeline_notifications
SET notification_status = 'pending', next_attempt_at = %(at)s, error_message = %(error)s
WHERE notification_id = %(notification_id)s AND notification_status = 'sending'
    AND claimed_by = %(sender)s AND attempts = %(attempts)s;

-- name: failed
-- It is given up; the reason is for people to read.
UPDATE pipeline_notifications
SET notification_status = 'failed', next_attempt_at = NULL, error_message = %(error)s
WHERE notification_id = %(notification_id)s AND notification_status = 'sending'
    AND claimed_by = %(sender)s AND attempts = %(attempts)s;

-- name: rest
-- A channel that does not answer is left alone for a while; none of its messages loses an attempt.
UPDATE pipeline_notifications
SET next_attempt_at = %(until)s
WHERE notification_channel = %(channel)s AND notification_status = 'pending'
    AND coalesce(next_attempt_at, created_at) < %(until)s;
