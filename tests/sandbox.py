"""A machine of its own for tests that put files where an admin puts them.

An overlay over this machine's file system and network and process namespaces of its own: users may be made,
/etc written and port 80 bound, and none of it is there afterwards. Needs root. With `systemd=True` that is its
first process, as on a real machine.
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
mount -t overlay overlay -o lowerdir={lower},upperdir={base}/upper,workdir={base}/work {base}/root
{devices}
for shared in {shared}; do mkdir -p {base}/root$shared; mount --bind $shared {base}/root$shared; done
mount -t tmpfs tmpfs {base}/root/run
ip link set lo up
{start}
"""
JUST_STAY = """
touch {ready}
exec sleep 3600
"""
OUR_DEVICES = """
mount --rbind /dev {base}/root/dev
mount -t proc proc {base}/root/proc
"""
# systemd writes into /dev, and wants a control group of its own. It must not set our kernel, nor sweep /tmp, where the
# checkout may be.
DEVICES_OF_ITS_OWN = """
mount -t tmpfs -o mode=755 tmpfs {base}/root/dev
mkdir {base}/root/dev/shm {base}/root/dev/pts
mount -t devpts -o newinstance,ptmxmode=0666 devpts {base}/root/dev/pts
ln -s pts/ptmx {base}/root/dev/ptmx
for name in null zero full random urandom tty; do
  touch {base}/root/dev/$name
  mount --bind /dev/$name {base}/root/dev/$name
done
mount -t sysfs sysfs {base}/root/sys
mount -t cgroup2 cgroup2 {base}/root/sys/fs/cgroup
mount -t proc proc {base}/root/proc
mount --bind -o ro {base}/root/proc/sys {base}/root/proc/sys
mount -o remount,bind,ro {base}/root/proc/sys
for unit in modules-load remount-fs sysctl tmpfiles-setup tmpfiles-clean udevd udev-trigger; do
  ln -s /dev/null {base}/root/etc/systemd/system/systemd-$unit.service
done
"""
# Not by chroot: out of one, systemd cannot build the narrow views that services have of the files.
SYSTEMD = """
touch {ready}
cd {base}/root
mkdir -p old
pivot_root . old
umount -l /old
exec env -i container=other /lib/systemd/systemd --system --unit=basic.target
"""


class Sandbox:
    def __init__(
        self,
        directory: Path,
        *shared: Path,
        network_of: Sandbox | None = None,
        systemd: bool = False,
        lower: Path = Path("/"),
    ) -> None:
        """`shared`: directories that are the same inside and outside. `network_of`: a neighbour on the same net.

        `lower`: the file system that it begins with; by default this machine's.
        """
        self.base = directory / "base"
        self.base.mkdir()
        self._ready = directory / "ready"
        self._shared = [directory, *shared]
        self._network_of = network_of
        self._systemd = systemd
        self._lower = lower

    def __enter__(self) -> Sandbox:
        devices, start = (DEVICES_OF_ITS_OWN, SYSTEMD) if self._systemd else (OUR_DEVICES, JUST_STAY)
        script = SETUP.format(
            base=self.base,
            lower=self._lower,
            shared=" ".join(map(str, self._shared)),
            devices=devices.format(base=self.base),
            start=start.format(base=self.base, ready=self._ready),
        )
        own = ["--mount", "--pid", "--cgroup", "--ipc", "--uts"]
        self._process = subprocess.Popen(
            [*self._network(), *own, "--fork", "--kill-child", "sh", "-c", script],
            stdout=subprocess.DEVNULL if self._systemd else None,
        )
        end = time.monotonic() + 120
        while not self._ready.exists():
            assert self._process.poll() is None, "the sandbox did not start"
            assert time.monotonic() < end, "the sandbox did not get ready"
            time.sleep(0.02)
        (self._inner,) = (
            Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        )
        if self._systemd:
            while not self.path("/run/systemd/private").exists():
                assert time.monotonic() < end, "systemd did not start"
                time.sleep(0.05)
            self.run("systemctl", "is-system-running", "--wait", check=False, timeout=120)
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
        enter = ["nsenter", "--target", self._inner, "--mount", "--net", "--pid"]
        root = [] if self._systemd else ["chroot", f"{self.base}/root"]
        return [*enter, *root, *map(str, command)]

    def run(
        self, *command: str | Path, check: bool = True, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        # Ansible refuses a standard input that does not block, as that of a job in the background may be.
        done = subprocess.run(
            self.arguments(*command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0 or not check, f"{command}: {done.stdout}{done.stderr}"
        return done

    def sh(self, script: str, *, check: bool = True, timeout: float = 120) -> str:
        done = self.run("sh", "-euc", script, check=check, timeout=timeout)
        return done.stdout + done.stderr

    def path(self, path: str | Path) -> Path:
        """A file of the sandbox, seen from outside."""
        root = "" if self._systemd else f"{self.base}/root"
        return Path(f"/proc/{self._inner}/root{root}{path}")


def make_wheels(wheels: Path) -> None:
    """The project and all it depends on as wheels: a sandbox has no network to fetch them from."""
    checkout = Path(__file__).parents[1]
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(wheels)]
    subprocess.run([*pip, str(checkout), "hatchling"], check=True, capture_output=True)
