-- Rows with the seconds that each stands for: until its host is read again; a run until the next one of all hosts.
-- What nothing follows stands for no time yet, or for its interval, where that has passed.
WITH readings AS (SELECT * FROM {rows}),
now AS (SELECT coalesce({newest}, max(epoch(run_at))) AS newest FROM readings),
of_hosts AS (
    SELECT host, fetched_at, stands_for(epoch(fetched_at), lead(epoch(fetched_at)) OVER (PARTITION BY host ORDER BY fetched_at),
        interval_s, newest)::INTEGER AS seconds
    FROM readings, now WHERE level = 3
),
runs AS (
    SELECT run_at, stands_for(epoch(run_at), lead(epoch(run_at)) OVER (ORDER BY run_at), interval_s, newest)::INTEGER AS seconds
    FROM now, (SELECT run_at, max(interval_s) AS interval_s FROM readings WHERE level = 3 AND NOT is_partial GROUP BY run_at)
)
SELECT r.* REPLACE (coalesce(r.seconds, h.seconds, 0) AS seconds,
    coalesce(r.run_seconds, CASE WHEN r.is_partial THEN 0 ELSE coalesce(u.seconds, 0) END) AS run_seconds)
FROM readings AS r LEFT JOIN of_hosts AS h USING (host, fetched_at) LEFT JOIN runs AS u USING (run_at)
