-- The same by the hour of the week in a time zone, from Monday on: seconds free, and seconds known.
SELECT model, host_group, list(h), list(free), list(known) FROM (
    SELECT model, host_group, (isodow(timezone($zone, to_timestamp(t))) - 1) * 24 + hour(timezone($zone, to_timestamp(t))) AS h,
        sum(free_s)::BIGINT AS free, sum(free_s + busy_s + held_s)::BIGINT AS known
    FROM {supply} WHERE host_group IS {not_} NULL GROUP BY ALL
) GROUP BY model, host_group
