"""The way from nothing to a page in docs/deploy.md, walked step by step as it is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.deploy_lab import deployed


@pytest.mark.skipif(os.geteuid() != 0, reason="machines of their own need root")
def test_the_steps_of_the_docs_lead_to_a_page(wheels: Path) -> None:
    with deployed(wheels) as lab:
        # cron is another test's; here its line is run as it stands, by its user.
        crontab = lab.collector.path("/etc/cron.d/gpumon-static").read_text()
        job = crontab.strip().splitlines()[-1].split(" gpumon ")[1]
        job = f"export GPUMON_CONFIG=/etc/gpumon-static/config.ini\n{job}"
        assert lab.paste(job, user="gpumon") == ""
        page = lab.paste("curl -sS -H 'Host: gpu-monitor.lab.example' http://127.0.0.1/")
        assert "gpu01.lab.example" in page
        assert page.count("GPU-readme") >= 2, "a GPU of each machine"
        login = "su gpumon -c 'ssh -o BatchMode=yes gpu01.lab.example id'"
        assert "uid=" not in lab.collector.sh(login, check=False)
        assert not lab.gpu_host.path("/opt/gpumon-static").exists(), (
            "nothing but the probe is on a GPU machine"
        )
