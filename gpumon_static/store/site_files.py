"""Which files of the site are ours: what a render no longer makes is removed, and nothing else.

`data/site-files.json` has the digest of each file that the last render made. A file with another content is
not ours any more, and stays. So do the reports of past months, which are made once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from gpumon_static.errors import GpumonError
from gpumon_static.system.files import read_file, write_atomic

FILE = "site-files.json"


def remove_others(data: Path, site: Path, made: Mapping[Path, str]) -> list[Path]:
    """Remove what the last render made and this one did not. `made`: the digest of each file that it made."""
    digests = {path.name: digest for path, digest in made.items() if path.parent == site}
    before = _read(data / FILE, site)
    removed = [
        site / name
        for name, digest in before.items()
        if name not in digests and _is_ours(site / name, digest)
    ]
    for path in removed:
        with suppress(OSError):
            path.unlink()
    if digests != before:
        # A render by a user who may only read the data removes nothing the next time.
        with suppress(GpumonError):
            text = json.dumps({"site": str(site), "files": digests}, indent=1)
            write_atomic(data / FILE, text + "\n", private=True)
    return removed


def is_known(data: Path, path: Path) -> bool:
    """Whether the last render made it."""
    return path.name in _read(data / FILE, path.parent)


def _is_ours(path: Path, digest: str) -> bool:
    try:
        return not path.is_symlink() and _digest(read_file(path)) == digest
    except OSError:
        return False


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read(path: Path, site: Path) -> dict[str, str]:
    """Empty where there is none, where it cannot be read, and where it is of another directory."""
    try:
        kept = json.loads(read_file(path))
        files = kept["files"] if kept["site"] == str(site) else {}
        return {name: digest for name, digest in files.items() if Path(name).name == name}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
