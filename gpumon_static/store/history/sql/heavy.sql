-- Of each host the bytes of its different texts, each with what it costs beside its letters, and its rows.
SELECT host, coalesce(text, 0), rows FROM (SELECT host, count(*) AS rows FROM {rows} GROUP BY host) LEFT JOIN (
    SELECT host, sum(strlen(text) + 4) AS text FROM (SELECT DISTINCT host, unnest([{texts}]) AS text FROM {rows})
    WHERE text IS NOT NULL GROUP BY host
) USING (host)
