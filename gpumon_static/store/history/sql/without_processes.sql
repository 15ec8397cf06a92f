UPDATE {rows} SET pid = NULL, process_type = NULL, process_name = NULL, process_memory_mib = NULL, "user" = NULL,
    started_at = NULL, job = NULL, uid = NULL, process_state = NULL, command_line = NULL, compute_units = NULL,
    held_by = CASE WHEN len(held_by) > 0 THEN [''] ELSE held_by END,
    note = CASE WHEN level = 3 THEN $note ELSE note END
WHERE list_contains($hosts, host)
