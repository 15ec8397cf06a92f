"""`make fuzz`: all cases of all kinds, on all cores. Exits with 1 where one failed, and keeps its input.

With `--minutes` a share of them again and again, with another seed each time, until the time is over.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzz.cases import KINDS, Failure, tried

CHUNK = 250
KEPT = Path("fuzz-failures")


def main() -> int:
    arguments = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    arguments.add_argument("--seed", type=int, default=None)
    arguments.add_argument("--kind", choices=KINDS, action="append")
    arguments.add_argument("--share", type=float, default=1.0, help="of all cases")
    arguments.add_argument("--minutes", type=float, default=0, help="go on with other seeds for so long")
    given = arguments.parse_args()
    end = time.monotonic() + 60 * given.minutes
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    while not (failures := _run_all(given.kind or list(KINDS), seed, given.share)) and time.monotonic() < end:
        seed += 1
    return 1 if failures else 0


def _run_all(kinds: list[str], seed: int, share: float) -> list[Failure]:
    print(f"seed {seed}: `make fuzz SEED={seed}` runs the same cases again", flush=True)
    failures = [found for name in kinds for found in _run(name, seed, round(KINDS[name].whole * share))]
    for failure in failures[:20]:
        KEPT.mkdir(exist_ok=True)
        (KEPT / f"{failure.kind}-{seed}-{failure.case}").write_bytes(failure.content)
        print(f"{failure.kind} {failure.case}: {failure.message}")
    return failures


def _run(name: str, seed: int, count: int) -> list[Failure]:
    chunks = [range(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]
    with ProcessPoolExecutor() as pool:
        found = [
            f for part in pool.map(_chunk, [name] * len(chunks), [seed] * len(chunks), chunks) for f in part
        ]
    print(
        f"{name}: {len(KINDS[name].corpus())} of the corpus, {count:,} cases; failed: {len(found) or 'none'}",
        flush=True,
    )
    return found


def _chunk(name: str, seed: int, numbers: range) -> list[Failure]:
    kind = KINDS[name]
    with TemporaryDirectory(prefix="gpumon-fuzz-") as directory:
        cases = kind.corpus() if numbers.start == 0 else {}
        found = [tried(kind, case, content, Path(directory)) for case, content in cases.items()]
        found += [tried(kind, str(n), kind.case(seed, n), Path(directory)) for n in numbers]
    return [failure for failure in found if failure]


if __name__ == "__main__":
    sys.exit(main())
