"""`gpufree`: `free` and `wait` as one file for users without an installation, with the standard library only.

`render` packs this module, and those it imports, into the site (publish/exports/gpufree.py). The rule and the
lines are those of `gpumon-static free`: only the options are read by argparse here.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from gpumon_static import __version__
from gpumon_static.bounds.vendors import VENDORS
from gpumon_static.errors import GpumonError, UsageError
from gpumon_static.survey.offers import Wanted
from gpumon_static.terminal import free
from gpumon_static.terminal.amounts import parse_memory
from gpumon_static.terminal.source import FILE, Source
from gpumon_static.times import age_of, duration, parse_duration, parse_utc, utc_now

MOST_GPUS = 1024
CRITICAL, UNKNOWN = 2, 3


def main(url: str = "", arguments: Sequence[str] | None = None) -> int:
    """`url`: the page that it belongs to. Returns the exit status."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.when and (given.wait or given.form == "plain"):
        parser.error("--when goes with neither --wait nor --plain")
    try:
        if given.age is not None:
            return _check_age(given, url)
        _print(_answer(given, url), sys.stdout)
    except GpumonError as error:
        _say(str(error))
        return error.exit_code
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            # As with `| head`; Python would complain once more when it flushes.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return 141
        _say(f"cannot write what it prints: {error.strerror}")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _check_age(given: argparse.Namespace, url: str) -> int:
    """As Nagios and Icinga want it: a line, and 0, 2 or 3 for OK, CRITICAL and UNKNOWN."""
    try:
        document, now = Source(_address(given.address, url)).read(utc_now())
        fetched = document.get("fetched_at")
        age = age_of(parse_utc(fetched), now, given.age) if fetched else None
    except (GpumonError, ValueError, TypeError, AttributeError) as error:
        _print(f"UNKNOWN: {error}", sys.stdout)
        return UNKNOWN
    is_good = age is not None and not age.is_stale
    words = "no host has been asked yet" if age is None else f"the data is {age.words}"
    if age is not None and not age.is_ahead:
        words = f"the data is {duration(age.seconds)} old"
    _print(
        f"{'OK' if is_good else 'CRITICAL'}: {words}; at most {duration(given.age)} is allowed", sys.stdout
    )
    return 0 if is_good else CRITICAL


def _answer(given: argparse.Namespace, url: str) -> str:
    source = Source(_address(given.address, url))
    wanted = Wanted(given.number, given.memory, given.model, given.vendor, given.host, given.group)
    if given.wait:
        found = free.wait(source, wanted, given.timeout, clock=utc_now, say=_say)
        return free.text(found[: given.most], given.form)
    return free.answer(
        source, wanted, utc_now(), most=given.most, form=given.form, use_old=given.old, when=given.when
    )


def _say(line: str) -> None:
    _print(f"gpufree: {line}", sys.stderr)


def _print(line: str, stream: TextIO | None) -> None:
    """`stream`: None where it is closed."""
    if stream:
        stream.write(f"{line}\n")
        stream.flush()


def _address(named: str | None, url: str) -> str:
    beside = Path(sys.argv[0]).absolute().with_name(FILE)
    address = named or os.environ.get("GPUMON_URL") or url or (str(beside) if beside.exists() else "")
    if not address:
        raise UsageError(
            "this copy does not know its page. Add the address that it was downloaded from:"
            "  --from https://lab.example/gpu-monitor/\n"
            "or once for all:  export GPUMON_URL=https://lab.example/gpu-monitor/"
        )
    return address


def _checked(parse: Callable[[str], float]) -> Callable[[str], float]:
    """For argparse, which prints the reason of an `ArgumentTypeError` only."""

    def check(text: str) -> float:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return check


def _number(most: int) -> Callable[[str], int]:
    def check(text: str) -> int:
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {most}")
        return int(text)

    return check


def _parser() -> argparse.ArgumentParser:
    about = "Where can I run? The best hosts, and the lines to paste."
    memory, period = _checked(parse_memory), _checked(parse_duration)
    parser = argparse.ArgumentParser(prog="gpufree", description=about)
    add = parser.add_argument
    add("-n", "--number", type=_number(MOST_GPUS), default=1, metavar="N", help="GPUs on one host")
    add("--memory", type=memory, default=0.0, metavar="SIZE", help="free on each, such as 40G")
    add("--model", metavar="TEXT", help="GPU name contains, such as A100")
    add("--vendor", choices=list(VENDORS), help="GPUs of this vendor only")
    add("--host", metavar="HOSTS", help="on these only: names with commas, such as gpu01,gpu1*")
    add("--group", help="on hosts of this group only")
    add("--from", dest="address", metavar="URL|PATH", help="the page, its directory or gpus.json")
    add("--most", type=_number(10**9), default=3, metavar="N", help="hosts to print (3)")
    form = parser.add_mutually_exclusive_group()
    for name, help_text in (("plain", "a line per host: HOST DEVICES"), ("json", "print JSON")):
        form.add_argument(f"--{name}", dest="form", action="store_const", const=name, help=help_text)
    add("--old", action="store_true", help="accept stale data")
    add("--when", action="store_true", help="by when at the latest, where Slurm knows")
    add("--wait", action="store_true", help="wait until there is a place")
    add("--timeout", type=period, metavar="TIME", help="with --wait: give up after, such as 8h")
    add(
        "--age",
        type=period,
        metavar="TIME",
        help="is the data older, such as 15m? For Nagios and Icinga: exits with 2",
    )
    add("--version", action="version", version=f"gpufree {__version__}")
    return parser
