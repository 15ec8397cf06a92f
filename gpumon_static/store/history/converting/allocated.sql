-- What Slurm had given to jobs of each user, as sums/users.sql has it: no sample has it.
SELECT "hour" * 3600 AS t, coalesce(n.name, '') AS "user", c.host, c.host_group, c.gpu_name, c.model, 0::DOUBLE AS busy_s,
    0::DOUBLE AS held_s, 0::DOUBLE AS work_s, 0::DOUBLE AS measured_s, 0::DOUBLE AS watt_s, 0::DOUBLE AS power_s,
    sum(allocated_s)::DOUBLE AS allocated_s, sum(idle_s)::DOUBLE AS idle_s
FROM ({allocated}) AS a JOIN cards AS c ON c.id = a.gpu LEFT JOIN users AS n ON n.id = a.user
GROUP BY ALL ORDER BY 2, 3, 1
