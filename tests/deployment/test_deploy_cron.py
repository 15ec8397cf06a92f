"""deploy/crontab, run by Debian's own cron as the monitoring user."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.nvidia_xml import xml
from tests.places import ROOT
from tests.sandbox import Sandbox
from tests.waiting import wait_until

CHECKOUT = ROOT

CONFIG = """
[common]
hosts = ["localhost"]
[paths]
data = "/var/lib/gpumon-static/data"
site = "/var/www/gpu-monitor"
"""

SETUP = """
# The tests' Python may live in a home that is closed to others.
chmod 755 /root || true
useradd --system --create-home --home-dir /var/lib/gpumon-static --shell /bin/sh gpumon
rm -rf /opt/gpumon-static && python3 -m venv /opt/gpumon-static
/opt/gpumon-static/bin/pip install --quiet --no-index --find-links {wheels} gpumon-static
rm -rf /var/www/gpu-monitor /etc/cron.d/* /var/spool/cron/crontabs/*
mkdir -p /etc/gpumon-static /var/www
install -d -o gpumon -g gpumon /var/www/gpu-monitor
cp {directory}/config.ini /etc/gpumon-static/
printf '#!/bin/sh\\nsh {directory}/nvidia-smi\\n' > /usr/local/bin/nvidia-smi
printf '#!/bin/sh\\ncat >> {directory}/mail\\n' > /usr/sbin/sendmail
chmod 755 /usr/local/bin/nvidia-smi /usr/sbin/sendmail
sed 's,^[*]/5 ,* ,' {checkout}/deploy/crontab > /etc/cron.d/gpumon-static
chmod 644 /etc/cron.d/gpumon-static
cron
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a machine of its own needs root")
def test_cron_renews_the_page_and_mails_changes_only(wheels: Path) -> None:
    with TemporaryDirectory(prefix="gpumon-cron-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        (directory / "config.ini").write_text(CONFIG)
        (directory / "xml").write_text(xml("cron", utilization=97, used=41000))
        (directory / "nvidia-smi").write_text(f"cat {directory}/xml")
        mail = directory / "mail"
        mail.touch()
        mail.chmod(0o666)
        with Sandbox(directory, wheels) as sandbox:
            sandbox.sh(SETUP.format(wheels=wheels, directory=directory, checkout=CHECKOUT))
            page = sandbox.path("/var/www/gpu-monitor/index.html")
            data = sandbox.path("/var/lib/gpumon-static/data/load_data.csv")
            wait_until(page.exists, "the page")
            assert "GPU-cron" in page.read_text()
            assert mail.read_text() == "", "silence when all is well"
            assert page.stat().st_mode & 0o044 == 0o044, "nginx can read it"
            assert not stat.S_IMODE(data.parent.stat().st_mode) & 0o002, "only we write there"
            assert page.stat().st_uid != 0, "it is the monitoring user who wrote it"
            # The driver breaks: one mail. It stays broken: no second one.
            (directory / "nvidia-smi").write_text("echo 'No devices were found'; exit 6")
            wait_until(lambda: "no-gpus" in data.read_text(), "the next run")
            wait_until(lambda: "localhost: no-gpus: No devices were found" in mail.read_text(), "the mail")
            before = data.read_text()
            wait_until(lambda: data.read_text() != before, "the run after it")
            time.sleep(2)
            assert mail.read_text().count("Subject: ") == 1
