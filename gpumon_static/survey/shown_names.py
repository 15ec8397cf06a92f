"""Apply the config to users and processes: names for logins, and no command lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gpumon_static.model import Gpu, HostReading, Process
from gpumon_static.survey.owners import USER_LETTERS
from gpumon_static.text import clip


def with_shown_names(readings: Iterable[HostReading], users: Mapping[str, str]) -> list[HostReading]:
    """Replace logins by the names that `[users]` in the config has for them."""
    if not users:
        return list(readings)

    def shown(process: Process) -> Process:
        return replace(process, user=users.get(process.user, process.user)) if process.user else process

    def shown_owner(gpu: Gpu) -> Gpu:
        login = gpu.allocation.user
        if login is None or login not in users:
            return gpu
        return replace(gpu, allocation=replace(gpu.allocation, user=users[login]))

    return [
        replace(reading, gpus=tuple(map(shown_owner, reading.with_processes(shown).gpus)))
        for reading in readings
    ]


def logins_of(users: Mapping[str, str]) -> dict[str, str]:
    """For each name as the page shows it, the logins that have it."""
    logins: dict[str, str] = {}
    for login, name in users.items():
        shown = clip(name, USER_LETTERS)
        logins[shown] = f"{logins.get(shown, '')} {login}".lstrip()
    return logins


def without_command_lines(readings: Iterable[HostReading]) -> list[HostReading]:
    """The readings without the arguments of processes."""

    def without(process: Process) -> Process:
        return replace(process, command_line=None) if process.command_line else process

    def has_some(reading: HostReading) -> bool:
        return any(process.command_line for gpu in reading.gpus for process in gpu.all_processes)

    return [reading.with_processes(without) if has_some(reading) else reading for reading in readings]
