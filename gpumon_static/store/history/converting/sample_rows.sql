-- A row for each GPU and slice of a run.
SELECT to_timestamp(r.t) AS fetched_at, to_timestamp(r.run_t) AS run_at, c.host,
    CASE WHEN r.state = 4 THEN 'error' ELSE 'ok' END AS status, c.host_group, c.gpu_index, c.gpu_uuid, c.gpu_name,
    c.mig_device, c.mig_uuid, c.mig_profile, c.card, c.model, state_name(r.state) AS state, state_name(r.state) AS gpu_state,
    CASE WHEN r.state IN (1, 2) THEN coalesce(w.held_by, []) ELSE [] END AS held_by,
    CASE WHEN c.mig_device IS NULL THEN 1 ELSE c.share END AS share, r.state = 0 AS is_offered,
    CASE WHEN r.state < 4 THEN true END AS gpu_processes_known,
    CASE WHEN c.mig_device IS NULL THEN 2 ELSE 1 END AS level,
    percent(r.utilization) AS gpu_utilization, celsius(r.temperature) AS gpu_temperature_c, watts(r.power) AS gpu_power_w,
    CASE WHEN c.mig_device IS NULL THEN mib(r.memory) END AS gpu_memory_used_mib,
    CASE WHEN c.mig_device IS NULL THEN c.memory_total END AS gpu_memory_total_mib,
    CASE WHEN c.mig_device IS NOT NULL THEN mib(r.memory) END AS mig_memory_used_mib,
    CASE WHEN c.mig_device IS NOT NULL THEN c.memory_total END AS mig_memory_total_mib,
    r.seconds, CASE WHEN r.is_of_run THEN coalesce(u.seconds, 0) ELSE 0 END AS run_seconds,
    u.seconds IS NULL OR NOT r.is_of_run AS is_partial
FROM readings AS r JOIN cards AS c ON c.id = r.gpu
LEFT JOIN (SELECT id, string_split(names, chr(29))[2:] AS held_by FROM crews) AS w ON w.id = r.crew
LEFT JOIN run_times AS u ON u.t = r.run_t
WHERE r.run_t >= {start} AND r.run_t < {end}
