CREATE OR REPLACE TEMP TABLE log AS
SELECT DISTINCT ON (f[1], f[2], f[3]) f[1]::BIGINT AS t, f[2] AS host, f[3]::INTEGER AS gpu_index, f[4]::INTEGER AS utilization,
    f[5]::INTEGER AS memory_used, f[6]::INTEGER AS memory_total, f[7] AS state
FROM (SELECT string_split(unnest(string_split($rows, chr(30))), chr(31)) AS f)
