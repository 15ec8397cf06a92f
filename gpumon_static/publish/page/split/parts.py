"""Hosts to the parts of a large site: groups, else node sets, cut where there are too many GPUs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from gpumon_static.text import clip, natural_key, split_name

if TYPE_CHECKING:
    from gpumon_static.survey.survey import SurveyedHost

FEW = 4
"""A node set of so few hosts is no part of its own: a lab may give each host a name."""
SLUG_LETTERS = 40
NAME_LETTERS = 60
_LAST_NUMBER = re.compile(r"[0-9]+(?=[^0-9]*\Z)")
_NOT_IN_SLUGS = re.compile(r"[^a-z0-9]+")

Hosts = Sequence["SurveyedHost"]


@dataclass(frozen=True)
class Part:
    name: str
    file: str
    hosts: tuple[SurveyedHost, ...]


def parts_of(hosts: Hosts, split: int, file: str, taken: Iterable[str] = ()) -> list[Part]:
    """None where `split` GPUs are not exceeded. `file`: of the overview; `taken`: files that others make."""
    sets = _sets(hosts)
    sizes = {
        host.name: size
        for members in sets.values()
        for host, size in zip(members, _sizes(members), strict=True)
    }
    if not split or sum(sizes.values()) <= split:
        return []
    used = {name.lower() for name in (file, *taken)}
    parts = []
    for (group, pattern), members in sorted(sets.items(), key=_order):
        pieces = list(_cut(members, sizes, split))
        for piece in pieces:
            nodes = node_set([host.name for host in piece])
            name = nodes if not group else group if len(pieces) == 1 else f"{group} {nodes}"
            made = _free_name(PurePath(file).stem, group or pattern, used, numbered=len(pieces) > 1)
            parts.append(Part(clip(name, NAME_LETTERS), made, tuple(piece)))
    return parts


def _order(item: tuple[tuple[str, str], list[SurveyedHost]]) -> tuple[bool, object, object]:
    (group, pattern), _ = item
    return not group, natural_key(group), natural_key(pattern)


def _sets(hosts: Hosts) -> dict[tuple[str, str], list[SurveyedHost]]:
    """Group and pattern to hosts; one of the two is empty, and both are for what is left over."""
    found: dict[tuple[str, str], list[SurveyedHost]] = defaultdict(list)
    for host in hosts:
        group = host.config.group or ""
        found[group, "" if group else _pattern(host.name)].append(host)
    few = [key for key, members in found.items() if not key[0] and len(members) <= FEW]
    left = [host for key in few for host in found.pop(key)]
    if left:
        found["", ""] += sorted(left, key=lambda host: natural_key(host.name))
    return found


def _pattern(name: str) -> str:
    """gpu01.lab2.example is gpu#.lab2.example: the last number of a short name counts its hosts."""
    short, domain = split_name(name)
    return _LAST_NUMBER.sub("#", short) + domain


def _sizes(hosts: Hosts) -> list[int]:
    """GPUs of each. One that is silent has as many as the others, so that no page moves when it fails."""
    known = [len(host.gpus) or host.config.gpus or 0 for host in hosts]
    usual = max(known, default=0) or 1
    return [size or usual for size in known]


def _cut(hosts: Hosts, sizes: dict[str, int], most: int) -> Iterator[list[SurveyedHost]]:
    piece: list[SurveyedHost] = []
    held = 0
    for host in hosts:
        if piece and held + sizes[host.name] > most:
            yield piece
            piece, held = [], 0
        piece.append(host)
        held += sizes[host.name]
    yield piece


def node_set(names: Sequence[str]) -> str:
    """node[1-8]; names that ClusterShell cannot fold are listed."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    try:
        return str(NodeSet.fromlist(names, resolver=RESOLVER_NOGROUP))
    except (NodeSetException, AssertionError, ValueError):
        return ",".join(names)


def _free_name(stem: str, text: str, used: set[str], *, numbered: bool) -> str:
    """Made of the group or the pattern, and not of the hosts: it stays when one is added."""
    slug = _NOT_IN_SLUGS.sub("-", text.lower()).strip("-")[:SLUG_LETTERS].strip("-") or "hosts"
    number = 1
    made = f"{stem}-{slug}-1.html" if numbered else f"{stem}-{slug}.html"
    while made.lower() in used:
        number += 1
        made = f"{stem}-{slug}-{number}.html"
    used.add(made.lower())
    return made
