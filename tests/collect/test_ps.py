"""Whose a process is: from ps, cgroups and names together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon_static.collect.probe import ps
from gpumon_static.model import GONE, Process

CONTAINER = "3f2a90c3e7d5b1a4" * 4


def line(pid: int, uid: int, user: str, command: str = "python3") -> str:
    return f"{pid:>7} {uid:>5}       01:00 R    {user:<32} {command}\n"


def owner(uid: int, user: str, *, cgroups: str = "", names: str = "", hidden: str | None = None) -> Process:
    sections = {"ps": line(1, 0, "root", "sh") + line(7, uid, user), "cgroups": cgroups, "names": names}
    if hidden is not None:
        sections["hidden"] = hidden
    return ps.table(sections).complete(Process(7))


ADA = "ada:x:1000:1000:Ada:/home/ada:/bin/sh\n"
LOGIN = "7/cgroup:0::/user.slice/user-1000.slice/session-3.scope\n"


@pytest.mark.parametrize(
    ("uid", "user", "cgroups", "names", "expected"),
    [
        (1001, "bob", "", "", ("bob", 1001)),
        (1001, "bob", LOGIN, ADA, ("bob", 1001)),
        (0, "root", LOGIN, ADA, ("ada", 1000)),
        (0, "root", LOGIN, "", ("1000", 1000)),
        (100999, "100999", LOGIN, ADA, ("ada", 1000)),
        (100999, "100999", "", "", ("100999", 100999)),
        (0, "root", "7/cgroup:4:cpu:/slurm/uid_1000/job_5/step_0\n", ADA, ("ada", 1000)),
        (0, "root", f"7/cgroup:0::/docker/{CONTAINER}\n", "", ("root", 0)),
        (0, "root", "7/cgroup:0::/user.slice/user-0.slice/session-1.scope\n", "", ("root", 0)),
        (5, "a-name-that-is-longer-than-ps-h+", "", "a-name-that-is-longer-than-ps-has-room:x:5:5\n",
         ("a-name-that-is-longer-than-ps-has-room", 5)),
        (5, "a-name-that-is-longer-than-ps-h+", "", "", ("a-name-that-is-longer-than-ps-h+", 5)),
        (1002, "1002", "", "LAB\\two words:x:1002:1::/:/bin/sh\n", ("LAB\\two words", 1002)),
    ],
)  # fmt: skip
def test_the_person_behind_a_process(
    uid: int, user: str, cgroups: str, names: str, expected: tuple[str, int]
) -> None:
    found = owner(uid, user, cgroups=cgroups, names=names)
    assert (found.user, found.uid) == expected


def test_the_job_is_told_even_of_a_process_that_ps_does_not_know() -> None:
    table = ps.table(
        {"ps": line(1, 0, "root"), "cgroups": "8/cgroup:0::/system.slice/slurmstepd.scope/job_5\n"}
    )
    found = table.complete(Process(8))
    assert (found.job, found.state) == ("slurm:5", None), "it has a cgroup, so it is there"
    assert table.complete(Process(9)).state == GONE


def test_without_any_ps_nothing_is_gone() -> None:
    assert ps.table({}).complete(Process(7)).state is None


def test_with_hidepid_only_what_is_certain_is_told() -> None:
    nothing_seen = ps.table({"ps": line(1, 0, "root"), "hidden": "all\n"})
    assert nothing_seen.complete(Process(7)) == Process(7)
    owners_seen = ps.table({"ps": line(1, 0, "root"), "hidden": f"7 1000 - - {'ada':<32}\n"})
    assert owners_seen.complete(Process(7)) == Process(7, user="ada", uid=1000)
    assert owners_seen.complete(Process(8)).state == GONE


@pytest.mark.parametrize(
    ("name", "command", "shown"),
    [
        ("Plex", "Plex Transcoder", "Plex Transcoder"),
        ("python", "python", "python"),
        ("python", "pt_main_thread", "python"),
        (None, "python3", "python3"),
    ],
)
def test_a_name_with_a_blank_is_whole_where_the_kernel_says_so(
    name: str | None, command: str, shown: str
) -> None:
    table = ps.table({"ps": line(1, 0, "root", "sh") + line(7, 1000, "ada", command)})
    assert table.complete(Process(7, name=name)).name == shown


def test_a_command_line_stands_behind_the_command_and_is_cut() -> None:
    text = f"7 1000 01:00 R    {'ada':<32} {'Plex Transcoder':<16} python3 train.py --lr 3 {'x' * 300}\n"
    entry = ps.parse(text, with_arguments=True)[7]
    assert entry.command == "Plex Transcoder"
    assert (entry.command_line or "").startswith("python3 train.py --lr 3 xxx")
    assert len(entry.command_line or "") == 200


@given(st.dictionaries(st.sampled_from(["ps", "hidden", "names", "cgroups", "with-arguments"]), st.text()))
def test_any_text_leaves_a_process_what_it_is(sections: dict[str, str]) -> None:
    found = ps.table(sections).complete(Process(7, type="C", memory_mib=5.0))
    assert (found.pid, found.type, found.memory_mib) == (7, "C", 5.0)
    for text in (found.user, found.job, found.name, found.state, found.command_line):
        assert text is None or (0 < len(text) <= 200 and text == " ".join(text.split()))


@given(
    st.lists(
        st.sampled_from(
            ["7 1000 ", "01:00", "9-1:2:3", " R ", "ada", " " * 31, "9" * 4300, "\n", "-", "\x00"]
        )
    )
)
def test_any_line_of_ps_gives_numbers_that_can_be_stored(parts: list[str]) -> None:
    for pid, entry in ps.parse("".join(parts)).items():
        assert 0 <= pid < 10**10
        assert entry.uid is None or 0 <= entry.uid < 10**10
        assert entry.elapsed_s is None or 0 <= entry.elapsed_s < 10**15
