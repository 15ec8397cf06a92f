"""A collector and GPU hosts as docs/deploy.md makes them: its steps, walked as they are written."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.nvidia_xml import xml
from tests.sandbox import Sandbox
from tests.sshd import keygen

CHECKOUT = Path(__file__).parents[1]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class DeployLab:
    collector: Sandbox
    gpu_host: Sandbox
    directory: Path
    wheels: Path

    def paste(
        self, line: str, *, on: Sandbox | None = None, user: str = "root", cwd: str = "/", shell: str = "sh"
    ) -> str:
        """What it prints; fails where the last command of the line does."""
        script = self.directory / "pasted"
        script.write_text(f"cd {cwd}\n{line}\n")
        words = [
            "env",
            "-i",
            "HOME=/root",
            f"PATH={PATH}",
            "PIP_NO_INDEX=1",
            f"PIP_FIND_LINKS={self.wheels}",
            "TERM=dumb",
        ]
        become = [] if user == "root" else ["su", user, "-c"]
        run = [*become, f"{shell} {script}"] if become else [shell, str(script)]
        done = (on or self.collector).run(*words, *run, check=False, timeout=300)
        assert done.returncode == 0, f"{user}: {line}: {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr


def steps() -> list[str]:
    section = (CHECKOUT / "docs/deploy.md").read_text().split("\n## Step by step\n")[1].split("\n## ")[0]
    return [textwrap.dedent(block) for block in re.findall(r"```sh\n(.*?)```", section, re.DOTALL)]


@contextmanager
def deployed(wheels: Path) -> Iterator[DeployLab]:
    """Before the job has run for the first time."""
    with TemporaryDirectory(prefix="gpumon-deploy-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        key = keygen(directory / "root_key")
        (directory / "xml").write_text(xml("readme", utilization=97, used=41000))
        (directory / "gpu").mkdir()
        with (
            Sandbox(directory, wheels) as collector,
            Sandbox(directory / "gpu", directory, network_of=collector) as gpu_host,
        ):
            _prepare(collector, gpu_host, directory, key)
            lab = DeployLab(collector, gpu_host, directory, wheels)
            for step in steps():
                lab.paste(f"set -eu\n{step}", cwd=str(CHECKOUT))
            yield lab


def _prepare(collector: Sandbox, gpu_host: Sandbox, directory: Path, key: Path) -> None:
    """What the docs take for granted: names, root's own SSH access, a web server that runs."""
    names = "127.0.0.11 gpu01.lab.example\n127.0.0.12 gpu02.lab.example"
    gpu_host.sh(
        f"""
        mkdir -p /run/sshd /root/.ssh
        cp {key}.pub /root/.ssh/authorized_keys
        ssh-keygen -A
        printf '#!/bin/sh\\ncat {directory}/xml\\n' > /usr/local/bin/nvidia-smi
        chmod 755 /usr/local/bin/nvidia-smi
        /usr/sbin/sshd -o ListenAddress=127.0.0.11 -o ListenAddress=127.0.0.12 -o UsePAM=no
        """
    )
    collector.sh(
        f"""
        rm -rf /opt/gpumon-static /etc/gpumon-static /var/www/gpu-monitor /etc/cron.d/*
        mkdir -p /root/.ssh /var/log/nginx /var/www
        printf '127.0.0.1 localhost\\n{names}\\n' > /etc/hosts
        cp {key} /root/.ssh/id_ed25519
        for host in gpu01 gpu02; do
          ssh-keyscan -t ed25519 $host.lab.example
        done > /root/.ssh/known_hosts 2>/dev/null
        nginx
        """
    )
