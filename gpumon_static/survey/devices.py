"""How GPUs may be named where a line is pasted or shown. Imports nothing, for `gpufree`."""

from __future__ import annotations

import re

DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9/_-]*")
"""A UUID that may be pasted into a shell: a host could send anything in its place."""
PROFILE_LETTERS = 16
"""Of the profile of a slice."""
