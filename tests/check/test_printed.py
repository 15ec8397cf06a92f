"""Every command that we print works as pasted: by the user it names, from any directory.

A lab is made by the steps of docs/deploy.md, broken in one way after the other, and repaired with nothing but the
lines that `check` and errors print. The pages for the day after are pasted too, block by block. What cannot be
tried in a lab is listed, each with the reason: a place in the code that makes a new command has to be in one list.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.deploy_lab import CHECKOUT, DeployLab, deployed
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="machines of their own need root")

PROGRAM = "/opt/gpumon-static/bin/gpumon-static"
CONFIG = "/etc/gpumon-static/config.ini"
HOME, SITE = "/var/lib/gpumon-static", "/var/www/gpu-monitor"
NO_CLOCK = "the lab has the clock of this machine, which no test may set"
NO_SYSTEMD = "the lab has no systemd; test_deploy_systemd.py has one judge the units"
NO_GPU = "the lab has neither a GPU nor a driver of one"
NO_SLURM = "the lab has no Slurm; tests/collect/slurm/test_slurm_real.py has"
PART = "a part of a line that is tried, or of authorized_keys"
ELSEWHERE = "tried in "
PASSWORD = "asks for a password on the terminal"
TRIED = ""

MADE = {
    ("check/advice.py", "sh -c 'for key in /etc/ssh/ssh_host_*.pub; do ssh-keygen -lf $key; done'"): TRIED,
    (
        "check/advice.py",
        "findmnt -no OPTIONS /proc",
    ): "the lab's /proc hides nothing; the line has no name in it",
    (
        "check/advice.py",
        "sh -c 'ps --version; ls -l $(command -v ps)'",
    ): "the lab's ps is whole; no name in it",
    (
        "check/advice.py",
        "sh -c 'ulimit -a; free -m'",
    ): "no host of the lab is at a limit; no name in it",
    ("check/advice.py", "nc -vz -w 5"): "no host of the lab drops packets; nc waits for one",
    ("check/advice.py", "head -40"): PART,
    ("check/advice.py", "probe"): TRIED,
    ("check/advice.py", ""): TRIED,
    ("check/advice.py", "timedatectl set-ntp true"): NO_CLOCK,
    ("check/advice.py", "timedatectl"): NO_SYSTEMD,
    ("check/advice.py", "ssh"): ELSEWHERE + "test_ssh_jump.py: the lab has no jump host",
    ("check/advice.py", "systemctl status ssh sshd"): NO_SYSTEMD,
    ("check/advice.py", "sh -c"): PART,
    ("check/advice.py", "env"): ELSEWHERE + "test_check.py, in five shells",
    ("check/advice.py", "getent hosts"): TRIED,
    ("check/advice.py", "ping -c 3"): "no host of the lab is unreachable: all are this machine",
    ("check/advice.py", "chsh -s /bin/sh"): TRIED,
    ("check/cluster.py", "dask worker"): ELSEWHERE + "test_dask.py",
    ("check/cluster.py", "systemctl status dask-scheduler"): NO_SYSTEMD,
    ("check/logins.py", r"printf '\n%s\n'"): TRIED,
    ("check/logins.py", "ssh"): TRIED,
    ("check/logins.py", "journalctl -u ssh -u sshd -n 20"): NO_SYSTEMD,
    ("check/logins.py", "ssh-keygen -q -t ed25519 -N '' -f"): TRIED,
    (
        "check/logins.py",
        "ssh-keygen -y -f",
    ): "a private key without its public one, which asks for a passphrase",
    ("check/logins.py", "probe"): TRIED,
    ("check/logins.py", ""): PASSWORD,
    ("check/logins.py", "ssh-keygen -L -f"): ELSEWHERE + "test_ssh_keys.py has certificates",
    ("check/logins.py", "sh"): PART,
    ("check/publishing.py", "command -v"): "it fails by design: it shows that there is no such program",
    ("check/serving.py", "systemctl daemon-reload"): PART,
    ("check/serving.py", "chmod o+rX"): TRIED,
    ("check/serving.py", ""): TRIED,
    ("check/slurm.py", "scontrol ping; scontrol -o -d show node | head -3"): NO_SLURM,
    ("check/surroundings.py", "df -h"): ELSEWHERE + "test_the_pages_for_the_day_after: the same line",
    ("check/surroundings.py", "df -i"): ELSEWHERE + "test_the_pages_for_the_day_after: the same line",
    ("check/surroundings.py", "mv"): TRIED,
    ("check/surroundings.py", "timedatectl set-ntp true"): NO_CLOCK,
    ("check/surroundings.py", "install -d -o"): TRIED,
    ("check/surroundings.py", "groupadd"): TRIED,
    ("check/writable.py", "chown -R"): TRIED,
    ("check/writable.py", "check -c"): TRIED,
    ("collect/amd/__init__.py", ...): NO_GPU,
    ("collect/nvidia/__init__.py", ...): NO_GPU,
    ("collect/engines/dask_cluster.py", "pip install"): "a lab has no index of packages",
    ("collect/ssh/host_keys.py", r"printf '\n%s\n'"): TRIED,
    ("collect/ssh/host_keys.py", "chown"): TRIED,
    ("collect/ssh/host_keys.py", "mkdir -p -m 700"): TRIED,
    ("collect/ssh/host_keys.py", "ssh-keygen -R"): TRIED,
    ("collect/ssh/keys.py", "ssh-add"): PASSWORD,
    ("collect/ssh/openssh.py", ""): "ssh asks whether the key is right; test_ssh_openssh.py has its words",
    ("collect/ssh/openssh.py", "ssh-keygen -R"): ELSEWHERE + "test_command.py",
    ("commands/cli.py", "init"): TRIED,
    ("demo/run.py", ...): ELSEWHERE + "test_demo.py",
    ("notify/failure.py", "journalctl -u"): NO_SYSTEMD,
    (
        "publish/page/tabs/health.py",
        "gpumon-static check",
    ): "the shell of the account; tests/docs/test_docs_commands.py starts it",
    ("system/resources.py", ""): PART,
    ("store/clock.py", "history repair --drop-after"): ELSEWHERE + "tests/history: repair",
    ("store/lock.py", "chown -R"): TRIED,
    ("store/private.py", "chmod g+rxs"): PART,
    ("store/private.py", "chgrp -R"): ELSEWHERE + "test_private.py",
    ("store/private.py", "chmod"): TRIED,
    ("store/pseudonyms.py", "mv"): ELSEWHERE + "test_privacy.py",
    ("survey/offers.py", ...): "options of srun, and a login by the reader's own name",
    ("survey/slurm/nodes.py", "scontrol update"): NO_SLURM,
}
"""Each place in the code, by its file and the words that are constants: tried here, or why not."""


def places() -> Iterator[tuple[str, str]]:
    package = CHECKOUT / "gpumon_static"
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in MAKERS:
                words = []
                for argument in node.args:
                    if not isinstance(argument, ast.Constant):
                        break
                    words.append(str(argument.value))
                is_script = ast.unparse(node.func) == "Command.constant"
                yield path.relative_to(package).as_posix(), words[0] if is_script else shlex.join(words)


MAKERS = {"Command.of", "Command.constant", "own_command"}


def test_every_place_that_makes_a_command_is_tried_or_listed_with_the_reason() -> None:
    whole_files = {file for file, words in MADE if words is ...}
    found = {(file, ... if file in whole_files else words) for file, words in places()}
    assert found == set(MADE)


@dataclass
class Printed:
    """The lab, and every line that was pasted into it."""

    lab: DeployLab
    pasted: list[str] = field(default_factory=list)

    def as_account(self, *words: str) -> str:
        return self.lab.paste(" ".join([PROGRAM, *words, "-c", CONFIG]), user="gpumon")

    def check(self, user: str = "gpumon") -> dict[str, Any]:
        line = f"{PROGRAM} check --json -c {CONFIG}; test $? -le 3"
        return dict(json.loads(self.lab.paste(line, user=user)))

    def failing(self, user: str = "gpumon") -> list[dict[str, Any]]:
        report = self.check(user)
        findings = [*report["surroundings"], *(f for host in report["hosts"] for f in host["findings"])]
        return [finding for finding in findings if finding["mark"] in ("failed", "warning")]

    def repair(self, user: str = "gpumon") -> str:
        """Paste every command of every finding, as the user that it names; returns what was found."""
        found = self.failing(user)
        assert found, "nothing is broken"
        done: set[str] = set()
        for command in (command for finding in found for command in finding["commands"]):
            # Two hosts may need the same line: it is pasted once.
            is_new = command["line"] not in done
            done.add(command["line"])
            if is_new and not any(command["line"].startswith(words) for words in LEFT_OUT):
                where = self.lab.gpu_host if command["words"].startswith("on the host") else None
                self.lab.paste(command["line"], on=where, user=command["as"] or user)
                self.pasted.append(command["line"])
        return " ".join(f"{finding['told']} {finding['next']}" for finding in found)

    def is_well(self) -> None:
        # On a busy machine one look may find no list of processes: what is repaired is well at the next one.
        for _ in range(3):
            found = [(finding["told"], finding["next"]) for finding in self.failing()]
            if not found:
                return
        assert found == []


STATE = "etc/gpumon-static var/lib/gpumon-static var/www/gpu-monitor"
STATE_OF_HOST = "home/gpumon usr/local/bin/gpumon-probe etc/passwd etc/hosts"


@pytest.fixture
def well(printed: Printed) -> Iterator[Printed]:
    """Made whole again, so that no test stands on what another has left."""
    yield printed
    printed.lab.paste(
        f"cd / && rm -rf {STATE} /etc/systemd/system/gpumon-static.service && tar -xf /tmp/well.tar"
    )
    printed.lab.paste("cd / && rm -rf home/gpumon && tar -xf /tmp/well.tar", on=printed.lab.gpu_host)


LEFT_OUT = ("journalctl", "timedatectl", "systemctl", "ssh-copy-id", "find / -xdev")


@pytest.fixture(scope="module")
def printed(wheels: Path) -> Iterator[Printed]:
    with deployed(wheels) as lab:
        # journalctl, systemctl: see NO_SYSTEMD.
        lab.paste("printf '#!/bin/sh\\n' > /usr/local/sbin/systemctl; chmod 755 /usr/local/sbin/systemctl")
        lab.paste(f"""sed -i 's|^# command = .*|command = "sh -c true"|' {CONFIG}""")
        found = Printed(lab)
        found.as_account("fetch")
        found.as_account("render")
        found.is_well()
        lab.paste(f"tar -C / -cf /tmp/well.tar {STATE}")
        lab.paste(f"tar -C / -cf /tmp/well.tar {STATE_OF_HOST}", on=lab.gpu_host)
        yield found
        tried = [words for (_, words), why in MADE.items() if why is TRIED and isinstance(words, str)]
        assert [words for words in tried if words and not any(words in line for line in found.pasted)] == []


BROKEN = {
    "no known_hosts": f"rm -f {HOME}/.ssh/known_hosts",
    "no directory for known_hosts": f"sed -i 's|^#* *known_hosts = .*|known_hosts = \"{HOME}/keys/known\"|' {CONFIG}",
    "another key": f"ssh-keygen -q -t ed25519 -N '' -f /tmp/other && for n in 1 2; do echo gpu0$n.lab.example $(cut -d' ' -f1,2 /tmp/other.pub); done > {HOME}/.ssh/known_hosts; chown gpumon: {HOME}/.ssh/known_hosts",
    "known_hosts of root": f"chown root: {HOME}/.ssh/known_hosts; chmod 600 {HOME}/.ssh/known_hosts",
    "data of root": f"chown -R root: {HOME}/data",
    "files of root": f"chown root: {SITE}/*",
    "site for the owner only": f"chmod 700 {SITE}; chmod 600 {SITE}/index.html",
    "data for everybody": f"chmod 755 {HOME}/data; chmod 644 {HOME}/data/load_data.csv",
    "a file for a directory": f"mv {SITE} {SITE}.kept; touch {SITE}",
    "no group": f"sed -i 's|^# data_group = .*|data_group = \"gpulab\"|' {CONFIG}",
    "a unit for other paths": f"{PROGRAM} init -c {CONFIG} --print gpumon-static.service | sed 's|^ReadWritePaths=.*|ReadWritePaths=/srv|' > /etc/systemd/system/gpumon-static.service",
}


@pytest.mark.parametrize("how", BROKEN)
def test_what_is_broken_on_the_collector_is_repaired_by_the_lines_that_are_printed(
    well: Printed, how: str
) -> None:
    well.lab.paste(BROKEN[how])
    well.repair()
    if how == "a file for a directory":
        well.repair()
        well.lab.paste(f"rm -rf {SITE}.kept")
    well.as_account("fetch")
    well.as_account("render")
    if how == "no group":
        well.repair()
    well.is_well()


ON_THE_HOST = {
    "no key there": "rm -f ~gpumon/.ssh/authorized_keys",
    "a line without its end": "printf 'ssh-ed25519 AAAA of-another' > ~gpumon/.ssh/authorized_keys",
    "nologin": "usermod --shell /usr/sbin/nologin gpumon",
    "an old probe": "sed -i 's/begin 4 %s/begin 3 %s/' /usr/local/bin/gpumon-probe",
    "a probe that is none": "echo 'echo hello' > /usr/local/bin/gpumon-probe",
}


@pytest.mark.parametrize("how", [how for how in ON_THE_HOST if how != "a probe that is none"])
def test_what_is_broken_on_a_host_is_repaired_by_the_lines_that_are_printed(well: Printed, how: str) -> None:
    well.lab.paste(ON_THE_HOST[how], on=well.lab.gpu_host)
    well.repair()
    well.is_well()


def test_a_host_that_answers_otherwise_and_a_name_that_is_none_have_lines_that_show_it(
    well: Printed,
) -> None:
    probe = "/usr/local/bin/gpumon-probe"
    well.lab.paste(f"cp {probe} /tmp/probe; {ON_THE_HOST['a probe that is none']}", on=well.lab.gpu_host)
    well.repair()
    well.lab.paste(f"cp /tmp/probe {probe}", on=well.lab.gpu_host)
    well.lab.paste("cp /etc/hosts /tmp/hosts; sed -i '/gpu02/d' /etc/hosts")
    (finding,) = well.failing()
    (command,) = finding["commands"]
    assert command["line"] == "getent hosts gpu02.lab.example"
    well.lab.paste("cp /tmp/hosts /etc/hosts")
    well.lab.paste(command["line"])
    well.pasted.append(command["line"])
    well.is_well()


def test_an_account_without_a_key_is_led_to_one(well: Printed) -> None:
    well.lab.paste(f"mv {HOME}/.ssh/id_ed25519 /root/old; mv {HOME}/.ssh/id_ed25519.pub /root/old.pub")
    assert "there is no key; make one, as gpumon:" in well.repair()
    well.repair()
    well.is_well()


def test_root_is_led_to_the_account(well: Printed) -> None:
    commands = [one for finding in well.failing("root") for one in finding["commands"]]
    (again,) = [one for one in commands if " check -c " in one["line"]]
    assert again["as"] == "gpumon"
    well.lab.paste(again["line"], user="gpumon")
    well.pasted.append(again["line"])


def test_a_fetch_in_the_data_of_another_user_names_the_line(well: Printed) -> None:
    well.lab.paste(f"chown -R root: {HOME}/data")
    told = well.lab.paste(f"{PROGRAM} fetch -c {CONFIG} 2>&1; test $? = 1", user="gpumon")
    assert "belongs to root: as root: chown -R gpumon: " in told
    line = told.strip().rpartition(": chown")
    well.lab.paste(f"chown{line[2]}")
    well.pasted.append(f"chown{line[2]}")
    well.is_well()


def test_what_init_prints_can_be_pasted(well: Printed) -> None:
    told = well.lab.paste(f"{PROGRAM} init /tmp/new --hosts gpu01.lab.example --no-check")
    lines = told.partition("Whole files, for root to put in place:\n")[2].split("\n")
    for line in filter(None, lines):
        assert well.lab.paste(line).startswith("#")
        well.pasted.append(line)


# The docs


BLOCK = re.compile(r"^( *)```sh\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
NOT_PASTED = {
    "ask.md": "questions about a history that the reader has; tests/docs/test_ask.py asks them all",
    "commands.md": "the shell of the account; tests/docs/test_docs_commands.py starts it",
    "dask.md": "a Dask cluster; tests/collect/test_dask.py has one",
    "history.md": "one option after the other",
    "notifications.md": "scripts, with addresses of others",
    "vendors.md": "steps for developers, in a checkout",
}
LEAVE_OUT = {
    "su gpumon -c 'ssh-keygen -q -t ed25519 -N \"\" -f ~/.ssh/id_ed25519.new'": "between its lines hosts are edited",
    "timedatectl": NO_SYSTEMD,
}
LAST = ("rm -f /etc/cron.d/gpumon-static", "userdel --remove gpumon")
"""What uninstalls comes last."""


def blocks(page: str) -> list[str]:
    text = (CHECKOUT / "docs" / page).read_text()
    return [textwrap.dedent(f"{indent}{code}") for indent, code in BLOCK.findall(text)]


def test_every_page_with_commands_is_pasted_or_listed_with_the_reason() -> None:
    pages = {page.name for page in (CHECKOUT / "docs").glob("*.md") if BLOCK.search(page.read_text())}
    assert pages == {"deploy.md", "day2.md", "night.md", *NOT_PASTED}


def test_the_pages_for_the_day_after(well: Printed) -> None:
    """Of deploy.md the steps made this lab."""
    other = "/srv/other-collector/data"
    well.lab.paste(
        f"mkdir -p {other}; cp -r {HOME}/data/history {other}/; chmod -R a+rX /srv/other-collector"
    )
    left = [*blocks("night.md"), *blocks("day2.md"), *blocks("deploy.md")[6:]]
    at_last = [block for block in left if block.startswith(LAST)]
    for block in [block for block in left if block not in at_last]:
        lines = [line for line in block.splitlines() if not line.startswith("timedatectl")]
        if block.startswith(tuple(LEAVE_OUT)) and len(lines) == len(block.splitlines()):
            continue
        cwd = str(CHECKOUT) if block.startswith("/opt/gpumon-static/bin/pip") else "/"
        well.lab.paste("set -e\n" + "\n".join(lines), cwd=cwd)
    # The line for a group is for those who set data_group; a fetch takes the directory back.
    well.as_account("fetch")
    well.is_well()
    collector, host = at_last
    well.lab.paste(f"set -e\n{collector}")

    def is_removed() -> bool:
        # sshd of the last login may end a moment after it, and a person would try again.
        try:
            well.lab.paste(f"set -e\n{host}", on=well.lab.gpu_host)
        except AssertionError as error:
            if "currently used by process" not in str(error):
                raise
            return False
        return True

    wait_until(is_removed, "the last login to end")
    assert not well.lab.collector.path("/opt/gpumon-static").exists()
    assert not well.lab.gpu_host.path("/usr/local/bin/gpumon-probe").exists()
