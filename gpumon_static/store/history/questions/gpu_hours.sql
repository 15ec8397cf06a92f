-- The last hours of each GPU and slice: means of utilization, memory in percent, temperature and power, packed into
-- one number for each hour; what is not known is 255, and 65535 watts. Then the largest single reading of each.
SELECT host, card, coalesce(mig_device, -1), list((t - $first * 3600) // 3600), list(packed), max(utilization_most),
    max(memory_most), max(temperature_most), max(power_most)
FROM (
    SELECT host, card, mig_device, t // 3600 * 3600 AS t,
        coalesce((sum(utilization_s) / nullif(sum(utilization_n), 0))::BIGINT, 255)
        -- least and greatest take no notice of NULL.
        + (CASE WHEN sum(memory_n * memory_total::BIGINT) > 0
            THEN least(100, 100 * sum(memory_s) // sum(memory_n * memory_total::BIGINT))::BIGINT ELSE 255 END << 8)
        + (CASE WHEN sum(temperature_n) > 0
            THEN greatest(0, sum(temperature_s) / sum(temperature_n))::BIGINT ELSE 255 END << 16)
        + (coalesce((sum(power_s) / nullif(sum(power_n), 0))::BIGINT, 65535) << 24) AS packed,
        max(utilization_max) AS utilization_most, max(CASE WHEN memory_max < memory_total THEN 100 * memory_max // memory_total
            WHEN memory_total > 0 AND memory_max IS NOT NULL THEN 100 END) AS memory_most,
        max(temperature_max) AS temperature_most, max(power_max) AS power_most
    FROM {gpus} WHERE t >= $first * 3600 GROUP BY host, card, mig_device, t // 3600
) GROUP BY host, card, mig_device
