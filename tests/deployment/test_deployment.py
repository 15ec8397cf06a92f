"""The files of a deployment, from one set of templates: printed by `init --print`, kept in deploy/."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpumon_static.commands.cli import main
from gpumon_static.deployment import PRINTED, UNITS
from gpumon_static.deployment.files import text_of
from gpumon_static.deployment.installation import Installation
from gpumon_static.deployment.schedule import cron_schedule, timer_lines
from gpumon_static.errors import UsageError
from tools import deploy_files

CONFIG = """
[common]
hosts = ["localhost", "gpu01"]
[fetch]
deadline = 100
[paths]
data = "/srv/gpus/kept"
site = "/srv/www/gpus"
[site]
interval = 120
"""


def printed(*arguments: str | Path) -> str:
    done = CliRunner().invoke(main, ["init", "--print", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("path", deploy_files.files(), ids=lambda path: path.name)
def test_a_file_of_deploy_is_in_step_with_its_template(path: Path) -> None:
    assert path.read_text() == deploy_files.files()[path], "run `make deploy-files`"


@pytest.mark.parametrize("what", [*PRINTED, *UNITS])
def test_every_file_has_the_values_of_the_config_and_none_of_the_defaults(tmp_path: Path, what: str) -> None:
    config = tmp_path / "lab.ini"
    config.write_text(CONFIG)
    text = printed(what, "-c", config, "--run-as", "nobody", "--server-name", "gpus.lab.example")
    assert "@{" not in text
    settings = "\n".join(line for line in text.splitlines() if not line.strip().startswith("#"))
    for default in ("/opt/gpumon-static", "/etc/gpumon-static", "/var/lib/gpumon-static", "/var/www", "*/5",
                    "gpu-monitor.lab.example", "user: gpumon"):  # fmt: skip
        assert default not in settings, default


@pytest.mark.parametrize(
    ("more", "memory"),
    [("", "6144M"), ("worker_memory = 1024\n", "3072M"), ("worker_memory = 2048\nprocesses = 3\n", "8192M")],
)
def test_a_run_has_a_limit_of_memory_that_the_config_lowers(tmp_path: Path, more: str, memory: str) -> None:
    config = tmp_path / "lab.ini"
    config.write_text(f"[common]\nhosts = 'gpu[1-9]'\n[fetch]\n{more}")
    service = printed("gpumon-static.service", "-c", config, "--run-as", "nobody")
    assert f"\nMemoryMax={memory}\n" in service


def test_the_values_are_where_they_belong(tmp_path: Path) -> None:
    config = tmp_path / "lab.ini"
    config.write_text(CONFIG)
    given = ("-c", config, "--run-as", "nobody", "--server-name", "gpus.lab.example")
    assert "\n*/2 * * * * nobody /" in printed("crontab", *given)
    assert f"\nGPUMON_CONFIG={config}\n" in printed("crontab", *given)
    service = printed("gpumon-static.service", *given)
    for line in ("User=nobody", "Group=nobody", f'Environment="GPUMON_CONFIG={config}"', "TimeoutStartSec=150",
                 "ReadWritePaths=/srv/gpus/kept /srv/www/gpus", "PrivateDevices=no", "ProcSubset=all"):  # fmt: skip
        assert f"\n{line}\n" in service
    assert "\nOnCalendar=*:0/2\n" in printed("gpumon-static.timer", *given)
    nginx = printed("nginx", *given)
    assert "root /srv/www/gpus;" in nginx
    assert "alias /srv/www/gpus/;" in nginx
    assert "server_name gpus.lab.example;" in nginx
    caddy = printed("caddy", *given)
    assert "root * /srv/www/gpus\n" in caddy
    assert "http://gpus.lab.example {" in caddy
    assert "gpumon_interval: 120\n" in printed("ansible-vars", *given)


def test_the_public_key_of_the_config_is_the_one_to_authorize(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("private")
    (tmp_path / "key.pub").write_text("ssh-ed25519 AAAAmine gpumon\n")
    (tmp_path / "config.ini").write_text("[common]\nhosts = 'a'\nkey_filename = 'key'\n")
    line = printed("authorized_keys", tmp_path).splitlines()[-1]
    assert line == 'restrict,command="sh /usr/local/bin/gpumon-probe" ssh-ed25519 AAAAmine gpumon'


def test_all_units_come_in_one_text_each_below_its_path() -> None:
    text = printed("systemd")
    assert [line for line in text.splitlines() if line.startswith("# /etc/")] == [
        f"# /etc/systemd/system/{unit}" for unit in UNITS
    ]
    assert "OnFailure=gpumon-static-failure.service" in text
    assert "SuccessExitStatus=75" in text


def test_a_config_that_is_named_must_be_there(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["init", "--print", "crontab", "-c", str(tmp_path / "none.ini")])
    assert done.exit_code != 0


def test_a_home_that_systemd_would_hide_is_left_visible() -> None:
    assert "\nProtectHome=yes\n" in text_of("gpumon-static.service", Installation())
    for there in (
        Installation(home=Path("/home/gpumon")),
        Installation(config=Path("/root/gpus/config.ini")),
    ):
        assert "\nProtectHome=read-only\n" in text_of("gpumon-static.service", there)


def test_odd_paths_are_quoted_for_each_reader() -> None:
    odd = Path('/srv/50% "of it"')
    there = Installation(program=odd / "bin/gpumon-static", site=odd, data=odd, config=odd / "config.ini")
    assert "* * gpumon '/srv/50\\% \"of it\"/bin/gpumon-static' fetch" in text_of("crontab", there)
    unit = text_of("gpumon-static.service", there)
    assert 'ExecStart="/srv/50%% \\"of it\\"/bin/gpumon-static" render\n' in unit
    assert 'root "/srv/50% \\"of it\\"";' in text_of("nginx", there)


@pytest.mark.parametrize(
    ("seconds", "cron"),
    [(60, "* * * * *"), (300, "*/5 * * * *"), (1800, "*/30 * * * *"), (3600, "0 * * * *"), (21600, "0 */6 * * *"),
     (86400, "0 0 * * *")],
)  # fmt: skip
def test_an_interval_is_a_schedule_of_cron_and_of_systemd(seconds: int, cron: str) -> None:
    assert cron_schedule(seconds) == cron
    lines = timer_lines(seconds)
    assert lines.startswith("OnCalendar=")
    calendar = ["systemd-analyze", "calendar", "--iterations=3", lines.partition("=")[2]]
    told = subprocess.run(calendar, capture_output=True, text=True, check=True).stdout
    assert told.count("Iter") == 2


@pytest.mark.parametrize("seconds", [30, 90, 420, 5400])
def test_an_interval_that_cron_cannot_do_is_a_timers_alone(seconds: int) -> None:
    with pytest.raises(UsageError, match=r"cron cannot run a job every .*; set site\.interval to"):
        cron_schedule(seconds)
    assert timer_lines(seconds) == f"OnActiveSec=5s\nOnUnitActiveSec={seconds}s"
