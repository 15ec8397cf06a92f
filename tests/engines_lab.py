"""Worker processes that meet trouble."""

from __future__ import annotations

from datetime import UTC, datetime

NOW = datetime(2025, 1, 1, 9, 0, tzinfo=UTC)

# Put before the worker's own code: it meets an answer that our parsers, one day, may not be up to.
TROUBLE = """
import os, re, signal, sys
import gpumon_static.collect.reading as reading
good = reading.parse
def parse(host, *others):
    if host == "bad":
        {trouble}
    return good(host, *others)
reading.parse = parse
"""
