"""The way from nothing to a page in docs/deploy.md, walked step by step as it is written."""

from __future__ import annotations

import os
import re
import textwrap
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.sandbox import Sandbox
from tests.sshd import keygen
from tests.test_fetch_ssh import xml

CHECKOUT = Path(__file__).parents[1]


def steps() -> list[str]:
    section = (CHECKOUT / "docs/deploy.md").read_text().split("\n## Step by step\n")[1].split("\n## ")[0]
    return [textwrap.dedent(block) for block in re.findall(r"```sh\n(.*?)```", section, re.DOTALL)]


@pytest.mark.skipif(os.geteuid() != 0, reason="machines of their own need root")
def test_the_steps_of_the_docs_lead_to_a_page(wheels: Path) -> None:
    with TemporaryDirectory(prefix="gpumon-readme-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        key = keygen(directory / "root_key")
        (directory / "xml").write_text(xml("readme", utilization=97, used=41000))
        (directory / "gpu").mkdir()
        with (
            Sandbox(directory, wheels) as collector,
            Sandbox(directory / "gpu", directory, network_of=collector) as gpu_host,
        ):
            prepare(collector, gpu_host, directory, key)
            for step in steps():
                walk(collector, directory, wheels, step)
            # cron is another test's; here its line is run as it stands, by its user.
            job = (
                collector.path("/etc/cron.d/gpumon-static")
                .read_text()
                .strip()
                .splitlines()[-1]
                .split(" gpumon ")[1]
            )
            (directory / "job").write_text(f"export GPUMON_CONFIG=/etc/gpumon-static/config.ini\n{job}\n")
            assert collector.sh(f"su gpumon -c 'sh {directory}/job'") == ""
            page = collector.sh("curl -sS -H 'Host: gpu-monitor.lab.example' http://127.0.0.1/")
            assert "gpu01.lab.example" in page
            assert page.count("GPU-readme") >= 2, "a GPU of each machine"
            login = "su gpumon -c 'ssh -o BatchMode=yes gpu01.lab.example id'"
            assert "uid=" not in collector.sh(login, check=False)
            assert not gpu_host.path("/opt/gpumon-static").exists(), (
                "nothing but the probe is on a GPU machine"
            )


def prepare(collector: Sandbox, gpu_host: Sandbox, directory: Path, key: Path) -> None:
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


def walk(collector: Sandbox, directory: Path, wheels: Path, step: str) -> None:
    script = directory / "step"
    script.write_text(f"set -eu\ncd {CHECKOUT}\n{step}")
    environment = [
        "HOME=/root",
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PIP_NO_INDEX=1",
        f"PIP_FIND_LINKS={wheels}",
    ]
    collector.run("env", "-i", *environment, "sh", script, timeout=300)
