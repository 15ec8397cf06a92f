-- One row for each job, finished ones too: the processes of a job id (`slurm:8841`) on all hosts, with the GPUs that
-- Slurm gave it; without an id, one process. Programs that only draw a screen are left out. Times of a job are those
-- of the readings that saw it, and one that is shorter than the time between two runs is seldom seen; `gpu_seconds` counts slices by their share and splits a GPU evenly among its jobs.
WITH processes AS (
    SELECT fetched_at, run_at, host, gpu_index, mig_device, card, model, seconds, share, gpu_power_w, pid, job,
        coalesce("user", CASE WHEN uid IS NULL THEN '' ELSE 'uid ' || uid END) AS "user", process_name, started_at,
        process_memory_mib, CASE WHEN mig_device IS NULL THEN gpu_utilization END AS utilization
    FROM readings WHERE pid IS NOT NULL AND process_type IS DISTINCT FROM 'G'
),
-- The kernel gives a number again: another start is another process. A start is known to a few seconds only.
marked AS (
    SELECT *, coalesce(abs(epoch(started_at) - lag(epoch(started_at)) OVER w) > 90
        OR "user" <> lag("user") OVER w OR epoch(fetched_at) - lag(epoch(fetched_at)) OVER w > 86400, true) AS is_new
    FROM processes WINDOW w AS (PARTITION BY host, pid ORDER BY fetched_at)
),
numbered AS (
    SELECT *, max(CASE WHEN is_new THEN epoch(coalesce(started_at, fetched_at))::BIGINT END)
        OVER (PARTITION BY host, pid ORDER BY fetched_at) AS first_start
    FROM marked
),
found AS (
    SELECT coalesce(job, host || ' ' || pid || ' ' || strftime(to_timestamp(first_start), '%Y-%m-%dT%H:%MZ')) AS job,
        job AS job_id, fetched_at, run_at, host, gpu_index, mig_device, card, model, seconds, share, gpu_power_w,
        "user", process_name, started_at, process_memory_mib, utilization
    FROM numbered
    UNION ALL BY NAME
    SELECT 'slurm:' || slurm_job AS job, 'slurm:' || slurm_job AS job_id, fetched_at, run_at, host, gpu_index, mig_device,
        card, model, seconds, share, gpu_power_w, coalesce(slurm_user, '') AS "user", slurm_started_at AS started_at,
        CASE WHEN mig_device IS NULL THEN gpu_utilization END AS utilization
    FROM readings WHERE level >= 2 AND mig_device IS NULL AND slurm_allocated = 'yes' AND slurm_job IS NOT NULL
),
-- An id that comes again after a day is another job: numbers of Slurm start again.
parted AS (
    SELECT *, count(*) FILTER (is_again) OVER (PARTITION BY job_id ORDER BY fetched_at) AS part
    FROM (
        SELECT *, coalesce(epoch(fetched_at) - lag(epoch(fetched_at)) OVER (PARTITION BY job_id ORDER BY fetched_at) > 86400,
            false) AS is_again
        FROM found WHERE job_id IS NOT NULL)
),
members AS (
    SELECT * EXCLUDE (is_again, part) REPLACE (job || CASE WHEN part > 0 THEN ' (' || part + 1 || ')' ELSE '' END AS job)
    FROM parted
    UNION ALL BY NAME SELECT * FROM found WHERE job_id IS NULL
),
places AS (
    SELECT job, fetched_at, run_at, host, gpu_index, mig_device, any_value(card) AS card, any_value(model) AS model,
        any_value(seconds) AS seconds, any_value(share) AS share, any_value(gpu_power_w) AS power,
        any_value(utilization) AS utilization, sum(process_memory_mib) AS memory
    FROM members GROUP BY job, fetched_at, run_at, host, gpu_index, mig_device
),
last_asked AS (SELECT host, max(fetched_at) AS fetched_at FROM readings WHERE level = 3 AND status = 'ok' GROUP BY host),
split AS (
    SELECT p.*, seconds * share / count(*) OVER (PARTITION BY p.fetched_at, p.host, gpu_index, mig_device) AS part,
        l.host IS NOT NULL AS is_last
    FROM places AS p LEFT JOIN last_asked AS l ON l.host = p.host AND l.fetched_at = p.fetched_at
),
runs AS (SELECT job, run_at, sum(memory) AS memory, count(*) AS gpus FROM places GROUP BY job, run_at),
peaks AS (SELECT job, max(memory) AS memory, max(gpus) AS gpus FROM runs GROUP BY job),
times AS (
    SELECT job, min(fetched_at) AS first_seen, max(fetched_at + to_seconds(seconds)) AS last_seen, sum(part) AS gpu_seconds,
        sum(part * power) / 3600 AS energy_wh,
        sum(utilization * seconds) / nullif(sum(seconds) FILTER (utilization IS NOT NULL), 0) AS utilization_percent,
        bool_or(is_last) AS is_running, list_sort(list(DISTINCT host)) AS hosts, list_sort(list(DISTINCT model)) AS models,
        list_sort(list(DISTINCT host || ':' || gpu_index || coalesce(':' || mig_device, ''))) AS gpus
    FROM split GROUP BY job
),
names AS (
    SELECT job, any_value(job_id) AS job_id, list_sort(list(DISTINCT "user")) AS users, mode(process_name) AS program,
        min(started_at) AS started_at
    FROM members GROUP BY job
)
SELECT t.job, n.job_id, n.users, n.program, t.hosts, t.gpus, p.gpus AS gpus_at_once, t.models, n.started_at, t.first_seen,
    t.last_seen, t.is_running, t.gpu_seconds, t.utilization_percent, p.memory::BIGINT AS peak_memory_mib, t.energy_wh
FROM times AS t JOIN names AS n USING (job) JOIN peaks AS p USING (job)
