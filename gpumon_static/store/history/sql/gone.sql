-- Gone are slices that the last answer of their host does not have, and GPUs that were missing for too long.
DELETE FROM last_state WHERE card <> '' AND rowid IN (
    SELECT l.rowid FROM last_state AS l
    SEMI JOIN (SELECT host FROM new_rows WHERE level = 3 AND status = 'ok') AS a ON a.host = l.host
    ANTI JOIN (
        SELECT n.host, n.card, coalesce(n.mig_device, -1) AS mig_device
        FROM new_gpus AS n SEMI JOIN (
            SELECT host, max(fetched_at) AS fetched_at FROM new_rows WHERE level = 3 AND status = 'ok' GROUP BY host
        ) AS a ON a.host = n.host AND a.fetched_at = n.fetched_at
    ) AS t ON t.host = l.host AND t.card = l.card AND t.mig_device = l.mig_device
)
