-- How many GPUs of a model were free at once, run by run, in all hosts (group NULL) and in each group. A run counts
-- for "none free" where at least half of the GPUs are known. A GPU that is cut is free only if all its slices are.
WITH cards AS (
    SELECT run_at, run_seconds, host, coalesce(host_group, '') AS host_group, coalesce(model, 'unknown model') AS model, gpu_state,
        mig_device IS NULL AND slurm_allocated IN ('yes', 'no') AS is_reported,
        mig_device IS NULL AND slurm_allocated = 'yes' AS is_allocated
    FROM {rows} WHERE level >= 2 AND gpu_index IS NOT NULL AND run_seconds > 0
),
in_hosts AS (
    SELECT run_at, any_value(run_seconds) AS s, model, host_group, host, count(*) AS gpus,
        count(*) FILTER (gpu_state = 'free') AS free, count(*) FILTER (gpu_state = 'busy') AS busy,
        count(*) FILTER (gpu_state = 'held') AS held, count(*) FILTER (is_reported) AS reported,
        count(*) FILTER (is_allocated) AS allocated, count(*) FILTER (is_allocated AND gpu_state = 'held') AS idle
    FROM cards GROUP BY ALL
),
together AS (
    SELECT * FROM in_hosts UNION ALL BY NAME SELECT * REPLACE (NULL AS host_group) FROM in_hosts
),
runs AS (
    SELECT run_at, any_value(s) AS s, model, host_group, sum(gpus) AS gpus, max(gpus) AS host_gpus, sum(free) AS free,
        sum(busy) AS busy, sum(held) AS held, max(free) AS most_free, sum(reported) AS reported,
        sum(allocated) AS allocated, sum(idle) AS idle
    FROM together GROUP BY run_at, model, host_group
),
judged AS (SELECT *, CASE WHEN 2 * (free + busy + held) >= gpus THEN s ELSE 0 END AS j FROM runs)
SELECT epoch(run_at)::BIGINT // {grain} * {grain} AS t, model, host_group, min(epoch(run_at))::BIGINT AS first_at,
    arg_max(gpus, run_at)::BIGINT AS gpus, arg_max(host_gpus, run_at)::BIGINT AS host_gpus, max(epoch(run_at))::BIGINT AS last_at,
    sum(s)::BIGINT AS counted_s, sum(j)::BIGINT AS judged_s, sum(CASE WHEN free = 0 THEN j ELSE 0 END)::BIGINT AS none_s,
    sum(CASE WHEN most_free >= 2 THEN j ELSE 0 END)::BIGINT AS two_s,
    sum(CASE WHEN most_free >= 4 THEN j ELSE 0 END)::BIGINT AS four_s,
    sum(CASE WHEN most_free >= 8 THEN j ELSE 0 END)::BIGINT AS eight_s,
    sum(s * free)::BIGINT AS free_s, sum(s * busy)::BIGINT AS busy_s, sum(s * held)::BIGINT AS held_s,
    sum(s * (gpus - free - busy - held))::BIGINT AS unknown_s,
    sum(s * reported)::BIGINT AS reported_s, sum(s * allocated)::BIGINT AS allocated_s, sum(s * idle)::BIGINT AS idle_s
FROM judged GROUP BY ALL ORDER BY model, host_group, t
