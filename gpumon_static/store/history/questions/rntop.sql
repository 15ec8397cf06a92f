-- Utilization and memory of each GPU, as rntop logs them.
SELECT t, host, gpu_index, utilization, memory_used, memory_total FROM ({gpu_runs})
WHERE mig_device IS NULL AND state <> 'down' AND utilization IS NOT NULL AND memory_used IS NOT NULL
    AND memory_total IS NOT NULL
ORDER BY t, host, gpu_index
