"""The checks of config.ini's values: each returns the value, or raises with what it should be."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable, Iterable
from datetime import date, datetime
from pathlib import Path
from typing import Any

from gpumon_static.config.hostlist import (
    BadHost,
    HostEntry,
    checked_name,
    checked_user,
    expand_all,
    split_commas,
)
from gpumon_static.model.rules import RULES
from gpumon_static.text import clip
from gpumon_static.times import EXAMPLES, parse_duration

Check = Callable[[Any, Path], Any]

MAIN_PAGE = "index.html"
LONGEST_COMPARED = 120
MOST_COMPARED = 2000
"""Comparisons in the search for the nearest name, which is slow; after them no more hints are given."""
EVENTS_OF_HOSTS = ("host-down", "host-up", "gpu-fault", "gpu-recovered", "worker-down", "worker-up")
EVENT_TYPES = (*EVENTS_OF_HOSTS, "gpu-freed", "job-idle")


class Wrong(ValueError):
    """Raised for a value that is not valid; its text is what the value must be."""


def string(value: Any, _base: Path) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise Wrong(f"must be a quoted string, not {shown(value)}")
    return value


def integer(least: int, most: int) -> Check:
    def check(value: Any, _base: Path) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise Wrong(f"must be a whole number from {least} to {most}, not {shown(value)}")
        return value

    return check


def real(least: float, most: float) -> Check:
    def check(value: Any, _base: Path) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
            raise Wrong(f"must be a number from {least:g} to {most:g}, not {shown(value)}")
        return float(value)

    return check


def choice(*words: str) -> Check:
    def check(value: Any, _base: Path) -> str:
        if value not in words:
            raise Wrong(f"must be {' or '.join(repr(w) for w in words)}, not {shown(value)}")
        return str(value)

    return check


def path(value: Any, base: Path) -> Path:
    """Relative paths are relative to the config file, wherever the command is run."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise Wrong(f"must be a quoted path, not {shown(value)}")
    if value.startswith("$"):
        raise Wrong(f"{shown(value)}: variables are not replaced; write ~ for a home, or the whole path")
    try:
        return base / Path(value).expanduser()
    except RuntimeError as error:
        raise Wrong(f"{shown(value)}: {error}") from error


def program_path(value: Any, base: Path) -> str:
    """Of a program on the host."""
    if not string(value, base).startswith("/") or any(ord(letter) < 32 for letter in value):
        raise Wrong(f"must be a path that begins with a slash, not {shown(value)}")
    return str(value)


def path_or_none(value: Any, base: Path) -> Path | None:
    return None if value == "" else path(value, base)


def user_name(value: Any, base: Path) -> str:
    try:
        return checked_user(string(value, base))
    except BadHost as error:
        raise Wrong(str(error)) from error


def host_name(value: Any, base: Path) -> str:
    try:
        return checked_name(string(value, base))
    except BadHost as error:
        raise Wrong(str(error)) from error


def command_line(value: Any, _base: Path) -> tuple[str, ...]:
    """A command whose output is a secret. It may itself hold one, so it is shown nowhere."""
    try:
        words = shlex.split(value) if isinstance(value, str) else []
    except ValueError as error:
        raise Wrong(f"is not a command line: {str(error).lower()}") from error
    if not words or "\0" in value:
        raise Wrong("must be a quoted command line")
    return tuple(str(Path(word).expanduser()) if word.startswith("~/") else word for word in words)


def scheduler_address(value: Any, base: Path) -> str:
    if not re.fullmatch(r"(tls|tcp)://[^/@\s]+:[0-9]{1,5}", string(value, base)):
        raise Wrong(f"must be an address such as 'tls://scheduler.lab.example:8786', not {shown(value)}")
    return str(value)


def day(value: Any, _base: Path) -> date:
    """As TOML writes it, or in quotes."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        return date.fromisoformat(value)
    except (ValueError, TypeError):
        raise Wrong(f"must be a day such as 2026-12-01, not {shown(value)}") from None


def web_address(value: Any, base: Path) -> str:
    """Without a login, which everybody would get with the file."""
    if not re.fullmatch(r"https?://[^/@\s]+(/\S*)?", string(value, base)):
        raise Wrong(f"must be an address such as 'https://lab.example/gpus/', not {shown(value)}")
    return str(value)


def contact_address(value: Any, base: Path) -> str:
    """With the place of the login, once, and not where it would choose the server."""
    text = string(value, base)
    forms = r"mailto:[^{}\s\"'<>]*\{login\}[^{}\s\"'<>]*|https://[^/@{}\s\"'<>]+/[^{}\s\"'<>]*\{login\}[^{}\s\"'<>]*"
    if len(text) > 500 or not re.fullmatch(forms, text):
        raise Wrong(
            "must be 'mailto:{login}@lab.example' or an https address with {login} in its path,"
            f" not {shown(value)}"
        )
    return text


def resource_name(value: Any, base: Path) -> str:
    """As `dask worker --resources` takes it: without spaces, commas and equals signs."""
    if not re.fullmatch(r"[\w.-]+", string(value, base)):
        raise Wrong(f"must be the name of a Dask resource, such as 'b', not {shown(value)}")
    return str(value)


def host_entries(value: Any, _base: Path) -> tuple[HostEntry, ...]:
    entries = split_commas(value) if isinstance(value, str) else value
    if not isinstance(entries, list) or not all(isinstance(e, str) for e in entries):
        raise Wrong(f"must be a list of host names, or one string with commas, not {shown(value)}")
    if not entries:
        raise Wrong("lists no hosts")
    try:
        return expand_all(entries)
    except BadHost as error:
        raise Wrong(str(error)) from error


def some_hosts(value: Any, base: Path) -> tuple[HostEntry, ...]:
    """As `host_entries`; none are some, too."""
    return host_entries(value, base) if value else ()


def one_host(value: Any, base: Path) -> HostEntry:
    found = host_entries([value], base)
    if len(found) != 1:
        raise Wrong(f"must be one host, not {shown(value)}")
    return found[0]


def node_name(value: Any, base: Path) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", string(value, base)):
        raise Wrong(f"must be the name of a node of Slurm, such as 'gpu-1', not {shown(value)}")
    return str(value)


def gpu_order(value: Any, _base: Path) -> tuple[int, ...]:
    """Each index at most once."""
    is_order = isinstance(value, list | tuple) and all(type(n) is int and 0 <= n < 1024 for n in value)
    if not is_order or len(set(value)) != len(value):
        raise Wrong(f"must be a list of different GPU indexes, such as [3, 2, 1, 0], not {shown(value)}")
    return tuple(value)


def colour(value: Any, _base: Path) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"#[0-9A-Fa-f]{6}", value):
        raise Wrong(f"must be a colour such as '#1f57c3', not {shown(value)}")
    return value.lower()


def page_file(value: Any, _base: Path) -> str:
    """A name in the site's directory, never a path out of it."""
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.html", value):
        raise Wrong(f"must be a file name such as 'corridor.html', not {shown(value)}")
    return value


def texts(value: Any, _base: Path) -> tuple[str, ...]:
    listed = split_commas(value) if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not all(isinstance(e, str) and "\0" not in e for e in listed):
        raise Wrong(f"must be a list of strings, not {shown(value)}")
    return tuple(listed)


def event_types(value: Any, base: Path) -> tuple[str, ...]:
    named = texts(value, base)
    unknown = [name for name in named if name not in EVENT_TYPES]
    if unknown:
        raise Wrong(f"{shown(unknown[0])} is not an event; choose from: {', '.join(EVENT_TYPES)}")
    return named


def page_tables(value: Any, _base: Path) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(entry, dict) for entry in value):
        raise Wrong("must be written as [[site.pages]], once for each page")
    return tuple(value)


def boolean(value: Any, _base: Path) -> bool:
    # Bare values, as old files have them, are texts.
    if value in ("true", "false"):
        return bool(value == "true")
    if not isinstance(value, bool):
        raise Wrong(f"must be true or false, not {shown(value)}")
    return value


def mount_points(value: Any, base: Path) -> tuple[str, ...]:
    """Mount points; each is sent to the hosts in a line of its own."""
    listed = texts(value, base)
    for mount in listed:
        if not mount.startswith("/") or any(ord(letter) < 32 for letter in mount):
            raise Wrong(f"must be directories that begin with a slash, not {shown(mount)}")
    return listed


def rule_names(value: Any, base: Path) -> tuple[str, ...]:
    listed = texts(value, base)
    unknown = list(unknown_names(listed, RULES, "rule of health"))
    if unknown:
        raise Wrong("; ".join(unknown))
    return listed


def duration(value: Any, _base: Path) -> int:
    """Seconds: as a number, or as `90m` or `1h`."""
    try:
        return integer(1, 10**9)(value, _base) if isinstance(value, int) else parse_duration(value)
    except (ValueError, AttributeError, TypeError, OverflowError) as error:
        raise Wrong(f"must be a length of time such as {EXAMPLES}, not {shown(value)}") from error


def shown(value: Any) -> str:
    try:
        shown = repr(value)
    except (ValueError, RecursionError):
        # Python refuses to write numbers of more than 4,300 digits, and values nested too deeply.
        return "a very large number" if isinstance(value, int) else "a very deep value"
    return shown if len(shown) <= 60 else shown[:57] + "..."


def unknown_names(given: Iterable[str], known: Iterable[str], what: str, form: str = "{}") -> Iterable[str]:
    known = list(known)
    compared = 0
    for name in given:
        if name in known:
            continue
        hint = ""
        if len(name) <= LONGEST_COMPARED and (compared == 0 or compared + len(known) <= MOST_COMPARED):
            compared += len(known)
            near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.0)
            hint = f"; the nearest known one is {form.format(near[0])}" if near else ""
        yield f"{form.format(clip(name, LONGEST_COMPARED))}: unknown {what}{hint}"
