"""Logins that are refused, and servers that offer something else: what `check` advises for each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpumon_static.check import advice, logins
from gpumon_static.collect.trace import Step
from gpumon_static.errors import HostError, Refusal
from gpumon_static.model import Status
from tests import ssh_lab
from tests.builders import host_config
from tests.command import gpumon
from tests.nvidia_xml import xml
from tests.sshd import GpuHosts

pytestmark = pytest.mark.usefixtures("home")


def failing(gpu_hosts: GpuHosts, tmp_path: Path, rules: str, more: str = "") -> dict[str, Any] | None:
    host = gpu_hosts.add_xml(xml())
    with ssh_lab.sshd(gpu_hosts, tmp_path / "sshd", rules) as server:
        line = gpu_hosts.known_hosts_line(host).replace(f":{gpu_hosts.port} ", f":{server.port} ")
        (tmp_path / "known_hosts").write_text(line)
        config = gpu_hosts.config(tmp_path, f"{host}:{server.port}", more=more)
        report = json.loads(gpumon("check", "--json", "-c", config).stdout)
    return next((f for f in report["hosts"][0]["findings"] if f["mark"] == "failed"), None)


def test_a_host_that_takes_passwords_only_is_not_told_to_take_a_key(
    gpu_hosts: GpuHosts, tmp_path: Path
) -> None:
    found = failing(gpu_hosts, tmp_path, "PubkeyAuthentication no\nPasswordAuthentication yes")
    assert found
    assert found["told"].endswith("it offers: password")
    first, second, *_ = found["next"]
    assert first.startswith("by password:  [hosts.")
    assert "password_command" in first
    assert second == "by key: `PubkeyAuthentication yes` in sshd_config of the host"
    assert not any("authorized_keys" in line for line in found["next"])


def test_an_sshd_with_few_algorithms_is_read_by_the_ssh_program(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    """As tinysshd is, which has this cipher and no other."""
    rules = "Ciphers chacha20-poly1305@openssh.com"
    found = failing(gpu_hosts, tmp_path, rules)
    assert found
    assert found["told"].startswith("no common SSH algorithm with ")
    assert found["next"][0].endswith('transport = "openssh"')
    (tmp_path / "again").mkdir()
    assert failing(gpu_hosts, tmp_path / "again", rules, "transport = 'openssh'\n") is None


def hints(refusal: Refusal) -> list[str]:
    error = HostError(Status.AUTH, "refused", refusal=refusal)
    return list(map(str, advice.after(host_config("n", user="ada"), Step.LOGIN, error)))


def test_each_way_to_log_in_has_its_own_advice() -> None:
    with_key = Refusal("ada", frozenset({"publickey", "password"}), "ssh-ed25519 AAAA", Path("/k"))
    assert any("ssh-copy-id -i /k.pub ada@n" in line for line in hints(with_key))
    no_password = Refusal("ada", frozenset({"publickey"}), "ssh-ed25519 AAAA", Path("/k"))
    assert not any("ssh-copy-id" in line for line in hints(no_password))
    asks = hints(Refusal("ada", frozenset({"keyboard-interactive"}), "ssh-ed25519 AAAA"))
    assert asks[0].startswith("by password, if it asks for nothing but the password:")
    kerberos = hints(Refusal("ada", frozenset({"gssapi-with-mic"}), "ssh-ed25519 AAAA"))
    assert kerberos[0].startswith("by Kerberos:")
    certified = hints(Refusal("ada", frozenset(), "ssh-ed25519 AAAA", Path("/k"), has_certificate=True))
    assert "ssh-keygen -L -f /k-cert.pub" in certified[0]
    # Not every name is one that a shell finds the home of.
    odd = hints(Refusal("DOM\\ada", frozenset(), "ssh-ed25519 AAAA", Path("/k")))
    assert not any("authorized_keys" in line for line in odd)
    for one in (with_key, no_password):
        assert str(logins.JOURNAL) in hints(one)
