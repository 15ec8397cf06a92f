-- One row for each GPU and slice of each run, with the seconds that it stands for. A GPU that is cut into slices has
-- a row of its own with `share` 0, and one for each slice: `seconds * share` adds up to GPU seconds.
SELECT fetched_at, run_at, host, host_group, gpu_index, mig_device, card, model, gpu_name, mig_profile, state, held_by,
    seconds, share, is_offered, utilization AS utilization_percent, memory_used AS memory_used_mib,
    memory_total AS memory_total_mib, temperature AS temperature_c, power AS power_w, allocated AS slurm_allocated,
    allocated_to AS slurm_user, slurm_job
FROM ({gpu_runs})
