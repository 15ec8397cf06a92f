-- How long each host answered on each UTC day, and how long it did not.
SELECT host, t // 86400, sum(up_s)::BIGINT, sum(down_s)::BIGINT FROM {hosts} GROUP BY ALL
