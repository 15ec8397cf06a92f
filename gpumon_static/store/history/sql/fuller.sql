-- The hours of hosts of which the other history knows more than ours, by over an interval: there theirs counts, else
-- ours. And the readings of the one that does not count which fall into gaps of the one that does, as at the seam of
-- two collectors that ran one after the other.
CREATE OR REPLACE TEMP TABLE fuller AS
WITH known AS (
    SELECT 'theirs' AS side, epoch(run_at)::BIGINT // 3600 AS "hour", host, sum(seconds) FILTER (status = 'ok') AS known_s,
        sum(seconds) AS all_s, max(interval_s) AS interval_s
    FROM their_rows WHERE level = 3 GROUP BY ALL
    UNION ALL
    SELECT 'ours', epoch(run_at)::BIGINT // 3600, host, sum(seconds) FILTER (status = 'ok'), sum(seconds), max(interval_s)
    FROM our_rows WHERE level = 3 GROUP BY ALL
)
SELECT t."hour", t.host FROM known AS t LEFT JOIN known AS o ON o.side = 'ours' AND o."hour" = t."hour" AND o.host = t.host
WHERE t.side = 'theirs' AND (o.host IS NULL
    OR (coalesce(t.known_s, 0), t.all_s) > (coalesce(o.known_s, 0) + t.interval_s, o.all_s));
CREATE OR REPLACE TEMP TABLE accounts AS
WITH readings AS (
    SELECT true AS is_theirs, host, fetched_at, run_at, seconds, interval_s FROM their_rows WHERE level = 3
    UNION ALL SELECT false, host, fetched_at, run_at, seconds, interval_s FROM our_rows WHERE level = 3
)
SELECT r.is_theirs, r.host, r.fetched_at, epoch(r.fetched_at) AS t, r.seconds, r.interval_s,
    r.is_theirs = (f.host IS NOT NULL) AS is_counted
FROM readings AS r LEFT JOIN fuller AS f ON f.host = r.host AND f."hour" = epoch(r.run_at)::BIGINT // 3600;
CREATE OR REPLACE TEMP TABLE filling AS
WITH counted AS (FROM accounts WHERE is_counted)
SELECT c.is_theirs, c.host, c.fetched_at
FROM (FROM accounts WHERE NOT is_counted AND seconds <= 1.5 * interval_s) AS c
ASOF LEFT JOIN counted AS p ON p.host = c.host AND p.t <= c.t
ASOF LEFT JOIN counted AS n ON n.host = c.host AND n.t >= c.t
WHERE NOT coalesce(c.t - p.t <= c.interval_s / 2 OR c.t < p.t + p.seconds - c.interval_s / 2, false)
    AND NOT coalesce(n.t - c.t <= c.interval_s / 2, false)
