"""Logging in: key files of every kind, the agent, certificates, passphrases and passwords from commands."""

from __future__ import annotations

import os
import pickle
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gpumon_static.collect.readers import ReaderFactory
from gpumon_static.collect.ssh.client_config import Targets
from gpumon_static.commands.options import now
from gpumon_static.config.file import load
from gpumon_static.errors import HostError
from gpumon_static.model import Status
from tests.command import gpumon, rows
from tests.nvidia_xml import xml
from tests.places import ROOT
from tests.ssh_lab import root_only, sshd
from tests.sshd import GpuHosts, keygen

pytestmark = pytest.mark.usefixtures("home")

SECRET = "correct-horse-battery-staple"


@contextmanager
def authorized(hosts: GpuHosts, *public: Path) -> Iterator[None]:
    """The sshd takes these keys too."""
    file = hosts.directory / "authorized_keys"
    before = file.read_text()
    file.write_text(before + "".join(key.read_text() for key in public))
    try:
        yield
    finally:
        file.write_text(before)


def config_with(hosts: GpuHosts, directory: Path, *addresses: str, common: str = "", fetch: str = "") -> Path:
    """Like `GpuHosts.config`, without its key."""
    config = hosts.config(directory, *addresses, more=fetch)
    own = f"key_filename = '{hosts.key}'\n"
    config.write_text(config.read_text().replace(own, common))
    return config


def one_uuid(directory: Path) -> str:
    (row,) = rows(directory / "data/load_data.csv")
    return row["gpu_uuid"]


def encrypt(key: Path, secret: str = SECRET) -> None:
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", secret, "-f", key], check=True)


def assert_no_secret(directory: Path, *outputs: str, secret: str = SECRET) -> None:
    """Nowhere but in the command of config.ini and where the command has it from."""
    for text in outputs:
        assert secret not in text
    for file in directory.rglob("*"):
        if file.is_file() and file.name not in ("config.ini", "secret"):
            assert secret.encode() not in file.read_bytes(), file


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    sock = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", sock], stdout=subprocess.DEVNULL)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(sock))
    for _ in range(100):
        if sock.exists():
            break
        subprocess.run(["sleep", "0.05"], check=True)
    yield sock
    process.terminate()
    process.wait(120)


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_a_key_file_of_each_kind(gpu_hosts: GpuHosts, tmp_path: Path, kind: str) -> None:
    key = keygen(tmp_path / "key", kind)
    host = gpu_hosts.add_xml(xml(kind))
    config = config_with(gpu_hosts, tmp_path, host, common=f"key_filename = '{key}'\n")
    with authorized(gpu_hosts, key.with_suffix(".pub")):
        assert gpumon("fetch", "-c", config).stderr == ""
    assert one_uuid(tmp_path) == f"GPU-{kind}"


def test_a_default_key_in_the_home_directory(gpu_hosts: GpuHosts, home: Path, tmp_path: Path) -> None:
    key = keygen(home / ".ssh/id_ecdsa", "ecdsa")
    config = config_with(gpu_hosts, tmp_path, gpu_hosts.add_xml(xml("default")))
    with authorized(gpu_hosts, key.with_suffix(".pub")):
        assert gpumon("fetch", "-c", config).stderr == ""
    assert one_uuid(tmp_path) == "GPU-default"


def test_the_agent_signs_for_many_hosts_at_once(gpu_hosts: GpuHosts, tmp_path: Path, agent: Path) -> None:
    key = keygen(tmp_path / "held", "rsa")
    subprocess.run(["ssh-add", "-q", key], check=True)
    key.unlink()
    addresses = [gpu_hosts.add_xml(xml("agent")) for _ in range(24)]
    config = config_with(gpu_hosts, tmp_path, *addresses)
    with authorized(gpu_hosts, key.with_suffix(".pub")):
        assert gpumon("fetch", "-c", config).stderr == ""
    assert {row["status"] for row in rows(tmp_path / "data/load_data.csv")} == {"ok"}


def test_an_encrypted_key_is_used_where_the_agent_holds_it(
    gpu_hosts: GpuHosts, tmp_path: Path, agent: Path
) -> None:
    key = keygen(tmp_path / "key")
    config = config_with(
        gpu_hosts, tmp_path, gpu_hosts.add_xml(xml("held")), common=f"key_filename = '{key}'\n"
    )
    subprocess.run(["ssh-add", "-q", key], check=True)
    encrypt(key)
    with authorized(gpu_hosts, key.with_suffix(".pub")):
        assert gpumon("fetch", "-c", config).stderr == ""
        subprocess.run(["ssh-add", "-q", "-D"], check=True, capture_output=True)
        without = gpumon("fetch", "-c", config)
    assert without.returncode == 2
    assert (
        f"{key} is encrypted: set key_passphrase_command, or give it to the agent: ssh-add {key}"
        in without.stderr
    )


def test_an_agent_that_does_not_answer_is_done_without(
    gpu_hosts: GpuHosts, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    key = keygen(home / ".ssh/id_ed25519")
    config = config_with(gpu_hosts, tmp_path, gpu_hosts.add_xml(xml("mute")))
    with socket.socket(socket.AF_UNIX) as mute, authorized(gpu_hosts, key.with_suffix(".pub")):
        mute.bind(str(tmp_path / "mute"))
        mute.listen()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "mute"))
        assert gpumon("fetch", "-c", config).stderr == ""
    assert one_uuid(tmp_path) == "GPU-mute"


def test_a_certificate_beside_the_key(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    authority, key = keygen(tmp_path / "authority"), keygen(tmp_path / "key")
    sign: list[str | Path] = ["ssh-keygen", "-q", "-s", authority, "-I", "monitor", "-n", gpu_hosts.user]
    host = gpu_hosts.add_xml(xml("certified"))
    with sshd(gpu_hosts, tmp_path / "sshd", f"TrustedUserCAKeys {authority}.pub") as server:
        known = tmp_path / "known_hosts"
        known.write_text(gpu_hosts.known_hosts_line(host).replace(str(gpu_hosts.port), str(server.port)))
        config = config_with(gpu_hosts, tmp_path, f"{host}:{server.port}", common=f"key_filename = '{key}'\n")
        refused = gpumon("fetch", "-c", config)
        assert f"{host}: auth: refused the login" in refused.stderr
        subprocess.run([*sign, "-V", "+1h", f"{key}.pub"], check=True)
        assert gpumon("fetch", "-c", config).stderr == ""
        assert one_uuid(tmp_path) == "GPU-certified"
        # One that has run out does not stand in the key's own way.
        subprocess.run([*sign, "-V", "20200101:20200102", f"{key}.pub"], check=True)
        assert "with its certificate" in gpumon("fetch", "-c", config).stderr
        with authorized(gpu_hosts, key.with_suffix(".pub")):
            assert gpumon("fetch", "-c", config).stderr == ""


@pytest.mark.parametrize("processes", [1, 3])
def test_a_passphrase_command_is_run_once_for_all_hosts(
    gpu_hosts: GpuHosts, tmp_path: Path, processes: int
) -> None:
    key = keygen(tmp_path / "key")
    encrypt(key)
    (tmp_path / "secret").write_text(f"#!/bin/sh\necho ran >> {tmp_path}/count\necho {SECRET}\n")
    (tmp_path / "secret").chmod(0o755)
    addresses = [gpu_hosts.add_xml(xml("unlocked")) for _ in range(6)]
    common = f"key_filename = '{key}'\nkey_passphrase_command = \"'{tmp_path}/secret'\"\n"
    config = config_with(gpu_hosts, tmp_path, *addresses, common=common)
    config.write_text(config.read_text().replace("[fetch]", f"[fetch]\nprocesses = {processes}"))
    with authorized(gpu_hosts, key.with_suffix(".pub")):
        done = gpumon("--debug", "fetch", "-v", "-c", config)
    assert {row["status"] for row in rows(tmp_path / "data/load_data.csv")} == {"ok"}
    assert (tmp_path / "count").read_text() == "ran\n"
    assert_no_secret(tmp_path, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (f"echo not-{SECRET}", "cannot be decrypted with what key_passphrase_command prints"),
        (f"sh -c 'echo {SECRET} >&2; exit 7'", "key_passphrase_command failed with exit status 7"),
        ("true", "key_passphrase_command printed nothing"),
        (f"/no/such/{SECRET}", "key_passphrase_command could not be started: No such file or directory"),
    ],
)
def test_a_passphrase_command_that_is_wrong_is_told_without_the_secret(
    gpu_hosts: GpuHosts, tmp_path: Path, command: str, words: str
) -> None:
    key = keygen(tmp_path / "key")
    encrypt(key)
    host = gpu_hosts.add_xml(xml())
    common = f"key_filename = '{key}'\nkey_passphrase_command = \"{command}\"\n"
    config = config_with(gpu_hosts, tmp_path, host, common=common)
    done = gpumon("--debug", "fetch", "-v", "-c", config)
    check = gpumon("--debug", "check", "-c", config)
    (row,) = rows(tmp_path / "data/load_data.csv")
    assert (row["status"], done.returncode, check.returncode) == ("auth", 0, 3)
    assert words in row["error"]
    assert_no_secret(tmp_path, done.stdout, done.stderr, check.stdout, check.stderr)
    assert SECRET not in repr(load(config))


@root_only
@pytest.mark.parametrize("method", ["password", "keyboard-interactive"])
def test_a_password_command(gpu_hosts: GpuHosts, tmp_path: Path, method: str) -> None:
    name = f"gpumon-pw{os.getpid()}"
    host = gpu_hosts.add_xml(xml("password"))
    rules = f"{'PasswordAuthentication' if method == 'password' else 'KbdInteractiveAuthentication'} yes\n"
    if method != "password":
        rules += "UsePAM yes\n"
    subprocess.run(["useradd", "--no-create-home", "--shell", "/bin/sh", name], check=True)
    try:
        subprocess.run(["chpasswd"], input=f"{name}:{SECRET}", text=True, check=True)
        with sshd(gpu_hosts, tmp_path / "sshd", rules) as server:
            line = gpu_hosts.known_hosts_line(host).replace(str(gpu_hosts.port), str(server.port))
            (tmp_path / "known_hosts").write_text(line)
            (tmp_path / "secret").write_text(f"{SECRET}\nand a note of the password manager\n")
            common = f"password_command = 'cat {tmp_path}/secret'\n"
            config = config_with(gpu_hosts, tmp_path, f"{name}@{host}:{server.port}", common=common)
            done = gpumon("--debug", "fetch", "-v", "-c", config)
            assert one_uuid(tmp_path) == "GPU-password", done.stderr
            (tmp_path / "secret").write_text("wrong\n")
            wrong = gpumon("--debug", "fetch", "-c", config)
            assert f"{host}: auth: refused the login of {name}; the password was tried" in wrong.stderr
            assert_no_secret(tmp_path, done.stdout, done.stderr, wrong.stderr)
    finally:
        subprocess.run(["userdel", name], check=True, capture_output=True)


def test_a_host_that_takes_no_password_says_what_it_takes(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    host = gpu_hosts.add_xml(xml())
    config = config_with(gpu_hosts, tmp_path, host, common=f"password_command = 'echo {SECRET}'\n")
    done = gpumon("fetch", "-c", config)
    assert f"{host}: auth: accepts no password for {gpu_hosts.user}; it offers: publickey" in done.stderr
    assert_no_secret(tmp_path, done.stderr)


def test_a_wrong_command_in_the_config_is_not_shown(tmp_path: Path) -> None:
    config = tmp_path / "config.ini"
    config.write_text(
        f"[common]\nhosts = ['a']\npassword_command = ['{SECRET}']\nkey_passphrase_command = \"'{SECRET}\"\n"
    )
    done = gpumon("fetch", "-c", config)
    assert done.returncode == 2
    assert "common.password_command: must be a quoted command line" in done.stderr
    assert "common.key_passphrase_command: is not a command line: no closing quotation" in done.stderr
    assert SECRET not in done.stderr


def test_a_key_that_may_only_run_the_probe(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    """As deploy/authorized_keys.example has it."""
    installed = tmp_path / "gpumon-probe"
    installed.write_text(gpumon("probe").stdout)
    example = (ROOT / "deploy/authorized_keys.example").read_text()
    (entry,) = [line for line in example.splitlines() if line and not line.startswith("#")]
    key = keygen(tmp_path / "key")
    options = entry.split(" ssh-ed25519 ")[0].replace("/usr/local/bin/gpumon-probe", str(installed))
    (tmp_path / "key.line").write_text(f"{options} {key.with_suffix('.pub').read_text()}")
    host = gpu_hosts.add_xml(xml("restricted"))
    config = config_with(gpu_hosts, tmp_path, host, common=f"key_filename = '{key}'\n")
    with authorized(gpu_hosts, tmp_path / "key.line"):
        assert gpumon("fetch", "-c", config).stderr == ""
        login: list[str | Path] = [
            "ssh",
            "-F",
            "none",
            "-i",
            key,
            "-p",
            str(gpu_hosts.port),
            "-o",
            "BatchMode=yes",
        ]
        login += ["-o", f"UserKnownHostsFile={tmp_path}/known_hosts", f"{gpu_hosts.user}@{host}"]
        told = subprocess.run(
            [*login, "id"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        forward = ["ssh", "-N", "-o", "ExitOnForwardFailure=yes", "-R", "127.0.0.1:0:127.0.0.1:1", *login[1:]]
        forwarded = subprocess.run(forward, capture_output=True, text=True, check=False, timeout=20)
    assert one_uuid(tmp_path) == "GPU-restricted"
    assert "uid=" not in told.stdout
    assert "@@gpumon begin" in told.stdout
    assert forwarded.returncode == 255


def test_no_process_log_or_report_has_a_secret_while_a_run_goes_on(
    gpu_hosts: GpuHosts, tmp_path: Path
) -> None:
    """The host is this machine, and its nvidia-smi lists all processes with their environments."""
    key = keygen(tmp_path / "key")
    private = key.read_text().splitlines()[1]
    # Not that of the other tests, which have it in their arguments and may run at the same time.
    secret = f"{SECRET}-{os.getpid()}"
    encrypt(key, secret)
    (tmp_path / "secret").write_text(f"{secret}\n")
    (tmp_path / "answer.xml").write_text(xml("watched"))
    host = gpu_hosts.add(f"ps axeww -o args >> {tmp_path}/processes; cat {tmp_path}/answer.xml")
    command = f"cat {tmp_path}/secret"
    common = f"key_filename = '{key}'\nkey_passphrase_command = '{command}'\npassword_command = '{command}'\n"
    config = config_with(gpu_hosts, tmp_path, host, common=common)
    with authorized(gpu_hosts, key.with_suffix(".pub")):
        done = [
            gpumon("--debug", *arguments, "-c", config)
            for arguments in (["fetch", "-v"], ["check", "--json"], ["check"], ["show", "--live", "--json"])
        ]
    assert [one.returncode for one in done] == [0, 0, 0, 0]
    assert "gpumon_static" in (tmp_path / "processes").read_text()
    for one in done:
        assert private not in one.stdout + one.stderr
    assert_no_secret(tmp_path, *(one.stdout + one.stderr for one in done), secret=secret)


def test_what_a_run_is_made_of_shows_no_secret_in_a_traceback(tmp_path: Path) -> None:
    """A command may hold the secret itself. The recipe goes to worker processes as a pickle, over a pipe."""
    (tmp_path / "config.ini").write_text(
        f"[common]\nhosts = ['a', 'b']\npassword_command = 'echo {SECRET}'\n"
        f"[hosts.b]\nkey_passphrase_command = 'echo {SECRET}'\n[notify]\ncommand = 'curl -u {SECRET} x'\n"
    )
    config = load(tmp_path / "config.ini")
    recipe = ReaderFactory(config.path, config.hosts, now)
    copied = pickle.loads(pickle.dumps(recipe))
    assert copied == recipe
    targets = [Targets([]).of(replace(host, ssh_config=None)) for host in config.hosts]
    assert all(target.password_command for target in targets)
    for thing in (config, recipe, copied, config.hosts[1], targets, HostError(Status.AUTH, str(targets[0]))):
        assert SECRET not in f"{thing!r} {thing}"
