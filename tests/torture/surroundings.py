"""Disks that fill up or are read-only at every write, and clocks that jump. Needs root for the disks."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpumon_static.store.history.reader import Period, Reader, ask
from tests.torture.lab import Lab, Result, first

PAGE_KB = 4


@contextmanager
def small_disk(place: Path, kilobytes: int) -> Iterator[None]:
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def full_disks(directory: Path, times: int) -> Result:
    """A disk that is full after so many kB, for the data and for the site: exit 1 in a line, or all is written.

    What was there before is there after a failure, byte for byte, and no temporary file is left.
    """
    result = Result("disks that fill up, at every size")
    lab = Lab(directory / "lab")
    lab.goes_on()
    good = directory / "good"
    for place, words in ((lab.csv.parent, ("fetch",)), (lab.site, ("render",))):
        shutil.rmtree(good, ignore_errors=True)
        shutil.copytree(place, good)
        files = [file for file in good.rglob("*") if file.is_file()]
        used_kb = sum(-(-file.stat().st_size // 4096) * PAGE_KB for file in files) + 16
        steps = max(1, used_kb // PAGE_KB // times)
        for more in range(0, used_kb, steps * PAGE_KB):
            with small_disk(place, used_kb + more):
                shutil.copytree(good, place, dirs_exist_ok=True)
                result.note(_on_a_full_disk(lab, words, good, place, more))
    result.note(lab.goes_on())
    return result


def _on_a_full_disk(lab: Lab, words: tuple[str, ...], good: Path, place: Path, more: int) -> str | None:
    code, errors = lab.run(*words)
    told = first(lab.damage, lab.temporary_files)
    if "Traceback" in errors or code not in (0, 1) or (code == 1 and errors.count("\n") > 3):
        told = f"exit {code}: {errors}"
    elif code == 1 and (changed := _changed(good, place)):
        told = f"exit 1, and {changed} changed"
    return told and f"{words[0]} with {more} kB left: {told}"


def _changed(before: Path, after: Path) -> list[str]:
    """Of the history only what it says counts: a run may have been added, or an hour closed."""
    names = {f.name for f in (*before.iterdir(), *after.iterdir())} - {"fetch.lock", "events.json"}
    return sorted(
        name
        for name in names
        if not name.startswith("history")
        and (
            not (after / name).exists()
            or not (before / name).exists()
            or not _same(before / name, after / name)
        )
    )


def _same(one: Path, two: Path) -> bool:
    return one.read_bytes() == two.read_bytes()


def read_only_disks(directory: Path, _times: int) -> Result:
    result = Result("read-only disks")
    lab = Lab(directory / "lab")
    lab.goes_on()
    for place, words in ((lab.csv.parent, ("fetch",)), (lab.site, ("render",))):
        kept = {
            file.name: file.read_bytes() for file in place.iterdir() if not file.name.startswith("history")
        }
        subprocess.run(["mount", "--bind", place, place], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
        try:
            code, errors = lab.run(*words)
        finally:
            subprocess.run(["umount", "-l", place], check=True)
        now = {name: (place / name).read_bytes() for name in kept}
        right = code == 1 and errors.count("\n") == 1 and "ead-only" in errors and now == kept
        result.note(None if right else f"{words[0]}: exit {code}: {errors}")
    result.note(lab.goes_on())
    return result


def clocks(directory: Path, _times: int) -> Result:
    """One run at another time, then the right one again: no hour of the history is lost or invented."""
    result = Result("clocks that jump")
    usual = Lab(directory / "usual")
    for ago in ("-20m", "-15m", "-10m", "-5m"):
        usual.run("fetch", before=("faketime", "-f", ago))
    before = _history(usual.history)
    for number, jump in enumerate(("-2h", "-30d", "-10y", "+2h", "+1d", "+400d")):
        lab = Lab(directory / str(number))
        shutil.copytree(usual.csv.parent, lab.csv.parent)
        code, errors = lab.run("fetch", before=("faketime", "-f", jump))
        if code or "Traceback" in errors:
            result.note(f"{jump}: exit {code}: {errors}")
            continue
        for ago in ("+0m", "+5m", "+10m"):
            lab.run("fetch", before=("faketime", "-f", ago))
        told = _lost(before, _history(lab.history)) or first(lab.damage, lab.leftovers)
        result.note(told and f"{jump}: {told}")
    return result


def _history(path: Path) -> dict[str, int]:
    """Seconds that are counted, by hour."""
    return ask(path, _seconds)


def _seconds(reader: Reader) -> dict[str, int]:
    rows = reader.rows(Period(0, 40_000_000_000))
    query = (
        f"SELECT epoch(fetched_at)::BIGINT // 3600, sum(seconds) FROM ({rows}) WHERE level >= 2 GROUP BY 1"
    )
    return {str(hour): seconds for hour, seconds in reader.engine.rows(query)}


def _lost(before: dict[str, int], after: dict[str, int]) -> str | None:
    lost = {hour: seconds for hour, seconds in before.items() if after.get(hour, 0) < seconds}
    if lost:
        return f"lost: {lost}"
    most = sum(before.values()) + 3 * 3600
    return f"invented: {sum(after.values())} s" if sum(after.values()) > most else None
