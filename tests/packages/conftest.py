"""A small Debian to install into, made once by mmdebstrap and kept in build/."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

BASE = Path(__file__).parents[2] / "build/debian-base.tar"
INCLUDED = (
    "adduser", "bsd-mailx", "ca-certificates", "curl", "man-db", "postfix", "python3", "python3-venv", "systemd",
    "systemd-sysv",
)  # fmt: skip


@pytest.fixture(scope="session")
def base() -> Path:
    """A Debian of this release, as a tar file."""
    if not BASE.exists():
        BASE.parent.mkdir(exist_ok=True)
        release = subprocess.run(
            ["sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        part = BASE.with_suffix(".part.tar")
        command = ["mmdebstrap", "--variant=minbase", f"--include={','.join(INCLUDED)}", release, str(part)]
        subprocess.run(command, check=True)
        part.rename(BASE)
    return BASE


@pytest.fixture(scope="session")
def directory() -> Iterator[Path]:
    with TemporaryDirectory(prefix="gpumon-packages-") as name:
        Path(name).chmod(0o755)
        yield Path(name)
