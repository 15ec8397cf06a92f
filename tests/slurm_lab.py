"""A real Slurm on 127.0.0.1: munged, slurmctld and a slurmd per node, from Debian's packages, as one user.

Everything is in one directory: configuration, sockets, logs, the empty files that stand for GPUs. Nothing needs
systemd or cgroups, and nothing is left running.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NODES = ("n1", "n2")
CONF = """
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={base}/munge.sock
CredType=cred/munge
SlurmUser=root
StateSaveLocation={base}/state
SlurmdSpoolDir={base}/spool-%n
SlurmctldPidFile={base}/slurmctld.pid
SlurmdPidFile={base}/slurmd-%n.pid
SlurmctldLogFile={base}/slurmctld.log
SlurmdLogFile={base}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
GresTypes=gpu
SlurmdParameters=config_overrides
MessageTimeout=30
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=8 RealMemory=100 Gres=gpu:a100:2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=8 RealMemory=100 Gres=gpu:a100:2
PartitionName=gpu Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""
PROGRAMS = ("munged", "mungekey", "slurmctld", "slurmd", "scontrol", "squeue", "sbatch", "scancel")
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
START_S = 60.0


class SlurmLab:
    def __init__(self, base: Path) -> None:
        self.base = base
        self.environment = os.environ | {"SLURM_CONF": str(base / "slurm.conf"), "PATH": PATH}
        self._started: list[subprocess.Popen[bytes]] = []

    def run(self, *words: str) -> str:
        done = self._done(*words)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def tried(self, *words: str) -> str:
        """What a command that fails prints."""
        done = self._done(*words)
        assert done.returncode != 0, words
        return done.stderr

    def _done(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            env=self.environment,
            cwd=self.base,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def submit(self, *options: str, sleep: int = 600) -> str:
        """The id of a job that holds what it is given and does nothing."""
        told = self.run("sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", f"exec sleep {sleep}")
        return told.strip()

    def wait_for(self, job: str, state: str) -> None:
        end = time.monotonic() + START_S
        while f"JobState={state} " not in self.run("scontrol", "-o", "show", "job", job):
            assert time.monotonic() < end, self.logs()
            time.sleep(0.2)

    def start(self) -> None:
        ports = _free_ports(1 + len(NODES))
        host = socket.gethostname().partition(".")[0]
        (self.base / "slurm.conf").write_text(CONF.format(base=self.base, host=host, ports=ports))
        (self.base / "gres.conf").write_text(
            "".join(f"NodeName={n} Name=gpu Type=a100 File={self.base}/{n}-gpu[0-1]\n" for n in NODES)
        )
        for directory in ("state", *(f"spool-{node}" for node in NODES)):
            (self.base / directory).mkdir()
        for node in NODES:
            for number in (0, 1):
                (self.base / f"{node}-gpu{number}").touch()
        self.run("mungekey", "--create", "--keyfile", str(self.base / "munge.key"))
        self._start(
            "munged", "--foreground", "--force", "--key-file", str(self.base / "munge.key"),
            "--socket", str(self.base / "munge.sock"), "--pid-file", str(self.base / "munge.pid"),
            "--log-file", str(self.base / "munge.log"), "--seed-file", str(self.base / "munge.seed"),
        )  # fmt: skip
        self._wait_until(lambda: (self.base / "munge.sock").exists())
        self._start("slurmctld", "-D", "-i")
        for node in NODES:
            self._start("slurmd", "-D", "-N", node)
        self._wait_until(self._is_up)

    def signal_controller(self, number: signal.Signals) -> None:
        """To slurmctld; the last one that was started."""
        found = [process for process in self._started if str(process.args[0]) == "slurmctld"]  # type: ignore[index]
        found[-1].send_signal(number)
        if number is signal.SIGKILL:
            found[-1].wait()

    def start_controller(self) -> None:
        """Again, after it was killed: the jobs are still there."""
        self._start("slurmctld", "-D")
        self._wait_until(lambda: self._done("scontrol", "show", "node").returncode == 0)

    def stop(self) -> None:
        """End the jobs first: what slurmd has started is in sessions of its own."""
        for process in reversed(self._started):
            if process.poll() is None and "slurm" in str(process.args):
                subprocess.run(
                    ["scancel", "--full", "-u", "root"], env=self.environment, timeout=20, check=False,
                    capture_output=True,
                )  # fmt: skip
                break
        end = time.monotonic() + 120
        while self._steps() and time.monotonic() < end:
            time.sleep(0.1)
        for process in reversed(self._started):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self._started):
            try:
                process.wait(120)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pid in self._steps():
            os.kill(pid, signal.SIGKILL)

    def logs(self) -> str:
        return "\n".join(f"{log.name}:\n{log.read_text()[-2000:]}" for log in self.base.glob("*.log"))

    def _start(self, *words: str) -> None:
        with (self.base / f"{words[0]}-{len(self._started)}.out").open("wb") as out:
            self._started.append(
                subprocess.Popen(
                    words, env=self.environment, cwd=self.base, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                    start_new_session=True,
                )
            )  # fmt: skip

    def _is_up(self) -> bool:
        done = subprocess.run(
            ["scontrol", "-o", "show", "node"],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.count(" State=IDLE ") == len(NODES)

    def _wait_until(self, is_so: object) -> None:
        end = time.monotonic() + START_S
        while not is_so():  # type: ignore[operator]
            assert time.monotonic() < end, self.logs()
            assert all(process.poll() is None for process in self._started), self.logs()
            time.sleep(0.2)

    def _steps(self) -> list[int]:
        """Our slurmstepd and job scripts that are left: they have our directory in their environment or files."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    is_ours = str(self.base).encode() in (entry / "environ").read_bytes()
                    name = (entry / "comm").read_text().strip()
                except OSError:
                    continue
                if is_ours and name in ("slurmstepd", "sleep", "slurm_script"):
                    found.append(int(entry.name))
        return found


@contextmanager
def slurm_lab(base: Path) -> Iterator[SlurmLab]:
    missing = [name for name in PROGRAMS if not shutil.which(name, path=PATH)]
    assert not missing, f"sh tests/debian-packages.sh installs {missing}"
    lab = SlurmLab(base)
    try:
        lab.start()
        yield lab
    finally:
        lab.stop()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
