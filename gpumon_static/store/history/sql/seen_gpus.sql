-- The same of GPUs and slices; -1 is the whole GPU. Each user has a chr(29) before the name.
SELECT f[1] AS host, f[2]::BIGINT AS t, f[3]::INTEGER AS gpu_index, f[4]::INTEGER AS mig_device, f[5] AS state,
    f[6] AS gpu_state, f[7] = '1' AS is_cut, f[8]::DOUBLE AS share, f[9] = '1' AS is_offered, f[10] AS model,
    string_split(f[11], chr(29))[2:] AS held_by
FROM (SELECT string_split(unnest(string_split($gpus, chr(30))), chr(31)) AS f)
WHERE len(f) = 11;
