"""The folder of files under pressure: readers beside runs, two collectors, the conversion killed, five years of days."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from gpumon_static import frames
from gpumon_static.commands.render import render
from gpumon_static.store.history.engine import open_engine, parquet
from gpumon_static.store.history.layout import day_path, read_listing
from gpumon_static.store.history.moving.convert import OldNames, convert_if_needed, kept_path
from gpumon_static.store.history.upkeep.checksums import damaged_files
from gpumon_static.survey.names import short_model
from tests import old_history
from tests.builders import busy_gpu, gpu, reading
from tests.history_lab import DAY, HOUR, START, HistoryLab, moment
from tests.torture import merging
from tests.torture.lab import Result
from tests.torture.surroundings import small_disk

Read = Callable[[Path], str | None]
"""Of a data folder: what was wrong."""

HALF_HOUR = HOUR // 2
READS_OF_A_RUN = 10
FIVE_YEARS = 5 * 365
MOST_TIMES = 3
"""The CPU time of a run with five years of days, beside one with a month of them."""


# Readers beside runs


def readers(
    directory: Path, runs: int, reads_of_a_run: int = READS_OF_A_RUN, step: int = HALF_HOUR
) -> Result:
    """Questions, SQL, frames and pages beside runs that close hours and days: no error, no row twice or missing.

    Each answer has the runs that were there when it was asked, each once: 1, 2, 3 ... without a gap.
    """
    result = Result("reads beside runs and merges")
    lab, is_over = HistoryLab(directory), threading.Event()
    run = reading("node1", [busy_gpu()])
    lab.add(START, run)
    (directory / "config.ini").write_text(f"[common]\nhosts = 'node1'\n[paths]\ndata = '{directory}'\n")
    rows, sql = partial(_rows, step=step), partial(_sql, step=step)
    kinds = ([*[rows] * 7, sql, _gpu_hours], [*[rows] * 7, _page])
    threads = [threading.Thread(target=_loop, args=(read, directory, result, is_over)) for read in kinds]
    for thread in threads:
        thread.start()
    try:
        for number in range(1, runs):
            lab.add(START + number * step, run)
            while result.tried < number * reads_of_a_run:
                time.sleep(0.01)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    result.note("; ".join(lab.lines[:3]) or None)
    closed = [day for day in read_listing(lab.config.history_path).days.values() if day.whole]
    result.note(None if closed or runs * step < 3 * DAY else "no day was closed")
    return result


def _loop(reads: list[Read], directory: Path, result: Result, is_over: threading.Event) -> None:
    while not is_over.is_set():
        for read in reads:
            try:
                result.note(read(directory))
            except Exception as error:
                result.note(f"{getattr(read, 'func', read).__name__}: {error!r}")


def _sql(directory: Path, step: int) -> str | None:
    question = "SELECT epoch(fetched_at)::BIGINT AS t FROM readings ORDER BY t"
    found = frames.sql(question, config=directory / "config.ini")
    return _gaps([int(t) for t in found["t"]], step)


def _gpu_hours(directory: Path) -> str | None:
    found = frames.gpu_hours(config=directory / "config.ini")
    return None if list(found["user"]) in ([], ["alice"]) else "more than one user"


def _rows(directory: Path, step: int) -> str | None:
    lab = HistoryLab(directory)
    found = lab.rows("SELECT epoch(run_at)::BIGINT FROM rows ORDER BY ALL")
    return "; ".join(lab.lines) or _gaps([at for (at,) in found], step)


def _page(directory: Path) -> str | None:
    lab = HistoryLab(directory)
    page = render(lab.config, moment(START + DAY))
    return None if page.read_text().rstrip().endswith("</html>") else "half a page"


def _gaps(times: list[int], step: int) -> str | None:
    if times and times == [START + n * step for n in range(len(times))]:
        return None
    return f"{len(times)} runs, {len(set(times))} different ones, {times[-3:]}"


# Two collectors


def collectors(directory: Path, runs: int) -> Result:
    """Two that share a folder by mistake, at the same time: each run of both is there once, no time counts twice."""
    result = Result("two collectors in one folder")
    words = [sys.executable, "-m", "tests.torture.history", str(directory), str(runs)]
    both = [subprocess.Popen([*words, str(offset)], stderr=subprocess.PIPE, text=True) for offset in (0, 100)]
    told = [process.communicate()[1].strip() for process in both]
    result.note("; ".join(filter(None, told)) or None)
    lab = HistoryLab(directory)
    times = [at for (at,) in lab.rows("SELECT epoch(fetched_at)::BIGINT FROM rows ORDER BY ALL")]
    result.note(None if len(times) == len(set(times)) else "a reading is there twice")
    busy = sum(use.busy_s for use in lab.users(START, START + 90 * DAY))
    result.note(None if busy <= times[-1] - START + 2 * HOUR else f"{busy} s in {times[-1] - START} s")
    result.note("; ".join(lab.lines) or None)
    return result


def _collect(data: Path, runs: int, offset: int) -> str:
    """A run that comes after a later one of the other is not added, as when a clock is put back."""
    lab = HistoryLab(data)
    for number in range(runs):
        lab.add(START + number * 300 + offset, reading("node1", [busy_gpu()]))
    return "; ".join(lab.lines)


# The conversion


HOSTS = ("a1", "a2", "b1", "c1", "door")
NAMING = OldNames({"a1": "vision", "a2": "vision", "b1": "language"}, short_model)
CONVERTING = """
import sys
from pathlib import Path
from tests.torture.history import converting
print("begins", flush=True)
converting(Path(sys.argv[1]), int(sys.argv[2]))
"""


def conversions(directory: Path, times: int) -> Result:
    """kill -9 at so many random moments, each twice: then it ends as if nothing had happened."""
    result = Result("kill -9 of the conversion")
    directory.mkdir(exist_ok=True)
    database = old_history.make_database(directory / "history.db")
    now = int(old_history.ask(database, "SELECT max(at) FROM runs")[0][0])
    whole = directory / "whole"
    expected = _converted(database, whole, now)
    started = time.monotonic()
    _killed_after(database, directory / "usual", now, 600)
    usual, dice = time.monotonic() - started, random.Random(7)
    for number in range(times):
        data = directory / "data"
        shutil.rmtree(data, ignore_errors=True)
        moments = [dice.uniform(0, usual) for _ in range(2)]
        for after in moments:
            _killed_after(database, data, now, after)
        found = _converted(database, data, now)
        result.note(None if found == expected else f"{number}, killed after {moments}: {found} rows")
    return result


def _killed_after(database: Path, data: Path, now: int, seconds: float) -> None:
    data.mkdir(exist_ok=True)
    if not (data / "history.db").exists() and not kept_path(data / "history.db").exists():
        shutil.copy(database, data / "history.db")
    command = [sys.executable, "-c", CONVERTING, str(data), str(now)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        process.kill()


def _converted(database: Path, data: Path, now: int) -> object:
    data.mkdir(exist_ok=True)
    if not (data / "history.db").exists() and not kept_path(data / "history.db").exists():
        shutil.copy(database, data / "history.db")
    lab = converting(data, now)
    left = [path.name for path in data.glob(".history*")]
    rows = "count(*), sum(seconds), sum(level), sum(gpu_utilization), count(DISTINCT (host, fetched_at, gpu_index, mig_device, pid))"
    return left, lab.rows(f"SELECT {rows} FROM rows"), kept_path(data / "history.db").exists()


def converting(data: Path, now: int) -> HistoryLab:
    lab = HistoryLab(data, *HOSTS, groups=dict(NAMING.groups))
    convert_if_needed(lab.config, moment(now), lab.lines.append, NAMING)
    return lab


# Disks that are full while a day is closed


def full_merges(directory: Path, times: int) -> Result:
    """After so many kB, while hours and a day are closed: nothing is lost, and the next run with room closes them."""
    result = Result("disks that fill up while a day is closed")
    good, place = directory / "good", directory / "place"
    merging.prepare(good)
    used_kb = sum(-(-path.stat().st_size // 4096) * 4 for path in good.rglob("*") if path.is_file()) + 64
    for number in range(times):
        room_kb = 4 + number * 800 // times
        with small_disk(place, used_kb + room_kb):
            shutil.copytree(good, place, dirs_exist_ok=True)
            ended = subprocess.run(merging.command(place), capture_output=True, text=True, check=False)
            told = merging.damage(place)
            if "Traceback" in ended.stderr:
                told = ended.stderr
            subprocess.run(["mount", "-o", "remount,size=64m", place], check=True)
            told = told or merging.after_the_next_run(place)
            result.note(told and f"{room_kb} kB left: {told}")
    return result


# Many days


def years(directory: Path, days: int) -> Result:
    """So many days of files: a run is added, all is counted, nothing is damaged; as ratios of CPU time."""
    result = Result(f"{days} days of files")
    few, many = _days(directory / "few", 30), _days(directory / "many", days)
    for lab in (few, many):
        _one_more(lab, 0)
    result.note("; ".join(many.lines) or None)
    seconds = sum(use.busy_s for use in many.users(0, START + 9 * DAY))
    result.note(None if abs(seconds - days * HOUR) <= DAY else f"{seconds} s in {days} hours")
    result.note(None if not (bad := damaged_files(many.config.history_path)) else f"damaged: {bad[:3]}")
    least = [min(_one_more(lab, n) for n in range(1, 6)) for lab in (few, many)]
    print(f"    a run costs {least[1] / least[0]:.2f} times what it costs with 30 days", flush=True)
    result.note(None if least[1] < MOST_TIMES * least[0] else f"a run costs {least[1] / least[0]:.1f} times")
    return result


def _days(data: Path, days: int) -> HistoryLab:
    """One hour of use a day, up to the day before yesterday."""
    lab = HistoryLab(data, keep=FIVE_YEARS + 30)
    folder, first = lab.config.history_path, START // DAY * DAY - (days + 2) * DAY
    lab.every(first, first + HOUR, reading("node1", [busy_gpu()]))
    lab.add(first + 3 * DAY, reading("node1", [gpu()]))
    source = day_path(folder, first)
    with open_engine(folder) as engine:
        for day in range(1, days):
            moved = ", ".join(f"{name} + INTERVAL {day} DAY AS {name}" for name in ("fetched_at", "run_at"))
            engine.write(
                f"SELECT * REPLACE ({moved}) FROM {parquet([source])}", day_path(folder, first + day * DAY)
            )
    shutil.rmtree(folder / day_path(folder, first + 3 * DAY).stem)
    for name in ("last.parquet", "notes.json"):
        (folder / name).unlink()
    return lab


def _one_more(lab: HistoryLab, number: int) -> float:
    started = time.process_time()
    lab.add(START + number * 300, reading("node1", [gpu()]))
    return time.process_time() - started


if __name__ == "__main__":
    sys.exit(_collect(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])) or None)
