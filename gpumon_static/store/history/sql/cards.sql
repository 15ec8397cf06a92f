-- Which GPU is which. Identity is host and UUID; where a host reports none, or one that several of its GPUs have,
-- the one that was last known at its bus id, then at its index, unless the run has that elsewhere in the host.
CREATE OR REPLACE TEMP TABLE cards AS
WITH found AS (
    SELECT host, fetched_at, gpu_index, gpu_bus_id,
        CASE WHEN NOT is_masked(gpu_uuid) AND count(*) OVER (PARTITION BY host, fetched_at, gpu_uuid) = 1
            THEN gpu_uuid END AS card
    FROM new_rows WHERE level >= 2 AND gpu_index IS NOT NULL
),
remembered AS (
    SELECT f.host, f.fetched_at, f.gpu_index, l.card, coalesce(l.gpu_bus_id = f.gpu_bus_id, false) AS is_bus, l.known_at
    FROM found AS f JOIN last_state AS l ON l.host = f.host AND l.mig_device = -1
        AND (l.gpu_bus_id = f.gpu_bus_id OR l.gpu_index = f.gpu_index)
    WHERE f.card IS NULL AND l.card NOT IN (SELECT card FROM found AS o WHERE o.host = f.host AND o.card IS NOT NULL)
    QUALIFY row_number() OVER (
        PARTITION BY f.host, f.fetched_at, f.gpu_index ORDER BY is_bus DESC, l.known_at DESC, l.card DESC) = 1
),
-- One card is one GPU.
chosen AS (
    SELECT * FROM remembered
    QUALIFY row_number() OVER (PARTITION BY host, fetched_at, card ORDER BY is_bus DESC, gpu_index) = 1
)
SELECT f.host, f.fetched_at, f.gpu_index, coalesce(f.card, r.card, '#' || f.gpu_index) AS card
FROM found AS f LEFT JOIN chosen AS r USING (host, fetched_at, gpu_index);
UPDATE new_rows SET card = cards.card FROM cards
WHERE cards.host = new_rows.host AND cards.fetched_at = new_rows.fetched_at AND cards.gpu_index = new_rows.gpu_index;
-- A GPU that is lost reports no name: it is the one that it was.
UPDATE new_rows SET gpu_name = l.gpu_name, model = l.model FROM last_state AS l
WHERE l.host = new_rows.host AND l.card = new_rows.card AND l.mig_device = -1 AND new_rows.gpu_name IS NULL
    AND l.gpu_name IS NOT NULL;
