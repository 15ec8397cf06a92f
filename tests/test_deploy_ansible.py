"""deploy/ansible: the playbook, as it is, against machines over SSH."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.command import rows
from tests.sandbox import Sandbox, offline_wheels
from tests.sshd import keygen
from tests.test_fetch_ssh import xml

PROGRAMS = Path(sys.executable).parent
PLAYBOOK = Path(__file__).parents[1] / "deploy/ansible"

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="a machine of its own needs root")

INVENTORY = """
[collector]
monitor ansible_connection=local ansible_python_interpreter=/usr/bin/python3

[gpu_hosts]
gpu01.lab.example ansible_host=127.0.0.11
gpu02.lab.example ansible_host=127.0.0.12

[gpu_hosts:vars]
ansible_user=root
ansible_python_interpreter=/usr/bin/python3
ansible_ssh_private_key_file={key}
ansible_ssh_common_args=-o UserKnownHostsFile={known} -o StrictHostKeyChecking=accept-new
"""


def test_ansible_lint_finds_nothing() -> None:
    done = subprocess.run(
        [PROGRAMS / "ansible-lint", "--offline", "--nocolor", "--strict", PLAYBOOK],
        env=os.environ | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}"},
        cwd=PLAYBOOK,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 failure(s), 0 warning(s)" in done.stdout + done.stderr


@pytest.fixture(scope="module")
def machine() -> Iterator[tuple[Sandbox, Path]]:
    """A machine that is collector and GPU hosts in one, with root's key let in by its sshd."""
    with TemporaryDirectory(prefix="gpumon-ansible-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        key = keygen(directory / "root_key")
        offline_wheels(directory)
        (directory / "xml").write_text(xml("ansible", utilization=97, used=41000))
        inventory = INVENTORY.format(key=key, known=directory / "known_hosts")
        (directory / "inventory.ini").write_text(inventory)
        with Sandbox(directory, systemd=True) as sandbox:
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
            yield sandbox, directory


def play(machine: tuple[Sandbox, Path], *more: str) -> dict[str, int]:
    """Run the playbook; returns how many tasks changed something, by host.

    One host at a time: here they are one and the same machine.
    """
    sandbox, directory = machine
    wheel = next((directory / "wheels").glob("gpumon_static-*.whl"))
    done = sandbox.run(
        "env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "ANSIBLE_NOCOLOR=1", "ANSIBLE_PIPELINING=1", "PIP_NO_INDEX=1", f"PIP_FIND_LINKS={directory}/wheels",
        f"{PROGRAMS}/ansible-playbook", "--forks", "1", "-i", f"{directory}/inventory.ini", f"{PLAYBOOK}/site.yml",
        "-e", f"gpumon_package={wheel}", *more,
        timeout=400,
    )  # fmt: skip
    return {
        host: int(n)
        for host, n in re.findall(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)", done.stdout, re.MULTILINE)
    }


@root_only
def test_the_playbook_puts_it_up_changes_nothing_twice_and_takes_it_away(
    machine: tuple[Sandbox, Path],
) -> None:
    sandbox, _ = machine
    changed = play(machine)
    assert changed["monitor"] > 0
    assert "gpumon-static.timer" in sandbox.sh("systemctl list-timers --no-pager")
    assert not sandbox.path("/etc/cron.d/gpumon-static").exists()
    # The hardened service, as the timer starts it.
    sandbox.sh("systemctl start gpumon-static.service || { journalctl --unit gpumon-static; exit 1; }")
    read = rows(sandbox.path("/var/lib/gpumon-static/data/load_data.csv"))
    assert [(row["host"], row["status"], row["gpu_uuid"]) for row in read] == [
        ("gpu01.lab.example", "ok", "GPU-ansible"),
        ("gpu02.lab.example", "ok", "GPU-ansible"),
    ]
    page = sandbox.sh("curl -sS -H 'Host: gpu-monitor.lab.example' http://127.0.0.1/")
    assert "gpu02.lab.example" in page
    # The key opens the door to the probe and to nothing else.
    login = (
        "ssh -i /var/lib/gpumon-static/id_ed25519 -o UserKnownHostsFile=/var/lib/gpumon-static/known_hosts"
    )
    tried = sandbox.sh(f"{login} -o BatchMode=yes gpumon@127.0.0.11 id")
    assert "@@gpumon begin" in tried
    assert "uid=" not in tried
    assert set(play(machine).values()) == {0}
    # Cron instead: one of the two does it, never both.
    play(machine, "-e", "gpumon_schedule=cron")
    assert sandbox.path("/etc/cron.d/gpumon-static").exists()
    assert "gpumon-static" not in sandbox.sh("systemctl list-timers --no-pager --all")
    play(machine, "-e", "gpumon_state=absent")
    for gone in ("/etc/cron.d/gpumon-static", "/etc/gpumon-static", "/opt/gpumon-static", "/var/lib/gpumon-static",
                 "/usr/local/bin/gpumon-probe", "/etc/nginx/conf.d/gpu-monitor.conf", "/var/www/gpu-monitor",
                 "/etc/systemd/system/gpumon-static.service", "/etc/systemd/system/gpumon-static.timer"):  # fmt: skip
        assert not sandbox.path(gone).exists(), gone
    assert "no such user" in sandbox.sh("id gpumon", check=False)
    assert set(play(machine, "-e", "gpumon_state=absent").values()) == {0}
