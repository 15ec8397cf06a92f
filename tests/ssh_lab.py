"""More sshds beside the one of tests/sshd.py: with rules of their own, or where only a bastion reaches them."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.sshd import SSHD, GpuHosts, free_port
from tests.waiting import wait_until

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@dataclass(frozen=True)
class Sshd:
    port: int
    log: Path

    @property
    def logins(self) -> int:
        return self.log.read_text().count("Accepted publickey for")


@contextmanager
def sshd(hosts: GpuHosts, directory: Path, rules: str = "", *, inside: Sequence[str] = ()) -> Iterator[Sshd]:
    """On all of 127.0.0.0/8, with the keys and the answers of `hosts`. Of a setting the first counts: `rules`."""
    found = Sshd(free_port(), directory / "log")
    config = write_config(hosts, directory, f"{rules}\nPort {found.port}\nListenAddress 0.0.0.0\n")
    with found.log.open("w") as log:
        process = subprocess.Popen([*inside, SSHD, "-D", "-e", "-f", str(config)], stderr=log)
    try:
        wait_until(lambda: "Server listening" in found.log.read_text())
        yield found
    finally:
        process.terminate()
        process.wait(120)


def write_config(hosts: GpuHosts, directory: Path, rules: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    config = directory / "sshd_config"
    if "MaxStartups" not in rules:
        rules += "\nMaxStartups 1000"
    config.write_text(
        f"{rules}\nHostKey {hosts.host_key}\nPidFile none\nLogLevel VERBOSE\n"
        f"AuthorizedKeysFile {hosts.directory}/authorized_keys\nStrictModes no\nUsePAM no\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        f"SetEnv PATH={hosts.directory}/bin:/usr/bin:/bin HOME={hosts.directory}\n"
    )
    return config


@contextmanager
def network() -> Iterator[list[str]]:
    """A loopback network of its own; yields the words to put before a command that is to run in it."""
    holder = subprocess.Popen(["unshare", "--net", "sleep", "1000"])
    inside = ["nsenter", "--net", "-t", str(holder.pid)]
    try:
        mine = Path("/proc/self/ns/net").readlink()
        wait_until(lambda: Path(f"/proc/{holder.pid}/ns/net").readlink() != mine)
        subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
        yield inside
    finally:
        holder.kill()
        holder.wait()


@contextmanager
def bastion(hosts: GpuHosts, directory: Path, inside: Sequence[str], rules: str = "") -> Iterator[Sshd]:
    """An sshd with one foot in each network: we take its connections here, and it makes its own over there."""
    config = write_config(hosts, directory, rules)
    children: list[subprocess.Popen[bytes]] = []
    with socket.socket() as listener, (directory / "log").open("w") as log:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)

        def serve() -> None:
            while True:
                try:
                    sock, _ = listener.accept()
                except OSError:
                    return
                with sock:
                    command = [*inside, SSHD, "-i", "-e", "-f", str(config)]
                    children.append(
                        subprocess.Popen(command, stdin=sock.fileno(), stdout=sock.fileno(), stderr=log)
                    )

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield Sshd(listener.getsockname()[1], directory / "log")
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for child in children:
                child.kill()
                child.wait()


@contextmanager
def listener(address: str, *, backlog: int = 64) -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.socket() as sock:
        sock.bind((address, 0))
        sock.listen(backlog)
        yield sock.getsockname()[1]


@contextmanager
def black_hole(address: str) -> Iterator[int]:
    """A port whose queue is full: a packet that opens a connection gets no answer at all."""
    with listener(address, backlog=0) as port, ExitStack() as stack:
        for _ in range(4):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex((address, port))
        time.sleep(0.1)
        yield port
