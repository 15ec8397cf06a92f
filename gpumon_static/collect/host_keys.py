"""Is it the host that it says it is? Asked after each handshake."""

from __future__ import annotations

import shlex

import paramiko

from gpumon_static.collect.connect import Endpoint
from gpumon_static.collect.known_hosts import KnownHosts, Verdict
from gpumon_static.errors import HostError
from gpumon_static.model import Status


def judge(key: paramiko.PKey, at: Endpoint, known: KnownHosts, *, accept_new: bool) -> Verdict:
    """`KNOWN`, or `OTHER_TYPE` where the host should be asked for another key; else a `HostError`."""
    verdict = known.verdict(at.hostname, at.port, key.get_name(), key.get_base64())
    if verdict is Verdict.UNKNOWN and accept_new:
        known.learn(at.hostname, at.port, key.get_name(), key.get_base64())
        return Verdict.KNOWN
    if verdict in (Verdict.KNOWN, Verdict.OTHER_TYPE):
        return verdict
    raise refusal(key, at, known, verdict)


def refusal(key: paramiko.PKey, at: Endpoint, known: KnownHosts, verdict: Verdict) -> HostError:
    """With the line that mends it."""
    shown = f"{key.get_name()} {key.fingerprint}"
    file = shlex.quote(str(known.path))
    default = at.port == 22
    scan = f"ssh-keyscan {'' if default else f'-p {at.port} '}{at.hostname} >> {file}"
    name = at.hostname if default else f"'[{at.hostname}]:{at.port}'"
    reasons = {
        Verdict.UNKNOWN: f"unknown host key; compare {shown} with the host's own, then: {scan}",
        Verdict.CHANGED: f"HOST KEY CHANGED to {shown}: reinstalled, or somebody in between;"
        f" if it is right: ssh-keygen -R {name} -f {file} && {scan}",
        Verdict.REVOKED: f"the host key {shown} is revoked in {known.path}",
        Verdict.AUTHORITY_ONLY: f"{known.path} has only a certificate authority for this host, and paramiko"
        f' checks no host certificates; use transport = "openssh", or compare {shown}, then: {scan}',
    }
    return HostError(Status.HOST_KEY, reasons[verdict])


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
