-- What the survey decided about a run, sent as one text each: records end in chr(30), fields in chr(31).
SELECT f[1] AS host, f[2]::BIGINT AS t, f[3]::BIGINT AS run_at, f[4] AS host_group,
    nullif(f[5], '') AS disks, nullif(f[6], '')::INTEGER AS disk_percent, f[7]::INTEGER AS interval_s
FROM (SELECT string_split(unnest(string_split($hosts, chr(30))), chr(31)) AS f)
WHERE len(f) = 7;
