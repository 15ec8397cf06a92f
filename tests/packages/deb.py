"""The Debian package: installed, used, upgraded and purged on a machine with systemd and an MTA."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.notify_lab import EXAMPLES
from tests.nvidia_xml import xml
from tests.sandbox import Sandbox
from tests.waiting import wait_until
from tools import debian

CONFIG = """
[common]
hosts = ["localhost"]
[paths]
data = "/var/lib/gpumon-static/data"
site = "/var/www/gpu-monitor"
[notify]
samples = 1
command = {command}
"""


@pytest.fixture(scope="module")
def packages(directory: Path, wheels: Path) -> list[Path]:
    """The package, and the next version of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(wheels))
        debian.write_venv(directory / "root")
    return [debian.build(directory / "root", directory, version) for version in ("0.1.0", "0.1.1")]


@pytest.fixture(scope="module")
def machine(base: Path, directory: Path, packages: list[Path]) -> Iterator[Sandbox]:
    system, own = directory / "system", directory / "machine"
    system.mkdir()
    own.mkdir()
    subprocess.run(["tar", "-xf", base, "-C", system], check=True)
    (directory / "xml").write_text(xml("deb", utilization=97, used=41000))
    with Sandbox(own, directory, systemd=True, lower=system) as sandbox:
        sandbox.sh(
            f"""
            cp {directory}/xml /usr/local/share/xml
            printf '#!/bin/sh\\ncat /usr/local/share/xml\\n' > /usr/local/bin/nvidia-smi
            chmod 755 /usr/local/bin/nvidia-smi
            postconf -e 'myhostname = collector.lab.example' 'mydestination = localhost, collector.lab.example'
            postconf -e 'inet_interfaces = loopback-only'
            systemctl restart postfix
            """
        )
        yield sandbox


def with_command(machine: Sandbox, command: str) -> None:
    machine.path("/etc/gpumon-static/config.ini").write_text(CONFIG.format(command=json.dumps(command)))


def test_it_is_installed_with_account_man_pages_and_a_timer_that_waits(
    machine: Sandbox, packages: list[Path]
) -> None:
    told = machine.sh(f"dpkg --install {packages[0]}")
    assert "systemctl enable --now gpumon-static.timer" in told
    assert "uid=" in machine.sh("id gpumon")
    assert machine.sh("gpumon-static --version").strip()
    assert machine.sh("man -w gpumon-static-fetch").strip().endswith("gpumon-static-fetch.1.gz")
    assert "inactive" in machine.sh("systemctl is-active gpumon-static.timer", check=False)
    assert machine.sh("grep -rlI /root /usr/lib/gpumon-static/bin || true") == ""


def test_the_page_appears(machine: Sandbox) -> None:
    with_command(machine, "true")
    machine.sh("systemctl enable --now gpumon-static.timer")
    machine.sh("systemctl start gpumon-static.service || { journalctl --unit gpumon-static; exit 1; }")
    page = machine.path("/var/www/gpu-monitor/index.html")
    assert "GPU-deb" in page.read_text()
    assert machine.sh("stat -c %U /var/www/gpu-monitor/index.html").strip() == "gpumon"


def a_failure(machine: Sandbox) -> str:
    """Break the config and start the job; returns what the failure's own unit wrote to the journal."""
    machine.sh(
        """
        echo '[busy]
        memory = "much"' >> /etc/gpumon-static/config.ini
        systemctl reset-failed
        systemctl start gpumon-static.service || true
        while systemctl is-active --quiet gpumon-static-failure.service; do sleep 0.2; done
        """,
        check=False,
    )
    return machine.sh("journalctl --unit gpumon-static-failure.service --output cat --lines 20")


def test_mail_through_a_setgid_program_is_refused_by_the_units_and_through_smtp_it_arrives(
    machine: Sandbox,
) -> None:
    mailbox = machine.path("/var/mail/root")
    machine.sh("su gpumon -c 'echo text | mail -s control root@localhost'")
    wait_until(mailbox.exists, "mail without a sandbox, which must work here")
    with_command(machine, EXAMPLES["mail"].replace("admin@lab.example", "root@localhost"))
    refused = a_failure(machine)
    with_command(machine, EXAMPLES["smtp"].replace("admin@lab.example", "root@localhost"))
    told = a_failure(machine)
    wait_until(lambda: "busy.memory" in mailbox.read_text(), f"the mail ({told})")
    # Sent after the first one: that one does not come any more.
    assert mailbox.read_text().count("gpumon-static.service failed") == 1, refused
    assert "Subject: control" in mailbox.read_text()


def test_an_upgrade_keeps_the_config_and_the_timer(machine: Sandbox, packages: list[Path]) -> None:
    with_command(machine, "true")
    machine.sh(f"dpkg --install --force-confdef --force-confold {packages[1]}")
    assert "0.1.1" in machine.sh("dpkg-query --show gpumon-static")
    assert "localhost" in machine.path("/etc/gpumon-static/config.ini").read_text()
    assert machine.sh("systemctl is-active gpumon-static.timer").strip() == "active"
    machine.sh("systemctl start gpumon-static.service")


def test_removed_it_leaves_data_and_purged_only_what_is_not_ours(machine: Sandbox) -> None:
    machine.sh("dpkg --remove gpumon-static")
    assert not machine.path("/usr/lib/gpumon-static").exists()
    assert machine.path("/var/lib/gpumon-static/data/history.db").exists()
    assert "inactive" in machine.sh("systemctl is-active gpumon-static.timer", check=False)
    machine.sh("echo mine > /var/www/gpu-monitor/mine.html")
    machine.sh("dpkg --purge gpumon-static")
    assert machine.sh("ls /var/www/gpu-monitor").split() == ["mine.html"]
    for gone in ("/etc/gpumon-static", "/var/lib/gpumon-static"):
        assert not machine.path(gone).exists(), machine.sh(f"find {gone}")
    assert "no such user" in machine.sh("id gpumon", check=False)
