-- Each sample from $first on with the seconds that it stands for: until the next one of its GPU, or until a run was
-- missed, which spans have as state 5. The one that reaches over the first second counts from there.
WITH timed AS (
    SELECT s.t, s.gpu, s.state, s.crew, s.utilization, s.memory, s.temperature, s.power,
        coalesce(CASE WHEN m.t < s.following THEN m.t ELSE s.following END - s.t, 0) AS seconds
    FROM (SELECT *, lead(t) OVER (PARTITION BY gpu ORDER BY t) AS following FROM samples) AS s
    ASOF LEFT JOIN (SELECT gpu, t FROM spans WHERE state = 5) AS m ON m.gpu = s.gpu AND s.t <= m.t
)
SELECT r.* REPLACE (greatest(r.t, $first) AS t, least(86400, r.t + r.seconds - greatest(r.t, $first)) AS seconds), c.host_id,
    coalesce(CASE WHEN r.t >= $first AND u.t - r.t <= 900 THEN u.t END, greatest(r.t, $first)) AS run_t,
    coalesce(r.t >= $first AND u.t - r.t <= 900, false) AS is_of_run
FROM timed AS r JOIN cards AS c ON c.id = r.gpu ASOF LEFT JOIN runs AS u ON r.t <= u.t
WHERE r.state BETWEEN 0 AND 4 AND (r.t >= $first OR r.t + r.seconds > $first)
ORDER BY run_t, r.gpu
