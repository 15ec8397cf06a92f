"""The `hosts` of config.ini to single hosts.

gpu[01-08].lab.example     a node set
alice@node9:2222           user and port
[::1]:2222, fe80::1        IPv6, with and without a port
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MOST_HOSTS = 20_000

_IPV6_IN_BRACKETS = re.compile(r"^\[([0-9A-Fa-f:.]+(?:%\w+)?)\](?::(.*))?$")
_NAME = re.compile(r"[\w.:%][\w.:%-]*")
_NOT_IN_USERS = re.compile(r"^-|[\s\x00-\x1f\x7f'`\";&<>|(){}$]|\\\Z")


class BadHost(ValueError):
    """Its text says what is wrong with an entry."""


@dataclass(frozen=True)
class HostEntry:
    name: str
    user: str | None = None
    port: int | None = None

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        return user + with_port(self.name, self.port)


def with_port(name: str, port: int | None) -> str:
    """`name:port`, with an IPv6 address in brackets."""
    if port is None:
        return name
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def split_commas(text: str) -> list[str]:
    """At the commas outside brackets: `a,gpu[1,3]` is two entries."""
    parts = re.split(r",(?![^\[]*\])", text)
    return [part.strip() for part in parts if part.strip()]


def expand(entry: str) -> list[HostEntry]:
    user, at, rest = entry.strip().rpartition("@")
    if at and not user:
        raise BadHost(f"{entry!r} has an @ without a user before it")
    names, port = _split_port(rest, entry)
    checked_user(user)
    return [HostEntry(checked_name(name, entry), user or None, port) for name in expand_nodeset(names)]


def expand_nodeset(text: str) -> list[str]:
    if "[" not in text:
        return [text]
    # Imported here: most configs that a command loads under cron have plain names only.
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    try:
        nodes = NodeSet(text, resolver=RESOLVER_NOGROUP)
    except NodeSetException as error:
        raise BadHost(f"{text!r} is not a node set: {error}") from error
    if len(nodes) > MOST_HOSTS:
        raise BadHost(f"{text!r} is {len(nodes)} hosts; {MOST_HOSTS} is the most")
    return [str(node) for node in nodes]


def _split_port(rest: str, entry: str) -> tuple[str, int | None]:
    ipv6 = _IPV6_IN_BRACKETS.match(rest)
    if ipv6 and ipv6[1].count(":") >= 2:
        return ipv6[1], _port(ipv6[2], entry)
    if rest.count(":") == 1:
        name, _, port = rest.partition(":")
        return name, _port(port, entry)
    return rest, None


def _port(text: str | None, entry: str) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise BadHost(f"{entry!r} has no port number from 1 to 65535 after the colon")
    return int(text)


def checked_name(name: str, entry: str | None = None) -> str:
    if not _NAME.fullmatch(name):
        shown = entry or name
        raise BadHost(f"{shown!r} is not a host name" if name else f"{shown!r} has no host name")
    return name


def checked_user(user: str) -> str:
    """Users reach the command lines of ssh and of a ProxyCommand."""
    if _NOT_IN_USERS.search(user):
        raise BadHost(f"{user!r} is not a user name")
    return user
