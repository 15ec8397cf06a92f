"""The probe's sections about processes: whose they are, since when they run, whether they are there at all.

ps       1234  1000    03:25:11 Rl   alice                            python3
         pid   uid     elapsed  state user, padded to 32              command, which may have blanks
                                      with command lines: command, padded to 16, then the line
hidden   the same, of what ps does not list because of hidepid; or `all`: nothing is to be seen
names    alice:x:1000:1000:Alice:/home/alice:/bin/bash
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpumon_static.collect.probe import cgroup
from gpumon_static.collect.values import known, lines
from gpumon_static.model import GONE, Process
from gpumon_static.text import one_line

COMMAND_COLUMNS = 16
USER_COLUMNS = 32
LONGEST_LINE = 200
MOST_LINES = 10_000
"""The probe asks for 2,000 processes."""

_LINE = re.compile(r"^\s*(\d{1,10})\s+(\d{1,10}|-)\s+(\S+)\s+(\S+)\s+(.{32}) ?(.*)$")
_ELAPSED = re.compile(r"^(?:(?:(\d{1,9})-)?(\d{1,9}):)?(\d{1,9}):(\d{1,9})$")


@dataclass(frozen=True, slots=True)
class PsEntry:
    uid: int | None
    elapsed_s: int | None
    state: str | None
    user: str | None
    command: str | None
    command_line: str | None = None


def _whole_name(name: str | None, command: str | None) -> str | None:
    """The kernel's name, without arguments: a blank is part of the name, as in `Plex Transcoder`."""
    if name is None or (command and command.startswith(f"{name} ")):
        return command
    return name


@dataclass(frozen=True)
class ProcessTable:
    entries: Mapping[int, PsEntry]
    """Empty where the host has no usable ps: then nothing is known, and no PID is gone."""
    hides: bool
    """With hidepid: a process that is not listed may exist all the same."""
    names: Mapping[int, str]
    belongings: Mapping[int, cgroup.Belonging]

    def complete(self, process: Process) -> Process:
        """The process with its owner and its job."""
        belonging = self.belongings.get(process.pid, cgroup.Belonging())
        entry = self.entries.get(process.pid)
        if entry is None:
            gone = self.entries and not self.hides and process.pid not in self.belongings
            found = replace(process, state=GONE if gone else None, job=belonging.job)
        else:
            found = replace(
                process,
                name=_whole_name(process.name, entry.command),
                user=entry.user,
                uid=entry.uid,
                elapsed_s=entry.elapsed_s,
                state=entry.state,
                job=belonging.job,
                command_line=entry.command_line,
            )
        return self._with_person(found, belonging)

    def _with_person(self, process: Process, belonging: cgroup.Belonging) -> Process:
        """The process with its owner: for root in a container, or a number of its own, the user outside."""
        is_somebody = process.user is not None and process.uid not in (None, 0) and process.uid in self.names
        if belonging.uid is None or is_somebody or process.state == GONE:
            return process
        return replace(process, uid=belonging.uid, user=self.names.get(belonging.uid) or str(belonging.uid))


def table(sections: Mapping[str, str]) -> ProcessTable:
    hidden = sections.get("hidden", "")
    with_arguments = "with-arguments" in sections
    entries = parse(hidden) | parse(sections.get("ps", ""), with_arguments=with_arguments)
    names = {e.uid: e.user for e in entries.values() if e.uid is not None and e.user and _is_name(e)}
    names |= parse_names(sections.get("names", ""))
    for pid, entry in entries.items():
        name = names.get(entry.uid) if entry.uid else None
        if name is not None and name != entry.user:
            entries[pid] = replace(entry, user=name)
    return ProcessTable(entries, hidden.strip() == "all", names, cgroup.parse(sections.get("cgroups", "")))


def parse(text: str, *, with_arguments: bool = False) -> dict[int, PsEntry]:
    entries = {}
    for line in lines(text, MOST_LINES):
        match = _LINE.match(line)
        if match:
            pid, uid, elapsed, state, user, rest = match.groups()
            cut = COMMAND_COLUMNS if with_arguments else None
            entries[int(pid)] = PsEntry(
                uid=int(uid) if uid != "-" else None,
                elapsed_s=elapsed_seconds(elapsed),
                state=known(state),
                user=known(user) or (uid if uid != "-" else None),
                command=known(rest[:cut]),
                command_line=one_line(rest[cut:], LONGEST_LINE) if cut else None,
            )
    return entries


def _is_name(entry: PsEntry) -> bool:
    """ps writes the number for a user without a name, and cuts a long one: `a-very-long-na+`."""
    user = entry.user
    is_cut = user is not None and user.endswith("+") and len(user) == USER_COLUMNS
    return user is not None and user != str(entry.uid) and not is_cut and user != "UNKNOWN"


def parse_names(text: str) -> dict[int, str]:
    """Lines of `getent passwd`."""
    fields = (line.split(":", 3) for line in lines(text, MOST_LINES))
    return {
        int(f[2]): name
        for f in fields
        if len(f) > 3 and f[2].isdecimal() and len(f[2]) <= 10 and (name := one_line(f[0])) is not None
    }


def elapsed_seconds(text: str) -> int | None:
    """`[[days-]hours:]minutes:seconds`, which every ps has, to seconds."""
    match = _ELAPSED.match(text)
    if not match:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
