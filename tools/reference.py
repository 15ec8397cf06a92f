"""Write the reference tables of the docs from the code: `python -m tools.reference`.

A page has them between two lines, which name the table:

    <!-- generated: metrics -->
    <!-- /generated -->

What is between them is replaced; the rest of the page is written by hand. `make docs` runs this, and
tests/docs/test_docs.py fails when a page is out of step.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, Field, fields
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpumon_static.config import file as config_file
from gpumon_static.config import settings
from gpumon_static.config.checks import Check, Wrong
from gpumon_static.model import (
    STATUS_MEANINGS,
    Allocated,
    Allocation,
    Disk,
    Fault,
    Gpu,
    HostReading,
    Machine,
    MigDevice,
    NodeState,
    Process,
    Status,
    Waiting,
)
from gpumon_static.model.rules import RULES, Severity
from gpumon_static.publish.exports.metrics import FAMILIES, metrics_prom
from gpumon_static.publish.exports.schema import schema
from gpumon_static.publish.page.words import LEGEND
from gpumon_static.store import columns
from gpumon_static.store.files import DATA
from gpumon_static.store.history.columns import DECIDED
from gpumon_static.store.history.views import asking
from gpumon_static.store.slurm.slurm_file import ClusterReport
from gpumon_static.survey.survey import build_survey
from tools.command_reference import commands

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"(<!-- generated: ([a-z ]+) -->\n).*?(<!-- /generated -->)", re.DOTALL)
A_TIME = datetime(2026, 11, 16, 12, tzinfo=UTC)


def main() -> None:
    for page, text in pages().items():
        if page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def pages() -> dict[Path, str]:
    """Each page of the docs as it should be."""
    return {page: filled(page.read_text(encoding="utf-8")) for page in sorted(DOCS.glob("*.md"))}


def filled(text: str) -> str:
    return BLOCK.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n{found[3]}", text)


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


# config.ini


def config_keys() -> str:
    shared = [f"`{name}`" for name in settings.HOST_KEYS if name not in settings.HOST_ONLY_KEYS]
    rows = table(("section", "key", "default", "value", "meaning"), _config_rows())
    return f"{rows}\nIn `[hosts.NAME]`, for this host alone, also: {', '.join(shared)}.\n"


def _config_rows() -> Iterator[list[str]]:
    for section, kind in settings.SECTIONS.items():
        for number, key in enumerate(fields(kind)):
            name = f"`[{section}]`" if number == 0 else ""
            yield [name, f"`{key.name}`", _default(key), takes(key.metadata["check"]), key.metadata["about"]]
        if section == "site":
            for number, key in enumerate(fields(settings.PageConfig)):
                name = "`[[site.pages]]`" if number == 0 else ""
                yield [name, f"`{key.name}`", "", takes(key.metadata["check"]), key.metadata["about"]]
    yield ["`[users]`", "a login", "", "a quoted string", "the name to show for this login"]
    for number, (name, (check, about)) in enumerate(settings.HOST_ONLY_KEYS.items()):
        section = "`[hosts.NAME]`" if number == 0 else ""
        yield [section, f"`{name}`", "", takes(check), about]


def _default(key: Field[Any]) -> str:
    if key.default is MISSING or key.default in (None, ()):
        return ""
    if isinstance(key.default, bool):
        return f"`{str(key.default).lower()}`"
    if isinstance(key.default, tuple):
        return f"`{json.dumps(list(key.default))}`"
    if key.metadata["check"].__name__ == "duration":
        return f'`"{key.default // 3600}h"`'
    return f"`{json.dumps(key.default).removesuffix('.0')}`"


def takes(check: Check) -> str:
    """What a key takes, in the words of the error that a wrong value gets."""
    try:
        check(object(), Path())
    except Wrong as wrong:
        told = str(wrong).partition(", not ")[0]
        return re.sub(r"'([^']*)'", r'`"\1"`', told.removeprefix("must be "))
    raise AssertionError("a check takes anything")


# Statuses, health, load_data.csv


def statuses() -> str:
    return table(
        ("status", "meaning"), ([f"`{status}`", meaning] for status, meaning in STATUS_MEANINGS.items())
    )


def health_rules() -> str:
    rows = (
        [
            f"`{rule.name}`",
            rule.word if rule.severity is Severity.FAULT else "(notice)",
            rule.seen_in,
            rule.action,
        ]
        for rule in RULES.values()
    )
    return table(("rule", "word on the card", "recognised by", "what to do"), rows)


def csv_columns() -> str:
    rows = ([f"`{name}`", columns.BY_NAME[name].about] for name in columns.COLUMNS)
    return table(("column", "meaning"), rows)


def history_columns() -> str:
    """What was decided about a row, with its type in DuckDB; the others are those of the CSV."""
    rows = ([f"`{name}`", f"`{kind}`", about] for name, (kind, about) in DECIDED.items())
    return table(("column", "type", "meaning"), rows)


def history_views() -> str:
    """Each view with what it is, and its columns, as DuckDB knows them of a history without runs."""
    with TemporaryDirectory() as folder:

        def names(view: str) -> str:
            question = asking.Question(f"FROM {view}")
            found = asking.answer(Path(folder), question, lambda answer: [c.name for c in answer.columns])
            return " ".join(f"`{name}`" for name in found)

        rows = [[f"`{view}`", asking.about(view), names(view)] for view in asking.VIEWS]
    return table(("view", "what it has", "columns"), rows)


# The data directory


def data_files() -> str:
    rows = ([f"`{file.pattern}`", file.writer, file.about] for file in DATA)
    return table(("file of the data", "written by", "content"), rows)


# gpus.json


def json_fields() -> str:
    whole = schema()
    parts = {"(top)": whole, "totals": whole["properties"]["totals"], **whole["$defs"]}
    parts["disk"] = parts["machine"]["properties"]["disks"]["items"]
    parts["fault"] = parts["gpu"]["properties"]["faults"]["items"]
    rows = (
        [part if number == 0 else "", f"`{name}`", _json_type(about), about["description"]]
        for part, known in parts.items()
        for number, (name, about) in enumerate(known["properties"].items())
    )
    return table(("part", "field", "type", "meaning"), rows)


def _json_type(about: dict[str, Any]) -> str:
    if "const" in about:
        return f"`{about['const']}`"
    if "enum" in about:
        return ", ".join(f'`"{word}"`' for word in about["enum"])
    if "oneOf" in about:
        return "object or null"
    kind = about["type"]
    return kind if isinstance(kind, str) else " or ".join(kind)


# metrics.prom


def metrics() -> str:
    """The labels are those that the samples of a host have of which everything is known."""
    labels = _labels(_metrics_of(_well_known_host()))
    rows = ([f"`{name}`", ", ".join(labels[name]), about] for name, about in FAMILIES.items())
    return table(("metric", "labels", "meaning"), rows)


def legend() -> str:
    return table(["sign", "means"], ([word, explanation] for _, word, explanation in LEGEND))


def _well_known_host() -> HostReading:
    process = Process(1, "C", "python", 1.0, "alice")
    mig = MigDevice(0, memory_used_mib=1, memory_total_mib=2, processes=(process,))
    numbers: dict[str, Any] = {f.name: 1 for f in fields(Gpu) if f.type == "float | None"}
    job = Allocation(Allocated.YES, ends_at=A_TIME)
    gpu = Gpu(0, faults=(Fault("lost"),), slices=(mig,), allocation=job, **numbers)
    machine = Machine(
        **{f.name: 1 for f in fields(Machine) if f.name != "disks"}, disks=(Disk("/", 1.0, 2.0),)
    )
    node = NodeState("host", takes_jobs=True)
    return HostReading("host", A_TIME, fetch_seconds=1, gpus=(gpu,), machine=machine, node=node)


def _metrics_of(reading: HostReading) -> str:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "config.ini"
        hosts = f"[hosts.{reading.host}]\ngpus = 8\n[hosts.old]\nstate = 'retired'\n"
        path.write_text(f"[common]\nhosts = '{reading.host}, old'\n{hosts}")
        config = config_file.load(path)
    waiting = (Waiting("a100", 1, 1, A_TIME),)
    slurm = ClusterReport("Slurm on login1", A_TIME, Status.OK, waiting=waiting)
    return "".join(metrics_prom(build_survey([reading], config, A_TIME, clusters=[slurm])))


def _labels(text: str) -> dict[str, list[str]]:
    samples = re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", text, re.MULTILINE)
    return {name: [f"`{label}`" for label in re.findall(r'(\w+)="', found)] for name, found in samples}


TABLES: dict[str, Callable[[], str]] = {
    "config keys": config_keys,
    "commands": commands,
    "statuses": statuses,
    "health rules": health_rules,
    "csv columns": csv_columns,
    "history columns": history_columns,
    "history views": history_views,
    "data files": data_files,
    "json fields": json_fields,
    "metrics": metrics,
    "legend": legend,
}

if __name__ == "__main__":
    main()
