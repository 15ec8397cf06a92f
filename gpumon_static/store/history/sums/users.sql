-- GPU time of each user, by hour, host and model. A shared GPU is split evenly; a slice counts by its share.
-- Allocated is what Slurm had given to jobs of the user.
WITH g AS ({gpu_runs})
SELECT t, "user", host, host_group, gpu_name, model,
    sum(busy_s) AS busy_s, sum(held_s) AS held_s, sum(work_s) AS work_s, sum(measured_s) AS measured_s,
    sum(watt_s) AS watt_s, sum(power_s) AS power_s, sum(allocated_s) AS allocated_s, sum(idle_s) AS idle_s
FROM (
    SELECT run_t // {grain} * {grain} AS t, unnest(held_by) AS "user", host, host_group, gpu_name, model,
        CASE WHEN state = 'busy' THEN part ELSE 0 END AS busy_s, CASE WHEN state = 'held' THEN part ELSE 0 END AS held_s,
        CASE WHEN utilization IS NOT NULL THEN part * utilization ELSE 0 END AS work_s,
        CASE WHEN utilization IS NOT NULL THEN part ELSE 0 END AS measured_s,
        CASE WHEN power IS NOT NULL THEN part * power ELSE 0 END AS watt_s,
        CASE WHEN power IS NOT NULL THEN part ELSE 0 END AS power_s, 0::DOUBLE AS allocated_s, 0::DOUBLE AS idle_s
    FROM (SELECT *, seconds * share / len(held_by) AS part FROM g WHERE len(held_by) > 0 AND seconds > 0)
    UNION ALL BY NAME
    SELECT run_t // {grain} * {grain} AS t, coalesce(allocated_to, '') AS "user", host, host_group, gpu_name, model,
        0::DOUBLE AS busy_s, 0::DOUBLE AS held_s, 0::DOUBLE AS work_s, 0::DOUBLE AS measured_s, 0::DOUBLE AS watt_s, 0::DOUBLE AS power_s,
        seconds::DOUBLE AS allocated_s, CASE WHEN state = 'held' THEN seconds ELSE 0 END::DOUBLE AS idle_s
    FROM g WHERE allocated = 'yes' AND seconds > 0
)
GROUP BY ALL ORDER BY "user", host, t
