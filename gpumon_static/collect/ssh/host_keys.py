"""Check a host's key after each handshake."""

from __future__ import annotations

import errno
import getpass
from pathlib import Path

import paramiko

from gpumon_static.collect.ssh.known_hosts import KnownHosts, Verdict, lookup_name
from gpumon_static.collect.ssh.target import Target
from gpumon_static.collect.trace import Step, Trace
from gpumon_static.errors import HostError
from gpumon_static.model import Status
from gpumon_static.system.command import Command
from gpumon_static.system.files import owner_of


def judge(transport: paramiko.Transport, target: Target, known: KnownHosts, trace: Trace) -> Verdict:
    """`KNOWN`, or `OTHER_TYPE` where the host should be asked for another key; else a `HostError`."""
    key, named = transport.get_remote_server_key(), target.known_as
    verdict = known.verdict(named.hostname, named.port, key.get_name(), key.get_base64())
    how = f"in {known.path}"
    if verdict is Verdict.UNKNOWN and target.accept_new:
        try:
            known.learn(named.hostname, named.port, key.get_name(), key.get_base64())
        except OSError as error:
            reason = f"its key is new, and cannot be kept in {known.path}: {error.strerror}"
            raise HostError(Status.HOST_KEY, reason) from error
        verdict, how = Verdict.KNOWN, f"new, now in {known.path}"
    if verdict is Verdict.KNOWN:
        trace.done(Step.HOST_KEY, f"{key.get_name()} {how}")
    elif verdict is not Verdict.OTHER_TYPE:
        raise refusal(key, target, known, verdict)
    return verdict


def refusal(key: paramiko.PKey, target: Target, known: KnownHosts, verdict: Verdict) -> HostError:
    """With the command that fixes it."""
    shown = f"{key.get_name()} {key.fingerprint}"
    add = _line_that_adds(key, target, known)
    name = lookup_name(target.known_as.hostname, target.known_as.port)
    reasons = {
        Verdict.UNKNOWN: (f"unknown host key; compare {shown} with the host's own", add),
        Verdict.CHANGED: (
            f"HOST KEY CHANGED to {shown}: reinstalled, or an attacker in between; if the new key is right",
            Command.of("ssh-keygen", "-R", name, "-f", known.path).then(add).by(add.user),
        ),
        Verdict.REVOKED: (f"the host key {shown} is revoked in {known.path}", None),
        Verdict.AUTHORITY_ONLY: (
            f"{known.path} has only a certificate authority for this host, and paramiko checks no host"
            f' certificates; use transport = "openssh", or compare {shown}',
            add,
        ),
    }
    message, fix = reasons[verdict]
    return HostError(Status.HOST_KEY, message, fix=fix)


def _line_that_adds(key: paramiko.PKey, target: Target, known: KnownHosts) -> Command:
    """With the key whose fingerprint is shown: what asks the host once more may be given another one.

    A new file is its writer's, and `ssh-keygen -R` makes a new one: by root, it would be closed to fetch.
    """
    named = lookup_name(target.known_as.hostname, target.known_as.port)
    # The last line that is there may lack its end.
    line = Command.of("printf", r"\n%s\n", f"{named} {key.get_name()} {key.get_base64()}")
    folder = known.path.parent
    add = line.appended_to(known.path)
    made = add if folder.is_dir() else Command.of("mkdir", "-p", "-m", 700, folder).then(add)
    return made.by(owner_of(folder))


def unreadable(path: Path, error: OSError) -> HostError:
    """For each host that is known by this file; others may be known by another one."""
    user = getpass.getuser()
    message = f"{path} cannot be read by {user}: {error.strerror}; it belongs to {owner_of(path)}"
    fix = Command.of("chown", f"{user}:", path) if error.errno == errno.EACCES else None
    return HostError(Status.HOST_KEY, message, fix=fix and fix.by("root"))


def prefer(transport: paramiko.Transport, key_types: set[str], *, only: bool) -> None:
    """Ask for host keys of the types that known_hosts has, as ssh does."""
    options = transport.get_security_options()
    liked = [t for t in options.key_types if _stored_type(t) in key_types]
    rest = [t for t in options.key_types if t not in liked]
    if liked:
        options.key_types = liked if only else liked + rest


def _stored_type(algorithm: str) -> str:
    """One RSA key signs with several algorithms."""
    return "ssh-rsa" if algorithm.startswith("rsa-sha2-") else algorithm
