"""The files of a deployment: the templates of templates/deploy/, filled with the values of an installation.

Values are quoted for the program that reads the file: nothing is escaped for HTML.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from gpumon_static.collect.probe.framing import PROBE_PATH
from gpumon_static.deployment import UNITS, schedule
from gpumon_static.deployment.installation import Installation
from gpumon_static.system import resources

Quote = Callable[[str], str]
TIME_TO_WRITE_S = 50
"""Seconds between the deadline of a fetch and the end of a run."""
_PLAIN = re.compile(r"[\w./@:+-]+")


def cron_quoted(text: str) -> str:
    # cron reads a bare % as the end of the line.
    return shlex.quote(text).replace("%", r"\%")


def double_quoted(text: str) -> str:
    """As nginx and Caddy read it; bare where that is the same."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return text if _PLAIN.fullmatch(text) else f'"{escaped}"'


def systemd_quoted(text: str) -> str:
    return double_quoted(text).replace("%", "%%")


def yaml_quoted(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


QUOTES: Mapping[str, Quote] = {
    "crontab": cron_quoted,
    **dict.fromkeys((*UNITS, "gpumon-dask-worker.service"), systemd_quoted),
    "nginx": double_quoted,
    "nginx-locations": double_quoted,
    "caddy": double_quoted,
    "authorized_keys": str,
    "ansible-vars": yaml_quoted,
}


def text_of(name: str, there: Installation) -> str:
    """A file by its name; `systemd` is all units, each below its path, as `systemctl cat` prints them."""
    if name == "systemd":
        return "\n".join(f"# /etc/systemd/system/{unit}\n{text_of(unit, there)}" for unit in UNITS)
    values = _values(there, QUOTES[name])
    if name == "crontab":
        values |= {"cron": schedule.cron_schedule(there.interval)}
    if name == "gpumon-dask-worker.service":
        # Dask reads the load of its machine, and the key may be in any home.
        values |= {"protect_home": "read-only", "proc_subset": "all"}
    # S701: these are no HTML.
    environment = Environment(  # noqa: S701
        loader=FileSystemLoader(resources.find("templates") / "deploy"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    for part in ("hardening", "nginx-settings", "nginx-locations"):
        text = environment.get_template(part).render(values)
        values[part.removeprefix("nginx-")] = text.rstrip("\n")
    return environment.get_template(name).render(values)


def _values(there: Installation, quote: Quote) -> dict[str, str]:
    own = there.reads_itself
    return {
        "account": there.account,
        "home": quote(str(there.home)),
        "program": quote(str(there.program)),
        # In a shell's words, within the single quotes of a unit.
        "program_in_shell": systemd_quoted(str(there.program)),
        "venv": quote(str(there.program.parent.parent)),
        "dask": quote(str(there.program.with_name("dask"))),
        "config": quote(str(there.config)),
        "config_as_it_is": str(there.config),
        "config_directory": str(there.config.parent),
        "environment": quote(f"GPUMON_CONFIG={there.config}"),
        "site": quote(str(there.site)),
        "site_with_slash": quote(f"{there.site}/"),
        "writable": " ".join(quote(str(path)) for path in there.writable),
        "interval": str(there.interval),
        "every": schedule.words(there.interval),
        "timer": schedule.timer_lines(there.interval),
        "deadline": f"{there.deadline:g}",
        "memory": f"{there.memory_mib}M",
        "timeout": f"{there.deadline + TIME_TO_WRITE_S:g}",
        "protect_home": "read-only" if there.is_in_a_home else "yes",
        "private_devices": "no" if own else "yes",
        "protect_proc": "default" if own else "invisible",
        "proc_subset": "all" if own else "pid",
        "server_name": there.server_name,
        "probe": PROBE_PATH,
        "public_key": there.public_key,
    }
