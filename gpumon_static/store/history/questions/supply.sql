-- Each model's time by what was free at once, in all hosts (group NULL) or in each group.
SELECT model, host_group, arg_max(gpus, last_at), arg_max(host_gpus, last_at), min(first_at), max(last_at),
    sum(counted_s)::BIGINT, sum(judged_s)::BIGINT, sum(none_s)::BIGINT, sum(two_s)::BIGINT, sum(four_s)::BIGINT,
    sum(eight_s)::BIGINT, sum(free_s)::BIGINT, sum(busy_s)::BIGINT, sum(held_s)::BIGINT, sum(unknown_s)::BIGINT,
    sum(reported_s)::BIGINT, sum(allocated_s)::BIGINT, sum(idle_s)::BIGINT
FROM {supply} WHERE host_group IS {not_} NULL GROUP BY model, host_group ORDER BY model, host_group
