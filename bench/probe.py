"""The probe on a host with 8 GPUs: its time and CPU there, and its bytes: plain, gzip, zlib in SSH."""

from __future__ import annotations

import argparse
import getpass
import gzip
import os
import socket
import statistics
import subprocess
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import paramiko

from bench.lab import GPUS, Lab, open_lab
from bench.measure import BenchError
from gpumon_static.collect.probe import framing
from tests.builders import host_config

TICKS = os.sysconf("SC_CLK_TCK")
PACKING = framing.stdin(host_config("bench", command_timeout=60.0))
PLAIN = PACKING.replace(b"GPUMON_GZIP=yes", b"GPUMON_GZIP=")


@dataclass(frozen=True)
class Way:
    script: bytes
    command: str = "sh -s"
    compress: bool = False


WAYS = {
    "plain": Way(PLAIN),
    "gzip of the XML (ours)": Way(PACKING),
    "gzip of all": Way(PLAIN, "sh -s | gzip"),
    "zlib@openssh.com": Way(PLAIN, compress=True),
}


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--times", type=int, default=30, help="connections each way  [default: %(default)s]")
    parser.add_argument("--xml", type=Path, help="a real nvidia-smi -q -x instead of the made-up one")


def run(given: argparse.Namespace) -> None:
    with open_lab() as lab:
        if given.xml:
            (lab.home / "smi.xml").write_bytes(given.xml.read_bytes())
        print(f"probe: {GPUS} GPUs, {lab.xml_kb} kB of XML from nvidia-smi (whose own time is not in here)\n")
        _alone(lab, given.times)
        _print({name: _ask(lab, way, given.times) for name, way in WAYS.items()})


def _alone(lab: Lab, times: int) -> None:
    """The script by itself, without SSH. The fewest processes: others on this machine start some too."""
    walls, cpus, forks = [], [], []
    environment = {"PATH": f"{lab.home}/bin:/usr/bin:/bin"}
    for _ in range(times):
        before, children, started = _processes_started(), os.times(), time.monotonic()
        done = subprocess.run(["sh", "-s"], input=PLAIN, stdout=subprocess.PIPE, env=environment, check=True)
        walls.append(time.monotonic() - started)
        after = os.times()
        cpus.append(after[2] + after[3] - children[2] - children[3])
        forks.append(_processes_started() - before)
    size = len(done.stdout)
    print(
        f"the script   {statistics.median(walls) * 1000:.0f} ms, of which 250 ms are a pause between two"
        f" readings of the CPU;\n             {statistics.mean(cpus) * 1000:.0f} ms of CPU,"
        f" {min(forks)} processes,"
        f" {size / 1000:.1f} kB, {len(gzip.compress(done.stdout)) / 1000:.1f} kB if packed\n"
    )


def _processes_started() -> int:
    lines = Path("/proc/stat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("processes "))


@dataclass(frozen=True)
class Cost:
    wire_bytes: float
    client_s: float
    host_s: float
    wall_s: float


class CountingSocket(socket.socket):
    received = 0

    def recv(self, size: int, flags: int = 0) -> bytes:
        data = super().recv(size, flags)
        self.received += len(data)
        return data


def _ask(lab: Lab, way: Way, times: int) -> Cost:
    """All of a connection: the handshake is the same for all ways, the rest is what differs."""
    sshd = _sshd(lab)
    wall, cpu, host = time.monotonic(), time.process_time(), _children_s(sshd)
    received = sum(_once(lab, way) for _ in range(times))
    cpu_s, wall_s = time.process_time() - cpu, time.monotonic() - wall
    time.sleep(1)  # sshd has to notice that the last ones have ended
    return Cost(received / times, cpu_s / times, (_children_s(sshd) - host) / times, wall_s / times)


def _once(lab: Lab, way: Way) -> int:
    sock = CountingSocket(socket.AF_INET, socket.SOCK_STREAM)
    sock.connect(("127.0.0.1", lab.port))
    with closing(paramiko.Transport(sock)) as transport:
        transport.use_compression(way.compress)
        key = paramiko.Ed25519Key.from_private_key_file(str(lab.home / "id_ed25519"))
        transport.connect(username=getpass.getuser(), pkey=key)
        channel = transport.open_session()
        channel.exec_command(way.command)
        channel.sendall(way.script)
        channel.shutdown_write()
        output = channel.makefile("rb").read()
        text = framing.decoded(gzip.decompress(output) if "gzip" in way.command else output)
        if "</nvidia_smi_log>" not in framing.sections(text)["smi"]:
            raise BenchError(f"{way.command}: no whole answer")
    return sock.received


def _sshd(lab: Lab) -> int:
    listing = subprocess.run(
        ["pgrep", "-f", f"{lab.home}/sshd_config"], capture_output=True, text=True, check=True
    )
    return int(listing.stdout.split()[0])


def _children_s(pid: int) -> float:
    """CPU of all that the process has started and that has ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / TICKS


def _print(costs: Mapping[str, Cost]) -> None:
    base = next(iter(costs.values()))
    print(f"{'over SSH, per connection':28} {'bytes':>16} {'client CPU':>18} {'host CPU':>18} {'wall':>10}")
    for name, cost in costs.items():
        print(
            f"{name:28} {cost.wire_bytes / 1000:7.1f} kB x{cost.wire_bytes / base.wire_bytes:5.2f}"
            f" {cost.client_s * 1000:8.1f} ms x{cost.client_s / base.client_s:5.2f}"
            f" {cost.host_s * 1000:8.1f} ms x{cost.host_s / base.host_s:5.2f} {cost.wall_s * 1000:7.0f} ms"
        )
    print()
