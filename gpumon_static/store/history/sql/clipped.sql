-- Rows of a period: a reading that reaches over its beginning or end counts for the part inside. A run that ended
-- in the period counts from its first reading on, as in the sums.
SELECT * REPLACE (
    greatest(0, least(epoch(fetched_at) + coalesce(seconds, 0), {until}) - CASE
        WHEN epoch(run_at) >= {since} THEN epoch(fetched_at) ELSE greatest(epoch(fetched_at), {since}) END)::INTEGER
        AS seconds,
    greatest(0, least(epoch(run_at) + coalesce(run_seconds, 0), {until}) - greatest(epoch(run_at), {since}))::INTEGER
        AS run_seconds)
FROM {rows}
WHERE (epoch(run_at) >= {since} OR {reaches} > {since})
