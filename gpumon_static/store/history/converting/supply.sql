-- How many GPUs of a model were free at once, as sums/supply.sql has it: it cannot be counted again from other sums.
WITH s AS (SELECT * FROM ({supply})), j AS (SELECT * FROM ({slurm})),
shorts AS (
    SELECT DISTINCT ON (s.counted_as) s.counted_as AS model, m.short FROM supply_models AS s JOIN models AS m ON m.id = s.counted_as
)
SELECT "hour" * 3600 AS t, n.short AS model, CASE WHEN host_group <> 0 THEN coalesce(g.name, '') END AS host_group,
    "hour" * 3600 AS first_at, coalesce(max(gpus), 0)::BIGINT AS gpus, coalesce(max(host_gpus), 0)::BIGINT AS host_gpus,
    least("hour" * 3600 + 3599, {last}) AS last_at, {sums}, coalesce(sum(j.told_s), 0)::BIGINT AS reported_s,
    coalesce(sum(j.allocated_s), 0)::BIGINT AS allocated_s, coalesce(sum(j.idle_s), 0)::BIGINT AS idle_s
FROM s JOIN shorts AS n USING (model) LEFT JOIN host_groups AS g ON g.id = host_group LEFT JOIN j USING ("hour", model, host_group)
WHERE host_group = 0 OR g.id IS NOT NULL
GROUP BY ALL ORDER BY 2, 3, 1
