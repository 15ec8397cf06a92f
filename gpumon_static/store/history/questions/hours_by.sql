-- GPU hours and energy by what is asked for: users, hosts, groups, models, or several of them together.
SELECT {parts}, sum(busy_s + held_s) / 3600 AS gpu_hours, sum(busy_s) / 3600 AS busy_hours,
    sum(held_s) / 3600 AS held_idle_hours, sum(work_s) / nullif(sum(measured_s), 0) AS efficiency_percent,
    sum(watt_s) FILTER (power_s > 0) / 3600000 AS energy_kwh, sum(allocated_s) / 3600 AS allocated_hours
FROM {users} GROUP BY ALL ORDER BY gpu_hours DESC, 1
