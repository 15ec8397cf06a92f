"""Histories and logs come in and go out: backups, another collector's files, history.db of before, rntop.

What a run adds is not decided here.
"""
