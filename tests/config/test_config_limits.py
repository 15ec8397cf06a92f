"""Configs that are out of all bounds: always a config error with the key, in a few lines, at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpumon_static.config import file as config_file
from gpumon_static.config.hostlist import BadHost, expand_nodeset, split_commas
from gpumon_static.errors import ConfigError
from tests.command import gpumon

HOSTS = "[common]\nhosts = ['gpu1']\n"


def refused(tmp_path: Path, text: str) -> ConfigError:
    (tmp_path / "config.ini").write_text(text)
    with pytest.raises(ConfigError) as error:
        config_file.load(tmp_path / "config.ini", need_keys=True)
    assert len(str(error.value)) < 10_000
    return error.value


OUT_OF_BOUNDS = {
    "a number for a path": ("[fetch]\nssh_config = 0\n", "fetch.ssh_config: must be a quoted path, not 0"),
    "a number of 5,000 digits": (f"[fetch]\nworkers = {'9' * 5000}\n", "fetch.workers: line 4: has too many digits"),
    "a hexadecimal one": (f"[busy]\nmemory = 0x{'f' * 5000}\n", "busy.memory: must be a number from 0 to 100, not a very"),
    "500 nested brackets": (f"[fetch]\nworkers = {'[' * 500}\n", "fetch.workers: line 4: is nested too deeply"),
    "500 nested tables": (f"[fetch]\nworkers = {'{a=' * 500}", "fetch.workers: line 4: is nested too deeply"),
    "400 nested brackets": (f"[fetch]\nworkers = {'[' * 399}{']' * 399}\n", "fetch.workers: must be a whole number"),
    "a table 3,000 deep": (f"[{'.'.join('a' * 3000)}]\n", "line 3: is nested too deeply"),
    "a host 900 deep": (f"[hosts.{'.'.join('a' * 900)}]\nport = 1\n", "[hosts.a.a.a."),
    "no number": ("[busy]\nmemory = nan\nutilization = inf\n", "busy.memory: must be a number from 0 to 100, not nan"),
    "true for a number": ("[fetch]\nworkers = true\n", "fetch.workers: must be a whole number from 1 to 1000, not True"),
    "a date": ("[fetch]\ndeadline = 1979-05-27\n", "fetch.deadline: must be a number from 0.1 to 86400, not datetime.date("),
    "a time": ("[site]\ntitle = 07:32:00\n", "site.title: must be a quoted string, not datetime.time("),
    "NUL in a title": ('[site]\ntitle = "a\\u0000b"\n', "site.title: must be a quoted string, not 'a\\x00b'"),
    "NUL in a name": ('[users]\nalice = "a\\u0000b"\n', "users.alice: must be a quoted string, not 'a\\x00b'"),
    "NUL in a command": ('[notify]\ncommand = "a\\u0000b"\n', "notify.command: must be a quoted command line"),
    "NUL in a list": ('[fetch]\ndisks = ["/\\u0000"]\n', "fetch.disks: must be a list of strings"),
    "half a character": ('[site]\ntitle = "\\ud800"\n', "line 4, column 16: Escaped character is not a Unicode scalar"),
    "a length of time without end": (f"[history]\nidle_after = '{'9' * 5000}h'\n", "history.idle_after: must be a length"),
    "a long key": (f"[fetch]\n{'g' * 100_000} = 1\n", "fetch.ggg"),
    "a long section": (f"[{'g' * 100_000}]\n", "[ggg"),
    "a long path": (f"[fetch]\nssh_config = '{'g' * 100_000}'\n", "ssh_config: "),
    "a long login": (f"[users]\n{'g' * 100_000} = 1\n", "users.ggg"),
    "a section of hosts": ("[hosts.'gpu[1-9999999]']\nport = 1\n", "9999999 hosts; 20000 is the most"),
}  # fmt: skip


@pytest.mark.parametrize("what", OUT_OF_BOUNDS)
def test_what_is_out_of_bounds_is_a_config_error_with_its_key(tmp_path: Path, what: str) -> None:
    text, words = OUT_OF_BOUNDS[what]
    assert words in str(refused(tmp_path, HOSTS + text))


@pytest.mark.parametrize("what", ["a number for a path", "a number of 5,000 digits", "500 nested brackets"])
def test_the_exit_status_is_2_and_nothing_is_unexpected(tmp_path: Path, what: str) -> None:
    (tmp_path / "config.ini").write_text(HOSTS + OUT_OF_BOUNDS[what][0])
    for command in ("fetch", "render", "check", "show"):
        done = gpumon(command, cwd=tmp_path)
        assert (done.returncode, "unexpected" in done.stderr) == (2, False), done.stderr
        assert OUT_OF_BOUNDS[what][1] in done.stderr


def test_a_value_that_is_wrong_leaves_its_default_for_the_checks_after_it(tmp_path: Path) -> None:
    error = refused(
        tmp_path, HOSTS + "[fetch]\nssh_config = 0\nknown_hosts = 1\n[site]\npages = 3\nusers = 4\n"
    )
    assert len(error.problems) == 4


TOO_MANY = [
    "gpu[1-9999999]",
    "a[1-9999]b[1-9999]",
    "a[1-99]b[1-99]c[1-99]",
    "gpu[0-99999999/3]",
    "gpu[" + ",".join(f"{n}-{n + 9999}" for n in range(0, 90_000, 10_000)) + "]",
    "a[1-20000],b[1-20000],c[1-20000],d[1-20000],e[1-20000],f[1-20000]",
    "gpu[1-9999999]!gpu[2-9999999]",
    f"gpu[{'9' * 100}-{'9' * 101}]",
]


@pytest.mark.parametrize("nodes", TOO_MANY, ids=range(len(TOO_MANY)))
def test_too_many_hosts_are_refused_before_they_are_expanded(
    nodes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ClusterShell.NodeSet.NodeSet", lambda *_, **__: pytest.fail("it was expanded"))
    with pytest.raises(BadHost, match=r"hosts; 20000 is the most$") as error:
        expand_nodeset(nodes)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    ("nodes", "count"),
    [
        ("gpu[1-20000]", 20_000),
        ("gpu[0001-0100/5]", 20),
        ("a[1-100]b[1-100]", 10_000),
        ("gpu[1-3,7,9-10]", 6),
        ("gpu[1-15000]!gpu[2-15000]", 1),
        ("gpu[1-15000]&gpu[15000-16000]", 1),
    ],
)
def test_what_is_not_too_many_is_expanded(nodes: str, count: int) -> None:
    assert len(expand_nodeset(nodes)) == count


@pytest.mark.parametrize(
    "nodes", ["vision-[1", "gpu[1-9999999]", "a[", "[" * 10_000, "a[" + "0" * 5000 + "1-2]"]
)
def test_a_node_set_that_is_wrong_on_the_command_line_is_a_usage_error(tmp_path: Path, nodes: str) -> None:
    (tmp_path / "config.ini").write_text(HOSTS)
    for arguments in (
        ("fetch", "--only", nodes),
        ("check", nodes),
        ("init", "new", "--hosts", nodes, "--no-check"),
    ):
        done = gpumon(*arguments, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert len(done.stderr) < 1000
    assert not (tmp_path / "data").exists()


def test_hosts_of_the_command_line_that_are_not_there_are_a_bounded_list(tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text(HOSTS)
    done = gpumon("fetch", "--only", "no[1-9999]", cwd=tmp_path)
    assert (done.returncode, len(done.stderr) < 600) == (2, True)
    assert done.stderr.endswith("no1001, no1002, no1003, no1004, no1005, no1006 and 9,989 more\n")


def test_ten_thousand_problems_are_a_bounded_list(tmp_path: Path) -> None:
    error = refused(tmp_path, HOSTS + "[fetch]\n" + "".join(f"k{n} = 1\n" for n in range(10_000)))
    lines = str(error).splitlines()
    assert lines[0].endswith(": 10,000 problems")
    assert lines[-1] == "  and 9,980 more"
    assert (len(lines), len(error.problems)) == (22, 10_000)


def test_looking_for_the_nearest_name_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    def near(_name: str, known: list[str], **_: object) -> list[str]:
        compared.append(len(known))
        return known[:1]

    monkeypatch.setattr("gpumon_static.config.checks.difflib.get_close_matches", near)
    refused(tmp_path, HOSTS + "[site]\nignore_faults = [" + "'x'," * 10_000 + "]\n")
    assert 0 < sum(compared) <= 2000


def test_old_files_with_long_runs_of_spaces_are_read(tmp_path: Path) -> None:
    gap = " " * 200_000
    (tmp_path / "config.ini").write_text(
        f"[common]\nhosts = a,b{gap}# x{gap}y\nuser = {gap}bob{gap};c\n[site]\ntitle = x{gap}y\n"
    )
    config = config_file.load(tmp_path / "config.ini")
    assert [(host.name, host.user) for host in config.hosts] == [("a", "bob"), ("b", "bob")]
    assert config.site.title == f"x{gap}y"


def test_commas_within_brackets_do_not_split() -> None:
    found = split_commas("a, gpu[1,3],b[2]c[4,5] ,,[z,1")
    assert found == ["a", "gpu[1,3]", "b[2]c[4,5]", "[z", "1"]
    assert len(split_commas("a," * 100_000)) == 100_000
