"""How much a page tells about people: names, pseudonyms that stay the same, or only counts.

Readings are veiled before anything is built from them, so no later step can forget to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import StrEnum

from gpumon_static.model import HostReading, Process
from gpumon_static.survey.pseudonyms import pseudonym

SOMEONE = "(name)"


class Tier(StrEnum):
    NAMES = "names"
    PSEUDONYMS = "pseudonyms"
    COUNTS = "counts"


def veil(
    readings: Sequence[HostReading], tier: Tier, key: bytes, other_names: Iterable[str] = ()
) -> list[HostReading]:
    """The readings as a page of this tier may know them."""
    if tier is Tier.NAMES:
        return list(readings)
    logins = {p.user for r in readings for g in r.gpus for p in g.all_processes if p.user}
    clean = _scrubber({*logins, *other_names})
    hide = _with_pseudonym(key, clean) if tier is Tier.PSEUDONYMS else _counted()
    return [_veiled(reading, hide, clean) for reading in readings]


def _veiled(
    reading: HostReading, hide: Callable[[Process], Process], clean: Callable[[str], str]
) -> HostReading:
    return replace(
        reading.with_processes(hide),
        error=clean(reading.error) if reading.error else reading.error,
        warning=clean(reading.warning) if reading.warning else reading.warning,
        note=clean(reading.note) if reading.note else reading.note,
    )


def _with_pseudonym(key: bytes, clean: Callable[[str], str]) -> Callable[[Process], Process]:
    """A path, an argument or a job tells who it is as well as the login does: the program's name is left."""

    def hide(process: Process) -> Process:
        who = _identity(process)
        program = (
            process.name.split()[0].rpartition("/")[2] if process.name and process.name.split() else None
        )
        return replace(
            process,
            user=pseudonym(who, key) if who else None,
            uid=None,
            name=clean(program) if program else None,
            job=None,
            command_line=None,
        )

    return hide


def _counted() -> Callable[[Process], Process]:
    """Numbers in the place of people, so that the same one is counted once; no page shows them."""
    numbers: dict[str, int] = {}

    def hide(process: Process) -> Process:
        who = _identity(process)
        number = str(numbers.setdefault(who, len(numbers) + 1)) if who else None
        return replace(process, pid=0, user=number, uid=None, name=None, job=None, command_line=None)

    return hide


def _identity(process: Process) -> str | None:
    return process.user or (f"uid {process.uid}" if process.uid is not None else None)


def _scrubber(names: Iterable[str]) -> Callable[[str], str]:
    listed = sorted((n for n in names if len(n) > 1), key=len, reverse=True)
    if not listed:
        return lambda text: text
    pattern = re.compile(r"(?<![^\W_])(?:" + "|".join(map(re.escape, listed)) + r")(?![^\W_])", re.IGNORECASE)
    return lambda text: pattern.sub(SOMEONE, text)
