"""The same readings in a terminal: tables, the live view, and where to run."""
