-- Nothing but the state of each GPU.
UPDATE {rows} SET {unknown}, state = gpu_state, share = CASE WHEN share IS NOT NULL THEN 1 END,
    held_by = CASE WHEN gpu_state IN ('busy', 'held') THEN [''] ELSE [] END,
    model = CASE WHEN model IS NOT NULL THEN 'unknown model' END, card = CASE WHEN card IS NOT NULL THEN '#' || gpu_index END
WHERE list_contains($hosts, host)
