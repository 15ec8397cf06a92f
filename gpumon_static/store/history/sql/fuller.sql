-- The hours of hosts of which the other history knows more seconds than ours.
CREATE OR REPLACE TEMP TABLE fuller AS
WITH known AS (
    SELECT 'theirs' AS side, epoch(run_at)::BIGINT // 3600 AS "hour", host, sum(seconds) FILTER (status = 'ok') AS known_s,
        sum(seconds) AS all_s, count(*) AS readings
    FROM their_rows WHERE level = 3 GROUP BY ALL
    UNION ALL
    SELECT 'ours', epoch(run_at)::BIGINT // 3600, host, sum(seconds) FILTER (status = 'ok'), sum(seconds), count(*)
    FROM our_rows WHERE level = 3 GROUP BY ALL
)
SELECT t."hour", t.host FROM known AS t LEFT JOIN known AS o ON o.side = 'ours' AND o."hour" = t."hour" AND o.host = t.host
WHERE t.side = 'theirs' AND (o.host IS NULL
    OR (coalesce(t.known_s, 0), t.all_s) > (coalesce(o.known_s, 0), o.all_s))
