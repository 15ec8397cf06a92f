-- The state before, where the cards are now. A host knows a card since it has it.
UPDATE last_state AS l SET host = m.host, card = m.card,
    first_at = CASE WHEN m.is_moved THEN m.t ELSE first_at END FROM moved AS m
WHERE m.old_host = l.host AND m.old_card = l.card
