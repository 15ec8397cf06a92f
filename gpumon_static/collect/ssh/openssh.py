"""One host through the `ssh` program: for Kerberos, security keys, ControlMaster, host certificates.

Where ssh fails it exits with 255 and prints why on stderr; with -v it also prints how far it came:

    debug1: Connecting to node9 [10.0.0.9] port 22.
    debug1: Connection established.
    debug1: Server host key: ssh-ed25519 SHA256:...
    Authenticated to node9 ([10.0.0.9]:22) using "publickey".
"""

from __future__ import annotations

import getpass
import math
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gpumon_static.collect.probe import framing
from gpumon_static.collect.ssh.connect import RETRY_AFTER, HungUp
from gpumon_static.collect.ssh.known_hosts import lookup_name
from gpumon_static.collect.trace import Step, Trace
from gpumon_static.config.settings import SSH_CONFIG, HostConfig
from gpumon_static.errors import HostError, Refusal
from gpumon_static.model import Status
from gpumon_static.system.command import Command
from gpumon_static.system.programs import Late, Programs
from gpumon_static.text import one_line

FAILED = 255

# Each is a line of its own, and no part of one reaches into the next: the host writes to the same stderr.
_CONNECTING = re.compile(r"^debug1: Connecting to \S+ \[([^\]\n]+)\] port (\d+)", re.MULTILINE)
_CONNECTED = re.compile(r"^(debug1: Connection established)", re.MULTILINE)
_HOST_KEY = re.compile(
    r"^debug1: Server host key: ([A-Za-z0-9@.-]{1,80} SHA256:[A-Za-z0-9+/]{43})\r?$", re.MULTILINE
)
_CHANGED = re.compile(r"^@ +WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! +@", re.MULTILINE)
_LOGGED_IN = re.compile(r'^Authenticated to [^"\n]* using "([^"\n]+)"', re.MULTILINE)
_OFFERED = re.compile(r"Permission denied \(([a-z,-]{1,200})\)")
_NOISE = re.compile(r"debug\d: |OpenSSH_|Authenticated to |Warning: Permanently added|\*|@@|$")

# The first that is found in what ssh prints.
SIGNS = (
    ("could not resolve hostname", Status.DNS),
    ("remote host identification has changed", Status.HOST_KEY),
    ("host key verification failed", Status.HOST_KEY),
    ("host key is known for", Status.HOST_KEY),
    ("revoked host key", Status.HOST_KEY),
    ("permission denied", Status.AUTH),
    ("too many authentication failures", Status.AUTH),
    ("connection refused", Status.REFUSED),
    ("kex_exchange_identification", Status.REFUSED),
    ("no route to host", Status.UNREACHABLE),
    ("network is unreachable", Status.UNREACHABLE),
    ("host is down", Status.UNREACHABLE),
    ("timed out", Status.TIMEOUT),
)


@dataclass(frozen=True)
class KnownAs:
    name: str
    file: Path
    """known_hosts."""


@dataclass(frozen=True)
class OpensshReader:
    programs: Programs
    control_path: Path | None = None
    """The socket of a connection that is kept; without one, or where it is gone, ssh makes its own."""

    def __call__(self, host: HostConfig, trace: Trace, script: bytes) -> bytes:
        try:
            return self._ask(host, trace, script)
        except HungUp:
            time.sleep(RETRY_AFTER)
            return self._ask(host, trace, script)

    def _ask(self, host: HostConfig, trace: Trace, script: bytes) -> bytes:
        limit = host.connect_timeout + host.command_timeout
        try:
            words = arguments(host, self.control_path)
            done = self.programs.run(words, script, seconds=limit, enough=framing.arrived(trace))
        except Late as late:
            output = late.errors.decode("utf-8", errors="replace")
            _trace_output(output, trace)
            raise _late(host, output) from None
        except FileNotFoundError:
            raise HostError(Status.ERROR, 'transport = "openssh" needs the ssh program on the PATH') from None
        except OSError as error:
            raise HostError(Status.ERROR, f"cannot start ssh: {error.strerror}") from error
        output = done.errors.decode("utf-8", errors="replace")
        _trace_output(output, trace)
        if done.exit_status == FAILED and framing.BEGIN_MARK not in done.output:
            raise failure(host, output, self._known_as(host) if _CHANGED.search(output) else None)
        return done.output or "\n".join(_messages(output)).encode()

    def _known_as(self, host: HostConfig) -> KnownAs | None:
        words = [*_words(host), "-G", "--", host.alias]
        try:
            done = self.programs.run(words, b"", seconds=host.connect_timeout, enough=lambda _: False)
        except (Late, OSError):
            return None
        found = parse_known_as(done.output.decode("utf-8", errors="surrogateescape"))
        # ssh prints its files one behind the other, and one with a blank in its name as two.
        return replace(found, file=host.known_hosts) if found and "known_hosts" in host.configured else found


def arguments(host: HostConfig, control_path: Path | None = None) -> list[str]:
    options = {"ControlMaster": "no", "ControlPath": str(control_path)} if control_path else {}
    return [*_words(host, options, ("-v", "-T")), "--", host.alias, framing.command(host)]


def _words(host: HostConfig, more: Mapping[str, str] | None = None, flags: Iterable[str] = ()) -> list[str]:
    """What config.ini leaves open is left to ssh_config; but nothing of ours is lent to a host, as agent, X11
    and forwarded ports would be, and no command of ssh_config is run here."""
    options = {
        "BatchMode": "yes",
        "ConnectTimeout": str(math.ceil(host.connect_timeout)),
        "StrictHostKeyChecking": "accept-new" if host.host_keys == "accept-new" else "yes",
        "ClearAllForwardings": "yes",
        "PermitLocalCommand": "no",
    }
    if "known_hosts" in host.configured:
        options["UserKnownHostsFile"] = f'"{host.known_hosts}"'
    if host.address != host.alias:
        options["HostName"] = host.address.replace("%", "%%")
    words = ["ssh", *flags, "-a", "-x"]
    if host.ssh_config != Path(SSH_CONFIG).expanduser():
        words += ["-F", str(host.ssh_config or "none")]
    if host.port:
        words += ["-p", str(host.port)]
    if host.user:
        words += ["-l", host.user]
    if host.key_filename:
        words += ["-i", str(host.key_filename)]
        options["IdentitiesOnly"] = "yes"
    options |= more or {}
    return words + [word for option, value in options.items() for word in ("-o", f"{option}={value}")]


def failure(host: HostConfig, output: str, named: KnownAs | None = None) -> HostError:
    """`named`: how the host is known, by our own files. ssh prints that too, among what the host prints."""
    messages = _messages(output)
    text = "\n".join(messages).lower()
    status = next((status for words, status in SIGNS if words in text), Status.ERROR)
    reason = one_line(messages[-1] if messages else None) or "ssh failed without a message"
    if status is Status.HOST_KEY:
        return _host_key_failure(host, output, named)
    if status is Status.REFUSED and "refused" not in text:
        return HungUp(host.alias, reason)
    return HostError(status, reason, refusal=_refusal(host, messages) if status is Status.AUTH else None)


def _refusal(host: HostConfig, messages: list[str]) -> Refusal:
    """With the key of our own files: which one ssh tried stands among what the host prints."""
    # They import paramiko, which the process that starts the workers does without.
    from gpumon_static.collect.ssh.keys import default_files, public_line
    from gpumon_static.collect.ssh.login import METHODS

    offered = _OFFERED.search(messages[-1]) if messages else None
    file = host.key_filename or next(iter(default_files()), None)
    return Refusal(
        host.user or getpass.getuser(),
        METHODS & frozenset(offered[1].split(",") if offered else ()),
        public_line(file) if file else "",
        file,
    )


def _host_key_failure(host: HostConfig, output: str, named: KnownAs | None) -> HostError:
    shown = _HOST_KEY.findall(output)
    key = shown[-1] if shown else "the host's key"
    if "revoked" in output.lower():
        return HostError(Status.HOST_KEY, f"the host key {key} is revoked")
    # ssh itself reaches the host in every case, and asks before it adds the key.
    asking = _words(host, {"BatchMode": "no", "StrictHostKeyChecking": "ask"})
    add = Command.of(*asking, "--", host.alias, "true").by(getpass.getuser())
    if not _CHANGED.search(output):
        message = f"unknown host key; compare {key} with the host's own"
        return HostError(Status.HOST_KEY, message, fix=add)
    message = f"HOST KEY CHANGED to {key}: reinstalled, or an attacker in between; if the new key is right"
    remove = (
        Command.of("ssh-keygen", "-R", named.name, "-f", named.file).then(add).by(add.user) if named else add
    )
    return HostError(Status.HOST_KEY, message, fix=remove)


def parse_known_as(text: str) -> KnownAs | None:
    """The output of `ssh -G`; None behind a jump host, whose key may be the one that has changed."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        found.setdefault(key.lower(), value)
    if "hostname" not in found or found.keys() & {"proxyjump", "proxycommand"}:
        return None
    port = int(found["port"]) if found.get("port", "").isdecimal() else 22
    name = found.get("hostkeyalias") or lookup_name(found["hostname"], port)
    file = found.get("userknownhostsfile", "").split(" ")[0]
    return KnownAs(name, Path(file).expanduser()) if file else None


def _late(host: HostConfig, output: str) -> HostError:
    if _LOGGED_IN.search(output):
        reason = f"logged in, but the probe did not finish within {host.command_timeout:g} s"
    else:
        reason = f"no SSH login at {host.alias} within {host.connect_timeout + host.command_timeout:g} s"
    return HostError(Status.TIMEOUT, reason)


def _messages(output: str) -> list[str]:
    """The lines that ssh would print without -v."""
    return [line for line in output.splitlines() if not _NOISE.match(line.strip())]


def _trace_output(output: str, trace: Trace) -> None:
    """The last jump's or the host's own: ssh prints them in the order of the hops."""
    for step, pattern, form in (
        (Step.NAME, _CONNECTING, "{0}"),
        (Step.PORT, _CONNECTED, "open"),
        (Step.HOST_KEY, _HOST_KEY, "{0}"),
        (Step.LOGIN, _LOGGED_IN, "by {0}"),
    ):
        found = pattern.findall(output)
        if found:
            first = found[-1] if isinstance(found[-1], str) else found[-1][0]
            trace.done(step, form.format(first))
