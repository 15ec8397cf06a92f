-- What is unusual about a run: GPUs without a UUID of their own, GPUs of the state before that it lacks, cards
-- that are new, hosts with too much text. Most runs have nothing of it.
WITH g AS (SELECT host, fetched_at, gpu_uuid, card FROM new_rows WHERE level >= 2 AND gpu_index IS NOT NULL)
SELECT
    (SELECT coalesce(sum(CASE WHEN gpus > 1 OR gpu_uuid IS NULL THEN gpus
        -- A stand-in repeats one letter: only what looks like it is looked at.
        WHEN gpu_uuid[5] = gpu_uuid[6] AND gpu_uuid[6] = gpu_uuid[7] AND gpu_uuid[7] = gpu_uuid[8] AND is_masked(gpu_uuid)
            THEN 1 ELSE 0 END), 0)
        FROM (SELECT gpu_uuid, count(*) AS gpus FROM g GROUP BY host, fetched_at, gpu_uuid)) AS nameless,
    (SELECT count(*) FROM last_state AS l WHERE l.mig_device = -1 AND NOT EXISTS (
        SELECT 1 FROM g WHERE g.host = l.host AND g.card = l.card)) AS missing,
    (SELECT count(*) FROM g WHERE NOT EXISTS (
        SELECT 1 FROM last_state AS l WHERE l.host = g.host AND l.card = g.card)) AS fresh,
    (SELECT list(DISTINCT (host, processes)) FROM (
        SELECT host, count(pid) AS processes FROM new_rows GROUP BY host, fetched_at
        HAVING sum(coalesce(strlen(process_name), 0) + coalesce(strlen("user"), 0) + coalesce(strlen(job), 0)
            + coalesce(strlen(command_line), 0) + coalesce(strlen(gpu_uuid), 0) + coalesce(strlen(gpu_name), 0)
            + coalesce(strlen(gpu_faults), 0) + coalesce(strlen(mig_uuid), 0)) > $most)) AS heavy
