-- Utilization, memory and how many are free of each pool, point by point. A GPU that is unknown is not free; where
-- nothing is known of a pool, its number of free GPUs is not known.
SELECT host, coalesce(gpu_name, ''), coalesce(mig_profile, ''), list(p ORDER BY p),
    flatten(list([utilization, utilization_n, memory, memory_total, free, known] ORDER BY p))
FROM (
    SELECT host, gpu_name, mig_profile, t // {step} AS p, sum(utilization_s)::DOUBLE AS utilization,
        sum(utilization_n)::DOUBLE AS utilization_n, sum(memory_s)::DOUBLE AS memory, sum(memory_total_s)::DOUBLE AS memory_total,
        coalesce(sum(free_s) / nullif(sum(weight_s), 0), 0)::DOUBLE AS free,
        (sum(free_s + taken_s) > 0)::INTEGER::DOUBLE AS known
    FROM {pools} GROUP BY host, gpu_name, mig_profile, p
) GROUP BY host, gpu_name, mig_profile
