-- Who held which GPU or slice from when to when: one row for each user and unbroken time. Missed runs and times without
-- an answer of up to an hour do not end it. A GPU that several users hold has a row for each of them; `gpu_seconds`
-- counts slices by their share, and splits what is shared evenly. An empty user is an unknown one.
WITH known AS (
    SELECT *, row_number() OVER (PARTITION BY host, card, mig_device ORDER BY fetched_at) AS number
    FROM gpu_runs WHERE state IN ('free', 'busy', 'held')
),
held AS (
    SELECT * EXCLUDE (held_by), len(held_by) AS holders, unnest(held_by) AS "user" FROM known WHERE len(held_by) > 0
),
marked AS (
    SELECT *, coalesce(number > lag(number) OVER w + 1
        OR epoch(fetched_at) > lag(epoch(fetched_at) + seconds) OVER w + 3600, true) AS is_new
    FROM held WINDOW w AS (PARTITION BY host, card, mig_device, "user" ORDER BY fetched_at)
),
numbered AS (
    SELECT *, count(*) FILTER (is_new) OVER (PARTITION BY host, card, mig_device, "user" ORDER BY fetched_at) AS spell
    FROM marked
)
SELECT "user", host, max(host_group) AS host_group, arg_max(gpu_index, fetched_at) AS gpu_index, mig_device, card,
    max(model) AS model, min(fetched_at) AS held_from, max(fetched_at + to_seconds(seconds)) AS held_until,
    sum(seconds)::BIGINT AS seconds, sum(seconds * share / holders) AS gpu_seconds,
    coalesce(sum(seconds) FILTER (state = 'held'), 0)::BIGINT AS idle_seconds,
    coalesce(sum(seconds) FILTER (holders > 1), 0)::BIGINT AS shared_seconds,
    sum(utilization_percent * seconds) / nullif(sum(seconds) FILTER (utilization_percent IS NOT NULL), 0)
        AS utilization_percent
FROM numbered GROUP BY "user", host, card, mig_device, spell
