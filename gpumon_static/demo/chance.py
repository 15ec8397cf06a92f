"""Repeatable chance: dice and numbers that depend on names only, the same on every computer."""

from __future__ import annotations

import hashlib
import random
import uuid


def dice(*names: object) -> random.Random:
    return random.Random(int.from_bytes(_digest(8, names)))


def identity(*names: object) -> str:
    """A UUID, as nvidia-smi prints it after `GPU-` or `MIG-`."""
    return str(uuid.UUID(bytes=_digest(16, names)))


def _digest(size: int, names: tuple[object, ...]) -> bytes:
    # Not hash(): that one has another salt in every process.
    return hashlib.blake2b("/".join(map(str, names)).encode(), digest_size=size).digest()
