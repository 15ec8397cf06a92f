-- Who used how much: GPU seconds busy and held idle of each user, and of each part where one is asked for.
SELECT coalesce("user", '') AS "user", {part} AS part, sum(busy_s), sum(held_s), sum(work_s), sum(measured_s),
    sum(allocated_s), sum(idle_s)
FROM {users} GROUP BY 1, 2
