"""What to do next about a host that fails: command lines to paste, or a sentence."""

from __future__ import annotations

import getpass
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from gpumon_static.check import logins
from gpumon_static.check.findings import Hint
from gpumon_static.collect.probe import framing
from gpumon_static.collect.trace import Step
from gpumon_static.collect.vendor import HostScript
from gpumon_static.collect.vendors import READERS, wanted
from gpumon_static.config.settings import SSH_CONFIG, HostConfig
from gpumon_static.errors import Cause, HostError
from gpumon_static.model import Status
from gpumon_static.system.command import Command
from gpumon_static.system.resources import own_command

COMPARE = Command.of("sh", "-c", "for key in /etc/ssh/ssh_host_*.pub; do ssh-keygen -lf $key; done")
KEYS_OF_PROBE = {
    "GPUMON_TIMEOUT": "command_timeout",
    "GPUMON_DISKS": "disks",
    "GPUMON_COMMAND_LINES": "command_lines",
    "GPUMON_VENDORS": "vendor",
    "GPUMON_NVIDIA_SMI": "nvidia_smi",
}


def after(host: HostConfig, step: Step, failure: HostError) -> tuple[Hint, ...]:
    """What to do about this failure at this step."""
    section = f"[hosts.{_quoted(host.alias)}]"
    if failure.fix:
        compare = (Hint("on the host itself:", COMPARE),) if "compare" in failure.message else ()
        return (*compare, Hint(command=failure.fix))
    if failure.jump:
        first = Command.of("ssh", failure.jump, "true").by(getpass.getuser())
        return (Hint("first the jump host alone:", first),)
    if failure.refusal:
        return (*logins.refused(host, section, failure.refusal, ssh(host, "true")),)
    if failure.cause is Cause.NO_LOGIN_SHELL:
        return (Hint("on the host:", Command.of("chsh", "-s", "/bin/sh", _user(host)).by("root")),)
    if failure.cause is Cause.NO_COMMON_ALGORITHM:
        return (Hint(f'an sshd with few algorithms, such as tinysshd?  {section} transport = "openssh"'),)
    return next_steps(host, step, failure.status, failure.vendor)


def next_steps(host: HostConfig, step: Step, status: Status, vendor: str | None = None) -> tuple[Hint, ...]:
    section = f"[hosts.{_quoted(host.alias)}]"
    if status is Status.TIMEOUT and step in (Step.NAME, Step.PORT, Step.HOST_KEY, Step.LOGIN):
        reach = Command.of("nc", "-vz", "-w", 5, host.address, host.port or 22)
        return (
            Hint("is it on, and does a firewall allow the port?", reach),
            Hint(f"only slow?  {section} connect_timeout = 30"),
        )
    if status is Status.TIMEOUT:
        return (*_of_vendor(host, status, vendor), Hint(f"only slow?  {section} command_timeout = 60"))
    steps = {
        Status.DNS: (
            Hint(command=Command.of("getent", "hosts", host.address)),
            Hint(f'a name of its own, or not in the DNS?  {section} address = "10.0.0.9"'),
        ),
        Status.UNREACHABLE: (Hint(command=Command.of("ping", "-c", 3, host.address)), _by_hand(host)),
        Status.REFUSED: (
            Hint("on the host:", Command.of("systemctl", "status", "ssh", "sshd")),
            Hint(f"sshd on another port?  {section} port = 2222"),
            _with_trace(host),
        ),
        Status.HOST_KEY: (_by_hand(host),),
        Status.AUTH: (logins.JOURNAL, _by_hand(host)),
        Status.NO_SHELL: (
            Hint("Windows? it is not read: only hosts with a POSIX shell are; WSL with its own sshd is one"),
        ),
        Status.BAD_OUTPUT: (Hint(command=_what_it_prints(host)),),
    }
    return steps.get(status) or _of_vendor(host, status, vendor) or (_with_trace(host),)


def _what_it_prints(host: HostConfig) -> Command:
    sent = own_command("probe").by(getpass.getuser())
    return sent.piped_to(ssh(host, "sh", "-s")).piped_to(Command.of("head", "-40"))


def _of_vendor(host: HostConfig, status: Status, vendor: str | None) -> tuple[Hint, ...]:
    """The advice of the vendor that failed, else of the first one; of all where none is there."""
    readers = [READERS[name] for name in ([vendor] if vendor else wanted(host.vendor))]
    if status in (Status.NO_GPU_TOOL, Status.NO_NVIDIA_SMI):
        if status is Status.NO_NVIDIA_SMI:
            readers = [reader for reader in readers if reader.absent is status]
        searched = Hint(f"searched: the PATH of the login, {framing.searched()}")
        return (
            searched,
            *_hints(host, (line for reader in readers for line in reader.advice[reader.absent])),
        )
    return _hints(host, readers[0].advice.get(status, ()))


def _hints(host: HostConfig, advice: Iterable[HostScript | str]) -> tuple[Hint, ...]:
    return tuple(Hint(one) if isinstance(one, str) else look(host, *one) for one in advice)


def look(host: HostConfig, command: Command, meaning: str = "") -> Hint:
    return Hint("here:" if host.transport == "local" else "on the host:", command, meaning)


def ssh(host: HostConfig, *there: str, options: Iterable[str] = ()) -> Command:
    """The command that reaches the host by hand as fetch does, and runs these words there."""
    if host.transport == "local":
        return Command.of("sh", "-c", " ".join(there)).by(getpass.getuser())
    words = ["ssh", *options]
    if host.ssh_config != Path(SSH_CONFIG).expanduser():
        words += ["-F", str(host.ssh_config or "none")]
    if host.address != host.alias:
        words += ["-o", f"HostName={host.address}"]
    if "known_hosts" in host.configured:
        words += ["-o", f'UserKnownHostsFile="{host.known_hosts}"']
    key = ["-i", str(host.key_filename)] if host.key_filename else []
    login = f"{host.user}@{host.alias}" if host.user else host.alias
    return Command.of(*words, *logins.port_of(host), *key, login, *there).by(getpass.getuser())


def _by_hand(host: HostConfig) -> Hint:
    return Hint("then this must work without a question:", ssh(host, "true"))


def _with_trace(host: HostConfig) -> Hint:
    return Hint(command=ssh(host, "true", options=["-v"]))


def _user(host: HostConfig) -> str:
    return host.user or getpass.getuser()


def replace_probe(host: HostConfig) -> Hint:
    return Hint(f"{logins.ROOT_THERE}:", logins.install_probe(host))


def unreached(host: HostConfig, received: Mapping[str, str]) -> tuple[Hint, ...]:
    """What config.ini sets and an installed probe is not sent, as the beginning of a line of authorized_keys.

    `received`: the settings that the probe reports.
    """
    wanted = framing.settings(host)
    usual = framing.settings(
        replace(host, disks=("/",), command_lines=False, command_timeout=30.0, vendor=None, nvidia_smi=None)
    )
    differing = {
        name: value
        for name, value in wanted.items()
        if value != usual[name] and value != received.get(name, usual[name])
    }
    if not differing:
        return ()
    keys = ", ".join(KEYS_OF_PROBE[name] for name in differing)
    set_all = [
        f"{name}={value.replace(framing.LINE, ':')}" for name, value in wanted.items() if value != usual[name]
    ]
    # By `env`, and with nothing but words: the account's shell may be csh.
    line = logins.key_line("", Command.of("env", *set_all, "sh", framing.PROBE_PATH)).strip()
    return (Hint(f"{keys} of config.ini do not reach it; in authorized_keys there, before the key:  {line}"),)


def hidden_processes(host: HostConfig) -> tuple[Hint, ...]:
    options = Command.of("findmnt", "-no", "OPTIONS", "/proc")
    return (
        look(host, options, "shows hidepid and, where it is set, gid"),
        Hint(f"add {_user(host)} to the group with that gid, as root, by `usermod -aG`"),
    )


def no_ps(host: HostConfig) -> tuple[Hint, ...]:
    show = Command.of("sh", "-c", "ps --version; ls -l $(command -v ps)")
    return (look(host, show), Hint("the package procps has the full one"))


def no_room(host: HostConfig) -> tuple[Hint, ...]:
    show = Command.of("sh", "-c", "ulimit -a; free -m")
    return (look(host, show, "run as the account: processes and memory that are left to it"),)


def wrong_clock(host: HostConfig) -> tuple[Hint, ...]:
    fix = Command.of("timedatectl", "set-ntp", "true").by("root")
    return (look(host, Command.of("timedatectl")), look(host, fix))


def missing_gpus(host: HostConfig, vendors: Iterable[str]) -> tuple[Hint, ...]:
    """`vendors`: of the GPUs that are there."""
    return _hints(host, (line for name in vendors for line in READERS[name].look))


def slow_reader(host: HostConfig, vendor: str) -> tuple[Hint, ...]:
    return _hints(host, READERS[vendor].slow)


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name) else f"'{name}'"
