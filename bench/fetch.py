"""`gpumon-static fetch` beside bare paramiko and the ssh program, against many loopback hosts."""

from __future__ import annotations

import argparse
import os
import sys

from bench import measure
from bench.lab import FETCH, GPUS, Lab, open_lab
from bench.measure import Usage

HEAVY_IMPORTS = "import paramiko, pandas, jinja2"
OURS, BARE, SSH = "gpumon-static fetch", "bare paramiko", "ssh program"
PLAIN = "plain"


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hosts", type=int, default=100, help="how many hosts  [default: %(default)s]")
    parser.add_argument("--workers", type=int, default=64, help="hosts asked at once  [default: %(default)s]")
    parser.add_argument(
        "--rounds", type=int, default=3, help="medians are of so many  [default: %(default)s]"
    )
    parser.add_argument(
        "--known-hosts", type=int, default=10_000, help="hashed entries  [default: %(default)s]"
    )


def run(given: argparse.Namespace) -> None:
    measure.run([FETCH, "--help"])  # so that no round pays for compiling
    with open_lab() as lab:
        print(
            f"fetch: {given.hosts} hosts with {GPUS} GPUs and {lab.xml_kb} kB of XML each,"
            f" {given.workers} workers, {os.cpu_count()} cores, median of {given.rounds}.\n"
            "The sshds run on the same cores, and wall time has their work in it: look at the client's CPU.\n"
        )
        _print_start(lab, given)
        _print_clients(lab, given)
        _print_known_hosts(lab, given)


def _print_start(lab: Lab, given: argparse.Namespace) -> None:
    one = lab.run("one", 1, 1)
    usages = measure.in_turn(
        {
            f"import of {HEAVY_IMPORTS[7:]}": lambda: measure.run([sys.executable, "-c", HEAVY_IMPORTS]),
            "gpumon-static --help": lambda: measure.run([FETCH, "--help"]),
            f"{OURS}, 1 host": one.by_gpumon,
            f"{BARE}, 1 host": one.by_paramiko,
            f"{SSH}, 1 host": one.by_ssh,
        },
        given.rounds,
    )
    _print_table("Start", usages, 1)


def _print_clients(lab: Lab, given: argparse.Namespace) -> None:
    many = lab.run("many", given.hosts, given.workers)
    usages = measure.in_turn({BARE: many.by_paramiko, OURS: many.by_gpumon, SSH: many.by_ssh}, given.rounds)
    _print_table(f"{given.hosts} hosts", usages, given.hosts)


def _print_known_hosts(lab: Lab, given: argparse.Namespace) -> None:
    plain = lab.run("plain", given.hosts, given.workers)
    hashed = lab.run("hashed", given.hosts, given.workers, hashed_entries=given.known_hosts)
    for name, way in ((OURS, "by_gpumon"), (SSH, "by_ssh")):
        usages = measure.in_turn(
            {
                f"{name}, {given.hosts} plain entries": getattr(plain, way),
                f"{name}, {given.known_hosts} hashed": getattr(hashed, way),
            },
            given.rounds,
        )
        _print_table("known_hosts", usages, given.hosts)


def _print_table(title: str, usages: dict[str, Usage], hosts: int) -> None:
    """The first row is what the others are measured by."""
    base = next(iter(usages.values()))
    cpu = "CPU per host" if hosts > 1 else "CPU"
    print(f"{title:42} {cpu:>18} {'wall':>17} {'peak memory':>17}")
    for name, usage in usages.items():
        print(
            f"{name:42} {usage.cpu_s / hosts * 1000:8.1f} ms  x{usage.cpu_s / base.cpu_s:5.2f}"
            f" {usage.wall_s:8.2f} s x{usage.wall_s / base.wall_s:5.2f}"
            f" {usage.peak_mb:7.0f} MB x{usage.peak_mb / base.peak_mb:5.2f}"
        )
    print()
