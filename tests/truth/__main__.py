"""`make truth`: a month, and the table of what was checked; `python -m tests.truth 7` for a week."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.truth.checks import Checks, wrong
from tests.truth.follow import follow
from tests.truth.pipeline import zone
from tests.truth.schedule import CLOCK_CHANGE, DAY, ZONE, build


def main() -> int:
    days = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    interval = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    lab = build(CLOCK_CHANGE - days * 2 // 3 * DAY, days, interval)
    so_far: list[Checks] = []

    def progress(checks: Checks, line: str) -> None:
        so_far[:] = [checks]
        print(line, file=sys.stderr, flush=True)

    # One that is stopped prints the table of what it came to.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with zone(ZONE), TemporaryDirectory() as folder:
        try:
            periods = ("90m", "24h", "7d", "30d")
            follow(
                lab,
                Path(folder),
                looks=days,
                questions=5,
                periods=periods,
                off=("24h", "7d"),
                progress=progress,
            )
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
    (checks,) = so_far
    print("\n".join(wrong(checks.findings)), file=sys.stderr)
    print(f"{days} days, {len(lab.works):,} jobs, {len(checks.reference.runs):,} runs\n")
    print(checks.findings.table())
    return 1 if checks.findings.wrong.total() else 0


if __name__ == "__main__":
    sys.exit(main())
