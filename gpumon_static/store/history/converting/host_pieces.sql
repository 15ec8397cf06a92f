-- Hours of hosts of which only sums are left, as rows: the time in which a host answered, then that in which it did not.
-- Where a day has no sums of its host, which came with a later version, the GPUs are asked.
WITH machine AS (SELECT * FROM ({machines}) WHERE "hour" < {first_hour} OR host NOT IN (SELECT host_id FROM hosts_of_runs)),
by_gpus AS (
    SELECT "hour", host_id AS host, max(free_s + busy_s + held_s + unknown_s) AS up, max(down_s) AS down
    FROM ({gpus}) AS g JOIN cards AS c ON c.id = g.gpu
    WHERE c.mig_device IS NULL AND "hour" < {first_hour} AND NOT EXISTS (SELECT 1 FROM machine_days AS d WHERE d.host = c.host_id AND d."day" = "hour" // 24)
    GROUP BY "hour", host_id
),
found AS (
    SELECT "hour", host, up_s, down_s, cpu_sum / nullif(cpu_n, 0) AS cpu, ram_sum / nullif(ram_n, 0) AS ram,
        disk_sum / nullif(disk_n, 0) AS disk, load_sum / nullif(load_n, 0) / 10 AS "load" FROM machine
    UNION ALL BY NAME
    SELECT "hour", host, up AS up_s, least(down, greatest(0, 3600 - up)) AS down_s FROM by_gpus
),
sides AS (
    SELECT "hour", host, unnest([true, false]) AS is_up, unnest([up_s, down_s]) AS s, up_s, cpu, ram, disk, "load" FROM found
),
rounded AS (
    SELECT *, floor(s_until + phase((host, is_up, "hour" // 24)))::BIGINT - floor(s_until - s + phase((host, is_up, "hour" // 24)))::BIGINT AS n
    FROM (SELECT *, sum(s) OVER (PARTITION BY host, is_up, "hour" // 24 ORDER BY "hour") AS s_until FROM sides)
)
SELECT to_timestamp("hour" * 3600 + CASE WHEN is_up THEN 0 ELSE least(up_s, 3599)::BIGINT END) AS fetched_at,
    to_timestamp("hour" * 3600) AS run_at, h.name AS host, h.host_group, CASE WHEN is_up THEN 'ok' ELSE 'error' END AS status,
    CASE WHEN is_up THEN 'up' ELSE 'down' END AS state, CASE WHEN is_up THEN 'up' ELSE 'down' END AS gpu_state,
    CAST([] AS VARCHAR[]) AS held_by, false AS is_offered, 3 AS level,
    CASE WHEN is_up THEN percent(whole(cpu, (host, "hour", 'c'))) END AS cpu_utilization,
    CASE WHEN is_up THEN percent(whole(ram, (host, "hour", 'r'))) END AS ram_used_mib,
    CASE WHEN is_up AND ram IS NOT NULL THEN 100 END AS ram_total_mib,
    CASE WHEN is_up THEN percent(whole(disk, (host, "hour", 'd'))) END AS disk_percent,
    CASE WHEN is_up THEN loads(round("load", 1)) END AS load_1m, n AS seconds, 0 AS run_seconds, true AS is_partial
FROM rounded AS r JOIN hosts AS h ON h.id = r.host
WHERE n > 0 OR (is_up AND (cpu IS NOT NULL OR ram IS NOT NULL OR disk IS NOT NULL OR "load" IS NOT NULL))
