-- Which GPU is which: its UUID, or `#` and its index where none is known or others have the same; a slice is of the
-- card that was last seen at its index. A key with a slash is a host's name and an index.
CREATE OR REPLACE TEMP TABLE cards AS
WITH named AS (
    SELECT g.id, h.id AS host_id, h.name AS host, h.host_group, g.key, g.position AS gpu_index, g.slice AS mig_device,
        m.name AS gpu_name, m.profile, m.short AS model, g.first_at, coalesce(l.present, 0) AS present,
        coalesce(l.known_at, 0) AS known_at, coalesce(l.weight, 1) AS share, mib(l.memory_total) AS memory_total,
        CASE WHEN contains(g.key, '/') OR coalesce(is_masked(g.key), false) THEN '#' || g.position ELSE g.key END AS card
    FROM gpus AS g JOIN hosts AS h ON h.id = g.host JOIN models AS m ON m.id = g.model LEFT JOIN latest AS l ON l.gpu = g.id
    WHERE slot(g.position) IS NOT NULL AND (g.slice IS NULL OR slot(g.slice) IS NOT NULL)
),
whole AS (
    SELECT host_id, gpu_index, arg_max(card, (present, known_at, id)) AS card, arg_max(gpu_name, (present, known_at, id)) AS name
    FROM named WHERE mig_device IS NULL GROUP BY ALL
)
SELECT n.id, n.host_id, n.host, n.host_group, n.gpu_index, n.mig_device, n.gpu_name, n.model, n.first_at, n.present,
    n.known_at, n.share, n.memory_total,
    CASE WHEN n.mig_device IS NULL THEN n.card ELSE coalesce(w.card, '#' || n.gpu_index) END AS card,
    CASE WHEN n.mig_device IS NULL AND n.card NOT LIKE '#%' THEN n.card END AS gpu_uuid,
    CASE WHEN n.mig_device IS NOT NULL AND n.card NOT LIKE '#%' THEN n.card END AS mig_uuid,
    CASE WHEN n.mig_device IS NOT NULL THEN coalesce(n.profile, 'MIG') END AS mig_profile
FROM named AS n LEFT JOIN whole AS w USING (host_id, gpu_index)
