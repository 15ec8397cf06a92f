-- How each GPU and host stood in the last run, and since when.
INSERT INTO last_state BY NAME
SELECT c.host, c.card, coalesce(c.mig_device, -1) AS mig_device, c.gpu_index, coalesce(c.mig_uuid, c.gpu_uuid) AS gpu_uuid,
    c.gpu_name, c.model, c.mig_profile, c.host_group, c.share, c.memory_total, l.known_at, least(c.first_at, l.known_at) AS first_at,
    state_name(l.known_state) AS state,
    CASE WHEN l.known_state IN (1, 2) THEN coalesce(string_split(w.names, chr(29))[2:], []) ELSE [] END AS held_by,
    l.since, l.taken_since, percent(l.utilization) AS utilization, mib(l.memory) AS memory_used, $last AS run_at
FROM latest AS l JOIN cards AS c ON c.id = l.gpu LEFT JOIN crews AS w ON w.id = l.known_crew
WHERE l.present = 1 AND l.known_state BETWEEN 0 AND 3
UNION ALL BY NAME
SELECT h.name AS host, '' AS card, -2 AS mig_device, h.host_group,
    coalesce(m.t, h.answered_at, h.down_since) AS known_at, coalesce(least(f.first_at, h.answered_at), h.answered_at, h.down_since, m.t) AS first_at,
    CASE WHEN h.down_since IS NULL THEN 'up' ELSE 'down' END AS state, CAST([] AS VARCHAR[]) AS held_by,
    coalesce(h.down_since, f.first_at, h.answered_at, m.t) AS since, $last AS run_at
FROM hosts AS h LEFT JOIN machine_last AS m ON m.host = h.id
LEFT JOIN (SELECT host_id, min(first_at) AS first_at FROM cards GROUP BY host_id) AS f ON f.host_id = h.id
WHERE coalesce(m.t, h.answered_at, h.down_since) IS NOT NULL
