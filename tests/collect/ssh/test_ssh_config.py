"""~/.ssh/config, put together with config.ini."""

from __future__ import annotations

import getpass
import subprocess
from pathlib import Path

import pytest

from gpumon_static.collect.ssh.client_config import Targets
from gpumon_static.collect.ssh.connect import Endpoint
from gpumon_static.collect.ssh.target import Target
from gpumon_static.config import file as config_file
from gpumon_static.errors import ConfigError, HostError
from tests.command import gpumon, rows
from tests.nvidia_xml import xml
from tests.sshd import GpuHosts

pytestmark = pytest.mark.usefixtures("home")

LAB = """
Host node9
    HostName 10.0.0.9
    Port 2222
    HostKeyAlias gpu-nine
Host node*
    User alice
    IdentityFile ~/.ssh/lab
    IdentityFile %d/.ssh/%h-key
    IdentitiesOnly yes
    UserKnownHostsFile ~/.ssh/lab_hosts ~/.ssh/more_hosts
    ConnectTimeout 33
"""


def target(directory: Path, ssh_config: str, ini: str = "", hosts: str = "'node9'") -> Target:
    (directory / "ssh_config").write_text(ssh_config)
    path = directory / "config.ini"
    path.write_text(
        f"[common]\nhosts = [{hosts}]\n{ini}".replace("[fetch]\n", "[fetch]\nssh_config = 'ssh_config'\n")
    )
    if "[fetch]" not in ini:
        path.write_text(path.read_text() + "[fetch]\nssh_config = 'ssh_config'\n")
    host = config_file.load(path).hosts[0]
    return Targets([directory / "ssh_config"]).of(host)


def test_what_config_ini_leaves_open_is_taken_from_ssh_config(tmp_path: Path, home: Path) -> None:
    found = target(tmp_path, LAB)
    assert (found.name, found.at, found.user) == ("node9", Endpoint("10.0.0.9", 2222), "alice")
    assert found.known_as == Endpoint("gpu-nine", 22)
    assert found.key_files == (home / ".ssh/lab", home / ".ssh/10.0.0.9-key")
    assert found.only_these_keys
    assert found.known_hosts == (home / ".ssh/lab_hosts", home / ".ssh/more_hosts")
    assert found.connect_timeout == 33
    assert found.via is None


def test_what_config_ini_says_wins(tmp_path: Path) -> None:
    ini = "key_filename = 'mine'\n[fetch]\nconnect_timeout = 7\nknown_hosts = 'known'\n[hosts.node9]\naddress = '10.0.0.99'\n"
    found = target(tmp_path, LAB, ini, hosts="'bob@node9:99'")
    assert (found.name, found.at, found.user) == ("node9", Endpoint("10.0.0.99", 99), "bob")
    assert found.key_files == (tmp_path / "mine",)
    assert found.known_hosts == (tmp_path / "known",)
    assert found.connect_timeout == 7


def test_match_sees_the_user_of_config_ini(tmp_path: Path) -> None:
    text = "Match originalhost node9 user bob\n  Port 7\nMatch user alice\n  Port 8\n"
    assert target(tmp_path, text, "user = 'bob'\n").at == Endpoint("node9", 7)
    assert target(tmp_path, text, "user = 'alice'\n").at == Endpoint("node9", 8)
    assert target(tmp_path, text).at == Endpoint("node9", 22)


def test_match_exec(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    host = gpu_hosts.add_xml(xml("matched"))
    config = gpu_hosts.config(tmp_path, host, more="ssh_config = 'ssh_config'\n")
    config.write_text(config.read_text().replace(f"{host}:{gpu_hosts.port}", host))
    (tmp_path / "ssh_config").write_text(
        f'Match exec false\n  Port 1\nMatch exec "test %h = {host}"\n  Port {gpu_hosts.port}\n'
    )
    assert gpumon("fetch", "-c", config).stderr == ""
    assert rows(tmp_path / "data/load_data.csv")[0]["gpu_uuid"] == "GPU-matched"


def test_several_jumps_each_with_its_own_settings(tmp_path: Path) -> None:
    text = (
        "Host node9\n  ProxyJump carol@first:2200,ssh://second,[::1]:2201\n"
        "Host first\n  User not-carol\n  IdentityFile /keys/first\n  ProxyJump before\n"
        "Host second\n  HostName second.lab\n  User dave\n  ProxyJump never-asked\n"
    )
    found = target(tmp_path, text, "user = 'bob'\n")
    assert [jump.login for jump in found.jumps] == [
        f"{getpass.getuser()}@before:22",
        "carol@first:2200",
        "dave@second.lab:22",
        f"{getpass.getuser()}@[::1]:2201",
    ]
    assert found.jumps[1].key_files == (Path("/keys/first"),)
    assert found.user == "bob"


@pytest.mark.parametrize(
    ("text", "command", "via"),
    [
        ("Host *\n  ProxyCommand nc %h %p %r %n 100%%\n", "nc node9 22 bob node9 100%", None),
        ("Host *\n  ProxyCommand nc %h %p\n  ProxyJump jump\n", "nc node9 22", None),
        ("Host node9\n  ProxyJump jump\nHost *\n  ProxyCommand nc %h %p\n", None, "jump"),
        ("Host node9\n  ProxyJump none\nHost *\n  ProxyCommand nc %h %p\n", None, None),
        ("Host node9\n  ProxyCommand none\nHost *\n  ProxyJump jump\n", None, None),
        ("Host *,!node9\n  ProxyJump jump\nHost * !node9\n  ProxyJump jump\n", None, None),
    ],
)
def test_of_proxy_command_and_proxy_jump_the_first_counts(
    tmp_path: Path, text: str, command: str | None, via: str | None
) -> None:
    found = target(tmp_path, text, "user = 'bob'\n")
    assert (found.proxy_command, found.via and found.via.name) == (command, via)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Host *\n  ProxyJump bastion\n", "ProxyJump loops at bastion"),
        ("Host node9\n  ProxyJump a\nHost a\n  ProxyJump node9\n", "loops at node9"),
        ("Host *\n  Port ssh\n", "Port ssh of node9 is not a port number"),
        ("Host node9\n  ProxyJump a@@:x\n", "'a@@:x' is not a jump host"),
    ],
)
def test_what_cannot_be_is_told(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(HostError, match=words):
        target(tmp_path, text)


def test_included_files_count_where_they_are_included(tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d/1").write_text("Host other\n  Port 1\nHost node9\n  Port 9\n")
    (tmp_path / "conf.d/2").write_text("User late\n")
    found = target(tmp_path, "Include conf.d/*\nPort 22\nUser later\nInclude nothing/*\n")
    assert (found.at.port, found.user) == (9, "late")


INCLUDED = "Port 1000\nHost node9\n  User nine\nHost other\n  User other\nMatch all\n  IdentityFile all\n"


@pytest.mark.parametrize("name", ["node9", "other", "node1"])
@pytest.mark.parametrize(
    "around", ["", "Host node*\n", "Host * !node9\n", "Match host other\n", "Match all\n"]
)
def test_a_file_that_is_included_in_a_block_counts_as_ssh_has_it(
    tmp_path: Path, around: str, name: str
) -> None:
    (tmp_path / "deep").write_text("Host nobody\n  HostName nowhere\n")
    (tmp_path / "more").write_text(f"Include {tmp_path}/deep\n{INCLUDED}")
    text = f"{around}  Include {tmp_path}/more\n  HostName inside\nHost *\n  Port 22\n  User last\n"
    found = target(tmp_path, text, hosts=f"'{name}'")
    command = ["ssh", "-G", "-F", str(tmp_path / "ssh_config"), name]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    wanted = dict(line.split(" ", 1) for line in said)
    assert (found.user, found.at) == (wanted["user"], Endpoint(wanted["hostname"], int(wanted["port"])))
    assert ("identityfile all" in said) == (Path("all") in found.key_files)


def test_without_any_ssh_config(tmp_path: Path, home: Path) -> None:
    (home / ".ssh/config").write_text("Host *\n  Port 9\n")
    (tmp_path / "config.ini").write_text("[common]\nhosts = ['node9']\n[fetch]\nssh_config = ''\n")
    host = config_file.load(tmp_path / "config.ini").hosts[0]
    assert host.ssh_config is None
    assert Targets([]).of(host).at == Endpoint("node9", 22)


def test_the_users_own_file_is_the_default_and_may_be_missing(tmp_path: Path, home: Path) -> None:
    (tmp_path / "config.ini").write_text("[common]\nhosts = ['node9']\n")
    host = config_file.load(tmp_path / "config.ini", need_keys=True).hosts[0]
    assert host.ssh_config == home / ".ssh/config"
    assert Targets([home / ".ssh/config"]).of(host).at == Endpoint("node9", 22)


def test_a_file_that_is_named_must_be_there_and_make_sense(tmp_path: Path) -> None:
    config = tmp_path / "config.ini"
    config.write_text("[common]\nhosts = ['node9']\n[fetch]\nssh_config = 'nowhere'\n")
    done = gpumon("fetch", "-c", config)
    assert done.returncode == 2
    assert f"ssh_config: {tmp_path}/nowhere cannot be read: No such file or directory" in done.stderr
    (tmp_path / "nowhere").write_text("Host node9\nnonsense\n")
    done = gpumon("fetch", "-c", config)
    assert (done.returncode, "ssh_config: Unparsable line nonsense" in done.stderr) == (2, True)


@pytest.mark.parametrize("user", ["-oProxyCommand=id", "a;b", "a b", "$(id)", "a`b`"])
def test_users_that_a_shell_would_read_are_refused(tmp_path: Path, user: str) -> None:
    (tmp_path / "config.ini").write_text(f"[common]\nhosts = ['node9']\nuser = '{user}'\n")
    with pytest.raises(ConfigError, match="is not a user name"):
        config_file.load(tmp_path / "config.ini")


def test_the_name_on_the_page_is_that_of_config_ini(gpu_hosts: GpuHosts, home: Path, tmp_path: Path) -> None:
    """All of it at once, from the user's own file, with config.ini naming the host and nothing else."""
    address = gpu_hosts.add_xml(xml("aliased"))
    kind, key = gpu_hosts.host_key.with_suffix(".pub").read_text().split()[:2]
    (home / ".ssh/lab_hosts").write_text(f"the-alias {kind} {key}\n")
    (home / ".ssh/config").write_text(
        f"Host gpu-node\n  HostName {address}\n  Port {gpu_hosts.port}\n  User {gpu_hosts.user}\n"
        f"  IdentityFile {gpu_hosts.key}\n  IdentitiesOnly yes\n"
        "  UserKnownHostsFile ~/.ssh/lab_hosts\n  HostKeyAlias the-alias\n"
    )
    (tmp_path / "config.ini").write_text("[common]\nhosts = ['gpu-node']\n")
    assert gpumon("fetch", cwd=tmp_path).stderr == ""
    (row,) = rows(tmp_path / "data/load_data.csv")
    assert (row["host"], row["gpu_uuid"]) == ("gpu-node", "GPU-aliased")
    # An alias that is not known: the line to add has its key.
    (home / ".ssh/lab_hosts").write_text("")
    refused = gpumon("fetch", cwd=tmp_path)
    assert f"'the-alias {kind} {key}' >> {home}/.ssh/lab_hosts" in refused.stderr


ODD_FILES = {
    "an apostrophe in a comment behind Host": "Host gpu* # the lab's boxes\n  Port 77\n  User alice\n",
    "an apostrophe in a comment behind Match": "Match host gpu* # the lab's\n  Port 77\n  User alice\n",
    "an apostrophe in comments of their own": "# it's\nHost gpu1\n  #'\n  Port 77\n",
    "a comment behind values": "Host gpu1\n  Port 77 # it's\n  User=alice # x\n  HostName 10.0.0.1   # y\n",
    "a hash within a word": "Host gpu1 #x gpu2\n  IdentityFile /a#b\n  User al#ice\n",
    "single quotes": "Host 'gpu1' 'x y'\n  User 'alice'\n  IdentityFile '/a b/c'\n",
    "double quotes": 'Host "gpu1"\n  User="alice"\n  Port "77"\n  IdentityFile "/a b/c"\n',
    "a quote within a word": "Host gpu1\n  IdentityFile /keys/'a b'/c\n",
    "escaped spaces": "Host gpu1\n  IdentityFile /c\\ d\n  User al\\'ice\n",
    "equal signs": "Host=gpu1\n  Port= 77\n  User =alice\n  HostName = 10.0.0.1\n",
    "lines of Windows": "Host gpu1\r\n  Port 77\r\n  User alice\r\n",
    "tabs and spaces at the end": "Host\tgpu1 \t\n\tPort\t77  \n\tUser\t alice  \t\n",
    "letters beyond ASCII": "Host gpü1 gpu1\n  User älice\n  IdentityFile /schlüssel/ß\u2028x\n",
    "no line feed at the end": "Host gpu1\n  Port 77",
    "brackets, which are no pattern": "Host gpu[1]\n  Port 77\nHost gpu?\n  User alice\n",
    "hosts with a comma": "Host gpu1,gpu2\n  Port 77\n",
    "a host that is excluded": "Host !gpu1 gpu*\n  Port 77\nHost gpu1 !gpu2\n  User alice\n",
    "a Match with quotes": 'Match host "gpu1" originalhost "x y,gpu*"\n  Port 77\nMatch all # it\'s\n  User alice\n',
    "a Host without any": "Host # it's\n  Port 77\n",
    "an Include that is not there": "Include nothere 'nor this'  # it's\nHost gpu1\n  Port 77\n",
    "an Include that is a directory": "Include /\nInclude ~nobody-has-this-name/x\nHost gpu1\n  Port 77\n",
}


def said_by_ssh(file: Path, name: str) -> dict[str, list[str]]:
    done = subprocess.run(["ssh", "-G", "-F", str(file), name], capture_output=True, text=True, check=True)
    said: dict[str, list[str]] = {}
    for line in done.stdout.split("\n"):
        key, _, value = line.partition(" ")
        said.setdefault(key, []).append(value)
    return said


@pytest.mark.parametrize("what", ODD_FILES)
def test_an_odd_file_is_read_as_ssh_reads_it(tmp_path: Path, what: str) -> None:
    found = target(tmp_path, ODD_FILES[what], hosts="'gpu1'")
    said = said_by_ssh(tmp_path / "ssh_config", "gpu1")
    assert (found.user, found.at.hostname, str(found.at.port)) == (
        said["user"][0],
        said["hostname"][0],
        said["port"][0],
    )
    if "IdentityFile" in ODD_FILES[what]:
        assert list(map(str, found.key_files)) == said["identityfile"]


def test_a_proxy_command_is_taken_to_the_end_of_its_line_as_ssh_does(tmp_path: Path) -> None:
    text = "Host gpu1\n  ProxyCommand nc '%h' \"%p\" # it's\n"
    found = target(tmp_path, text, hosts="'gpu1'")
    assert found.proxy_command == "nc 'gpu1' \"22\" # it's"
    assert said_by_ssh(tmp_path / "ssh_config", "gpu1")["proxycommand"] == ["nc '%h' \"%p\" # it's"]


def test_known_hosts_files_with_spaces_and_a_comment(tmp_path: Path, home: Path) -> None:
    found = target(tmp_path, 'Host *\n  UserKnownHostsFile ~/a "~/b c" # it\'s\n')
    assert found.known_hosts == (home / "a", home / "b c")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Host node9\n  User al'ice\n", "line 2: a quote is not closed"),
        ('Host "node9\n', "line 1: a quote is not closed"),
        ("Host node9\n  User # me\n", "line 2: User needs a value"),
        ("Match host\n", "Missing parameter to Match 'host' keyword"),
    ],
)
def test_what_ssh_refuses_is_a_config_error_with_the_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "ssh_config").write_text(text)
    assert subprocess.run(["ssh", "-G", "-F", tmp_path / "ssh_config", "x"], capture_output=True).returncode
    (tmp_path / "config.ini").write_text("[common]\nhosts = ['node9']\n[fetch]\nssh_config = 'ssh_config'\n")
    done = gpumon("fetch", "-c", tmp_path / "config.ini")
    assert (done.returncode, words in done.stderr, "unexpected" in done.stderr) == (2, True, False)


def test_an_include_that_cannot_be_read_is_passed_over_and_check_shows_it(
    gpu_hosts: GpuHosts, tmp_path: Path
) -> None:
    host = gpu_hosts.add_xml(xml("included"))
    config = gpu_hosts.config(tmp_path, host, more="ssh_config = 'ssh_config'\n")
    config.write_text(config.read_text().replace(f"{host}:{gpu_hosts.port}", host))
    # Root may read every file; this one opens, and reading it fails for everybody.
    unreadable = "/proc/self/mem"
    (tmp_path / "ssh_config").write_text(f"Include {unreadable}\nHost *\n  Port {gpu_hosts.port}\n")
    done = gpumon("fetch", "-c", config)
    assert (done.returncode, done.stderr) == (0, "")
    assert rows(tmp_path / "data/load_data.csv")[0]["gpu_uuid"] == "GPU-included"
    checked = gpumon("check", "-c", config)
    assert f"Include {unreadable} cannot be read: Input/output error; skipped" in checked.stdout
    assert checked.returncode == 0, checked.stdout
