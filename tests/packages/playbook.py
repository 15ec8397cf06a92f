"""More of deploy/ansible than `make test` tries: its linter, the defaults, a checkout, cron, and Caddy."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.ansible_lab import PLAYBOOK, PROGRAMS, Machine, play
from tests.ansible_lab import machine as machine
from tests.command import rows
from tests.waiting import wait_until

CHECKOUT = Path(__file__).parents[2]


def test_ansible_lint_finds_nothing() -> None:
    done = subprocess.run(
        [PROGRAMS / "ansible-lint", "--offline", "--nocolor", "--strict", PLAYBOOK],
        env=os.environ | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}"},
        cwd=PLAYBOOK,
        # Ansible refuses one that a program before it left without blocking.
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 failure(s), 0 warning(s)" in done.stdout + done.stderr


def the_page_asks_for_a_password(machine: Machine) -> None:
    machine.sandbox.sh("printf 'lab:%s\\n' \"$(openssl passwd -6 secret)\" > /etc/nginx/lab.users")
    locked = {"gpumon_package": str(CHECKOUT), "gpumon_htpasswd": "/etc/nginx/lab.users"}
    assert play(machine, **locked)["monitor"] > 0
    assert set(play(machine, **locked).values()) == {0}, "twice changes nothing"
    status = "curl -sS -o /dev/null -w '%{http_code} ' -H 'Host: gpu-monitor.test' http://127.0.0.1"
    tried = [
        f"{status}/{file}{user}"
        for file in ("", "gpus.json")
        for user in ("", " -u lab:wrong", " -u lab:secret")
    ]
    # The old workers of nginx may answer for a moment after the reload.
    wait_until(lambda: "401" in machine.sandbox.sh(tried[0]), "the password")
    assert machine.sandbox.sh("; ".join(tried)).split() == ["401", "401", "200"] * 2


def test_from_a_checkout_with_the_defaults_cron_and_caddy(machine: Machine) -> None:
    sandbox = machine.sandbox
    play(machine, gpumon_package=str(CHECKOUT))
    sandbox.sh("systemctl start gpumon-static.service || { journalctl --unit gpumon-static; exit 1; }")
    assert [row["status"] for row in rows(sandbox.path("/var/lib/gpumon-static/data/load_data.csv"))] == [
        "ok",
        "ok",
    ]
    assert "gpu01.lab.example" in sandbox.sh("curl -sS -H 'Host: gpu-monitor.test' http://127.0.0.1/")
    the_page_asks_for_a_password(machine)
    # Cron instead: one of the two does it, never both. And another web server.
    sandbox.sh(
        "nginx -s stop; HOME=/tmp caddy start --config /etc/caddy/Caddyfile >/tmp/caddy.log 2>&1 </dev/null"
    )
    play(machine, gpumon_package=str(CHECKOUT), gpumon_schedule="cron", gpumon_web="caddy")
    assert sandbox.path("/etc/cron.d/gpumon-static").exists()
    assert "gpumon-static" not in sandbox.sh("systemctl list-timers --no-pager --all")
    assert "gpu01.lab.example" in sandbox.sh("curl -sS -H 'Host: gpu-monitor.test' http://127.0.0.1/")
    sandbox.sh("rm /etc/nginx/conf.d/gpu-monitor.conf")
    play(machine, gpumon_state="absent", gpumon_purge=True, gpumon_web="caddy")
    for gone in ("/etc/cron.d/gpumon-static", "/etc/gpumon-static", "/opt/gpumon-static", "/var/lib/gpumon-static",
                 "/usr/local/bin/gpumon-probe", "/etc/caddy/gpu-monitor.caddy", "/var/www/gpu-monitor"):  # fmt: skip
        assert not sandbox.path(gone).exists(), gone
    assert "no such user" in sandbox.sh("id gpumon", check=False)
    assert set(play(machine, gpumon_state="absent", gpumon_web="caddy").values()) == {0}, (
        "twice changes nothing"
    )
