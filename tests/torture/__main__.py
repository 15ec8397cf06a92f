"""`make torture`: everything, many times; the last lines are the table that the docs show."""

from __future__ import annotations

import argparse
import sys
import time
from datetime import UTC, date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.sshd import GpuHosts
from tests.torture import blows, history, merging, surroundings
from tests.torture.hostile import hostile_hosts
from tests.torture.lab import Result
from tests.torture.web import pages_under_load

KINDS = (
    (blows.kills, 1000),
    (blows.signals, 200),
    (blows.crowds, 20),
    (merging.merges, 200),
    (history.conversions, 200),
    (history.full_merges, 40),
    (history.readers, 1000),
    (history.collectors, 200),
    (history.years, history.FIVE_YEARS),
    (surroundings.full_disks, 40),
    (surroundings.read_only_disks, 1),
    (surroundings.clocks, 1),
    (pages_under_load, 300),
)


def main() -> int:
    arguments = argparse.ArgumentParser(prog="make torture", description=__doc__)
    arguments.add_argument("--share", type=float, default=1.0, help="of all tries  [default: 1]")
    share = arguments.parse_args().share
    results = []
    with TemporaryDirectory(prefix="gpumon-torture-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        for kind, times in KINDS:
            started = time.monotonic()
            (directory / kind.__name__).mkdir()
            results.append(kind(directory / kind.__name__, max(1, round(times * share))))
            _tell(results[-1], time.monotonic() - started)
        (directory / "sshd").mkdir()
        with GpuHosts(directory / "sshd") as hosts:
            started = time.monotonic()
            results.append(hostile_hosts(hosts, directory / "hostile"))
            _tell(results[-1], time.monotonic() - started)
    print(f"\n{table(results, datetime.now(UTC).date())}")
    return 1 if any(result.failures for result in results) else 0


def _tell(result: Result, seconds: float) -> None:
    print(f"{result.name}: {result.survived} of {result.tried} survived, {seconds:.0f} s", flush=True)
    for failure in result.failures[:20]:
        print(f"    {failure[:500]}", flush=True)


def table(results: list[Result], today: date) -> str:
    rows = [f"| {result.name} | {result.tried} | {result.survived} |" for result in results]
    return "\n".join(
        [f"Tried on {today.isoformat()}:", "", "| what | tried | survived |", "|---|---|---|", *rows]
    )


if __name__ == "__main__":
    sys.exit(main())
