-- How things stand before the first run: a row for each GPU and slice (-1: the whole GPU), and one for each host.
CREATE OR REPLACE TEMP TABLE last_state (
    host VARCHAR, card VARCHAR, mig_device INTEGER, gpu_index INTEGER, gpu_uuid VARCHAR, gpu_name VARCHAR,
    gpu_bus_id VARCHAR, model VARCHAR, mig_profile VARCHAR, host_group VARCHAR, share DOUBLE, memory_total INTEGER,
    known_at BIGINT, first_at BIGINT, state VARCHAR, held_by VARCHAR[], since BIGINT, taken_since BIGINT, utilization INTEGER,
    memory_used INTEGER, looks BIGINT, run_at BIGINT)
