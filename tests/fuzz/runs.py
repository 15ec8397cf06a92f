"""Several runs of two hosts: an honest one, and one that changes and whose users write the texts.

A case is its runs, with a record separator between them: the first letters of each say what the changing host does
in it, the rest is a user's text, which stands wherever a host can carry one. Whatever it is, every run is recorded
once, the honest host has its hours, its GPU its state, and no event; what was written is what is kept.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random

from gpumon_static.bounds.reading import bounded
from gpumon_static.commands.keep import keep
from gpumon_static.commands.render import render
from gpumon_static.config.settings import Config, NotifyConfig
from gpumon_static.model import Disk, Fault, Gpu, HostReading, Machine
from gpumon_static.store import events_file, snapshot
from gpumon_static.store.history import past
from gpumon_static.store.history.reader import Period, Reader, ask
from tests.builders import busy_gpu, failed, gpu, process, reading, slices
from tests.fuzz import seeds, user_texts

STEP = timedelta(minutes=5)
MOST_RUNS = 6
LETTERS = 6
END = "\x1e"
HONEST, OTHER = seeds.HOSTS[:2]
ACTS = "udmnsfhxc"
"""Up, down, a GPU missing, new UUIDs, swapped, with faults, held idle, without a UUID, cut into slices."""


def seeds_() -> list[bytes]:
    cases = ("uuuuuu", "uddduu", "umnsux", "fufuhc", "cuxdnm")
    return [END.join(f"{act:<{LETTERS}}python" for act in case).encode() for case in cases]


def made(random: Random) -> bytes:
    runs = range(random.randint(2, MOST_RUNS))
    return END.join(
        "".join(random.choices(ACTS, k=LETTERS)) + user_texts.made(random).decode() for _ in runs
    ).encode()


def oracle(content: bytes, directory: Path) -> None:
    shutil.rmtree(directory / "history", ignore_errors=True)
    (directory / "events.json").unlink(missing_ok=True)
    settings = replace(seeds.history_config(directory), notify=NotifyConfig(samples=1))
    runs = content.decode("utf-8", "replace").split(END)[:MOST_RUNS]
    names: list[str | None] = []
    for number, run in enumerate(runs):
        other = bounded(_changing(run[:LETTERS], run[LETTERS:]))
        names += [one.name for gpu_ in other.gpus for one in gpu_.all_processes]
        _add(settings, number, other)
    _check_history(settings, len(runs), names)
    memory = events_file.read(events_file.path_in(settings.paths.data))
    assert not [event for event in memory.events if event.host == HONEST], "an event of the honest host"
    assert render(settings, seeds.NOW + len(runs) * STEP).read_text().rstrip().endswith("</html>")


def _add(settings: Config, number: int, other: HostReading) -> None:
    at = seeds.NOW + number * STEP
    readings = [replace(one, fetched_at=at) for one in (reading(HONEST, [busy_gpu()]), other)]
    snapshot.write(settings.csv_path, readings)
    assert snapshot.read(settings.csv_path)[0] == readings[0], "another text has changed the honest host"
    lines: list[str] = []
    keep(settings, readings, readings, at, lines.append)
    assert not lines, lines


def _check_history(settings: Config, runs: int, names: list[str | None]) -> None:
    period = Period(0, 4_000_000_000)

    def asked(reader: Reader) -> None:
        rows = f"({reader.rows(period)})"
        found = reader.engine.rows(
            f'SELECT count(*), count(DISTINCT run_at), sum(seconds), min(state), max(state), min("user"), max("user")'
            f" FROM {rows} WHERE host = '{HONEST}'"
        )
        seconds = (runs - 1) * int(STEP.total_seconds())
        assert found == [(runs, runs, seconds, "busy", "busy", "alice", "alice")], found
        kept = f"SELECT process_name FROM {rows} WHERE host = '{OTHER}' AND pid IS NOT NULL"
        assert sorted(map(str, names)) == sorted(str(name) for (name,) in reader.engine.rows(kept))
        assert past.read(reader, seeds.NOW + runs * STEP).gpus[HONEST, "0"].since == int(
            seeds.NOW.timestamp()
        )

    lines: list[str] = []
    ask(settings.history_path, asked, lines.append)
    assert not lines, lines


def _changing(acts: str, text: str) -> HostReading:
    if "d" in acts:
        return replace(failed(OTHER), error=text or "no answer")
    gpus = [_gpu(index, acts, text) for index in range(1 if "m" in acts else 2)]
    if "s" in acts:
        gpus = [replace(one, index=1 - one.index) for one in gpus]
    disks = (Disk(text or "/", 1.0, 2.0),)
    return reading(OTHER, gpus, warning=text, note=text, driver_version=text, machine=Machine(disks=disks))


def _gpu(index: int, acts: str, text: str) -> Gpu:
    holder = process(7, name=text, user=text or None, job=text, command_line=text)
    made_ = gpu(
        index,
        uuid=None if "x" in acts else f"GPU-{acts.count('n')}-{index}",
        name=text or "A100",
        bus_id=text,
        utilization=0.0 if "h" in acts else 50.0,
        faults=(Fault("ecc-errors", text),) if "f" in acts else (),
    )
    if "c" in acts:
        cut = tuple(replace(one, profile=text, processes=(holder,)) for one in slices(2))
        return replace(made_, slices=cut, mig_mode=True)
    return replace(made_, processes=(holder,))
