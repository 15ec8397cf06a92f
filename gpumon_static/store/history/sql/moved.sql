-- A card is followed where the config no longer has its old host, or where that host answers without it; and one
-- that had no UUID, where it gets one. New are cards that the state before does not have.
CREATE OR REPLACE TEMP TABLE moved AS
WITH fresh AS (
    SELECT host, card, any_value(gpu_index) AS gpu_index, min(t) AS t FROM new_gpus AS n
    WHERE is_seen AND mig_device IS NULL AND NOT EXISTS (
        SELECT 1 FROM last_state AS l WHERE l.host = n.host AND l.card = n.card AND l.mig_device = -1)
    GROUP BY host, card
),
candidates AS (
    SELECT l.host AS old_host, l.card AS old_card, f.host, f.card, f.t, l.known_at, true AS is_moved
    FROM fresh AS f JOIN last_state AS l ON l.card = f.card AND l.host <> f.host AND l.mig_device = -1
    WHERE l.card NOT LIKE '#%' AND (NOT list_contains($configured, l.host) OR (
        l.host IN (SELECT host FROM new_rows WHERE level = 3 AND status = 'ok')
        AND NOT EXISTS (SELECT 1 FROM new_gpus AS o WHERE o.host = l.host AND o.card = l.card AND o.is_seen)))
    UNION ALL
    SELECT l.host, l.card, f.host, f.card, f.t, l.known_at, false
    FROM fresh AS f JOIN last_state AS l ON l.host = f.host AND l.card = '#' || f.gpu_index AND l.mig_device = -1
    WHERE f.card <> l.card
),
-- One card has one past, and goes to one place.
nearest AS (
    SELECT * FROM candidates
    QUALIFY row_number() OVER (PARTITION BY host, card ORDER BY is_moved DESC, known_at DESC, old_host) = 1
)
SELECT * FROM nearest QUALIFY row_number() OVER (PARTITION BY old_host, old_card ORDER BY host, card) = 1
