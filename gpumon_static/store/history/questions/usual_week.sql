-- GPU seconds free, and known at all, of each pool in each hour of the week, from Monday on, in a time zone.
SELECT host, coalesce(gpu_name, ''), coalesce(mig_profile, ''), list(h), list(free), list(known)
FROM (
    SELECT host, gpu_name, mig_profile, (isodow(timezone($zone, to_timestamp(t))) - 1) * 24 + hour(timezone($zone, to_timestamp(t))) AS h, sum(free_s)::DOUBLE AS free,
        sum(free_s + taken_s)::DOUBLE AS known
    FROM {pools} WHERE free_s + taken_s > 0 AND t < $until GROUP BY ALL
) GROUP BY host, gpu_name, mig_profile
