"""config.ini: what works, and what the user is told when it does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon_static.config import file as config_file
from gpumon_static.config import hostlist, settings, syntax
from gpumon_static.errors import ConfigError


def load(tmp_path: Path, text: str, *, need_keys: bool = False) -> settings.Config:
    path = tmp_path / "config.ini"
    path.write_text(text)
    return config_file.load(path, need_keys=need_keys)


def problems(tmp_path: Path, text: str, *, need_keys: bool = False) -> list[str]:
    with pytest.raises(ConfigError) as error:
        load(tmp_path, text, need_keys=need_keys)
    return error.value.problems


def test_a_web_gpu_monitor_file_works_unchanged(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        "[common]\n"
        "user = yourusername\n"
        "hosts = host1.domain.tld,host2.domain.tld\n"
        "key_filename=path_to_key\n",
    )
    assert [h.name for h in loaded.hosts] == ["host1.domain.tld", "host2.domain.tld"]
    assert {h.user for h in loaded.hosts} == {"yourusername"}
    assert {h.key_filename for h in loaded.hosts} == {tmp_path / "path_to_key"}


def test_old_files_may_have_comments_colons_and_empty_values(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        "; our machines\n[common]\nuser: ada  # me\nhosts = 10.0.0.1, 10.0.0.2 ; two\nkey_filename =\n"
        "[site]\ntitle = Vision Lab's GPUs\nrefresh = 30\n",
    )
    assert [h.name for h in loaded.hosts] == ["10.0.0.1", "10.0.0.2"]
    assert loaded.hosts[0].user == "ada"
    assert loaded.hosts[0].key_filename is None
    assert loaded.site.title == "Vision Lab's GPUs"
    assert loaded.site.refresh == 30


def test_hosts_in_every_form(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        "[common]\nuser = 'me'\n"
        "hosts = ['gpu[08-10].lab', 'alice@node9:2222', '[::1]:2022', 'fe80::1', 'node[1,3]:99', 'localhost']\n",
    )
    assert [(h.name, h.user, h.port) for h in loaded.hosts] == [
        ("gpu08.lab", "me", None),
        ("gpu09.lab", "me", None),
        ("gpu10.lab", "me", None),
        ("node9", "alice", 2222),
        ("::1", "me", 2022),
        ("fe80::1", "me", None),
        ("node1", "me", 99),
        ("node3", "me", 99),
        ("localhost", "me", None),
    ]


def test_one_text_with_commas_may_hold_node_sets(tmp_path: Path) -> None:
    loaded = load(tmp_path, '[common]\nhosts = "a, gpu[1,3-4] ,b"\n')
    assert [h.name for h in loaded.hosts] == ["a", "gpu1", "gpu3", "gpu4", "b"]


def test_plain_localhost_is_read_without_ssh_and_one_with_a_port_is_not(tmp_path: Path) -> None:
    assert load(tmp_path, "[common]\nhosts = ['localhost']\n").hosts[0].transport == "local"
    assert load(tmp_path, "[common]\nhosts = ['localhost:2222']\n").hosts[0].transport == "paramiko"
    assert load(tmp_path, "[common]\nhosts = ['me@localhost']\n").hosts[0].transport == "paramiko"


def test_what_differs_for_one_host(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        "[common]\nhosts = ['a.lab', 'b', 'n[1-2]']\nuser = 'u'\nport = 22\n"
        "[fetch]\nconnect_timeout = 3\n"
        "[hosts.a.lab]\nport = 2222\ngroup = 'vision'\nnote = 'x'\ngpus = 8\naddress = '10.0.0.1'\n"
        "[hosts.'n[1-2]']\nconnect_timeout = 1.5\nkey_filename = 'k'\n",
    )
    a, b, n1, n2 = loaded.hosts
    assert (a.name, a.address, a.port, a.group, a.note, a.gpus) == (
        "a.lab",
        "10.0.0.1",
        2222,
        "vision",
        "x",
        8,
    )
    assert (b.address, b.port, b.connect_timeout, b.group) == ("b", 22, 3.0, None)
    assert (
        (n1.connect_timeout, n1.key_filename)
        == (n2.connect_timeout, n2.key_filename)
        == (1.5, tmp_path / "k")
    )


def test_paths_are_relative_to_the_config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "config.ini").write_text("[common]\nhosts = 'a'\n[paths]\nsite = '/var/www/gpu-monitor'\n")
    monkeypatch.chdir(tmp_path / "elsewhere")
    loaded = config_file.load(Path("../config.ini"))
    assert loaded.csv_path.resolve() == (tmp_path / "data/load_data.csv").resolve()
    assert loaded.page_path == Path("/var/www/gpu-monitor/index.html")


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    told = problems(
        tmp_path,
        "[comon]\n[common]\nhosts = ['a', 'a', 'b']\nusr = 'x'\nkey_filename = 'nokey'\n"
        "[fetch]\nworkers = 'many'\nhost_keys = 'lax'\n[busy]\nmemory = true\n"
        "[hosts.c]\nnote = 1\n[hosts.b]\ngrop = 'x'\n",
        need_keys=True,
    )
    assert told == [
        "[comon]: unknown section; the nearest known one is [common]",
        "common.usr: unknown key; the nearest known one is common.user",
        "fetch.workers: must be a whole number from 1 to 1000, not 'many'",
        "fetch.host_keys: must be 'strict' or 'accept-new', not 'lax'",
        "busy.memory: must be a number from 0 to 100, not True",
        "[hosts.c]: unknown host in common.hosts; the nearest known one is [hosts.b]",
        "hosts.c.note: must be a quoted string, not 1",
        "hosts.b.grop: unknown key; the nearest known one is hosts.b.group",
        "common.hosts: a is listed twice",
        f"key_filename: {tmp_path}/nokey cannot be read: No such file or directory",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[common]\nuser = 'x'\n", "common.hosts: missing"),
        ("[common]\nhosts = ''\n", "common.hosts: missing"),
        ("[common]\nhosts = []\n", "lists no hosts"),
        ("[common]\nhosts = 3\n", "must be a list of host names"),
        ("[common]\nhosts = ['a:0']\n", "port number from 1 to 65535"),
        ("[common]\nhosts = ['a:ssh']\n", "port number from 1 to 65535"),
        ("[common]\nhosts = ['@a']\n", "group '@a' cannot be resolved"),
        ("[common]\nhosts = ['-oProxyCommand=id']\n", "is not a host name"),
        ("[common]\nhosts = ['a b']\n", "is not a host name"),
        ("[common]\nhosts = ['n[1-']\n", "is not a node set"),
        ("[common]\nhosts = ['n[1-99999]']\n", "20000 is the most"),
        ("[common]\nhosts = ['a:1', 'a:2']\n", "a is listed twice, as a:1 and as a:2"),
        ("[common]\nhosts = ['gpu[1-3]', 'gpu2']\n", "gpu2 is listed twice"),
        ("common = 1\n", "common: must be a section"),
        ("hosts = ['a']\n", "the list of hosts is common.hosts"),
    ],
)
def test_wrong_values_are_told_with_their_key(tmp_path: Path, text: str, words: str) -> None:
    assert any(words in problem for problem in problems(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[common]\nhosts = ['a', 'b'\nuser = 'x'\n", "line 3, column 1"),
        ("[common\nhosts = 'a'\n", "line 1, column 8"),
        ("[common]\nhosts = 'a'\nuser = \"x\n", "line 3, column 10"),
        ("[common]\nuser = bare\nhosts = ['a'\n", "line 4, column 1"),
    ],
)
def test_syntax_errors_have_line_and_column(tmp_path: Path, text: str, where: str) -> None:
    (problem,) = problems(tmp_path, text)
    assert problem.startswith(where)


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        config_file.load(tmp_path / "nothing.ini")
    with pytest.raises(ConfigError, match="cannot be read"):
        config_file.load(tmp_path)
    (tmp_path / "x").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        config_file.load(tmp_path / "x")


def test_the_config_file_is_found_by_option_then_environment_then_in_the_usual_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [Path("config.ini"), tmp_path / "xdg/gpumon-static/config.ini", tmp_path / "etc/config.ini"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(config_file, "OF_THE_SYSTEM", places[2])
    monkeypatch.delenv("GPUMON_CONFIG", raising=False)
    with pytest.raises(ConfigError) as nothing:
        config_file.find(None, "; or ask at the desk")
    listed = ", ".join(map(str, places))
    assert str(nothing.value) == (
        f"no config: there is none of {listed}; `gpumon-static init` writes one, -c PATH or $GPUMON_CONFIG"
        " names one; or ask at the desk"
    )
    for place in reversed(places):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("")
        assert config_file.find(None) == place
    named = tmp_path / "gpumon.ini"
    monkeypatch.setenv("GPUMON_CONFIG", str(named))
    assert config_file.find(Path("mine.ini")) == Path("mine.ini")
    with pytest.raises(ConfigError) as gone:
        config_file.find(None, "; or ask at the desk")
    assert str(gone.value) == (
        f"{named}: no such file, and $GPUMON_CONFIG names it: set it to another or unset it, or use -c PATH;"
        " `gpumon-static init` writes one; or ask at the desk"
    )
    named.write_text("")
    assert config_file.find(None) == named


@pytest.mark.parametrize("base", ["", "relative/path"])
def test_without_a_usable_xdg_config_home_it_is_that_of_the_home_directory(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", base)
    assert config_file.usual_places()[1] == tmp_path / ".config/gpumon-static/config.ini"


@given(st.text(alphabet=st.characters(blacklist_categories=["Cc", "Cs"], blacklist_characters="#;\"'[{")))
def test_any_bare_value_comes_through_as_it_was(value: str) -> None:
    value = value.strip()
    if not syntax._is_toml(value) and value.splitlines() == [value]:
        assert syntax.parse(f"[common]\nx = = \nuser = {value}\n")["common"]["user"] == value


@given(st.text())
def test_any_host_text_is_expanded_or_refused(text: str) -> None:
    try:
        entries = hostlist.expand(text)
    except hostlist.BadHost:
        return
    assert all(entry.name and not entry.name.startswith("-") for entry in entries)


def test_disks_command_lines_and_names_of_people(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        "[common]\nhosts = ['a', 'b']\n[fetch]\ndisks = ['/', '/big data']\n"
        "[hosts.b]\ndisks = '/scratch'\ncommand_lines = true\n"
        "[site]\nshow_command_lines = true\nignore_faults = ['pcie-width']\n"
        "[users]\nalice = 'Alice Liddell'\n'LAB\\bob' = 'Bob'\n",
    )
    assert [(h.disks, h.command_lines) for h in loaded.hosts] == [
        (("/", "/big data"), False),
        (("/scratch",), True),
    ]
    assert loaded.site.show_command_lines
    assert loaded.site.ignore_faults == ("pcie-width",)
    assert loaded.users == {"alice": "Alice Liddell", "LAB\\bob": "Bob"}


def test_old_files_may_name_people_and_disks_too(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        "[common]\nhosts = a\n[fetch]\ndisks = /, /data\ncommand_lines = true\n[users]\nada = Ada L.\n",
    )
    assert (loaded.hosts[0].disks, loaded.hosts[0].command_lines) == (("/", "/data"), True)
    assert loaded.users == {"ada": "Ada L."}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[fetch]\ndisks = ['data']", "fetch.disks: must be directories that begin with a slash, not 'data'"),
        ('[fetch]\ndisks = ["/a\\nb"]', "fetch.disks: must be directories that begin with a slash"),
        ("[fetch]\ncommand_lines = 'maybe'", "fetch.command_lines: must be true or false, not 'maybe'"),
        (
            "[site]\nignore_faults = ['ecc']",
            "ecc: unknown rule of health; the nearest known one is ecc-errors",
        ),
        ("[users]\nada = 3", "users.ada: must be a quoted string, not 3"),
        ("users = 3", "users: must be a section"),
    ],
)
def test_what_is_wrong_about_facts_and_people_is_told(tmp_path: Path, text: str, words: str) -> None:
    whole = f"{text}\n[common]\nhosts = 'a'\n"
    assert any(words in problem for problem in problems(tmp_path, whole))


def test_values_that_go_on_in_indented_lines_are_read_as_configparser_reads_them(tmp_path: Path) -> None:
    text = (
        "[common]\n"
        "user = me\n"
        "hosts = node1.lab.example,\n"
        "    node2.lab.example, gpu[1,3],   # the new ones\n"
        "    # node8.lab.example,\n"
        "\tme@node9:2222\n"
        "  port = 22\n"
        "[site]\n"
        "title = Our\n"
        "   lab\n"
        "interval = banana\n"
    )
    wrong = "site.interval: must be a whole number from 1 to 86400, not 'banana'"
    assert problems(tmp_path, text) == [wrong]
    config = load(tmp_path, text.replace("interval = banana", ""))
    names = ["node1.lab.example", "node2.lab.example", "gpu1", "gpu3", "node9"]
    assert [host.name for host in config.hosts] == names
    assert [host.port for host in config.hosts] == [22, 22, 22, 22, 2222]
    assert config.site.title == "Our\nlab"


def test_hosts_one_to_a_line_need_no_commas(tmp_path: Path) -> None:
    config = load(tmp_path, "[common]\nhosts =\n  node1\n  node2\nuser = me\n")
    assert [(host.name, host.user) for host in config.hosts] == [("node1", "me"), ("node2", "me")]


def test_keys_before_the_first_section_are_named_with_the_section_they_belong_to(tmp_path: Path) -> None:
    assert problems(tmp_path, "user = 'x'\nhosts = 'a'\nworkers = 4\nwrong = 1\n")[:3] == [
        "user: is in no section; it belongs below a line [common]",
        "workers: is in no section; it belongs below a line [fetch]",
        "wrong: is in no section",
    ]


def test_the_line_of_a_mistake_after_them_stays_true(tmp_path: Path) -> None:
    (wrong,) = problems(tmp_path, '[common]\nhosts = a,\n  b,\n  c\nuser = "me\n')
    assert wrong.startswith("line 5, column")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "[common]\nhosts = 'gpu[01:08]'\n",
            "'gpu[01:08]': a range has a hyphen here, not Ansible's colon: [01-08]",
        ),
        ("[common]\nhosts = 'a'\n[fetch]\nuser = 'ada'\n", "fetch.user: belongs in [common]"),
        (
            "[common]\nhosts = 'a'\n[paths]\nsite = '$HOME/site'\n",
            "paths.site: '$HOME/site': variables are not replaced",
        ),
        ("[common]\nhosts = 'a'\n[paths]\ndata = 'x'\nsite = 'x'\n", "is also paths.site"),
        ("[common]\nhosts = 'a'\n[paths]\ndata = 'x/data'\nsite = 'x'\n", "is inside paths.site"),
        ("[common]\nhosts = 'a'\n[paths]\nsite = 'data/history/page'\n", "is inside the history"),
        ("[common]\nhosts = 'a'\n[hosts.a]\nnvidia_smi = 'smi'\n", "must be a path that begins with a slash"),
    ],
)
def test_what_others_write_is_named(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "config.ini").write_text(text)
    with pytest.raises(ConfigError) as error:
        config_file.load(tmp_path / "config.ini")
    assert told in str(error.value)
