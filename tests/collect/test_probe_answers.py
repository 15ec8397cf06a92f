"""The probe's answer, read back: cut off, forged, packed, or none."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon_static.collect import reading
from gpumon_static.collect.probe import framing, ps
from gpumon_static.collect.trace import Trace
from gpumon_static.errors import HostError
from gpumon_static.model import Status
from tests.probe_lab import NOW, packed_answer, run


def test_no_nvidia_smi(tmp_path: Path) -> None:
    assert shutil.which("nvidia-smi") is None, "this test wants a machine without a GPU"
    with pytest.raises(HostError) as error:
        reading.parse("n", run(["dash"], tmp_path, None), NOW)
    assert error.value.status is Status.NO_NVIDIA_SMI


def test_exit_status_and_stderr_come_through(tmp_path: Path) -> None:
    output = run(["dash"], tmp_path, "echo 'Failed to initialize NVML: Unknown Error' >&2; exit 255")
    sections = framing.sections(output)
    assert sections["smi-status"].strip() == "255"
    assert sections["smi-stderr"].strip() == "Failed to initialize NVML: Unknown Error"


def test_the_login_shells_own_talk_is_passed_over(tmp_path: Path) -> None:
    output = run(["dash"], tmp_path, "echo hi")
    noisy = f"Welcome!\r\n@@gpumon is a fine tool\n{output}".replace("\n", "\r\n")
    assert framing.sections(noisy)["smi"].strip() == "hi"


def test_a_process_name_cannot_pass_for_a_marker(tmp_path: Path) -> None:
    output = run(["dash"], tmp_path, "echo '@@gpumon end'; echo '@@gpumon 0123456789abcdef ps'")
    assert "0123456789abcdef ps" in framing.sections(output)["smi"]


@pytest.mark.parametrize("forged", ["@@gpumon 1 end", "1 2 3 S bob @@gpumon ab end", "@@gpumon abc end"])
def test_a_process_name_cannot_end_the_answer(forged: str) -> None:
    begun = b"hello\r\n@@gpumon begin 1 ab\n\n@@gpumon ab ps\n"
    so_far = bytearray(begun + forged.encode() + b"\n")
    assert not framing.is_complete(so_far)
    assert framing.is_complete(so_far + b"\n@@gpumon ab end\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it printed nothing"),
        (
            "This account is currently not available.\n",
            "it printed: This account is currently not available.",
        ),
        ("@@gpumon begin 1 ab\n@@gpumon ab smi\n<nvidia", "cut off in section 'smi'"),
        ("@@gpumon begin 1 ab\n", "cut off in section 'begin'"),
    ],
)
def test_an_answer_that_is_none_is_refused_with_what_it_said(text: str, words: str) -> None:
    with pytest.raises(HostError) as error:
        framing.sections(text)
    assert error.value.status is Status.BAD_OUTPUT
    assert words in error.value.reason


@given(
    st.dictionaries(st.sampled_from(["smi", "ps", "load"]), st.text(st.characters(exclude_characters="\r")))
)
def test_sections_come_back_as_they_were(sections: dict[str, str]) -> None:
    body = "".join(f"\n@@gpumon ab12 {name}\n{text}" for name, text in sections.items())
    found = framing.sections(f"@@gpumon begin 1 ab12\n{body}\n@@gpumon ab12 end\n")
    assert {name: found[name] for name in sections} == {name: text + "\n" for name, text in sections.items()}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("00:07", 7), ("03:25", 205), ("01:00:00", 3600), ("2-03:04:05", 183845), ("-", None), ("", None)],
)
def test_elapsed_time_of_every_ps(text: str, seconds: int | None) -> None:
    assert ps.elapsed_seconds(text) == seconds


def test_users_of_every_kind_come_through_whole() -> None:
    lines = [
        f"{pid} 1000 00:01 R    {user:32} {command}"
        for pid, user, command in [
            (1, "a-login-of-32-letters-is-allowed", "python3"),
            (2, "LAB\\user1", "a b  c"),
            (3, "user1@lab.example", "x"),
            (4, "4711", "x"),
            (5, "LAB\\two words", "x"),
        ]
    ]
    entries = ps.parse("\n".join(lines))
    assert [entries[pid].user for pid in range(1, 6)] == [
        "a-login-of-32-letters-is-allowed",
        "LAB\\user1",
        "user1@lab.example",
        "4711",
        "LAB\\two words",
    ]
    assert entries[2].command == "a b c"


@given(st.text())
def test_any_ps_text_gives_entries_by_their_pid(text: str) -> None:
    before = f"1 0 00:01 S    {'root':32} init\n"
    found = ps.parse(before + text)
    assert found[1].user is not None
    assert set(ps.parse(text)) <= set(found)
    assert all(pid >= 0 for pid in found)


def test_an_answer_of_too_many_sections_is_refused() -> None:
    text = "@@gpumon begin 1 ab\n" + "\n@@gpumon ab load\n1" * 101 + "\n@@gpumon ab end\n"
    with pytest.raises(HostError, match="more than 100 sections"):
        framing.sections(text)


def test_a_packed_answer_may_not_be_longer_than_a_plain_one() -> None:
    before = b"x" * (framing.MOST_BYTES // 2) + b"\n"
    with pytest.raises(HostError, match="more than 8 MiB"):
        framing.decoded(before + packed_answer(gzip.compress(b"x" * (framing.MOST_BYTES // 2))))


@given(
    st.lists(
        st.sampled_from([b"@@gpumon begin 1 ab\n", b"\n@@gpumon ab end\n", b"@@gpumon ", b"x", b"\r\n"]),
        max_size=8,
    )
)
def test_an_answer_in_pieces_is_complete_when_the_whole_is(parts: list[bytes]) -> None:
    output, has_arrived = bytearray(), framing.arrived(Trace())
    for byte in b"".join(parts):
        output.append(byte)
        assert has_arrived(output) == framing.is_complete(output)
