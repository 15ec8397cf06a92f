"""A machine that the playbook of deploy/ansible is played against."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.nvidia_xml import xml
from tests.sandbox import Sandbox
from tests.sshd import keygen

PROGRAMS = Path(sys.executable).parent
PLAYBOOK = Path(__file__).parents[1] / "deploy/ansible"

INVENTORY = """
[collector]
monitor ansible_connection=local ansible_python_interpreter=/usr/bin/python3

[gpu_hosts]
gpu01.lab.example ansible_host=127.0.0.11
gpu02.lab.example ansible_host=127.0.0.12 ansible_connection=local

[gpu_hosts:vars]
ansible_user=root
ansible_python_interpreter=/usr/bin/python3
ansible_ssh_private_key_file={key}
ansible_ssh_common_args=-o UserKnownHostsFile={known} -o StrictHostKeyChecking=accept-new
"""


@dataclass(frozen=True)
class Machine:
    sandbox: Sandbox
    directory: Path
    wheels: Path


@pytest.fixture(scope="module")
def machine(wheels: Path) -> Iterator[Machine]:
    """A machine that is collector and GPU hosts in one, with root's key let in by its sshd."""
    with TemporaryDirectory(prefix="gpumon-ansible-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        key = keygen(directory / "root_key")
        (directory / "xml").write_text(xml("ansible", utilization=97, used=41000))
        inventory = INVENTORY.format(key=key, known=directory / "known_hosts")
        (directory / "inventory.ini").write_text(inventory)
        with Sandbox(directory, wheels, systemd=True) as sandbox:
            sandbox.sh(
                f"""
                mkdir -p /run/sshd /root/.ssh /var/log/nginx /var/www
                rm -rf /var/www/gpu-monitor
                cp {key}.pub /root/.ssh/authorized_keys
                ssh-keygen -A
                printf '#!/bin/sh\\ncat {directory}/xml\\n' > /usr/local/bin/nvidia-smi
                chmod 755 /usr/local/bin/nvidia-smi
                /usr/sbin/sshd -o ListenAddress=0.0.0.0 -o UsePAM=no
                nginx
                """
            )
            yield Machine(sandbox, directory, wheels)


def play(machine: Machine, **variables: Any) -> dict[str, int]:
    """Run the playbook; returns how many tasks changed something, by host.

    One host at a time: here they are one and the same machine.
    """
    wheel = next(machine.wheels.glob("gpumon_static-*.whl"))
    given = {"gpumon_package": str(wheel), "gpumon_server_name": "gpu-monitor.test"} | variables
    done = machine.sandbox.run(
        "env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "ANSIBLE_NOCOLOR=1", "ANSIBLE_PIPELINING=1",
        "PIP_NO_INDEX=1", f"PIP_FIND_LINKS={machine.wheels}",
        f"{PROGRAMS}/ansible-playbook", "--forks", "1", "-i", f"{machine.directory}/inventory.ini",
        f"{PLAYBOOK}/site.yml", "-e", json.dumps(given),
        timeout=400,
    )  # fmt: skip
    found = re.findall(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)", done.stdout, re.MULTILINE)
    return {host: int(count) for host, count in found}
