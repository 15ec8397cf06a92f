"""One GB: what the vendor sells. The cards of captures, in Python and in the page's script alike."""

from __future__ import annotations

import json
import subprocess

import pytest

from gpumon_static.publish.exports.gpus_json import document
from gpumon_static.publish.page.words import memory_of
from gpumon_static.survey.offers import Wanted, offers
from gpumon_static.survey.survey import build_survey
from gpumon_static.terminal.amounts import parse_memory
from gpumon_static.text import gigabytes, has_free_gb, sold_gb
from tests.builders import NOW, config, gpu, reading
from tests.places import ROOT

CARDS = {
    "GeForce GTX 1080 Ti": (11178, 11),
    "GeForce RTX 2080 Ti": (11019, 11),
    "NVIDIA A10": (23028, 24),
    "NVIDIA A40": (46068, 48),
    "NVIDIA A100-SXM4-40GB": (40536, 40),
    "NVIDIA A100-SXM4-80GB": (81920, 80),
    "NVIDIA B200": (183359, 180),
    "NVIDIA GB200": (189471, 186),
    "NVIDIA GB300": (284208, 279),
    "NVIDIA H100 80GB HBM3": (81559, 80),
    "NVIDIA H200": (143771, 141),
    "NVIDIA L4": (23034, 24),
    "NVIDIA L40S": (46068, 48),
    "NVIDIA GeForce RTX 3080": (10240, 10),
    "NVIDIA GeForce RTX 4090": (24564, 24),
    "NVIDIA RTX 6000 Ada": (49140, 48),
    "AMD Instinct MI300X": (196592, 192),
    "Quadro P2000": (5059, 5),
    "TITAN V": (12033, 12),
    "Tesla K20m": (4799, 5),
    "Tesla K80": (11441, 12),
    "Tesla M60": (7618, 8),
    "Tesla P4": (7611, 8),
    "Tesla T4": (15360, 16),
    "Tesla T4 with ECC and MIG of a cloud": (15079, 16),
    "Tesla V100-SXM2-16GB": (16130, 16),
    "Tesla V100-PCIE-32GB": (32480, 32),
    "slice 1g.5gb": (4864, 5),
    "slice 1g.10gb": (9728, 10),
    "slice 3g.40gb": (40192, 40),
    "no size of the market": (70000, 70000 / 1024),
}


@pytest.mark.parametrize(("total", "sold"), CARDS.values(), ids=CARDS)
def test_a_card_has_the_gb_that_it_is_sold_with(total: int, sold: float) -> None:
    assert sold_gb(total) == sold
    assert memory_of(total, total).number == f"{gigabytes(total, total)} / {gigabytes(total, total)}"
    assert gigabytes(total, total) == (f"{sold:.1f}" if sold < 10 else f"{sold:.0f}")


@pytest.mark.parametrize(("total", "sold"), CARDS.values(), ids=CARDS)
def test_who_asks_for_what_is_sold_is_offered_it_and_no_smaller_one(total: int, sold: float) -> None:
    """A driver keeps a little for itself, which is not used by anybody."""
    assert has_free_gb(total - 0.01 * total, total, sold)
    assert not has_free_gb(total, total, sold * 1.05)
    assert not has_free_gb(total / 2, total, sold * 0.6)
    assert not has_free_gb(None, total, 1)


def test_48_gb_are_asked_for_and_offered() -> None:
    there = gpu(name="NVIDIA L40S", memory_total_mib=46068.0, memory_used_mib=4.0)
    lab = document(build_survey([reading("n1", [there])], config("n1"), NOW))
    found = offers(lab, Wanted(1, parse_memory("48G")), NOW)
    assert [offer.host for offer in found] == ["n1"]


def test_page_and_terminal_have_one_rule() -> None:
    asked = [
        [free, total, wanted]
        for total, sold in CARDS.values()
        for free in (total, round(total * 0.985), round(total * 0.97), total // 2)
        for wanted in (sold, sold / 2, 0.5)
    ]
    script = """
      const { load } = require(process.argv[1]);
      const { amounts } = load("amounts");
      const asked = JSON.parse(process.argv[2]);
      const answers = asked.map(([free, total, wanted]) =>
        [amounts.sold(total), amounts.gigabytes(free, total), amounts.hasFree(free, total, wanted)]);
      console.log(JSON.stringify(answers));
    """
    command = ["node", "-e", script, str(ROOT / "tests/node/load.js"), json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    expected = [
        [sold_gb(total), gigabytes(free, total), has_free_gb(free, total, wanted)]
        for free, total, wanted in asked
    ]
    assert json.loads(done.stdout) == expected
