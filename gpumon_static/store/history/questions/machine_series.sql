-- CPU, RAM and fullest disk in percent and load of each host, point by point: the number of the point, then means.
SELECT host, list(p ORDER BY p), list(cpu ORDER BY p), list(ram ORDER BY p), list(disk ORDER BY p), list("load" ORDER BY p)
FROM (
    SELECT host, t // {step} AS p, sum(cpu_s) / nullif(sum(cpu_n), 0) AS cpu, sum(ram_s) / nullif(sum(ram_n), 0) AS ram,
        sum(disk_s) / nullif(sum(disk_n), 0) AS disk, sum(load_s) / nullif(sum(load_n), 0) AS "load"
    FROM {hosts} GROUP BY host, p HAVING sum(cpu_n) > 0 OR sum(ram_n) > 0 OR sum(disk_n) > 0 OR sum(load_n) > 0
) GROUP BY host
