-- The times in one state and with the same holders of each GPU and slice: from when to when, without a gap.
WITH g AS ({gpu_runs}),
marked AS (
    SELECT host, card, mig_device, state, held_by, t, run_t, seconds, model, host_group,
        state IS DISTINCT FROM lag(state) OVER w OR held_by IS DISTINCT FROM lag(held_by) OVER w
            OR t > lag(t + seconds) OVER w AS is_new
    FROM g WHERE seconds > 0 WINDOW w AS (PARTITION BY host, card, mig_device ORDER BY t)
),
numbered AS (
    SELECT *, count(*) FILTER (is_new) OVER (PARTITION BY host, card, mig_device ORDER BY t) AS number FROM marked
)
SELECT min(run_t) // {grain} * {grain} AS t, host, card, mig_device, any_value(state) AS state, any_value(model) AS model, any_value(host_group) AS host_group, any_value(held_by) AS held_by,
    min(t) AS start, max(t + seconds) AS stop
FROM numbered GROUP BY host, card, mig_device, number ORDER BY host, card, mig_device, start
