"""`make truth`: a month, and the table of what was checked."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.truth.checks import wrong
from tests.truth.follow import follow
from tests.truth.pipeline import zone
from tests.truth.schedule import CLOCK_CHANGE, DAY, ZONE, build


def main() -> int:
    interval = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    days = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    lab = build(CLOCK_CHANGE - days * 2 // 3 * DAY, days, interval)
    with zone(ZONE), TemporaryDirectory() as folder:
        checks = follow(
            lab,
            Path(folder),
            looks=30,
            questions=5,
            periods=("90m", "24h", "7d", "30d"),
            off=("24h", "7d"),
            progress=lambda line: print(line, file=sys.stderr, flush=True),
        )
    print("\n".join(wrong(checks.findings)), file=sys.stderr)
    print(f"{len(lab.works):,} jobs, {len(checks.reference.runs):,} runs\n")
    print(checks.findings.table())
    return 1 if checks.findings.wrong.total() else 0


if __name__ == "__main__":
    sys.exit(main())
