-- The GPUs of one model (or slices of one profile) in one host: how busy, how full, how many free, in GPU seconds; and
-- the seconds of the readings that these are of.
WITH g AS (
    SELECT run_t, host, host_group, gpu_name, mig_profile, fetched_at, count(*) AS gpus, greatest(any_value(seconds), 1)::BIGINT AS w,
        sum(utilization) AS utilization, count(utilization) AS utilization_n,
        sum(memory_used::BIGINT) FILTER (memory_total IS NOT NULL) AS memory,
        sum(memory_total::BIGINT) FILTER (memory_used IS NOT NULL) AS memory_total,
        count(*) FILTER (state = 'free') AS free, count(*) FILTER (state IN ('busy', 'held')) AS taken,
        count(*) FILTER (state IN ('unknown', 'down')) AS unknown
    FROM ({gpu_runs}) GROUP BY ALL
)
SELECT run_t // {grain} * {grain} AS t, host, host_group, gpu_name, mig_profile, sum(w)::BIGINT AS weight_s,
    coalesce(sum(utilization * w), 0)::BIGINT AS utilization_s, sum(utilization_n * w)::BIGINT AS utilization_n,
    coalesce(sum(memory * w), 0)::BIGINT AS memory_s, coalesce(sum(memory_total * w), 0)::BIGINT AS memory_total_s,
    sum(free * w)::BIGINT AS free_s, sum(taken * w)::BIGINT AS taken_s, sum(unknown * w)::BIGINT AS unknown_s
FROM g GROUP BY ALL ORDER BY host, gpu_name, mig_profile, t
