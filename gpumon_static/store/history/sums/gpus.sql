-- What each GPU and slice did: means are weighted by time, maxima are of single readings. The last reading of all,
-- which stands for no time yet, weighs a second.
WITH g AS (SELECT *, greatest(seconds, 1)::BIGINT AS w FROM ({gpu_runs}))
SELECT run_t // {grain} * {grain} AS t, host, card, gpu_index, mig_device, gpu_name, mig_profile,
    min(t) AS first_at, max(t) AS last_at, arg_max(seconds, t) AS last_s, sum(seconds)::BIGINT AS counted_s, sum(w)::BIGINT AS weight,
    sum(seconds) FILTER (state = 'free')::BIGINT AS free_s, sum(seconds) FILTER (state = 'busy')::BIGINT AS busy_s,
    sum(seconds) FILTER (state = 'held')::BIGINT AS held_s, sum(seconds) FILTER (state = 'unknown')::BIGINT AS unknown_s,
    sum(seconds) FILTER (state = 'down')::BIGINT AS down_s,
    sum(utilization * w)::BIGINT AS utilization_s, sum(w) FILTER (utilization IS NOT NULL)::BIGINT AS utilization_n,
    max(utilization) AS utilization_max,
    sum(memory_used::BIGINT * w)::BIGINT AS memory_s, sum(w) FILTER (memory_used IS NOT NULL)::BIGINT AS memory_n,
    max(memory_used) AS memory_max, max(memory_total) AS memory_total,
    sum(temperature * w)::BIGINT AS temperature_s, sum(w) FILTER (temperature IS NOT NULL)::BIGINT AS temperature_n,
    max(temperature) AS temperature_max,
    sum(power * w)::BIGINT AS power_s, sum(w) FILTER (power IS NOT NULL)::BIGINT AS power_n,
    max(power) AS power_max
FROM g GROUP BY ALL ORDER BY host, gpu_index, mig_device, t
