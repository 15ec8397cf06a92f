"""`gpumon-static fetch` beside bare paramiko and the ssh program, against many loopback hosts."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from functools import partial

from bench import measure
from bench.lab import FETCH, GPUS, Lab, Run, open_lab
from bench.measure import Usage
from bench.targets import compare

HEAVY_IMPORTS = "import paramiko, pandas, jinja2"
OURS, BARE = "gpumon-static fetch", "bare paramiko"
FEW = 50
"""With fewer hosts the start is most of a run, and what is left without it is noise."""
LOADING = "paramiko, load_host_keys"
SSH, SSH_CURVE = "ssh program", "ssh program, curve25519"
ASYNC, ASYNC_CURVE = "asyncssh", "asyncssh, curve25519"
CLICK, HELP = "import click", "gpumon-static --help"
WAY_OF_OLD = "one by one, a login per PID"
LEAST_HELP_ROUNDS = 9
"""A start is short: of few rounds the median is noise."""
_START_HOSTS = os.cpu_count() or 1
OVER_BARE, OVER_CLICK = 1.4, 1.6
"""Fetch to bare paramiko, the start of both not counted; `--help` to the import of click."""


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hosts", type=int, default=400, help="how many hosts  [default: %(default)s]")
    parser.add_argument("--workers", type=int, default=64, help="hosts asked at once  [default: %(default)s]")
    parser.add_argument(
        "--rounds", type=int, default=3, help="medians are of so many  [default: %(default)s]"
    )
    parser.add_argument(
        "--ancestor-hosts", type=int, default=4, help="asked one by one  [default: %(default)s]"
    )
    parser.add_argument(
        "--known-hosts", type=int, default=10_000, help="hashed entries  [default: %(default)s]"
    )


def run(given: argparse.Namespace) -> None:
    with open_lab() as lab:
        print(
            f"fetch: {given.hosts} hosts with {GPUS} GPUs and {lab.xml_kb} kB of XML each,"
            f" {given.workers} workers, {os.cpu_count()} cores, median of {given.rounds}.\n"
            "The sshds run on the same cores, and wall time has their work in it: look at the client's CPU.\n"
        )
        one = _start(lab, given)
        _help(given)
        _clients(lab, given, one)
        _one_by_one(lab, given)
        _known_hosts(lab, given)


def _start(lab: Lab, given: argparse.Namespace) -> dict[str, Usage]:
    """One host for each process that a run over many hosts has."""
    one = lab.run("one", _START_HOSTS, 1, processes=_START_HOSTS)
    one.by_gpumon()  # so that no round pays for compiling
    one.by_paramiko()
    usages = measure.in_turn(
        {
            HEAVY_IMPORTS: lambda: measure.run([sys.executable, "-c", HEAVY_IMPORTS]),
            BARE: one.by_paramiko,
            OURS: one.by_gpumon,
            ASYNC: one.by_asyncssh,
            ASYNC_CURVE: one.by_asyncssh_curve25519,
            SSH: one.by_ssh,
            SSH_CURVE: one.by_ssh_curve25519,
        },
        given.rounds,
    )
    _print_table(f"Start: {_START_HOSTS} hosts, or none", usages, 1)
    return usages


def _help(given: argparse.Namespace) -> None:
    jobs = {
        CLICK: lambda: measure.run([sys.executable, "-c", CLICK]),
        HELP: lambda: measure.run([FETCH, "--help"]),
    }
    usages = measure.in_turn(jobs, max(LEAST_HELP_ROUNDS, given.rounds))
    _print_table("Nothing but the start", usages, 1)
    compare(f"{HELP} to {CLICK}", usages[HELP].cpu_s / usages[CLICK].cpu_s, OVER_CLICK, "x")


def _clients(lab: Lab, given: argparse.Namespace, one: Mapping[str, Usage]) -> None:
    many = lab.run("many", given.hosts, given.workers)
    jobs = {
        BARE: many.by_paramiko,
        OURS: many.by_gpumon,
        ASYNC: many.by_asyncssh,
        ASYNC_CURVE: many.by_asyncssh_curve25519,
        SSH: many.by_ssh,
        SSH_CURVE: many.by_ssh_curve25519,
    }
    usages = measure.in_turn(jobs, given.rounds)
    _print_table(f"{given.hosts} hosts", usages, given.hosts)
    if given.hosts >= FEW:
        more = given.hosts - _START_HOSTS
        further = {name: (u.cpu_s - one[name].cpu_s) / more for name, u in usages.items()}
        _print_further(further)
        compare(f"fetch to bare paramiko, {given.hosts} hosts", further[OURS] / further[BARE], OVER_BARE, "x")


def _one_by_one(lab: Lab, given: argparse.Namespace) -> None:
    """The ancestor's way takes so long that a few hosts have to do."""
    few = lab.run("few", given.ancestor_hosts, 1)
    usages = measure.in_turn({BARE: few.by_paramiko, WAY_OF_OLD: few.by_ancestor}, 1)
    _print_table(f"{given.ancestor_hosts} hosts", usages, given.ancestor_hosts)


def _known_hosts(lab: Lab, given: argparse.Namespace) -> None:
    # paramiko's load_host_keys takes quadratic time, here for each host: a tenth of the entries tells enough.
    cases = (
        (OURS, Run.by_gpumon, min(given.hosts, 100), given.known_hosts),
        (LOADING, Run.by_paramiko_load, min(given.hosts, 10), given.known_hosts // 10),
    )
    for name, ask, hosts, entries in cases:
        plain = lab.run(f"plain-{name}", hosts, given.workers)
        hashed = lab.run(f"hashed-{name}", hosts, given.workers, hashed_entries=entries)
        jobs = {
            f"{name}, {hosts} plain": partial(ask, plain),
            f"{name}, {entries} hashed": partial(ask, hashed),
        }
        _print_table(f"known_hosts, {hosts} hosts", measure.in_turn(jobs, given.rounds), hosts)


def _print_table(title: str, usages: Mapping[str, Usage], hosts: int) -> None:
    """The first row is what the others are measured by."""
    base = next(iter(usages.values()))
    cpu = "CPU per host" if hosts > 1 else "CPU"
    print(f"{title:34} {cpu:>18} {'wall':>18} {'peak memory':>17}")
    for name, usage in usages.items():
        print(
            f"{name:34} {usage.cpu_s / hosts * 1000:8.1f} ms x{usage.cpu_s / base.cpu_s:5.2f}"
            f" {usage.wall_s:9.2f} s x{usage.wall_s / base.wall_s:5.2f}"
            f" {_peak(usage, base)}"
        )
    print()


def _peak(usage: Usage, base: Usage) -> str:
    """A program that ends at once is never looked at."""
    known = usage.peak_mb and base.peak_mb
    return f"{usage.peak_mb:7.0f} MB x{usage.peak_mb / base.peak_mb:5.2f}" if known else f"{'–':>17}"


def _print_further(cpu_s: Mapping[str, float]) -> None:
    base = next(iter(cpu_s.values()))
    print(f"{'without the start':34} {'CPU per host':>18}")
    for name, seconds in cpu_s.items():
        print(f"{name:34} {seconds * 1000:8.1f} ms x{seconds / base:5.2f}")
    print()
