"""The gate: what a host sends, and how much of it is taken."""
