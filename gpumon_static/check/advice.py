"""What to do next about a host that fails: command lines to paste, or a sentence."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from gpumon_static.collect.probe import framing
from gpumon_static.collect.trace import Step
from gpumon_static.collect.vendors import READERS, wanted
from gpumon_static.config.settings import SSH_CONFIG, HostConfig
from gpumon_static.errors import HostError
from gpumon_static.model import Status

PROBE_PATH = "/usr/local/bin/gpumon-probe"
"""Where deploy/authorized_keys.example has it."""
KEYS_OF_PROBE = {
    "GPUMON_TIMEOUT": "command_timeout",
    "GPUMON_DISKS": "disks",
    "GPUMON_COMMAND_LINES": "command_lines",
    "GPUMON_VENDORS": "vendor",
}


def after(host: HostConfig, step: Step, failure: HostError) -> tuple[str, ...]:
    """What to do about this failure at this step."""
    if failure.fix:
        compare = "on the host itself: for key in /etc/ssh/ssh_host_*.pub; do ssh-keygen -lf $key; done"
        return (compare, failure.fix)
    if failure.jump:
        return (f"first the jump host alone:  ssh {failure.jump} true",)
    return next_steps(host, step, failure.status, failure.vendor)


def next_steps(host: HostConfig, step: Step, status: Status, vendor: str | None = None) -> tuple[str, ...]:
    ssh, section = ssh_line(host), f"[hosts.{_quoted(host.alias)}]"
    if status is Status.TIMEOUT and step in (Step.NAME, Step.PORT, Step.HOST_KEY, Step.LOGIN):
        reach = f"nc -vz -w 5 {host.address} {host.port or 22}"
        return (
            f"is it on, and does a firewall allow the port?  {reach}",
            f"only slow?  {section} connect_timeout = 30",
        )
    if status is Status.TIMEOUT:
        return (*_of_vendor(host, status, vendor), f"only slow?  {section} command_timeout = 60")
    steps = {
        Status.DNS: (
            f"getent hosts {host.address}",
            f'a name of its own, or not in the DNS?  {section} address = "10.0.0.9"',
        ),
        Status.UNREACHABLE: (f"ping -c 3 {host.address}", f"{ssh} true"),
        Status.REFUSED: (
            "on the host: systemctl status ssh sshd",
            f"sshd on another port?  {section} port = 2222",
            ssh_line(host, "-v") + " true",
        ),
        Status.HOST_KEY: (f"{ssh} true",),
        Status.AUTH: (
            f"does the account have a password?  {copy_id_line(host)}",
            f"if not:  {authorize_line(host)}",
            f"then this must work without a question:  {ssh} true",
        ),
        Status.NO_SHELL: (
            "Windows? it is not read: only hosts with a POSIX shell are; WSL with an sshd of its own is one",
        ),
        Status.BAD_OUTPUT: (f"gpumon-static probe | {ssh} sh -s | head -40",),
    }
    return steps.get(status) or _of_vendor(host, status, vendor) or (ssh_line(host, "-v") + " true",)


def _of_vendor(host: HostConfig, status: Status, vendor: str | None) -> tuple[str, ...]:
    """The advice of the vendor that failed, else of the first one; of all where none is there."""
    readers = [READERS[name] for name in ([vendor] if vendor else wanted(host.vendor))]
    if status is Status.NO_GPU_TOOL:
        return _with_ssh(host, (line for reader in readers for line in reader.advice[reader.absent]))
    return _with_ssh(host, readers[0].advice.get(status, ()))


def _with_ssh(host: HostConfig, lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(line.replace("{ssh}", ssh_line(host)) for line in lines)


def ssh_line(host: HostConfig, *more: str) -> str:
    """The command line that reaches the host by hand."""
    if host.transport == "local":
        return "sh -c"
    words = ["ssh", *more]
    if host.ssh_config != Path(SSH_CONFIG).expanduser():
        words += ["-F", str(host.ssh_config or "none")]
    if host.address != host.alias:
        words += ["-o", f"HostName={host.address}"]
    return shlex.join([*words, *_port_and_key(host, host.key_filename), _login(host)])


def copy_id_line(host: HostConfig) -> str:
    return shlex.join(["ssh-copy-id", *_port_and_key(host, _public_key(host)), _login(host, host.address)])


def _public_key(host: HostConfig) -> Path | None:
    return Path(f"{host.key_filename}.pub") if host.key_filename else None


def authorize_line(host: HostConfig) -> str:
    """For an account without a password, as `adduser --disabled-password` makes it."""
    home = f"~{host.user}" if host.user else "~"
    there = f"umask 077; mkdir -p {home}/.ssh && cat >> {home}/.ssh/authorized_keys"
    there += f" && chown -R {host.user}: {home}/.ssh" if host.user else ""
    root = shlex.join(["ssh", *_port_and_key(host, None), f"root@{host.address}", there])
    return f"{root} < {shlex.quote(str(_public_key(host) or '~/.ssh/id_ed25519.pub'))}"


def replace_probe(host: HostConfig) -> str:
    port = f"-p {host.port} " if host.port else ""
    put = f"'cat > {PROBE_PATH} && chmod 755 {PROBE_PATH}'"
    return f"gpumon-static probe | ssh {port}root@{shlex.quote(host.address)} {put}"


def unreached(host: HostConfig) -> tuple[str, ...]:
    """What config.ini sets and an installed probe is not sent, as a line of authorized_keys."""
    wanted = framing.settings(host)
    usual = framing.settings(replace(host, disks=("/",), command_lines=False, command_timeout=30.0))
    differing = {name: value for name, value in wanted.items() if value != usual[name]}
    if not differing:
        return ()
    keys = ", ".join(KEYS_OF_PROBE[name] for name in differing)
    command = f'command="{_assignments(differing)} sh {PROBE_PATH}"'
    return (f"{keys} of config.ini do not reach it; in authorized_keys there:  {command}",)


def _assignments(settings: Mapping[str, str]) -> str:
    """For the shell, within the double quotes of authorized_keys, which take a backslash before a quote."""
    words = []
    for name, value in settings.items():
        lines = " ".join(shlex.quote(line) for line in value.split("\n"))
        words.append(f"{name}=$(printf '%s\\n' {lines})" if "\n" in value else f"{name}={shlex.quote(value)}")
    return " ".join(words).replace('"', '\\"')


def hidden_processes(host: HostConfig) -> tuple[str, ...]:
    return (
        f"{ssh_line(host)} 'findmnt -no OPTIONS /proc'   shows hidepid and, where it is set, gid",
        f"add {host.user or 'the monitoring user'} to that group, as root: usermod -aG GROUP USER",
    )


def no_ps(host: HostConfig) -> tuple[str, ...]:
    return (f"{ssh_line(host)} 'ps --version; ls -l $(command -v ps)'", "the package procps has the full one")


def wrong_clock(host: HostConfig) -> tuple[str, ...]:
    return (f"{ssh_line(host)} timedatectl", "on the host: sudo timedatectl set-ntp true")


def missing_gpus(host: HostConfig, vendors: Iterable[str]) -> tuple[str, ...]:
    """`vendors`: of the GPUs that are there."""
    return _with_ssh(host, (line for name in vendors for line in READERS[name].look))


def slow_reader(host: HostConfig, vendor: str) -> tuple[str, ...]:
    return _with_ssh(host, READERS[vendor].slow)


def _port_and_key(host: HostConfig, key: Path | None) -> list[str]:
    port = ["-p", str(host.port)] if host.port else []
    return port + (["-i", str(key)] if key else [])


def _login(host: HostConfig, name: str | None = None) -> str:
    return f"{host.user}@{name or host.alias}" if host.user else name or host.alias


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name) else f"'{name}'"
