-- Seconds that GPUs of a model were held idle for at least so long at a time, by the same users: what could be
-- reclaimed. Shorter times are pauses. A missed run, or a time without an answer of up to an hour, does not end one.
WITH held AS (
    SELECT * FROM {spells} WHERE state = 'held' AND mig_device IS NULL
),
marked AS (
    SELECT *, coalesce(start > lag(stop) OVER w + 3600, true) AS is_new
    FROM held WINDOW w AS (PARTITION BY host, card, held_by ORDER BY start)
),
numbered AS (
    SELECT *, count(*) FILTER (is_new) OVER (PARTITION BY host, card, held_by ORDER BY start) AS number FROM marked
),
lengths AS (
    SELECT *, max(stop) OVER w - min(start) OVER w AS lasted
    FROM numbered WINDOW w AS (PARTITION BY host, card, held_by, number)
)
SELECT model, {group} AS host_group, sum(greatest(0, least(stop, $until) - greatest(start, $since)))::BIGINT
FROM lengths WHERE lasted >= $idle_after GROUP BY 1, 2
