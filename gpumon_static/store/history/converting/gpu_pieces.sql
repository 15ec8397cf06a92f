-- Hours of GPUs of which only sums are left, as rows: the time of each user and state, one after the other. A user's
-- part of shared time is a row of its own. Seconds are whole, and so is utilization: two rows stand for a mean
-- between two numbers. Maxima have a row of no time.
WITH g AS (SELECT * FROM ({gpus}) WHERE "hour" < {first_hour}),
u AS (SELECT * FROM ({users}) WHERE "hour" < {first_hour} AND busy_s + held_s > 0),
used AS (SELECT "hour", gpu, sum(busy_s) AS busy, sum(held_s) AS held, sum(utilization_s) AS work FROM u GROUP BY "hour", gpu),
of_gpus AS (
    SELECT g.*, c.mig_device IS NOT NULL AS is_slice, coalesce(o.busy, 0) AS busy, coalesce(o.held, 0) AS held,
        CASE WHEN c.mig_device IS NULL THEN 1 WHEN g.busy_s + g.held_s > 0 AND o.busy + o.held > 0
            THEN (o.busy + o.held) / (g.busy_s + g.held_s) ELSE c.share END AS share,
        -- What is left of the mean of all for the time without users.
        CASE WHEN c.mig_device IS NULL AND g.utilization_n > 0 THEN least(100, greatest(0, coalesce(
            (percent(g.utilization_sum / g.utilization_n) * (g.free_s + g.busy_s + g.held_s) - coalesce(o.work, 0))
            / nullif(g.free_s + g.busy_s - coalesce(o.busy, 0) + g.held_s - coalesce(o.held, 0), 0), 0))) END AS rest_mean
    FROM g JOIN cards AS c ON c.id = g.gpu LEFT JOIN used AS o USING ("hour", gpu)
),
pieces AS (
    SELECT u."hour", u.gpu, unnest(['busy', 'held']) AS state, [coalesce(n.name, '')] AS held_by, u.user,
        unnest([u.busy_s, u.held_s]) / o.share AS s, least(1, u.measured_s / (u.busy_s + u.held_s)) AS known,
        least(100, greatest(0, u.utilization_s / nullif(u.measured_s, 0))) AS mean
    FROM u JOIN of_gpus AS o USING ("hour", gpu) LEFT JOIN users AS n ON n.id = u.user WHERE o.share > 0
    UNION ALL BY NAME
    SELECT "hour", gpu, unnest(['free', 'busy', 'held', 'unknown', 'down']) AS state, CAST([] AS VARCHAR[]) AS held_by, -1 AS "user",
        unnest([free_s, busy_s - busy / share, held_s - held / share, unknown_s, down_s]) AS s, 1 AS known,
        -- Of unknown time nothing is measured, unless there is no other.
        unnest([rest_mean, rest_mean, rest_mean, CASE WHEN free_s + busy_s + held_s = 0 THEN rest_mean END, NULL]) AS mean
    FROM of_gpus WHERE share > 0
),
rounded AS (
    SELECT *, floor(s_until + phase((gpu, state, "user", "hour" // 24)))::BIGINT - floor(s_until - s + phase((gpu, state, "user", "hour" // 24)))::BIGINT AS n
    FROM (
        SELECT *, sum(s) OVER (PARTITION BY gpu, state, "user", "hour" // 24 ORDER BY "hour") AS s_until FROM pieces
        WHERE s > 0.01 AND (state IN ('free', 'unknown', 'down') OR "user" >= 0 OR s > 1)
    )
),
measured AS (
    SELECT *, CASE WHEN mean IS NULL OR state = 'down' THEN 0 ELSE whole(n * known, ("hour", gpu, "user")) END AS measured FROM rounded WHERE n > 0
),
levels AS (
    SELECT *, floor(mean)::BIGINT AS low, least(measured, whole((mean - floor(mean)) * measured, (gpu, "hour", "user"))) AS higher FROM measured
),
split AS (
    SELECT "hour", gpu, state, held_by, "user", unnest([low, low + 1, NULL]) AS utilization,
        unnest([measured - coalesce(higher, 0), coalesce(higher, 0), n - measured]) AS seconds
    FROM levels
),
laid AS (
    SELECT *, sum(seconds) OVER (PARTITION BY gpu, "hour" ORDER BY state, "user", utilization NULLS LAST) - seconds AS passed
    FROM split WHERE seconds > 0
),
with_means AS (
    SELECT l."hour", l.gpu, l.state, l.held_by, l.seconds, least(l.passed, 3599) AS passed, l.utilization, o.share,
        CASE WHEN l.state <> 'down' THEN mib(whole(o.memory_sum / nullif(o.memory_n, 0), (l.gpu, l."hour", 'm'))) END AS memory,
        CASE WHEN l.state <> 'down' THEN celsius(whole(o.temperature_sum / nullif(o.temperature_n, 0), (l.gpu, l."hour", 't'))) END AS temperature,
        CASE WHEN l.state <> 'down' THEN watts(whole(o.power_sum / nullif(o.power_n, 0), (l.gpu, l."hour", 'p'))) END AS power
    FROM laid AS l JOIN of_gpus AS o USING ("hour", gpu)
    UNION ALL BY NAME
    SELECT "hour", gpu, 'unknown' AS state, CAST([] AS VARCHAR[]) AS held_by, 0 AS seconds, 0 AS passed,
        percent(utilization_max) AS utilization, share, mib(memory_max) AS memory, celsius(temperature_max) AS temperature,
        watts(power_max) AS power
    FROM of_gpus WHERE coalesce(utilization_max, memory_max, temperature_max, power_max) IS NOT NULL
)
SELECT to_timestamp(p."hour" * 3600 + p.passed) AS fetched_at, to_timestamp(p."hour" * 3600) AS run_at, c.host,
    CASE WHEN p.state = 'down' THEN 'error' ELSE 'ok' END AS status, c.host_group, c.gpu_index, c.gpu_uuid, c.gpu_name, c.mig_device,
    c.mig_uuid, c.mig_profile, c.card, c.model, p.state, p.state AS gpu_state, p.held_by, p.share,
    p.state = 'free' AS is_offered, CASE WHEN p.state <> 'down' THEN true END AS gpu_processes_known,
    CASE WHEN c.mig_device IS NULL THEN 2 ELSE 1 END AS level, p.utilization AS gpu_utilization,
    p.temperature AS gpu_temperature_c, p.power AS gpu_power_w,
    CASE WHEN c.mig_device IS NULL THEN p.memory END AS gpu_memory_used_mib,
    CASE WHEN c.mig_device IS NULL THEN c.memory_total END AS gpu_memory_total_mib,
    CASE WHEN c.mig_device IS NOT NULL THEN p.memory END AS mig_memory_used_mib,
    CASE WHEN c.mig_device IS NOT NULL THEN c.memory_total END AS mig_memory_total_mib,
    p.seconds, 0 AS run_seconds, true AS is_partial
FROM with_means AS p JOIN cards AS c ON c.id = p.gpu
