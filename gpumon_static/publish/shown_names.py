"""What the config says about people and their processes: names for logins, and no command lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from gpumon_static.model import HostReading, Process
from gpumon_static.publish.tooltips import USER_LETTERS
from gpumon_static.publish.words import clip


def with_shown_names(readings: Iterable[HostReading], users: Mapping[str, str]) -> list[HostReading]:
    """`[users]` in the config has a name for a login."""
    return _changed(readings, lambda p: replace(p, user=users.get(p.user, p.user)) if p.user else p)


def logins_of(users: Mapping[str, str]) -> dict[str, str]:
    """For each name as the page shows it, the logins that have it."""
    logins: dict[str, str] = {}
    for login, name in users.items():
        shown = clip(name, USER_LETTERS)
        logins[shown] = f"{logins.get(shown, '')} {login}".lstrip()
    return logins


def without_command_lines(readings: Iterable[HostReading]) -> list[HostReading]:
    return _changed(readings, lambda p: replace(p, command_line=None) if p.command_line else p)


def _changed(readings: Iterable[HostReading], change: Callable[[Process], Process]) -> list[HostReading]:
    return [
        replace(
            reading,
            gpus=tuple(
                replace(
                    gpu,
                    processes=tuple(map(change, gpu.processes)),
                    slices=tuple(replace(s, processes=tuple(map(change, s.processes))) for s in gpu.slices),
                )
                for gpu in reading.gpus
            ),
        )
        for reading in readings
    ]
