"""Our metrics, alerts and dashboard with a real Prometheus, as Debian has it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpumon_static.demo.site import serve_site
from gpumon_static.model import (
    Allocated,
    Allocation,
    Disk,
    Fault,
    HostReading,
    Machine,
    NodeState,
    SlurmAnswer,
    Waiting,
)
from gpumon_static.publish.exports.metrics import FAMILIES
from gpumon_static.store import snapshot
from gpumon_static.store.slurm import slurm_file
from tests.builders import busy_gpu, failed, gpu, process, reading, slices
from tests.command import gpumon
from tests.places import ROOT
from tests.sshd import free_port, wait_for_port

RULES = ROOT / "deploy/prometheus/gpumon.rules.yml"
DASHBOARD = json.loads((ROOT / "deploy/grafana/gpumon.json").read_text())

MACHINE = Machine(
    cpu_count=8,
    load_1m=1.0,
    load_5m=2.0,
    load_15m=3.0,
    ram_total_mib=1000.0,
    ram_used_mib=250.0,
    cpu_utilization=10.0,
    swap_total_mib=100.0,
    swap_used_mib=1.0,
    uptime_s=1000,
    disks=(Disk("/", 99.0, 100.0),),
)


def test_prometheus_takes_the_rules_and_the_example() -> None:
    done = promtool("check", "rules", str(RULES))
    assert done.returncode == 0, done.stdout + done.stderr
    done = promtool("check", "config", str(ROOT / "deploy/prometheus/prometheus.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_comes_when_it_should_and_not_before(tmp_path: Path) -> None:
    shutil.copy(RULES, tmp_path)
    told = shutil.copy(ROOT / "tests/prometheus_alerts.yml", tmp_path)
    alerts = set(re.findall(r"- alert: (\w+)", RULES.read_text()))
    assert alerts == set(re.findall(r"alertname: (\w+)", Path(told).read_text()))
    done = promtool("test", "rules", str(told))
    assert done.returncode == 0, done.stdout + done.stderr


def test_node_exporter_takes_the_file_as_it_is(site: Path) -> None:
    port = free_port()
    command = ["prometheus-node-exporter", "--collector.disable-defaults", "--collector.textfile"]
    options = [f"--collector.textfile.directory={site}", f"--web.listen-address=127.0.0.1:{port}"]
    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE) as exporter:
        try:
            wait_for_port(port)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                text = answer.read().decode()
        finally:
            exporter.terminate()
    assert "node_textfile_scrape_error 0" in text
    assert 'gpumon_host_up{host="n1"} 1' in text
    assert 'gpumon_host_up{host="n4"} 0' in text


def promtool(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *arguments], input=stdin, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What render writes of a lab that has everything."""
    directory = tmp_path_factory.mktemp("prometheus")
    now = datetime.now(UTC)
    strange = 'C:\\x "quoted" \u00fc'
    lab = [
        reading(
            "n1",
            [busy_gpu(0, fan_percent=50.0), gpu(1, faults=(Fault("ecc-errors"),)), gpu(2)],
            machine=MACHINE,
            fetch_seconds=0.5,
        ),
        reading("n2", [gpu(0, mig_mode=True, slices=slices(2, 0))]),
        reading(
            "n3",
            [
                busy_gpu(
                    0, processes=(process(user=strange),), allocation=Allocation(Allocated.YES, ends_at=now)
                )
            ],
            node=NodeState("n3", takes_jobs=True),
        ),
        failed("n4"),
        failed("away"),
    ]
    snapshot.write(directory / "data/load_data.csv", [replace(r, fetched_at=now) for r in lab])
    waiting = SlurmAnswer(waiting=(Waiting("a100", 2, 1, now),))
    slurm_file.write(directory / "data/slurm.json", [HostReading("Slurm on n3", now, slurm=waiting)])
    hosts = "[common]\nhosts = ['n1', 'n2', 'n3', 'n4', 'away']\n[hosts.n1]\ngpus = 8\n"
    hosts += "[hosts.away]\nstate = 'maintenance'\ngpus = 8\n"
    (directory / "config.ini").write_text(hosts)
    assert gpumon("render", cwd=directory).returncode == 0
    return directory / "site"


def test_promtool_has_nothing_against_the_metrics(site: Path) -> None:
    done = promtool("check", "metrics", stdin=(site / "metrics.prom").read_text())
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


class Prometheus:
    def __init__(self, url: str) -> None:
        self._url = url

    def get(self, path: str, **parameters: str) -> Any:
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self._url}/api/v1/{path}?{query}", timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        found = self.get("query", query=expression)["result"]
        return [(one["metric"], float(one["value"][1])) for one in found]

    def wait_for(self, expression: str, seconds: float = 60) -> list[tuple[dict[str, str], float]]:
        end = time.monotonic() + seconds
        while True:
            try:
                if found := self.query(expression):
                    return found
            except OSError:
                pass
            assert time.monotonic() < end, expression
            time.sleep(0.2)


@contextmanager
def prometheus(directory: Path, target: str) -> Iterator[Prometheus]:
    """With our rules, and what is needed to try the alerts within a test: seconds for minutes."""
    directory.mkdir()
    shutil.copy(RULES, directory / "gpumon.rules.yml")
    quick = re.sub(r"for: \d+[mh]", "for: 0s", RULES.read_text())
    (directory / "gpumon.rules.yml").write_text(quick)
    (directory / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        "rule_files: [gpumon.rules.yml]\n"
        "scrape_configs:\n"
        f"  - {{job_name: gpumon, metrics_path: /metrics.prom, static_configs: [{{targets: ['{target}']}}]}}\n"
    )
    port = free_port()
    log = (directory / "log").open("w")
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={directory}/prometheus.yml",
            f"--storage.tsdb.path={directory}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=log,
        stderr=log,
    )
    try:
        yield Prometheus(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(120)
        log.close()


@pytest.fixture(scope="module")
def scraped(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with (
        serve_site(site, 0) as url,
        prometheus(tmp_path_factory.mktemp("server") / "run", urllib.parse.urlsplit(url).netloc) as server,
    ):
        server.wait_for("gpumon_build_info")
        yield server


def test_a_real_prometheus_scrapes_the_file(scraped: Prometheus) -> None:
    (target,) = scraped.get("targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
    assert scraped.query('sum(gpumon_gpu_state{state="free"})')[0][1] == 2
    assert scraped.query('sum by (model) (gpumon_gpu_state{state="busy"})') == [({"model": "A100 80G"}, 3)]
    assert scraped.query("gpumon_gpu_memory_used_bytes{host='n1',gpu='0'}")[0][1] == 41000 * 2**20
    assert {m["host"]: v for m, v in scraped.query("gpumon_host_up")} == {"n1": 1, "n2": 1, "n3": 1, "n4": 0}
    assert {m["user"] for m, _ in scraped.query("gpumon_user_gpus")} == {
        "alice",
        "mia",
        'C:\\x "quoted" \u00fc',
    }


def test_it_knows_every_family_by_its_help(scraped: Prometheus) -> None:
    known = scraped.get("metadata")
    for name, text in FAMILIES.items():
        assert [(one["type"], one["help"]) for one in known[name]] == [("gauge", text)]


def test_the_alerts_fire_for_what_is_wrong(scraped: Prometheus) -> None:
    scraped.wait_for('ALERTS{alertname="GpumonDiskFull"}')
    scraped.wait_for('ALERTS{alertname="GpumonHostDown"}')
    fired = {(m["alertname"], m.get("host")) for m, _ in scraped.query('ALERTS{alertstate="firing"}')}
    assert fired == {
        ("GpumonHostDown", "n4"),
        ("GpumonGpuFault", "n1"),
        ("GpumonGpusMissing", "n1"),
        ("GpumonDiskFull", "n1"),
    }
    alerts = scraped.get("alerts")["alerts"]
    told = {a["labels"]["alertname"]: a["annotations"]["summary"] for a in alerts}
    assert told["GpumonGpuFault"] == "n1 GPU 1 (A100 80G): ecc-errors"
    assert told["GpumonGpusMissing"] == "n1 shows only 3 GPUs"


def test_old_data_is_an_alert_although_the_file_is_still_served(scraped: Prometheus, site: Path) -> None:
    file = site / "metrics.prom"
    fresh = file.read_text()
    old = (datetime.now(UTC) - timedelta(hours=1)).timestamp()
    file.write_text(re.sub(r"(?m)^(gpumon_last_fetch_timestamp_seconds) .*", rf"\1 {old:.0f}", fresh))
    scraped.wait_for('ALERTS{alertname="GpumonDataOld",alertstate="firing"}')
    file.write_text(fresh)


def expressions() -> list[str]:
    found = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    return [expression.replace("$host", ".*").replace("$model", ".*") for expression in found]


@pytest.mark.parametrize("expression", expressions())
def test_every_panel_of_the_dashboard_has_data(scraped: Prometheus, expression: str) -> None:
    assert set(re.findall(r"gpumon_\w+", expression)) <= set(FAMILIES)
    assert scraped.query(expression) != []


def test_the_dashboard_asks_for_hosts_and_models_that_there_are(scraped: Prometheus) -> None:
    variables = {v["name"]: v for v in DASHBOARD["templating"]["list"]}
    assert set(variables) == {"datasource", "host", "model"}
    for name in ("host", "model"):
        metric = re.fullmatch(rf"label_values\((\w+), {name}\)", variables[name]["definition"])
        assert metric
        assert all(name in labels for labels, _ in scraped.wait_for(metric[1]))
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
