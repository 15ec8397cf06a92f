"""deploy/gpumon-static.service and .timer, judged by systemd itself."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.places import ROOT
from tests.sandbox import Sandbox

DEPLOY = ROOT / "deploy"
SERVICE, TIMER = DEPLOY / "gpumon-static.service", DEPLOY / "gpumon-static.timer"
FAILURE = DEPLOY / "gpumon-static-failure.service"


@pytest.mark.skipif(os.geteuid() != 0, reason="a machine of its own needs root")
def test_systemd_finds_nothing_wrong_with_the_units() -> None:
    with TemporaryDirectory(prefix="gpumon-systemd-") as directory, Sandbox(Path(directory)) as sandbox:
        sandbox.sh(
            f"""
            useradd --system gpumon
            mkdir -p /opt/gpumon-static/bin
            install -m 755 /bin/true /opt/gpumon-static/bin/gpumon-static
            cp {SERVICE} {TIMER} {FAILURE} /etc/systemd/system/
            """
        )
        done = sandbox.run(
            "systemd-analyze",
            "verify",
            "--man=no",
            "/etc/systemd/system/gpumon-static.service",
            "/etc/systemd/system/gpumon-static.timer",
            "/etc/systemd/system/gpumon-static-failure.service",
        )
    assert done.stdout + done.stderr == ""


@pytest.mark.parametrize("unit", [SERVICE, FAILURE], ids=lambda unit: unit.stem)
def test_the_service_may_do_little(unit: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", unit],
        capture_output=True,
        text=True,
        check=False,
    )
    level = re.search(rf"Overall exposure level for {unit.name}: ([\d.]+)", done.stdout)
    assert level, done.stdout + done.stderr
    assert float(level[1]) < 2.0


def test_the_service_does_what_the_crontab_does() -> None:
    job = next(line for line in (DEPLOY / "crontab").read_text().splitlines() if line.startswith("*/5"))
    commands = [
        line.split("=", 1)[1] for line in SERVICE.read_text().splitlines() if line.startswith("ExecStart=")
    ]
    assert job.endswith(" gpumon " + " && ".join(commands))
    schedule = subprocess.run(
        ["systemd-analyze", "calendar", "--iterations=2", "*:0/5"], capture_output=True, text=True, check=True
    )
    assert "OnCalendar=*:0/5" in TIMER.read_text()
    assert re.search(r":[0-5][05]:00", schedule.stdout)
