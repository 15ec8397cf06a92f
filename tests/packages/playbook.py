"""More of deploy/ansible than `make test` tries: the defaults, from a checkout, with cron, and Caddy."""

from __future__ import annotations

from pathlib import Path

from tests.command import rows
from tests.test_deploy_ansible import Machine, play
from tests.test_deploy_ansible import machine as machine

CHECKOUT = Path(__file__).parents[2]


def test_from_a_checkout_with_the_defaults_cron_and_caddy(machine: Machine) -> None:
    sandbox = machine.sandbox
    play(machine, gpumon_package=str(CHECKOUT))
    sandbox.sh("systemctl start gpumon-static.service || { journalctl --unit gpumon-static; exit 1; }")
    assert [row["status"] for row in rows(sandbox.path("/var/lib/gpumon-static/data/load_data.csv"))] == [
        "ok",
        "ok",
    ]
    assert "gpu01.lab.example" in sandbox.sh("curl -sS -H 'Host: gpu-monitor.lab.example' http://127.0.0.1/")
    # Cron instead: one of the two does it, never both. And another web server.
    sandbox.sh(
        "nginx -s stop; HOME=/tmp caddy start --config /etc/caddy/Caddyfile >/tmp/caddy.log 2>&1 </dev/null"
    )
    play(machine, gpumon_package=str(CHECKOUT), gpumon_schedule="cron", gpumon_web="caddy")
    assert sandbox.path("/etc/cron.d/gpumon-static").exists()
    assert "gpumon-static" not in sandbox.sh("systemctl list-timers --no-pager --all")
    assert "gpu01.lab.example" in sandbox.sh("curl -sS -H 'Host: gpu-monitor.lab.example' http://127.0.0.1/")
    sandbox.sh("rm /etc/nginx/conf.d/gpu-monitor.conf")
    play(machine, gpumon_state="absent", gpumon_purge=True, gpumon_web="caddy")
    for gone in ("/etc/cron.d/gpumon-static", "/etc/gpumon-static", "/opt/gpumon-static", "/var/lib/gpumon-static",
                 "/usr/local/bin/gpumon-probe", "/etc/caddy/gpu-monitor.caddy", "/var/www/gpu-monitor"):  # fmt: skip
        assert not sandbox.path(gone).exists(), gone
    assert "no such user" in sandbox.sh("id gpumon", check=False)
    assert set(play(machine, gpumon_state="absent", gpumon_web="caddy").values()) == {0}, (
        "twice changes nothing"
    )
