-- A row for each host and run: of a host that did not answer, all GPUs are down. Of RAM only the percentage is known.
WITH asked AS (
    SELECT host_id, t, any_value(run_t) AS run_t, max(seconds) AS seconds, min(state) < 4 AS is_up, bool_and(is_of_run) AS is_of_run
    FROM readings WHERE run_t >= {start} AND run_t < {end} GROUP BY host_id, t
    UNION ALL
    -- An answer without GPUs.
    SELECT m.host AS host_id, m.t, m.t AS run_t,
        coalesce(stands_for(m.t, lead(m.t) OVER (PARTITION BY m.host ORDER BY m.t), {interval_s}, NULL), 0) AS seconds, true AS is_up, false AS is_of_run
    FROM machine_runs AS m ANTI JOIN readings AS r ON r.host_id = m.host AND r.t = m.t
    WHERE m.t >= {start} AND m.t < {end} AND m.host IN (SELECT host_id FROM hosts_of_runs) AND m.t >= {first}
)
SELECT to_timestamp(a.t) AS fetched_at, to_timestamp(a.run_t) AS run_at, h.name AS host, h.host_group,
    CASE WHEN a.is_up THEN 'ok' ELSE 'error' END AS status, CASE WHEN a.is_up THEN 'up' ELSE 'down' END AS state,
    CASE WHEN a.is_up THEN 'up' ELSE 'down' END AS gpu_state, CAST([] AS VARCHAR[]) AS held_by, false AS is_offered, 3 AS level,
    percent(m.cpu) AS cpu_utilization, percent(m.ram) AS ram_used_mib, CASE WHEN percent(m.ram) IS NOT NULL THEN 100 END AS ram_total_mib,
    percent(m.disk) AS disk_percent, loads(m.load) / 10 AS load_1m, a.seconds,
    CASE WHEN a.is_of_run THEN coalesce(u.seconds, 0) ELSE 0 END AS run_seconds, u.seconds IS NULL OR NOT a.is_of_run AS is_partial
FROM asked AS a JOIN hosts AS h ON h.id = a.host_id LEFT JOIN machine_runs AS m ON m.host = a.host_id AND m.t = a.t
LEFT JOIN run_times AS u ON u.t = a.run_t
