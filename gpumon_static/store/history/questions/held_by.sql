-- Who held GPUs of a model idle, and for how long; by group where that is asked for.
SELECT model, {group} AS host_group, coalesce("user", ''), sum(held_s) FROM {users} WHERE held_s > 0 GROUP BY 1, 2, 3
