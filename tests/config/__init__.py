"""config.ini: what works, and the words where it does not."""
