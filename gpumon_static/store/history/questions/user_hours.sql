-- Seconds busy and held idle of each hour, GPU or slice, and user.
SELECT strftime(to_timestamp(t // 3600 * 3600), '%Y-%m-%dT%H:%M:%SZ') AS "hour", host, gpu_index, mig_device,
    coalesce(gpu_name, '') AS model, "user", round(sum(busy))::BIGINT, round(sum(held))::BIGINT,
    round(sum(part * utilization) / nullif(sum(part) FILTER (utilization IS NOT NULL), 0), 1), card
FROM (
    SELECT t, host, card, gpu_index, mig_device, gpu_name, "user", utilization, part,
        CASE WHEN state = 'busy' THEN part ELSE 0 END AS busy, CASE WHEN state = 'held' THEN part ELSE 0 END AS held
    FROM (
        SELECT *, unnest(held_by) AS "user", seconds * share / len(held_by) AS part FROM ({gpu_runs})
        WHERE len(held_by) > 0 AND seconds > 0)
)
GROUP BY ALL ORDER BY 1, host, gpu_index, mig_device, "user"
