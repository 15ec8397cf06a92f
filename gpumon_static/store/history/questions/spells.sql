-- The last day of each GPU and slice: its times in one state, with who held it.
SELECT host, card, coalesce(mig_device, -1), list("start" ORDER BY "start"), list(stop ORDER BY "start"),
    list(state ORDER BY "start"), list(array_to_string(held_by, chr(29)) ORDER BY "start"),
    list(len(held_by) ORDER BY "start")
FROM {spells} WHERE stop > $since GROUP BY host, card, mig_device
