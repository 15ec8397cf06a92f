-- GPUs that are thought to be there: of a host that did not answer they are down. One that its host no longer
-- lists, and that is not elsewhere in this run, is unknown for some days: it may be lost, or taken out. One whose
-- index a new card has was replaced; where a card that was there before has it, the GPUs were renumbered.
INSERT INTO new_rows BY NAME
WITH asked AS (
    SELECT host, any_value(fetched_at) AS fetched_at, any_value(run_at) AS run_at, any_value(status) AS status,
        any_value(host_group) AS host_group, any_value(interval_s) AS interval_s
    FROM new_rows WHERE level = 3 GROUP BY host
)
SELECT a.fetched_at, a.run_at, a.host, a.status, a.host_group, l.gpu_index, l.gpu_uuid, l.gpu_name, l.gpu_bus_id,
    nullif(l.mig_device, -1) AS mig_device, l.mig_profile, l.memory_total AS gpu_memory_total_mib, l.card, l.model,
    CASE WHEN a.status = 'ok' THEN 'unknown' ELSE 'down' END AS state,
    CASE WHEN a.status = 'ok' THEN 'unknown' ELSE 'down' END AS gpu_state,
    CAST([] AS VARCHAR[]) AS held_by, l.share, false AS is_offered,
    CASE WHEN row_number() OVER (PARTITION BY l.host, l.card ORDER BY l.mig_device) = 1 THEN 2 ELSE 1 END::TINYINT AS level,
    $is_partial::BOOLEAN AS is_partial, a.interval_s
FROM last_state AS l JOIN asked AS a USING (host)
WHERE l.gpu_index IS NOT NULL
    AND CASE WHEN a.status = 'ok'
        THEN l.mig_device = -1 AND l.known_at > epoch(a.fetched_at) - $missing_s
            AND l.card NOT IN (SELECT card FROM new_rows WHERE card IS NOT NULL)
            AND NOT EXISTS (
                SELECT 1 FROM new_rows AS n WHERE n.host = l.host AND n.gpu_index = l.gpu_index AND NOT EXISTS (
                    SELECT 1 FROM last_state AS k WHERE k.host = n.host AND k.card = n.card AND k.mig_device = -1))
        -- The whole of a GPU that is cut stands in the first of its slices.
        ELSE l.mig_device >= 0 OR NOT EXISTS (
            SELECT 1 FROM last_state AS k WHERE k.host = l.host AND k.card = l.card AND k.mig_device >= 0) END
QUALIFY a.status <> 'ok' OR row_number() OVER (PARTITION BY l.host ORDER BY l.known_at DESC) <= $most_missing;
