"""Check a host's key after each handshake."""

from __future__ import annotations

import shlex

import paramiko

from gpumon_static.collect.ssh.known_hosts import KnownHosts, Verdict, lookup_name
from gpumon_static.collect.ssh.target import Target
from gpumon_static.collect.trace import Step, Trace
from gpumon_static.errors import HostError
from gpumon_static.model import Status


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
    name = shlex.quote(lookup_name(target.known_as.hostname, target.known_as.port))
    file = shlex.quote(str(known.path))
    reasons = {
        Verdict.UNKNOWN: (f"unknown host key; compare {shown} with the host's own", add),
        Verdict.CHANGED: (
            f"HOST KEY CHANGED to {shown}: reinstalled, or an attacker in between; if the new key is right",
            f"ssh-keygen -R {name} -f {file} && {add}",
        ),
        Verdict.REVOKED: (f"the host key {shown} is revoked in {known.path}", None),
        Verdict.AUTHORITY_ONLY: (
            f"{known.path} has only a certificate authority for this host, and paramiko checks no host"
            f' certificates; use transport = "openssh", or compare {shown}',
            add,
        ),
    }
    told, fix = reasons[verdict]
    return HostError(Status.HOST_KEY, told, fix=fix)


def _line_that_adds(key: paramiko.PKey, target: Target, known: KnownHosts) -> str:
    file = shlex.quote(str(known.path))
    if target.via or target.proxy_command or target.known_as != target.at:
        # ssh-keyscan supports neither jump hosts nor aliases.
        named = lookup_name(target.known_as.hostname, target.known_as.port)
        return f"echo {shlex.quote(f'{named} {key.get_name()} {key.get_base64()}')} >> {file}"
    port = "" if target.at.port == 22 else f"-p {target.at.port} "
    return f"ssh-keyscan {port}{target.at.hostname} >> {file}"


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
