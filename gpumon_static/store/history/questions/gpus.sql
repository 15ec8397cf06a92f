-- What each GPU and slice did, where it was at that time; the host and index that it had last.
SELECT host, card, arg_max(gpu_index, last_at), mig_device, max(gpu_name), max(mig_profile), min(first_at),
    max(last_at), arg_max(last_s, last_at),
    sum(free_s)::BIGINT, sum(busy_s)::BIGINT, sum(held_s)::BIGINT,
    sum(utilization_s)::BIGINT, sum(utilization_n)::BIGINT, max(utilization_max),
    sum(memory_s)::BIGINT, sum(memory_n)::BIGINT, max(memory_max),
    sum(temperature_s)::BIGINT, sum(temperature_n)::BIGINT, max(temperature_max),
    sum(power_s)::BIGINT, sum(power_n)::BIGINT, max(power_max)
FROM {gpus} GROUP BY host, card, mig_device
