"""What readings mean, decided once for page, exports, terminal and notifications.

Readings, the config and the time come in; states, faults in words, short names, owners, totals, offers and
events go out, on the privacy tier of the output. No markup, no files, no terminal.
"""
