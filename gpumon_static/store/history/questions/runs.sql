-- How often the collector looked: readings of the host that was asked most often, and the first of them.
SELECT max(asked), min(first_at) FROM (SELECT host, sum(asked)::BIGINT AS asked, min(first_at) AS first_at FROM {hosts} GROUP BY host)
