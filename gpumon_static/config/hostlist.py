"""The `hosts` of config.ini to single hosts.

gpu[01-08].lab.example     a node set
alice@node9:2222           user and port
[::1]:2222, fe80::1        IPv6, with and without a port
@gpu, @slurm:gpu           groups of ClusterShell
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gpumon_static.text import clip

MOST_HOSTS = 20_000
"""Of one node set."""
MOST_IN_ALL = 100_000
LONGEST_NAME = 255
MOST_LETTERS = 120
"""Of an entry of the config, in an error."""

_IPV6_IN_BRACKETS = re.compile(r"^\[([0-9A-Fa-f:.]+(?:%\w+)?)\](?::(.*))?$")
_NAME = re.compile(r"[\w.:%][\w.:%-]*")
_RANGE = re.compile(r"\s*(\d+)(?:\s*-\s*(\d+)(?:/(\d+))?)?\s*")
_ANSIBLE_RANGE = re.compile(r"\[(\d{1,9}):(\d{1,9})\]")
_NOT_IN_USERS = re.compile(r"^-|[\s\x00-\x1f\x7f'`\";&<>|(){}$]|\\\Z")


class BadHost(ValueError):
    """Raised for a bad entry; its text is what is wrong with it."""


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
    """Split at commas and ends of lines outside brackets: `a,gpu[1,3]` is two entries."""
    return [part.strip() for part in _split(text, ",\n") if part.strip()]


def _split(text: str, at: str) -> list[str]:
    """Split at these characters, where the next bracket is not a closing one."""
    parts, end, is_inside = [], len(text), False
    for place in range(len(text) - 1, -1, -1):
        if text[place] in "[]":
            is_inside = text[place] == "]"
        elif text[place] in at and not is_inside:
            parts.append(text[place + 1 : end])
            end = place
    return [text[:end], *reversed(parts)]


def expand_all(entries: Iterable[str]) -> tuple[HostEntry, ...]:
    hosts: list[HostEntry] = []
    for entry in entries:
        hosts += expand(entry)
        if len(hosts) > MOST_IN_ALL:
            raise BadHost(f"lists more than {MOST_IN_ALL} hosts, which is the most")
    return tuple(hosts)


def expand(entry: str) -> list[HostEntry]:
    if entry.strip().startswith("@"):
        # Imported here: few configs have groups.
        from gpumon_static.config.nodegroups import expand_group

        return [HostEntry(checked_name(name, entry)) for name in expand_group(entry.strip())]
    user, _, rest = entry.strip().rpartition("@")
    names, port = (rest, None) if _ANSIBLE_RANGE.search(rest) else _split_port(rest, entry)
    checked_user(user)
    return [HostEntry(checked_name(name, entry), user or None, port) for name in expand_nodeset(names)]


def expand_nodeset(text: str) -> list[str]:
    if "[" not in text:
        return [text]
    if found := _ANSIBLE_RANGE.search(text):
        raise BadHost(
            f"{_shown(text)}: a range has a hyphen here, not Ansible's colon: [{found[1]}-{found[2]}]"
        )
    _check_size(text)
    # Imported here: most configs that a command loads under cron have plain names only.
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    try:
        nodes = NodeSet(text, resolver=RESOLVER_NOGROUP)
    except (NodeSetException, AssertionError, ValueError) as error:
        # ClusterShell asserts that a range is not too wide, whatever its step.
        raise BadHost(f"{_shown(text)} is not a node set: {clip(str(error), MOST_LETTERS)}") from error
    if len(nodes) > MOST_HOSTS:
        raise _too_many(text, len(nodes))
    return [str(node) for node in nodes]


def folded(names: Iterable[str]) -> str:
    """gpu[01-08]: the names as one node set."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    listed = list(names)
    try:
        return str(NodeSet.fromlist(listed, resolver=RESOLVER_NOGROUP))
    except NodeSetException:
        return ",".join(listed)


def nodeset_size(text: str) -> int:
    """How many hosts a node set is at the most, without expanding it; raises `BadHost`."""
    return sum(_size(part) for part in _split(text, ",!&^"))


def _check_size(text: str) -> None:
    """Count before anything is expanded: ten million hosts would take a minute and two gigabytes."""
    sizes = [_size(part) for part in _split(text, ",!&^")]
    if max(sizes) > MOST_HOSTS or sum(sizes) > MOST_IN_ALL:
        raise _too_many(text, sum(sizes))


def _size(part: str) -> int:
    """The product of what its brackets stand for. What is no range counts once; ClusterShell refuses it."""
    size = 1
    for bracket in re.findall(r"\[([^\[\]]*)\]", part):
        size *= sum(map(_range_size, bracket.split(",")))
    return size


def _range_size(text: str) -> int:
    if len(text) > LONGEST_NAME:
        raise BadHost(f"{_shown(text)} is too long for a range")
    found = _RANGE.fullmatch(text)
    if not found or not found[2]:
        return 1
    first, last, step = int(found[1]), int(found[2]), int(found[3] or 1)
    return max(1, (last - first) // step + 1) if step else 1


def _too_many(text: str, size: int) -> BadHost:
    return BadHost(f"{_shown(text)} is {clip(str(size), 20)} hosts; {MOST_HOSTS} is the most")


def _shown(text: str) -> str:
    return clip(repr(text), MOST_LETTERS)


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
    if not text.isdecimal() or len(text) > 5 or not 1 <= int(text) <= 65535:
        raise BadHost(f"{_shown(entry)} has no port number from 1 to 65535 after the colon")
    return int(text)


def checked_name(name: str, entry: str | None = None) -> str:
    shown = _shown(entry or name)
    if len(name) > LONGEST_NAME:
        raise BadHost(f"{shown} is longer than {LONGEST_NAME} characters")
    if not _NAME.fullmatch(name):
        raise BadHost(f"{shown} is not a host name" if name else f"{shown} has no host name")
    return name


def checked_user(user: str) -> str:
    """Check a user name: it becomes part of the command lines of ssh and of a ProxyCommand."""
    if len(user) > LONGEST_NAME or _NOT_IN_USERS.search(user):
        raise BadHost(f"{_shown(user)} is not a user name")
    return user
