"""State changes, and the command that is run for them."""
