"""Health, machine and people on the page."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gpumon_static.collect.reading import parse
from gpumon_static.model import GONE, Disk, Fault, Gpu, Machine
from gpumon_static.model.rules import RULES, Severity
from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.page.records import Card, Page
from gpumon_static.publish.page.view import build_page
from tests.builders import NOW, busy_gpu, config, gpu, host_config, process, reading, slices

ECC = Fault("ecc-errors", "uncorrected: 5 in DRAM")
QUIET = Fault("persistence-off", "persistence mode disabled")


def page_of(*gpus: Gpu, **changes: object) -> Page:
    return build_page([reading("node03", gpus, **changes)], config("node03"), NOW)


def card_of(one: Gpu) -> Card:
    return page_of(one).hosts[0].cards[0]


def test_a_fault_is_on_the_card_in_the_tooltip_and_on_top() -> None:
    page = page_of(gpu(0), gpu(5, faults=(ECC, Fault("remap-failure"), QUIET)))
    healthy, sick = page.hosts[0].cards
    assert (healthy.fault, sick.fault) == ("", "ECC errors +1")
    assert [(e.host, e.text) for e in page.attention] == [
        ("node03", "GPU 5: ECC errors"),
        ("node03", "GPU 5: remap failed"),
    ]
    assert [(row.word, row.is_fault) for row in sick.tooltip.faults] == [
        ("ECC errors", True),
        ("remap failed", True),
        ("persistence off", False),
    ]
    assert sick.tooltip.faults[0].detail == "uncorrected: 5 in DRAM"
    assert "could not be corrected" in sick.tooltip.faults[0].explanation
    html = render_page(page)
    assert html.count('card-fault"><i class="icon i-failed"></i>ECC errors +1') == 1


def test_each_fault_in_health_says_what_to_do() -> None:
    sick = [gpu(n, faults=(Fault(name, "x"),)) for n, name in enumerate(sorted(RULES))]
    readings = [reading("node1", sick), reading("node2", [gpu()], warning="something is odd")]
    page = build_page(readings, config(host_config("node1", gpus=len(sick) + 1), "node2"), NOW)
    rows = page.health.faults if page.health else ()
    assert {row.word for row in rows if not row.gpu} == {
        f"1 of {len(sick) + 1} GPUs missing",
        "something is odd",
    }
    marked = [rule for rule in RULES.values() if rule.severity is Severity.FAULT]
    assert len(rows) == len(marked) + 2
    assert [row.word for row in rows if not row.action] == []
    ecc = next(row for row in rows if row.word.startswith("ECC"))
    assert "reset" in ecc.action
    assert "could not be corrected" in ecc.explanation
    text = render_page(page)
    assert ecc.action in text
    assert ecc.explanation in text


def test_a_lab_without_persistence_mode_is_not_amber() -> None:
    page = page_of(*(gpu(i, faults=(QUIET,)) for i in range(4)))
    assert page.attention == ()
    assert [card.fault for card in page.hosts[0].cards] == [""] * 4


def test_a_sick_gpu_is_not_offered_to_run_on() -> None:
    assert card_of(gpu()).numbers.is_offered
    assert card_of(gpu(faults=(QUIET,))).numbers.is_offered
    assert not card_of(gpu(faults=(ECC,))).numbers.is_offered


def test_a_lost_gpu_is_a_card_of_its_own_and_never_free() -> None:
    lost = Gpu(1, bus_id="0000:5F:00.0", processes_known=False, faults=(Fault("lost", "Unknown Error"),))
    page = page_of(gpu(0), lost, warning="Unable to determine the device handle for GPU1: 0000:5F:00.0")
    card = page.hosts[0].cards[1]
    assert (card.index, card.word, card.fault) == ("1", "unknown", "lost")
    assert [entry.text for entry in page.attention] == ["GPU 1: lost"], "and the warning is not told twice"
    assert page.headline.number == "1"


def test_every_slice_of_a_sick_gpu_shows_it_and_the_top_tells_it_once() -> None:
    page = page_of(gpu(0, mig_mode=True, slices=slices(2), faults=(ECC,)))
    assert [card.fault for card in page.hosts[0].cards] == ["ECC errors", "ECC errors"]
    assert [entry.text for entry in page.attention] == ["GPU 0: ECC errors"]


def test_faults_that_the_config_ignores_are_nowhere() -> None:
    plain = config(host_config("node03", gpus=8))
    ignoring = replace(plain, site=replace(plain.site, ignore_faults=("ecc-errors", "gpus-missing")))
    page = build_page([reading("node03", [gpu(0, faults=(ECC,))])], ignoring, NOW)
    assert page.attention == ()
    assert page.hosts[0].cards[0].tooltip.faults == ()


def test_fewer_gpus_than_expected() -> None:
    page = build_page([reading("node03", [gpu(0)])], config(host_config("node03", gpus=8)), NOW)
    assert [entry.text for entry in page.attention] == ["7 of 8 GPUs missing"]


def test_another_driver_than_the_rest_of_the_group_is_told_quietly() -> None:
    hosts = [host_config(name, group="vision") for name in ("a", "b", "c")] + [host_config("d", group="chem")]
    versions = {"a": "550.90.07", "b": "550.90.07", "c": "535.183.01", "d": "470.256.02"}
    readings = [reading(name, [gpu()], driver_version=version) for name, version in versions.items()]
    page = build_page(readings, config(*hosts), NOW)
    assert [view.software[0].value for view in page.hosts] == [
        "550.90.07",
        "550.90.07",
        "535.183.01 (others: 550.90.07)",
        "470.256.02",
    ]
    assert page.attention == ()


def test_of_two_drivers_as_common_the_newer_one_is_meant() -> None:
    hosts = [host_config(name, group="vision") for name in ("a", "b")]
    readings = [reading("a", [gpu()], driver_version="99.9"), reading("b", [gpu()], driver_version="550.1")]
    page = build_page(readings, config(*hosts), NOW)
    assert [view.software[0].value for view in page.hosts] == ["99.9 (others: 550.1)", "550.1"]


def test_drivers_of_two_vendors_are_not_compared() -> None:
    hosts = [host_config(name, group="vision") for name in ("a", "b", "c")]
    nvidia = [reading(name, [gpu()], driver_version="550.1") for name in ("a", "b")]
    page = build_page(
        [*nvidia, reading("c", [gpu(vendor="amd")], driver_version="6.10.5")], config(*hosts), NOW
    )
    assert page.hosts[2].software[0].value == "6.10.5"
    assert page.health
    assert page.health.drivers == ()


def test_memory_of_processes_that_ended_is_told_with_the_amount() -> None:
    held = gpu(memory_used_mib=41000.0, processes=(process(user=None, state=GONE, memory_mib=40960.0),))
    facts = {fact.label: fact.value for fact in card_of(held).tooltip.facts}
    assert facts["Held by processes that ended"] == "40 GB"
    assert "Held by no process" not in facts


def test_a_slice_says_that_its_utilization_is_not_told_and_with_whom_it_shares() -> None:
    cut = tuple(replace(s, gpu_instance=1) for s in slices(2))
    facts = {f.label: f.value for f in card_of(gpu(mig_mode=True, slices=cut)).tooltip.facts}
    assert facts["Utilization"] == "not reported per slice"
    assert facts["Memory shared with"] == "slice 1"


MACHINE = Machine(
    cpu_count=64,
    load_1m=12.1,
    ram_total_mib=524288.0,
    ram_used_mib=122880.0,
    cpu_utilization=43.2,
    swap_total_mib=8192.0,
    swap_used_mib=2048.0,
    uptime_s=12 * 86400 + 3700,
    disks=(Disk("/", 59799.0, 467850.0, False), Disk("/data", 95.0, 100.0, True), Disk("/nfs")),
)


def test_the_machine_is_in_the_header_of_its_host() -> None:
    view = page_of(gpu(), machine=MACHINE).hosts[0]
    assert [(m.label, str(m.bar.quantity), m.is_full) for m in view.meters] == [
        ("CPU", "43 %", False),
        ("RAM", "120 / 512 GB", False),
        ("swap", "2.0 / 8.0 GB", False),
        ("/", "13 %", False),
        ("/data (HDD)", "95 %", True),
        ("/nfs", "–", False),
    ]
    assert ("up", "12 d 1 h") in [(fact.label, fact.value) for fact in view.machine]
    assert view.room.against == ()
    full = replace(MACHINE, disks=(Disk("/data", 96.0, 100.0),))
    assert page_of(gpu(), machine=full).hosts[0].room.against == ("/data is 96 % full",)


@pytest.mark.parametrize("swap", [None, 0.0, 20.0])
def test_swap_that_is_hardly_used_is_not_shown(swap: float | None) -> None:
    view = page_of(gpu(), machine=replace(MACHINE, swap_used_mib=swap)).hosts[0]
    assert "swap" not in [meter.label for meter in view.meters]


def test_logins_have_the_names_that_the_config_gives_them() -> None:
    named = replace(config("node03"), users={"alice": "Alice Liddell"})
    page = build_page([reading("node03", [busy_gpu()])], named, NOW)
    assert page.hosts[0].cards[0].holder.text == "Alice Liddell"


@pytest.mark.parametrize("shown", [False, True])
def test_command_lines_are_shown_only_where_the_config_says_so(shown: bool) -> None:
    plain = config("node03")
    told = replace(plain, site=replace(plain.site, show_command_lines=shown))
    busy = busy_gpu(processes=(process(command_line="python train.py --token s3cret"),))
    assert ("s3cret" in render_page(build_page([reading("node03", [busy])], told, NOW))) is shown


def test_health_lists_clocks_that_differ_and_installed_probes_that_are_outdated() -> None:
    hosts = [
        reading("ahead", [gpu()], clock_offset_s=31, probe_version=4),
        reading("behind", [gpu()], clock_offset_s=-3600, probe_version=4),
        reading("slow", [gpu()], clock_offset_s=-40, fetch_seconds=12.0, probe_version=4),
        reading("right", [gpu()], clock_offset_s=-30, probe_version=4),
        reading("old", [gpu()], probe_version=1),
        reading("newer", [gpu()], probe_version=5),
        reading("unknown", [gpu()]),
    ]
    page = build_page(hosts, config(*(host.host for host in hosts)), NOW)
    assert page.health
    assert [(row.host, row.what) for row in page.health.clocks] == [
        ("ahead", "31 s ahead"),
        ("behind", "3600 s behind"),
    ]
    assert [(row.host, row.what) for row in page.health.probes] == [
        ("old", "version 1 is installed, the collector has 4")
    ]
    html = render_page(page)
    assert "Clocks that differ" in html
    assert "Installed probes that are outdated" in html


@pytest.mark.parametrize(
    ("clock", "offset"), [("1763208095", 95), ("", None), ("soon", None), ("9" * 5000, None), ("0", None)]
)
def test_a_reading_knows_the_version_of_its_probe_and_how_far_its_clock_is_off(
    clock: str, offset: int | None
) -> None:
    at = datetime.fromtimestamp(1763208000, UTC)
    xml = "<nvidia_smi_log><gpu id='0'></gpu></nvidia_smi_log>"
    parts = {"clock": clock, "smi": xml, "smi-status": "0", "end": ""}
    answer = "".join(f"\n@@gpumon ab {name}\n{text}" for name, text in parts.items())
    found = parse("a", f"@@gpumon begin 1 ab\n{answer}\n", at)
    assert found.probe_version == 1
    assert found.clock_offset_s == (offset if clock != "0" else -1763208000)
