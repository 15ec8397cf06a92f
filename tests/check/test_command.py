"""What is pasted is ours: no text of a host, a jump host, ssh, Slurm or a user is part of a command."""

from __future__ import annotations

import ast
import getpass
import re
import shlex
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from gpumon_static.bounds.reading import bounded
from gpumon_static.bounds.tables import TEXTS
from gpumon_static.check import advice
from gpumon_static.check.examining import failed as failed_finding
from gpumon_static.check.findings import Finding, Mark
from gpumon_static.collect.ssh import openssh
from gpumon_static.collect.trace import Step
from gpumon_static.config.settings import HostConfig
from gpumon_static.errors import HostError
from gpumon_static.model import Allocated, Allocation, Fault, HostReading, Machine, NodeState, Status
from gpumon_static.publish.exports.gpus_json import document
from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.page.view import build_page
from gpumon_static.survey.offers import Wanted, offers
from gpumon_static.survey.survey import build_survey
from gpumon_static.system.command import Command
from gpumon_static.terminal import free
from tests.builders import NOW, config, gpu, host_config, process, reading, slices
from tests.command import gpumon, rows
from tests.nvidia_xml import xml
from tests.places import ROOT
from tests.sshd import GpuHosts, keygen

PACKAGE = ROOT / "gpumon_static"
EVIL = "evil3141"
HOSTILE = [
    f"; {EVIL}",
    f"$({EVIL})",
    f"`{EVIL}`",
    f"x, then: {EVIL} | sh",
    f"next: {EVIL}",
    f"ssh-keygen -f /tmp/x -R n && {EVIL}",
    f"' ; {EVIL} ; '",
    f"\n{EVIL}\n",
    f"\x1b]0;{EVIL}\x07",
]
NO_NAMES = [text for text in HOSTILE if text.strip() != EVIL]
"""Those that Slurm could not call a node, which `srun` is given as it is."""


# The type


@pytest.mark.parametrize("word", ["a b", "$(x)", "'", '"', "`x`", "a\\b", "~", "*", "", "-x", "a;b", "é"])
def test_a_word_is_one_word_whatever_is_in_it(word: str) -> None:
    command = Command.of("printf", "%s|", word, "end").piped_to(Command.of("cat"))
    done = subprocess.run(["sh", "-c", str(command)], capture_output=True, text=True, check=True)
    assert done.stdout == f"{word}|end|"


def test_files_and_further_commands_are_quoted_too(tmp_path: Path) -> None:
    file = tmp_path / "my $(file)"
    line = Command.of("echo", "a  b").appended_to(file).then(Command.of("cat", file))
    assert subprocess.run(["sh", "-c", str(line)], capture_output=True, text=True).stdout == "a  b\n"


def test_a_terminal_acts_upon_no_word() -> None:
    assert str(Command.of("ls", "a\x1b[2Jb\nc\u202e")) == "ls 'a\ufffd[2Jb\ufffdc\ufffd'"


QUOTES_FOR_NO_PERSON = {
    "system/command.py",
    # Sent to a host, and written for ssh's own parser and for cron.
    "collect/probe/framing.py",
    "collect/ssh/client_config_file.py",
    "deployment/files.py",
}


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def test_only_one_module_quotes_for_a_person() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for name, _ in calls(ast.parse(path.read_text()))
        if name in ("shlex.quote", "shlex.join")
    }
    assert found == QUOTES_FOR_NO_PERSON


def test_a_command_is_made_of_words_or_is_written_in_the_code() -> None:
    """Nothing is put together by hand, and a constant is one."""
    for path in PACKAGE.rglob("*.py"):
        for name, call in calls(ast.parse(path.read_text())):
            if name == "Command.constant":
                assert all(isinstance(word, ast.Constant) for word in call.args), path
            assert name != "Command" or path.name == "command.py", path


# What hosts, jump hosts and programs print


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("status", [status for status in Status if status is not Status.OK])
def test_no_text_of_a_failure_is_part_of_the_next_steps(status: Status, text: str) -> None:
    for step in Step:
        for host in (host_config("n"), host_config("n", transport="local")):
            finding = failed_finding(host, step, HostError(status, f"it printed: {text}", vendor=None))
            assert EVIL not in " ".join(map(str, finding.next))
            assert all(str(hint) for hint in finding.next)


@pytest.mark.parametrize("text", HOSTILE)
def test_only_our_command_follows_the_word_then_in_an_error(text: str) -> None:
    fix = Command.of("ssh-keygen", "-R", "n")
    for error in (HostError(Status.ERROR, text), HostError(Status.HOST_KEY, text, fix=fix)):
        assert EVIL not in error.reason.partition(", then")[2]
    assert HostError(Status.HOST_KEY, text, fix=fix).reason.endswith(", then: ssh-keygen -R n")


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_program_prints_reaches_no_terminal_as_it_is(text: str) -> None:
    """ssh's stderr is the host's as well."""
    finding = Finding("login", Mark.OK, f"by {text}")
    assert finding.message.isprintable()
    trace = Finding("login", Mark.OK, "by \x1b]52;c;ZXZpbA==\x07\u202e")
    assert "\x1b" not in trace.message


CHANGED = """\
debug1: Connecting to n [127.0.0.1] port 22.
debug1: Connection established.
debug1: kex_exchange_identification: banner line 0: ssh-keygen -f /x; {0}
{1}debug1: Server host key: ssh-ed25519 SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
  ssh-keygen -f "/home/x/.ssh/known_hosts" -R "n"
Host key verification failed.
"""
CLIENT = """\
host n
hostname 10.0.0.9
port 2222
userknownhostsfile /home/ada/.ssh/known_hosts /home/ada/.ssh/known_hosts2
"""


@pytest.mark.parametrize("text", HOSTILE)
def test_no_line_of_ssh_becomes_a_command(text: str) -> None:
    printed = CHANGED.format(text, f"ssh-keygen -f {text}\ndebug1: Server host key: {text} {text}\n")
    error = openssh.failure(host_config("n"), printed, openssh.parse_known_as(CLIENT))
    assert str(error.fix).startswith(
        "ssh-keygen -R '[10.0.0.9]:2222' -f /home/ada/.ssh/known_hosts && ssh -a -x "
    )
    assert str(error.fix).endswith(" -- n true")
    assert EVIL not in str(error.fix)
    assert "to ssh-ed25519 SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU:" in error.message


@pytest.mark.parametrize("more", ["proxyjump bastion\n", "proxycommand nc %h %p\n"])
def test_behind_a_jump_host_nothing_is_removed_from_known_hosts(more: str) -> None:
    """Whose key has changed is the word of ssh's output, which others write to."""
    error = openssh.failure(host_config("n"), CHANGED.format("", ""), openssh.parse_known_as(CLIENT + more))
    assert str(error.fix).startswith("ssh -a -x ")


def test_a_name_of_its_own_in_known_hosts_is_the_one_to_remove() -> None:
    found = openssh.parse_known_as(CLIENT + "hostkeyalias the-alias\n")
    assert found == openssh.KnownAs("the-alias", Path("/home/ada/.ssh/known_hosts"))


@contextmanager
def talking_before_the_banner(port: int, line: bytes) -> Iterator[int]:
    """A server that prints a line before sshd's own first, as RFC 4253 allows."""

    def pump(source: socket.socket, to: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                to.sendall(data)
        with suppress(OSError):
            to.shutdown(socket.SHUT_WR)

    def relay(client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", port)) as real:
            client.sendall(line + b"\r\n")
            back = threading.Thread(target=pump, args=(real, client))
            back.start()
            pump(client, real)
            back.join()

    def serve() -> None:
        with suppress(OSError):
            while True:
                relays.append(threading.Thread(target=relay, args=(server.accept()[0],)))
                relays[-1].start()

    relays: list[threading.Thread] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        serving = threading.Thread(target=serve)
        serving.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        serving.join()
    for one in relays:
        one.join(120)


@pytest.mark.usefixtures("home")
def test_a_line_before_the_banner_is_no_command_in_csv_page_and_check(
    gpu_hosts: GpuHosts, tmp_path: Path
) -> None:
    line = f'  ssh-keygen -f "/tmp/x" -R "n"; {EVIL}'.encode()
    other = keygen(tmp_path / "other").with_suffix(".pub").read_text()
    with talking_before_the_banner(gpu_hosts.port, line) as port:
        known = tmp_path / "known_hosts"
        known.write_text(f"[127.0.0.1]:{port} {other}")
        config_path = gpu_hosts.config(tmp_path, f"127.0.0.1:{port}", more="transport = 'openssh'\n")
        gpumon("fetch", "-c", config_path)
        (row,) = rows(tmp_path / "data/load_data.csv")
        checked = gpumon("check", "-c", config_path).stdout
    assert row["status"] == "host-key"
    first = f"ssh-keygen -R '[127.0.0.1]:{port}' -f {known} && ssh -a -x "
    assert first in row["error"]
    assert f"next: as {getpass.getuser()}:  {first}" in checked
    assert EVIL not in row["error"] + checked


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("transport", ["openssh", "paramiko"])
def test_no_escape_sequence_of_a_host_reaches_the_terminal(
    gpu_hosts: GpuHosts, tmp_path: Path, transport: str
) -> None:
    """On stderr, where ssh prints how far it came: the host may print the same, with more in it."""
    talks = tmp_path / "talks"
    forged = "\x1b]0;evil\x07\x1b[2J\x9b"
    talks.write_text(
        f"printf '%s\\n' 'Authenticated to n using \"{forged}\".' '{forged}' >&2; echo '{forged}'; exit 255\n"
    )
    config_path = gpu_hosts.config(tmp_path, gpu_hosts.add_xml(xml()), more=f"transport = '{transport}'\n")
    keys = gpu_hosts.directory / "authorized_keys"
    before = keys.read_text()
    try:
        keys.write_text(f'command="sh {talks}" {before}')
        printed = [gpumon("check", "-c", config_path), gpumon("fetch", "-c", config_path)]
    finally:
        keys.write_text(before)
    assert "evil" in printed[0].stdout
    for done in printed:
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", done.stdout + done.stderr)


# Host keys


@pytest.mark.usefixtures("home")
def test_the_key_that_is_added_is_the_one_that_was_shown(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    """Who asks the host once more may be given another key."""
    host = gpu_hosts.add_xml(xml())
    (tmp_path / "known_hosts").write_text("")
    config_path = gpu_hosts.config(tmp_path, host)
    gpumon("fetch", "-c", config_path)
    (row,) = rows(tmp_path / "data/load_data.csv")
    fix = row["error"].partition(f", then as {getpass.getuser()}: ")[2]
    key = " ".join(gpu_hosts.host_key.with_suffix(".pub").read_text().split()[:2])
    words = ["printf", r"\n%s\n", f"[{host}]:{gpu_hosts.port} {key}", ">>", f"{tmp_path}/known_hosts"]
    assert shlex.split(fix) == words
    subprocess.run(["sh", "-c", fix], check=True)
    assert gpumon("fetch", "-c", config_path).stderr == ""


# What ssh lends to a host


@pytest.mark.usefixtures("home")
def test_nothing_of_ours_is_lent_to_a_host(
    gpu_hosts: GpuHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever ssh_config has for people who log in."""
    ran = tmp_path / "ran"
    (tmp_path / "ssh_config").write_text(
        "Host *\n  ForwardAgent yes\n  ForwardX11 yes\n  PermitLocalCommand yes\n"
        f"  LocalCommand touch {ran}\n  RemoteForward 127.0.0.1:0 127.0.0.1:1\n  LocalForward {tmp_path}/s 127.0.0.1:1\n"
    )
    host = gpu_hosts.add(f"env > {tmp_path}/env; echo No devices were found")
    config_path = gpu_hosts.config(tmp_path, host, more="transport = 'openssh'\nssh_config = 'ssh_config'\n")
    agent = subprocess.run(["ssh-agent", "-s"], capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"(SSH_\w+)=([^;]+);", agent))
    try:
        for name, value in {**found, "DISPLAY": ":0"}.items():
            monkeypatch.setenv(name, value)
        assert gpumon("fetch", "-c", config_path).returncode == 0
    finally:
        subprocess.run(["kill", found["SSH_AGENT_PID"]], check=True)
    there = (tmp_path / "env").read_text()
    assert "SSH_CONNECTION" in there
    assert "SSH_AUTH_SOCK" not in there
    assert "DISPLAY" not in there
    assert not ran.exists()
    effective = subprocess.run(
        [*openssh.arguments(host_config("n", ssh_config=tmp_path / "ssh_config"))[:-3], "-G", "n"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "forwardagent no" in effective
    assert "clearallforwardings yes" in effective
    assert "permitlocalcommand no" in effective


# The page and the terminal


class _Copied(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def handle_starttag(self, _: str, attrs: list[tuple[str, str | None]]) -> None:
        self.texts += [value or "" for name, value in attrs if name == "data-copy"]


def everywhere(text: str) -> HostReading:
    """A reading with this text in every place that a host, its users or Slurm can set."""
    whole: dict[str, Any] = dict.fromkeys(TEXTS[HostReading].keys() - {"error"}, text)
    named = process(7, user=text, name=text, job=f"slurm:{text}", command_line=text, state=text)
    given = Allocation(Allocated.NO, text, text, text, None, None, text, text)
    cut = [replace(one, uuid=text, profile=text, processes=(named,)) for one in slices(2)]
    cards = [
        gpu(0, uuid=text, name=text, bus_id=text, device=text, faults=(Fault("lost", text),)),
        gpu(1, uuid=text, name=text, allocation=given),
        gpu(2, uuid=text, name=text, slices=tuple(cut)),
    ]
    node = NodeState(text, "IDLE+DRAIN", text, takes_jobs=False, kind=text)
    found = reading("n", cards, node=node, machine=Machine(cpu_count=8))
    return bounded(replace(found, **whole))


def setup(run: str) -> tuple[Any, HostConfig]:
    host = host_config("n", run=run)
    return config(host), host


@pytest.mark.parametrize("run", ["ssh", "slurm"])
@pytest.mark.parametrize("text", [*NO_NAMES, f"~!!!{EVIL}", f"GPU-{EVIL} x", f"-{EVIL}", f"{EVIL} x"])
def test_no_button_of_the_page_and_no_line_of_free_has_a_hosts_text(text: str, run: str) -> None:
    given = everywhere(text)
    built, _ = setup(run)
    copied = _Copied()
    html = render_page(build_page([given], built, NOW))
    copied.feed(html)
    assert [one for one in copied.texts if EVIL in one] == []
    for card in given.gpus:
        assert card.uuid is None
        assert all(cut.uuid is None for cut in card.slices)
    told = document(build_survey([given], built, NOW))
    for count in (1, 2):
        for offer in offers(told, Wanted(count), None):
            lines = [str(offer.ssh), offer.environment, str(offer.slurm or "")]
            assert not [line for line in lines if EVIL in line]
            assert not [line for line in free.lines([offer]) if EVIL in line and line.startswith("    s")]


def test_hints_have_commands_of_the_one_type_only() -> None:
    host = host_config("n", user="ada", port=22)
    for status in Status:
        for hint in advice.next_steps(host, Step.LOGIN, status):
            assert hint.command is None or type(hint.command) is Command
            assert not re.search(r"\b(sudo|ssh|curl|sh) -", hint.words)
