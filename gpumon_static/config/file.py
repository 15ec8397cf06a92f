"""`config.ini`, as it is written, to a `Config`. Every problem is found before any is reported."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import MISSING, Field, fields, replace
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import tomli

from gpumon_static.config import syntax
from gpumon_static.config.checks import Wrong, shown, unknown_names
from gpumon_static.config.engine import engine_problems
from gpumon_static.config.host_sections import MOST_LETTERS, HostSettings, own_settings, unreadable_files
from gpumon_static.config.settings import SECTIONS, Config, HostConfig, PageConfig, PathsConfig
from gpumon_static.config.slurm import clusters, slurm_sections
from gpumon_static.errors import ConfigError
from gpumon_static.system.files import open_file
from gpumon_static.text import clip

OF_THE_SYSTEM = Path("/etc/gpumon-static/config.ini")


def find(explicit: Path | None, instead: str = "") -> Path:
    """The config of -c or $GPUMON_CONFIG, else the first of the usual places that there is.

    `instead`: what the command can do without one, for the error.
    """
    if explicit:
        return explicit
    if named := os.environ.get("GPUMON_CONFIG"):
        if Path(named).exists():
            return Path(named)
        hint = "no such file, and $GPUMON_CONFIG names it: set it to another or unset it, or use -c PATH"
        raise ConfigError(named, [f"{hint}; `gpumon-static init` writes one{instead}"])
    places = usual_places()
    found = next((place for place in places if place.exists()), None)
    if found is None:
        tried = ", ".join(map(str, places))
        hint = f"there is none of {tried}; `gpumon-static init` writes one"
        raise ConfigError("no config", [f"{hint}, -c PATH or $GPUMON_CONFIG names one{instead}"])
    return found


def usual_places() -> list[Path]:
    home = os.environ.get("XDG_CONFIG_HOME", "")
    # As the specification has it, a relative path there does not count.
    base = Path(home) if home.startswith("/") else Path("~/.config").expanduser()
    return [Path("config.ini"), base / "gpumon-static/config.ini", OF_THE_SYSTEM]


def load(config_path: Path, *, need_keys: bool = False, tolerate: bool = False) -> Config:
    """`need_keys`: the key files must be readable too (fetch needs them, render does not).

    `tolerate`: wrong values are replaced by their defaults, and of a file that does not parse as much of
    `[notify]` as does; for reporting that a run failed, perhaps by them.
    """
    tables = _read_tables(config_path, tolerate)
    base = config_path.absolute().parent
    known_sections = [*SECTIONS, "hosts", "users"]
    loose = [name for name, value in tables.items() if not _is_section(value) and name not in known_sections]
    problems = [f"{clip(name, MOST_LETTERS)}: is in no section{_section_with(name)}" for name in loose]
    problems += unknown_names(
        (name for name in tables if name not in loose), known_sections, "section", "[{}]"
    )
    sections = {
        name: _section(name, kind, tables.get(name, {}), base, problems)
        for name, kind in SECTIONS.items()
        if name != "slurm"
    }
    slurms = slurm_sections(
        tables.get("slurm"), lambda name, kind, table: _section(name, kind, table, base, problems), problems
    )
    known = {entry.name for entry in (*sections["common"].hosts, *(one.host for one in slurms))}
    own = own_settings(tables.get("hosts", {}), known, base, problems)
    configured = {k for name in ("common", "fetch") for k, v in _table(tables, name).items() if v != ""}
    settings = HostSettings(sections["common"], sections["fetch"], own, configured)
    hosts = settings.hosts(problems)
    asked = clusters(slurms, {host.name: host for host in hosts}, settings.host, problems)
    hosts = tuple(replace(host, run=host.run or sections["site"].run) for host in hosts)
    sections["site"] = replace(sections["site"], pages=_pages(sections["site"].pages, hosts, base, problems))
    users = _users(tables.get("users", {}), problems)
    all_asked = (*hosts, *(cluster.asked for cluster in asked))
    problems += engine_problems(sections["fetch"], all_asked)
    problems += _directory_problems(sections["paths"])
    # Dask workers have files of their own.
    if need_keys and sections["fetch"].engine != "dask":
        problems += unreadable_files(all_asked)
    if problems and not tolerate:
        raise ConfigError(config_path, problems)
    return Config(
        config_path,
        hosts,
        sections["fetch"],
        sections["paths"],
        sections["busy"],
        sections["site"],
        users,
        sections["notify"],
        sections["history"],
        asked,
    )


def _directory_problems(paths: PathsConfig) -> Iterable[str]:
    """The site's load_data.csv is on the tier of the page, and the data is for its owner only."""
    data, site = (Path(os.path.realpath(path)) for path in (paths.data, paths.site))
    if data == site:
        yield f"paths.data: {data} is also paths.site; the page's load_data.csv would replace the data's"
    elif data.is_relative_to(site):
        yield f"paths.data: {data} is inside paths.site, {site}: the web server would show it to everybody"
    elif site.is_relative_to(history := data / "history"):
        yield f"paths.site: {site} is inside the history, {history}, which a restore replaces as a whole"


def _read_tables(config_path: Path, tolerate: bool) -> dict[str, Any]:
    try:
        # Under /dev: what a shell hands over, as in -c <(...).
        given = config_path.open("rb") if config_path.is_relative_to("/dev") else open_file(config_path)
        with TextIOWrapper(given, "utf-8-sig", "replace" if tolerate else "strict") as file:
            content = file.read()
    except FileNotFoundError:
        hint = "no such file; `gpumon-static init` writes one, -c PATH or $GPUMON_CONFIG names another"
        raise ConfigError(config_path, [hint]) from None
    except OSError as error:
        raise ConfigError(config_path, [f"cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError(config_path, [f"is not UTF-8 text (byte {error.start})"]) from error
    try:
        try:
            return syntax.parse(content)
        except (tomli.TOMLDecodeError, syntax.TooMuch):
            if not tolerate:
                raise
            return syntax.section_alone(content, "notify")
    except tomli.TOMLDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ConfigError(config_path, [f"{where}: {error.msg}"]) from error
    except syntax.TooMuch as error:
        raise ConfigError(config_path, [str(error)]) from error


def _is_section(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(v, dict) for v in value))


def _section_with(key_name: str) -> str:
    """Where a key that stands before the first section belongs, if it is one of ours."""
    name = _section_of(key_name)
    return f"; it belongs below a line [{name}]" if name else ""


def _section_of(key_name: str, but: str = "") -> str | None:
    """The section that has this key; of several the first."""
    has = ((name, {f.name for f in fields(kind)}) for name, kind in SECTIONS.items() if name != but)
    return next((name for name, names in has if key_name in names), None)


def _is_near(given: str, keys: Iterable[str]) -> bool:
    """A typing error of a key that the section has."""
    return any(given in (key[:-1], f"{key}s") for key in keys)


def _table(tables: dict[str, Any], name: str) -> dict[str, Any]:
    """A section as it was written; a value in its place is reported elsewhere."""
    table = tables.get(name)
    return table if isinstance(table, dict) else {}


def _section(name: str, kind: type, table: Any, base: Path, problems: list[str]) -> Any:
    """The section as its dataclass; a wrong value is noted in `problems` and its default used."""
    if not isinstance(table, dict):
        problems.append(f"{name}: must be a section, [{name}], not a value")
        table = {}
    keys = {f.name: f for f in fields(kind)}
    elsewhere = {
        given: other
        for given in table
        if given not in keys and (other := _section_of(given, name)) and not _is_near(given, keys)
    }
    problems += [f"{name}.{given}: belongs in [{other}]" for given, other in elsewhere.items()]
    problems += unknown_names(
        (f"{name}.{given}" for given in table if given not in elsewhere),
        (f"{name}.{known}" for known in keys),
        "key",
    )
    values: dict[str, Any] = {}
    for key_name, f in keys.items():
        given = table.get(key_name, f.default)
        if given == "" and not f.metadata["empty"]:
            given = f.default
        if given is MISSING:
            problems.append(f"{name}.{key_name}: missing; it lists the hosts to ask")
            given = ()
        elif given is not None:
            try:
                given = f.metadata["check"](given, base)
            except Wrong as wrong:
                problems.append(f"{name}.{key_name}: {wrong}")
                given = _default(f, base)
        values[key_name] = given
    return kind(**values)


def _default(f: Field[Any], base: Path) -> Any:
    """The default in place of a value that was refused, so that the checks after it continue."""
    if f.default is MISSING:
        return ()
    try:
        return None if f.default is None else f.metadata["check"](f.default, base)
    except Wrong:
        # The file of a page has no usable default.
        return f.default


def _pages(
    given: tuple[Any, ...], hosts: Iterable[HostConfig], base: Path, problems: list[str]
) -> tuple[PageConfig, ...]:
    groups = sorted({host.group for host in hosts if host.group})
    pages: dict[str, PageConfig] = {}
    for position, table in enumerate(given, start=1):
        where = f"site.pages {position}"
        page: PageConfig = _section(where, PageConfig, table, base, problems)
        problems += [f"{where}.groups: no host is in {g!r}" for g in page.groups if g not in groups]
        if page.file and page.file in pages:
            problems.append(f"{where}.file: {page.file} is written twice")
        pages[page.file] = page
    return tuple(pages.values())


def _users(table: Any, problems: list[str]) -> dict[str, str]:
    """`[users]`: a name for each login; any login is a valid key."""
    if not isinstance(table, dict):
        problems.append("users: must be a section, [users], not a value")
        return {}
    for login, name in table.items():
        if not isinstance(name, str) or "\0" in name:
            problems.append(f"users.{clip(login, MOST_LETTERS)}: must be a quoted string, not {shown(name)}")
    return {login: name for login, name in table.items() if isinstance(name, str) and name}
