"""Where things are: tests lie in folders of different depth."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
CAPTURES = TESTS / "captures"
SHARED = ROOT.parent / "shared" / "captures"
"""Real outputs, which are not part of the project: tests look at those that are there."""
