"""SSH authentication: keys, then the password."""

from __future__ import annotations

from collections.abc import Iterable

import paramiko

from gpumon_static.collect.ssh.connect import Budget
from gpumon_static.collect.ssh.keys import Identity, KeyRing
from gpumon_static.collect.ssh.passwords import NoSecret, SecretSource
from gpumon_static.collect.ssh.target import Target
from gpumon_static.collect.trace import Step, Trace
from gpumon_static.errors import HostError, Refusal
from gpumon_static.model import Status
from gpumon_static.text import one_line

METHODS = frozenset({"publickey", "password", "keyboard-interactive", "gssapi-with-mic", "hostbased"})


def log_in(
    transport: paramiko.Transport,
    target: Target,
    keys: KeyRing,
    secrets: SecretSource,
    budget: Budget,
    trace: Trace,
) -> None:
    with budget.stopped():
        identities, failed = keys.identities(target)
    used = _by_key(transport, target, identities, budget)
    if not used and target.password_command:
        used = _by_password(transport, target, secrets, budget)
    if not used:
        raise _refused(transport, target, identities, failed)
    trace.done(Step.LOGIN, f"{target.user} by {used}")


def _by_key(
    transport: paramiko.Transport, target: Target, identities: list[Identity], budget: Budget
) -> str | None:
    """The name of the key that was accepted."""
    for count, identity in enumerate(identities, start=1):
        transport.auth_timeout = budget.left()
        try:
            transport.auth_publickey(target.user, identity.key)
        except paramiko.BadAuthenticationType as error:
            if target.password_command:
                return None
            offered = ", ".join(error.allowed_types)
            message = f"accepts no key for {target.user}; it offers: {offered}"
            refusal = _refusal(target, identities, error.allowed_types)
            raise HostError(Status.AUTH, message, refusal=refusal) from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            budget.left()
            if not transport.is_active():
                raise _hung_up(target, identities[:count], error) from error
        else:
            if transport.is_authenticated():
                return f"key {identity.name}"
    return None


def _by_password(
    transport: paramiko.Transport, target: Target, secrets: SecretSource, budget: Budget
) -> str | None:
    assert target.password_command
    try:
        with budget.stopped():
            password = secrets.output_of(target.password_command)
    except NoSecret as error:
        raise HostError(Status.AUTH, f"password_command {error}") from None
    transport.auth_timeout = budget.left()
    try:
        # With keyboard-interactive login, the host's one question is answered with the password.
        transport.auth_password(target.user, password)
    except paramiko.BadAuthenticationType as error:
        if not {"password", "keyboard-interactive"} & set(error.allowed_types):
            offered = ", ".join(error.allowed_types)
            reason = f"accepts no password for {target.user}; it offers: {offered}"
            raise HostError(Status.AUTH, reason) from None
        return None
    except (paramiko.SSHException, EOFError, OSError) as error:
        budget.left()
        if not transport.is_active():
            raise _hung_up(target, [], error) from None
        return None
    return "password" if transport.is_authenticated() else None


def _hung_up(target: Target, tried: list[Identity], error: Exception) -> HostError:
    reason = one_line(str(error)) or type(error).__name__
    message = f"closed the connection during the login of {target.user}: {reason}"
    if len(tried) > 2:
        message += f"; {len(tried)} keys may be more than it allows: set one with key_filename"
    return HostError(Status.AUTH, message)


def _refused(
    transport: paramiko.Transport, target: Target, identities: list[Identity], failed: list[str]
) -> HostError:
    tried = [identity.name for identity in identities]
    message = (
        f"keys tried: {', '.join(tried)}"
        if tried
        else "no key to try: no key_filename, agent, or ~/.ssh/id_*"
    )
    if target.password_command:
        message = f"the password was tried{f', and {message}' if tried else ''}"
    unusable = f"; not usable: {', '.join(failed)}" if failed else ""
    refusal = _refusal(target, identities, _offered(transport, target.user))
    return HostError(Status.AUTH, f"refused the login of {target.user}; {message}{unusable}", refusal=refusal)


def _refusal(target: Target, identities: list[Identity], offers: Iterable[str]) -> Refusal:
    first = identities[0] if identities else None
    return Refusal(
        target.user,
        METHODS & frozenset(offers),
        f"{first.key.get_name()} {first.key.get_base64()}" if first else "",
        next((one.file for one in identities if one.file), None),
        any(one.key.public_blob is not None for one in identities),
    )


def _offered(transport: paramiko.Transport, user: str) -> Iterable[str]:
    """The ways to log in that the host offers: the answer to a login with none of them."""
    try:
        transport.auth_none(user)
    except paramiko.BadAuthenticationType as error:
        return error.allowed_types
    except (paramiko.SSHException, EOFError, OSError):
        pass
    return ()
