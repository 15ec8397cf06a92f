"""What to do about a refused login: a key, where it is authorized, and what the host offers instead."""

from __future__ import annotations

import getpass
import re
from collections.abc import Iterator
from pathlib import Path

from gpumon_static.check.findings import Hint
from gpumon_static.collect.probe.framing import PROBE_PATH
from gpumon_static.collect.ssh.keys import DEFAULT_NAMES
from gpumon_static.config.settings import HostConfig
from gpumon_static.errors import Refusal
from gpumon_static.system.command import Command
from gpumon_static.system.resources import own_command

JOURNAL = Hint(
    "on the host:", Command.of("journalctl", "-u", "ssh", "-u", "sshd", "-n", 20).by("root"), "has the reason"
)
PLAIN_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
"""One whose home a shell knows as ~USER."""
ROOT_THERE = "where root may log in to the host"


def refused(host: HostConfig, section: str, refusal: Refusal, by_hand: Command) -> Iterator[Hint]:
    """`section`: of the host, in config.ini. `by_hand`: the login that is to work."""
    if refusal.offers and "publickey" not in refusal.offers:
        yield from _without_keys(section, refusal.offers)
    elif not refusal.key:
        key = refusal.key_file or Path.home() / ".ssh" / DEFAULT_NAMES[0]
        make = Command.of("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
        read = Command.of("ssh-keygen", "-y", "-f", key)
        command = read if key.exists() else make
        yield Hint(
            "its public part:" if key.exists() else "there is no key; make one:",
            command.by(getpass.getuser()),
        )
        yield Hint("then check again: it prints the line that authorizes the key")
    else:
        if refusal.has_certificate:
            shown = Command.of("ssh-keygen", "-L", "-f", f"{refusal.key_file}-cert.pub")
            yield Hint("is the certificate still valid, and for this user?", shown.by(getpass.getuser()))
        yield Hint(f"{ROOT_THERE}, the probe:", install_probe(host))
        if PLAIN_USER.fullmatch(refusal.user):
            yield Hint(f"{ROOT_THERE}, the key, which may run nothing else:", authorize(host, refusal))
        if refusal.key_file and "password" in refusal.offers:
            copy = copy_id(host, refusal)
            yield Hint("without root there, by the account's password; the key may then run anything:", copy)
        yield Hint("then this must work without a question:", by_hand)
    yield JOURNAL


def _without_keys(section: str, offers: frozenset[str]) -> Iterator[Hint]:
    if "password" in offers or "keyboard-interactive" in offers:
        one_question = "" if "password" in offers else ", if it asks for nothing but the password"
        yield Hint(f'by password{one_question}:  {section} password_command = "cat /path/of/the/password"')
    if "gssapi-with-mic" in offers:
        yield Hint(f'by Kerberos:  {section} transport = "openssh"')
    yield Hint("by key: `PubkeyAuthentication yes` in sshd_config of the host")


def install_probe(host: HostConfig) -> Command:
    """In one step: a probe that arrives in part, or not at all, replaces none that is there."""
    new = f"{PROBE_PATH}.new"
    put = f"cat > {new} && test -s {new} && chmod 755 {new} && mv {new} {PROBE_PATH}"
    there = Command.of("ssh", *port_of(host), f"root@{host.address}", put)
    return own_command("probe").piped_to(there).by("root")


def authorize(host: HostConfig, refusal: Refusal) -> Command:
    """The line of Deploy in the account's authorized_keys, which is made where there is none."""
    user, home = refusal.user, f"~{refusal.user}/.ssh"
    there = (
        f"umask 077; id {user} && mkdir -p {home} && cat >> {home}/authorized_keys && chown -R {user}: {home}"
    )
    # The last line that is there may lack its end.
    line = Command.of("printf", r"\n%s\n", key_line(refusal.key))
    return line.piped_to(Command.of("ssh", *port_of(host), f"root@{host.address}", there)).by("root")


def key_line(key: str, command: Command | None = None) -> str:
    """A line of authorized_keys. Within its double quotes, a backslash before a quote is taken."""
    run = str(command or Command.of("sh", PROBE_PATH)).replace('"', '\\"')
    return f'restrict,command="{run}" {key}'


def copy_id(host: HostConfig, refusal: Refusal) -> Command:
    words = ("ssh-copy-id", *port_of(host), "-i", f"{refusal.key_file}.pub", f"{refusal.user}@{host.address}")
    return Command.of(*words).by(getpass.getuser())


def port_of(host: HostConfig) -> tuple[object, ...]:
    return ("-p", host.port) if host.port else ()
