-- One row for each host and run: whether it answered, for how many seconds that stands, and how the host was.
SELECT fetched_at, run_at, host, host_group, status = 'ok' AS is_up, status, seconds, error, fetch_seconds, warning,
    note, driver_version, cuda_version, probe_version, clock_offset_s, booted_at, cpu_count,
    cpu_utilization AS cpu_utilization_percent, load_1m, load_5m, load_15m, ram_used_mib, ram_total_mib, swap_used_mib,
    swap_total_mib, disks, disk_percent, slurm_node, slurm_state, slurm_reason, slurm_takes_jobs
FROM readings WHERE level = 3
