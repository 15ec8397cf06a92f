"""`python -m bench`: all benches. `python -m bench fetch --hosts 1000`: one, with its options.

A bench is a module with `options(parser)`, which adds what can be set, and `run(options)`, which prints.
"""

from __future__ import annotations

import argparse
import signal
import sys

from bench import fetch, growth, history, page, probe, site, targets
from bench.measure import BenchError

BENCHES = {"fetch": fetch, "probe": probe, "history": history, "growth": growth, "page": page, "site": site}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="All benches, or one of them.")
    commands = parser.add_subparsers(dest="bench", metavar="BENCH")
    for name, module in BENCHES.items():
        summary = (module.__doc__ or "").partition("\n")[0]
        module.options(commands.add_parser(name, help=summary, description=summary))
    # So that a bench that is ended puts away its sshd and its files.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    chosen = parser.parse_args().bench
    try:
        for name in [chosen] if chosen else BENCHES:
            BENCHES[name].run(parser.parse_args(None if chosen else [name]))
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    finally:
        targets.print_table()
    return 0


if __name__ == "__main__":
    sys.exit(main())
