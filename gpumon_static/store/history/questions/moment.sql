-- The rows of these readings as load_data.csv has them: what the hosts sent, without the GPUs that we only expected.
WITH chosen AS (SELECT unnest($hosts) AS host, to_timestamp(unnest($times)) AS fetched_at),
found AS (
    SELECT r.* FROM {rows} AS r SEMI JOIN chosen AS c ON c.host = r.host AND c.fetched_at = r.fetched_at
    WHERE r.level = 3 OR (r.status = 'ok' AND r.gpu_processes_known IS NOT NULL)
)
SELECT {columns} FROM found ORDER BY host, gpu_index NULLS FIRST, mig_device NULLS LAST, level DESC, pid
