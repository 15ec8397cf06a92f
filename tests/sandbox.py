"""A machine of its own for tests that put files where an admin puts them.

An overlay over this machine's file system and network and process namespaces of its own: users may be made,
/etc written and port 80 bound, and none of it is there afterwards. Needs root.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

# The overlay's upper layer is a tmpfs: an overlay cannot lie on another one.
SETUP = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs {base}
mkdir {base}/upper {base}/work {base}/root
mount -t overlay overlay -o lowerdir=/,upperdir={base}/upper,workdir={base}/work {base}/root
mount --rbind /dev {base}/root/dev
mount -t proc proc {base}/root/proc
for shared in {shared}; do mkdir -p {base}/root$shared; mount --bind $shared {base}/root$shared; done
mount -t tmpfs tmpfs {base}/root/run
ip link set lo up
touch {ready}
exec sleep 3600
"""


class Sandbox:
    def __init__(self, directory: Path, *shared: Path, network_of: Sandbox | None = None) -> None:
        """`shared`: directories that are the same inside and outside. `network_of`: a neighbour on the same net."""
        self.base = directory / "base"
        self.base.mkdir()
        self._ready = directory / "ready"
        self._shared = [directory, *shared]
        self._network_of = network_of

    def __enter__(self) -> Sandbox:
        script = SETUP.format(base=self.base, ready=self._ready, shared=" ".join(map(str, self._shared)))
        self._process = subprocess.Popen(
            [*self._network(), "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script]
        )
        end = time.monotonic() + 20
        while not self._ready.exists():
            assert self._process.poll() is None, "the sandbox did not start"
            assert time.monotonic() < end, "the sandbox did not get ready"
            time.sleep(0.02)
        (self._inner,) = (
            Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        )
        return self

    def _network(self) -> list[str]:
        if self._network_of is None:
            return ["unshare", "--net"]
        return ["nsenter", "--target", self._network_of._inner, "--net", "unshare"]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def arguments(self, *command: str | Path) -> list[str]:
        enter = [
            "nsenter",
            "--target",
            self._inner,
            "--mount",
            "--net",
            "--pid",
            "chroot",
            f"{self.base}/root",
        ]
        return [*enter, *map(str, command)]

    def run(
        self, *command: str | Path, check: bool = True, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.arguments(*command), capture_output=True, text=True, timeout=timeout, check=False
        )
        assert done.returncode == 0 or not check, f"{command}: {done.stdout}{done.stderr}"
        return done

    def sh(self, script: str, *, check: bool = True, timeout: float = 120) -> str:
        done = self.run("sh", "-euc", script, check=check, timeout=timeout)
        return done.stdout + done.stderr

    def path(self, path: str | Path) -> Path:
        """A file of the sandbox, seen from outside."""
        return Path(f"/proc/{self._inner}/root{self.base}/root{path}")


def offline_wheels(directory: Path) -> Path:
    """The project and all it depends on as wheels: a sandbox has no network to fetch them from."""
    wheels = directory / "wheels"
    checkout = Path(__file__).parents[1]
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(wheels)]
    subprocess.run([*pip, str(checkout), "hatchling"], check=True, capture_output=True)
    return wheels
