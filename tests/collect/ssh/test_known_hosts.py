"""known_hosts as ssh-keygen and ssh-keyscan write it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gpumon_static.collect.ssh.known_hosts import Entry, KnownHosts, Verdict

KEY, OTHER = "AAAAkey", "AAAAother"
ED, RSA = "ssh-ed25519", "ssh-rsa"


def known(tmp_path: Path, text: str) -> KnownHosts:
    path = tmp_path / "known_hosts"
    path.write_text(text)
    return KnownHosts.load(path)


@pytest.mark.parametrize(
    ("line", "name", "port", "verdict"),
    [
        (f"node1 {ED} {KEY}", "node1", 22, Verdict.KNOWN),
        (f"node1 {ED} {KEY}", "NODE1", 22, Verdict.KNOWN),
        (f"NODE1,10.0.0.1 {ED} {KEY} a comment", "10.0.0.1", 22, Verdict.KNOWN),
        (f"[node1]:2222 {ED} {KEY}", "node1", 2222, Verdict.KNOWN),
        (f"[node1]:2222 {ED} {KEY}", "node1", 22, Verdict.UNKNOWN),
        (f"node1 {ED} {KEY}", "node1", 2222, Verdict.KNOWN),
        (f"node1 {ED} {OTHER}", "node1", 2222, Verdict.UNKNOWN),
        (f"node1 {ED} {OTHER}", "node1", 22, Verdict.CHANGED),
        (f"node1 {RSA} {OTHER}", "node1", 22, Verdict.OTHER_TYPE),
        (f"*.lab,!old.lab {ED} {KEY}", "new.lab", 22, Verdict.KNOWN),
        (f"*.lab,!old.lab {ED} {KEY}", "old.lab", 22, Verdict.UNKNOWN),
        (f"node? {ED} {KEY}", "node1", 22, Verdict.KNOWN),
        (f"[node?]:2222 {ED} {KEY}", "node1", 2222, Verdict.KNOWN),
        (f"@revoked * {ED} {KEY}\nnode1 {ED} {KEY}", "node1", 22, Verdict.REVOKED),
        (f"@revoked * {ED} {OTHER}\nnode1 {ED} {KEY}", "node1", 22, Verdict.KNOWN),
        (f"@cert-authority *.lab {ED} {OTHER}", "a.lab", 22, Verdict.AUTHORITY_ONLY),
        (f"@cert-authority *.lab {ED} {KEY}", "a.lab", 22, Verdict.AUTHORITY_ONLY),
        (f"# node1 {ED} {KEY}", "node1", 22, Verdict.UNKNOWN),
        ("garbage\n\n|1|x node1\n|1|*|* a b\n@x\n", "node1", 22, Verdict.UNKNOWN),
        (f"::1 {ED} {KEY}", "::1", 22, Verdict.KNOWN),
    ],
)
def test_verdict(tmp_path: Path, line: str, name: str, port: int, verdict: Verdict) -> None:
    assert known(tmp_path, line + "\n").verdict(name, port, ED, KEY) is verdict


def test_a_plain_name_is_looked_up_also_where_thousands_of_cloned_hosts_have_one_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloned = known(tmp_path, "".join(f"node{number} {ED} {KEY}\n" for number in range(3000)))
    tried: list[str] = []
    monkeypatch.setattr(Entry, "matches", lambda _, name: tried.append(name))
    for number in range(3000):
        assert cloned.verdict(f"node{number}", 22, ED, KEY) is Verdict.KNOWN
        assert cloned.verdict(f"node{number}", 22, ED, OTHER) is Verdict.CHANGED
    assert cloned.verdict("node3000", 22, ED, KEY) is Verdict.UNKNOWN
    assert tried == []


def test_names_hashed_by_ssh_keygen_are_found(tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "k"], check=True)
    kind, key = (tmp_path / "k.pub").read_text().split()[:2]
    path = tmp_path / "known_hosts"
    path.write_text(f"node1 {kind} {key}\n[node9]:2222 {kind} {key}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", path], check=True, capture_output=True)
    assert "node" not in path.read_text()
    hashed = KnownHosts.load(path)
    assert hashed.verdict("node1", 22, kind, key) is Verdict.KNOWN
    assert hashed.verdict("node9", 2222, kind, key) is Verdict.KNOWN
    assert hashed.verdict("node2", 22, kind, key) is Verdict.UNKNOWN
    assert hashed.verdict("node1", 22, kind, "AAAAnew") is Verdict.CHANGED


def test_what_is_learned_is_known_to_us_and_to_ssh_keygen(tmp_path: Path) -> None:
    path = tmp_path / "new" / "known_hosts"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "k"], check=True)
    kind, key = (tmp_path / "k.pub").read_text().split()[:2]
    store = KnownHosts.load(path)
    store.learn("node1", 22, kind, key)
    store.learn("node9", 2222, kind, key)
    assert store.verdict("node1", 22, kind, key) is Verdict.KNOWN
    assert KnownHosts.load(path).verdict("node9", 2222, kind, key) is Verdict.KNOWN
    for name in ("node1", "[node9]:2222"):
        subprocess.run(["ssh-keygen", "-F", name, "-f", path], check=True, capture_output=True)
    assert path.stat().st_mode & 0o777 == 0o600


def test_learning_starts_a_new_line_where_the_file_ends_without_one(tmp_path: Path) -> None:
    store = known(tmp_path, f"a {ED} {KEY}")
    store.learn("b", 22, ED, OTHER)
    assert (tmp_path / "known_hosts").read_text() == f"a {ED} {KEY}\nb {ED} {OTHER}\n"


def test_a_file_that_is_not_there_knows_nobody(tmp_path: Path) -> None:
    assert KnownHosts.load(tmp_path / "no").verdict("a", 22, ED, KEY) is Verdict.UNKNOWN
