-- The hosts around the GPUs: when they answered, CPU, RAM, fullest disk in percent, load.
SELECT epoch(run_at)::BIGINT // {grain} * {grain} AS t, host, min(epoch(fetched_at))::BIGINT AS first_at,
    coalesce(sum(seconds) FILTER (status = 'ok'), 0)::BIGINT AS up_s,
    coalesce(sum(seconds) FILTER (status <> 'ok'), 0)::BIGINT AS down_s,
    count(*) AS asked, count(*) FILTER (status = 'ok') AS answered,
    sum(cpu_utilization * w)::BIGINT AS cpu_s, sum(w) FILTER (cpu_utilization IS NOT NULL)::BIGINT AS cpu_n,
    sum(least(100, 100.0 * ram_used_mib / ram_total_mib) * w) FILTER (ram_used_mib IS NOT NULL AND ram_total_mib > 0) AS ram_s,
    sum(w) FILTER (ram_used_mib IS NOT NULL AND ram_total_mib > 0)::BIGINT AS ram_n,
    sum(disk_percent * w)::BIGINT AS disk_s, sum(w) FILTER (disk_percent IS NOT NULL)::BIGINT AS disk_n,
    sum(load_1m * w) AS load_s, sum(w) FILTER (load_1m IS NOT NULL)::BIGINT AS load_n
FROM (SELECT *, greatest(seconds, 1)::BIGINT AS w FROM {rows} WHERE level = 3) GROUP BY ALL ORDER BY host, t
