"""deploy/ansible: the playbook, as it is, against machines over SSH."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ansible_lab import PLAYBOOK, PROGRAMS, Machine, play
from tests.ansible_lab import machine as machine
from tests.command import rows
from tests.sandbox import Sandbox
from tests.waiting import wait_until

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="a machine of its own needs root")


NONE_OF_THE_DEFAULTS = {
    "gpumon_user": "gpuwatch",
    "gpumon_home": "/srv/watch/home",
    "gpumon_venv": "/srv/watch/venv",
    "gpumon_config": "/etc/gpumon.ini",
    "gpumon_site": "/srv/www/gpus",
    "gpumon_probe": "/usr/local/sbin/gpu-probe",
    "gpumon_backups": "/srv/backups",
    "gpumon_interval": 600,
    "gpumon_server_name": "gpus.test",
    "gpumon_title": 'The "other" lab',
    "gpumon_config_extra": {
        "hosts": {"gpu01.lab.example": {"group": "vision", "note": "reserved"}},
        "users": {"alice": "Alice L."},
        "notify": {"command": "sh -c 'cat > /srv/watch/home/data/said'"},
        "site": {"pages": [{"file": "vision.html", "groups": ["vision"]}]},
    },
}


# Twice, with the defaults, from a checkout, with cron and Caddy, and with gpumon_purge: tests/packages/playbook.py.
@root_only
def test_the_playbook_puts_it_up_with_none_of_the_defaults_and_takes_only_ours_away(
    machine: Machine,
) -> None:
    sandbox = machine.sandbox
    assert play(machine, **NONE_OF_THE_DEFAULTS)["monitor"] > 0
    the_page_appears(sandbox)
    the_key_opens_the_door_to_the_probe_alone(sandbox)
    a_failure_is_reported(sandbox)
    absent = NONE_OF_THE_DEFAULTS | {"gpumon_state": "absent"}
    sandbox.sh("echo mine > /srv/www/gpus/mine.html; echo mine > /etc/mine.ini")
    play(machine, **absent)
    for gone in ("/etc/gpumon.ini", "/srv/www/gpus/index.html", "/srv/www/gpus/reports", "/srv/watch/venv",
                 "/etc/nginx/conf.d/gpu-monitor.conf", "/etc/systemd/system/gpumon-static.timer",
                 "/etc/systemd/system/gpumon-static-failure.service", "/usr/local/sbin/gpu-probe"):  # fmt: skip
        assert not sandbox.path(gone).exists(), gone
    for kept in ("/etc/mine.ini", "/srv/www/gpus/mine.html", "/srv/watch/home/data/history",
                 "/srv/watch/home/id_ed25519"):  # fmt: skip
        assert sandbox.path(kept).exists(), kept
    assert "gpuwatch" in sandbox.sh("stat -c %U /srv/watch/home/data/history")
    the_backup_is_whole_and_private(sandbox)
    assert sandbox.sh("ls /srv/www/gpus").split() == ["mine.html"]


def the_page_appears(sandbox: Sandbox) -> None:
    timers = sandbox.sh("systemctl list-timers --no-pager; systemctl cat gpumon-static.timer")
    assert "gpumon-static.timer" in timers
    assert "OnCalendar=*:0/10" in timers
    # The hardened service, as the timer starts it.
    sandbox.sh("systemctl start gpumon-static.service || { journalctl --unit gpumon-static; exit 1; }")
    read = rows(sandbox.path("/srv/watch/home/data/load_data.csv"))
    assert [(row["host"], row["status"], row["error"], row["gpu_uuid"]) for row in read] == [
        ("gpu01.lab.example", "ok", "", "GPU-ansible"),
        ("gpu02.lab.example", "ok", "", "GPU-ansible"),
    ]
    page = sandbox.sh("curl -sS -H 'Host: gpus.test' http://127.0.0.1/")
    assert "gpu02.lab.example" in page
    assert "reserved" in page
    vision = sandbox.sh("curl -sS -H 'Host: gpus.test' http://127.0.0.1/vision.html")
    assert ("gpu01" in vision, "gpu02" in vision) == (True, False)


def the_key_opens_the_door_to_the_probe_alone(sandbox: Sandbox) -> None:
    login = "ssh -i /srv/watch/home/id_ed25519 -o UserKnownHostsFile=/srv/watch/home/known_hosts"
    tried = sandbox.sh(f"{login} -o BatchMode=yes gpuwatch@127.0.0.11 id")
    assert "@@gpumon begin" in tried
    assert "uid=" not in tried


def a_failure_is_reported(sandbox: Sandbox) -> None:
    """A wrong config fails the service, whose OnFailure= runs the command of that same config."""
    sandbox.sh("cp /etc/gpumon.ini /etc/kept.ini; printf '[busy]\\nmemory = \"much\"\\n' >> /etc/gpumon.ini")
    sandbox.sh("systemctl start gpumon-static.service", check=False)
    said = sandbox.path("/srv/watch/home/data/said")
    wait_until(said.exists, "the message")
    message = json.loads(said.read_text())
    assert message["type"] == "run-failed"
    assert "busy.memory" in message["text"]
    sandbox.sh(
        "cat /etc/kept.ini > /etc/gpumon.ini; rm /etc/kept.ini /srv/watch/home/data/said; systemctl reset-failed"
    )


def the_backup_is_whole_and_private(sandbox: Sandbox) -> None:
    backup = sandbox.sh("ls /srv/backups/*").strip()
    listed = sandbox.sh(f"tar -tPzf {backup}; stat -c mode=%a {backup}").split()
    assert {"/etc/gpumon.ini", "/srv/watch/home/data/history/", "/srv/watch/home/id_ed25519"} <= set(listed)
    assert "mode=600" in listed


ODD = {
    "/": "gpumon_home", "/etc": "gpumon_site", "/etc/": "gpumon_site", "site": "gpumon_site", "/home/ada": "gpumon_site",
    "/usr/local": "gpumon_venv", "/var/www": "gpumon_site", "/srv/../etc": "gpumon_home", "/var/lib": "gpumon_home",
    "/root": "gpumon_home", "/opt/gpumon-static/home": "gpumon_home", "/etc/passwd": "gpumon_config",
}  # fmt: skip


PASSWORDS = {
    "nginx": "{gpumon_htpasswd: /etc/nginx/users}",
    "caddy": "{gpumon_htpasswd: /etc/nginx/users, gpumon_web: caddy}",
    "relative": "{gpumon_htpasswd: users}",
}


def test_paths_that_are_not_ours_are_refused(tmp_path: Path) -> None:
    """The tasks that look at the paths, for each odd one, before anything else is done."""
    given = {path: f"{{{name}: '{path}'}}" for path, name in ODD.items()} | PASSWORDS
    given |= {"/srv/gpus": "{gpumon_site: /srv/gpus}", "/home/gpumon": "{gpumon_home: /home/gpumon}"}
    named = {what: f"{{gpumon_server_name: gpus.test, {more[1:]}" for what, more in given.items()}
    unnamed = {
        "example": "{}",
        "www": "{gpumon_server_name: www.lab.example}",
        "empty": "{gpumon_server_name: ''}",
    }
    given = named | unnamed | {"without": "{gpumon_web: none}"}
    tasks = "\n".join(
        f"""
- hosts: localhost
  connection: local
  gather_facts: false
  vars_files: [{PLAYBOOK}/group_vars/all.yml, {PLAYBOOK}/vars/derived.yml]
  tasks:
    - vars: {variables}
      block:
        - ansible.builtin.include_tasks: {PLAYBOOK}/tasks/paths.yml
        - ansible.builtin.debug: {{msg: 'ACCEPTED {what}'}}
      rescue:
        - ansible.builtin.debug: {{msg: 'REFUSED {what}'}}
"""
        for what, variables in given.items()
    )
    (tmp_path / "odd.yml").write_text(tasks)
    command = [str(PROGRAMS / "ansible-playbook"), "-i", "localhost,", str(tmp_path / "odd.yml")]
    environment = os.environ | {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_PYTHON_INTERPRETER": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert set(re.findall(r"REFUSED (\S+?)\"", done.stdout)) == {*ODD, *unnamed, "caddy", "relative"}, (
        done.stdout + done.stderr
    )
    assert set(re.findall(r"ACCEPTED (\S+?)\"", done.stdout)) == {
        "/srv/gpus",
        "/home/gpumon",
        "nginx",
        "without",
    }


KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIKf7b1n0m3E6mJ1cW9Yw3p5H0x6uX3k9h1v2t4s6q8rU"
FACTS = {
    "an honest host": ("ssh-ed25519", KEY, True),
    "a second line": ("ssh-ed25519", f"{KEY}\n* ssh-ed25519 {KEY}", False),
    "a newline at the end": ("ssh-ed25519", f"{KEY}\n", False),
    "a comment": ("ssh-ed25519", f"{KEY} x", False),
    "a type with a line": (f"ssh-ed25519 {KEY}\n* ssh-ed25519", KEY, False),
    "a marker": ("@cert-authority * ssh-ed25519", KEY, False),
    "a template": ("ssh-ed25519", "{{ 7 * 7 }}\n*", False),
}


@pytest.mark.parametrize("what", FACTS)
def test_no_host_adds_a_line_to_known_hosts(tmp_path: Path, what: str) -> None:
    """What a host sends as its key is checked before it is written."""
    kind, key, is_written = FACTS[what]
    there = tmp_path / "ansible"
    shutil.copytree(PLAYBOOK, there)
    facts = {"ssh_host_key_ed25519_public": key, "ssh_host_key_ed25519_public_keytype": kind}
    fact = [{"name": "f", "ansible.builtin.set_fact": {**facts, "cacheable": True}}]
    written = [{"name": "w", "ansible.builtin.import_tasks": "tasks/known_hosts.yml"}]
    plays = [
        {"name": "a", "hosts": "gpu_hosts", "gather_facts": False, "tasks": fact},
        {"name": "b", "hosts": "collector", "gather_facts": False, "tasks": written},
    ]
    (there / "some.json").write_text(json.dumps(plays))
    (tmp_path / "inventory").write_text(
        "[gpu_hosts]\ngpu01 ansible_connection=local\n[collector]\nmonitor ansible_connection=local\n"
    )
    user = pwd.getpwuid(os.getuid()).pw_name
    done = subprocess.run(
        [PROGRAMS / "ansible-playbook", "-i", tmp_path / "inventory", there / "some.json",
         "-e", json.dumps({"gpumon_home": str(tmp_path), "gpumon_user": user, "ansible_python_interpreter": sys.executable})],
        env=os.environ | {"HOME": str(tmp_path), "ANSIBLE_NOCOLOR": "1"},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    known = tmp_path / "known_hosts"
    if is_written:
        assert done.returncode == 0, done.stdout + done.stderr
        assert known.read_text() == f"gpu01 ssh-ed25519 {KEY}\n"
    else:
        assert done.returncode == 2
        assert "gpu01: what it sent as its ed25519 host key is no key" in done.stdout
        assert not known.exists()
