-- One row for each GPU and each slice of a run: the whole of a GPU that is cut, without users, and then its slices.
SELECT fetched_at, run_at, epoch(fetched_at)::BIGINT AS t, epoch(run_at)::BIGINT AS run_t, seconds, interval_s, host, host_group, status, card,
    gpu_index, NULL::INTEGER AS mig_device, gpu_uuid, gpu_bus_id, gpu_name, model, NULL::VARCHAR AS mig_profile,
    gpu_state AS state, CASE WHEN mig_device IS NULL THEN held_by ELSE [] END AS held_by,
    CASE WHEN mig_device IS NULL THEN 1 ELSE 0 END::DOUBLE AS share, is_offered,
    gpu_utilization AS utilization, gpu_memory_used_mib::BIGINT AS memory_used, gpu_memory_total_mib::BIGINT AS memory_total,
    gpu_temperature_c AS temperature, gpu_power_w AS power,
    CASE WHEN mig_device IS NULL THEN slurm_allocated END AS allocated, slurm_user AS allocated_to, slurm_job,
    gpu_processes_known IS NOT NULL AS is_seen
FROM {rows} WHERE level >= 2 AND gpu_index IS NOT NULL
UNION ALL BY NAME
SELECT fetched_at, run_at, epoch(fetched_at)::BIGINT AS t, epoch(run_at)::BIGINT AS run_t, seconds, interval_s, host, host_group, status, card,
    gpu_index, mig_device, mig_uuid AS gpu_uuid, gpu_bus_id, gpu_name, model, coalesce(mig_profile, 'MIG') AS mig_profile,
    state, held_by, share, is_offered, NULL::INTEGER AS utilization, mig_memory_used_mib::BIGINT AS memory_used,
    coalesce(mig_memory_total_mib, gpu_memory_total_mib)::BIGINT AS memory_total, NULL::INTEGER AS temperature,
    NULL::INTEGER AS power, NULL::VARCHAR AS allocated, NULL::VARCHAR AS allocated_to, NULL::VARCHAR AS slurm_job,
    gpu_processes_known IS NOT NULL AS is_seen
FROM {rows} WHERE level >= 1 AND mig_device IS NOT NULL
