"""How much a page tells about people: names, pseudonyms, counts."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gpumon_static.config.settings import BusyConfig
from gpumon_static.errors import GpumonError
from gpumon_static.model import GONE, HostReading
from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.page.view import build_page
from gpumon_static.store.pseudonyms import KEY_FILE, pseudonym, read_key
from gpumon_static.survey.privacy import Tier, apply_tier
from gpumon_static.survey.state import gpu_state
from tests.builders import NOW, busy_gpu, config, failed, gpu, host_config, process, reading, slices

KEY = b"k" * 64
SECRETS = (
    "zebulon",
    "Zebulon Quagmire",
    "quixotic",
    "trainer_of_zebulon",
    "slurm:987654",
    "31337",
    "40423",
    "7919",
    "reserved for",
)

LAB = [
    reading(
        "a",
        [
            busy_gpu(
                processes=(
                    process(
                        31337, user="zebulon", name="/home/zebulon/bin/trainer_of_zebulon", job="slurm:987654"
                    ),
                    process(40423, user="quixotic", name="python3", command_line="python3 quixotic.py"),
                    process(7919, user=None, uid=7919),
                )
            ),
            gpu(1, mig_mode=True, slices=slices(2, 1), processes=(process(31337, user="zebulon"),)),
        ],
        warning="zebulon was here",
    ),
    failed("b", error="Permission denied for quixotic@b"),
]


@pytest.mark.parametrize("tier", [Tier.PSEUDONYMS, Tier.COUNTS])
def test_serial_numbers_are_on_pages_with_names_only(tier: Tier) -> None:
    lab = [reading("a", [gpu(serial="1650000000001")])]
    assert apply_tier(lab, Tier.NAMES, KEY)[0].gpus[0].serial == "1650000000001"
    assert apply_tier(lab, tier, KEY)[0].gpus[0].serial is None


def html_of(tier: str, readings: list[HostReading] = LAB) -> str:
    settings = config(host_config("a", note="reserved for zebulon"), "b")
    settings = replace(
        settings, users={"zebulon": "Zebulon Quagmire"}, site=replace(settings.site, users=tier)
    )
    return render_page(build_page(readings, settings, NOW, key=KEY))


def body(html: str) -> str:
    return re.sub(r"<(style|script)>.*?</\1>", "", html, flags=re.DOTALL)


def test_a_page_with_names_has_all_of_it() -> None:
    text = html_of("names")
    for secret in ("Zebulon Quagmire", "quixotic", "slurm:987654", "31337", "uid 7919", "reserved for"):
        assert secret in text


def test_a_page_with_counts_has_no_user_job_process_or_pid_anywhere() -> None:
    text = html_of("counts")
    assert [secret for secret in SECRETS if secret.lower() in text.lower()] == []
    assert "python" not in body(text)
    assert "3 users" in text
    assert "3 processes of 3 users." in text
    assert 'class="people"' not in text
    assert 'name="me"' not in text
    assert "was here" not in text
    assert "The driver reported a warning." in text


def test_a_page_with_pseudonyms_has_no_name_but_can_be_told_apart() -> None:
    text = html_of("pseudonyms")
    hidden = [secret for secret in SECRETS if secret not in ("31337", "40423", "7919")]
    assert [secret for secret in hidden if secret.lower() in text.lower()] == []
    assert "uid 7919" not in text
    zebulon, quixotic = pseudonym("zebulon", KEY), pseudonym("quixotic", KEY)
    assert zebulon != quixotic
    assert zebulon in text
    assert quixotic in text
    assert "python3" in text


def test_counting_tells_people_apart_and_knows_them_again() -> None:
    [on_tier] = apply_tier(
        [reading("a", [busy_gpu(0), busy_gpu(1, processes=(process(), process(2, user="bob")))])],
        Tier.COUNTS,
        b"",
    )
    assert [[p.user for p in g.processes] for g in on_tier.gpus] == [["1"], ["1", "2"]]


def test_counting_changes_no_state() -> None:
    """Whether a GPU is free goes by the memory of its desktop and by what no process holds."""
    desktop = tuple(process(n, type="G", memory_mib=37.0) for n in range(1, 11))
    cards = [
        gpu(0, memory_used_mib=400.0, memory_total_mib=8192.0, processes=desktop),
        gpu(1, memory_used_mib=700.0, memory_total_mib=8192.0, processes=desktop),
        busy_gpu(2, utilization=100.0, utilization_sticks=True, processes=(process(compute_units=0),)),
        busy_gpu(3, utilization=100.0, utilization_sticks=True, processes=(process(state="T"),)),
        busy_gpu(4, utilization=100.0, utilization_sticks=True, processes=(process(compute_units=9),)),
        gpu(5, memory_used_mib=4000.0, processes=(process(memory_mib=90.0, state=GONE),)),
    ]
    [on_tier] = apply_tier([reading("a", cards)], Tier.COUNTS, b"")
    before, after = ([gpu_state(one, BusyConfig()) for one in some] for some in (cards, on_tier.gpus))
    assert after == before
    assert [round(sum(p.memory_mib or 0 for p in one.processes)) for one in on_tier.gpus[:2]] == [384, 384]
    assert {p.state for p in on_tier.gpus[5].processes} == {GONE}


def test_a_pseudonym_stays_with_the_key_and_changes_with_another() -> None:
    assert re.fullmatch(r"[a-z]+-[a-z]+-\d{3}", pseudonym("alice", KEY))
    assert pseudonym("alice", KEY) == pseudonym("alice", KEY)
    assert pseudonym("alice", KEY) != pseudonym("alice", b"other")
    assert len({pseudonym(f"user{number}", KEY) for number in range(500)}) == 500


def test_the_key_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    first = read_key(tmp_path / "data")
    assert len(first) == 64
    assert read_key(tmp_path / "data") == first
    assert read_key(tmp_path / "other") != first
    assert stat.S_IMODE((tmp_path / "data" / KEY_FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not a key for pseudonyms"),
        (b"short\n", "is not a key for pseudonyms"),
        (bytes(range(64)), "is not a key for pseudonyms"),
        (b"\xff" * 64, "is not a key for pseudonyms"),
        (b"x" * 1_000_000, "is not a key for pseudonyms"),
        (b"abc\n" * 20, "is not a key for pseudonyms"),
        ("directory", "is not a file"),
        ("pipe", "is not a file"),
    ],
)
def test_a_damaged_key_is_an_error_and_neither_used_nor_replaced(
    tmp_path: Path, content: bytes | str, words: str
) -> None:
    path = tmp_path / KEY_FILE
    if content == "directory":
        path.mkdir()
    elif content == "pipe":
        os.mkfifo(path)
    else:
        assert isinstance(content, bytes)
        path.write_bytes(content)
    fix = f"mv {path} {path}.damaged"
    with pytest.raises(GpumonError, match=f"{words}: restore it from a backup.*{fix}"):
        read_key(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [KEY_FILE]
    if isinstance(content, bytes):
        assert path.read_bytes() == content
    # The command that was told.
    subprocess.run(f"mv {path} {path}.damaged", shell=True, check=True)
    assert len(read_key(tmp_path)) == 64


def test_a_labs_own_key_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_text("a sentence that nobody guesses so soon\n")
    assert read_key(tmp_path) == b"a sentence that nobody guesses so soon"
