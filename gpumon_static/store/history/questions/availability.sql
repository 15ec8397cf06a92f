-- How long each host answered, how long it did not, and since when it was asked.
SELECT host, sum(up_s)::BIGINT, sum(down_s)::BIGINT, min(first_at) FROM {hosts} GROUP BY host
