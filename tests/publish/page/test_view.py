"""What the page says, decided without any HTML."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpumon_static.model import GONE, Fault, Gpu, HostReading, Machine, Process, Status
from gpumon_static.publish.page.records import Card, CutGpu, Fact, Kind, Page
from gpumon_static.publish.page.view import build_page
from tests.builders import (
    NOW,
    READ_AT,
    busy_gpu,
    config,
    failed,
    gpu,
    host_config,
    process,
    reading,
    slices,
)

UNKNOWN_GPU = Gpu(0, processes_known=False)


def page_of(*readings: HostReading) -> Page:
    return build_page(readings, config(*(r.host for r in readings)), NOW)


def card_of(shown: Gpu) -> Card:
    return page_of(reading(gpus=[shown])).hosts[0].cards[0]


def facts(card: Card) -> dict[str, str]:
    return {fact.label: fact.value for fact in card.tooltip.facts}


# Hosts


def test_hosts_come_in_natural_order_whatever_the_config_says() -> None:
    page = build_page([], config("n10", "n2", "n1"), NOW)
    assert [host.name for host in page.hosts] == ["n1", "n2", "n10"]


def test_a_host_that_is_no_longer_configured_is_not_shown() -> None:
    page = build_page([reading("old", [gpu()]), reading("new", [gpu()])], config("new"), NOW)
    assert [host.name for host in page.hosts] == ["new"]
    assert (page.headline.number, page.headline.text) == ("1", "of 1 GPU free")


def test_a_configured_host_without_a_reading_is_not_fetched_yet() -> None:
    page = build_page([reading("a", [gpu()])], config("a", "b"), NOW)
    notice = page.hosts[1].notice
    assert notice is not None
    assert (notice.kind, notice.word) == (Kind.WAITING, "not fetched yet")
    assert page.headline.hint == "1 host not fetched yet"
    assert page.attention == ()


def test_a_host_header_tells_group_note_software_and_machine() -> None:
    host = host_config("gpu01.lab.example", group="vision", note="reserved until 1 December")
    machine = Machine(cpu_count=64, load_1m=12.06, ram_total_mib=524288.0, ram_used_mib=122880.0)
    page = build_page([reading("gpu01.lab.example", [gpu(), gpu(1)], machine=machine)], config(host), NOW)
    view = page.hosts[0]
    assert (view.name, view.domain) == ("gpu01", ".lab.example")
    assert (view.group, view.note) == ("vision", "reserved until 1 December")
    assert view.software == (Fact("driver", "550.90.07"), Fact("CUDA", "12.4"))
    assert view.machine == (Fact("CPUs", "64"), Fact("load", "12.1"))
    assert [(m.label, m.bar.percent, str(m.bar.quantity)) for m in view.meters] == [
        ("RAM", 23, "120 / 512 GB")
    ]
    assert view.summary == "2 of 2 free"


def test_what_a_machine_did_not_say_is_left_out_of_the_header() -> None:
    view = page_of(reading(gpus=[gpu()], driver_version=None, cuda_version=None)).hosts[0]
    assert view.software == ()
    assert view.machine == ()


@pytest.mark.parametrize("name", ["10.0.0.7", "fe80::1"])
def test_an_address_is_not_cut_at_its_first_dot(name: str) -> None:
    view = page_of(reading(name, [gpu()])).hosts[0]
    assert (view.name, view.domain) == (name, "")


def test_every_place_on_the_page_has_a_name_of_its_own() -> None:
    hosts = ["a:1", "a-1", "a%1", "a"]
    page = page_of(*(reading(host, [gpu(0), gpu(1)]) for host in hosts))
    places = [host.anchor for host in page.hosts] + [
        card.anchor for host in page.hosts for card in host.cards
    ]
    assert len(set(places)) == 4 + 8


def test_a_host_says_its_own_time_only_if_it_was_read_in_another_run() -> None:
    early = reading("a", [gpu()], fetched_at=READ_AT - timedelta(minutes=40))
    page = page_of(
        early, reading("b", [gpu()]), reading("c", [gpu()], fetched_at=READ_AT - timedelta(minutes=1))
    )
    times = [host.read_at for host in page.hosts]
    assert times[0] is not None
    assert (times[0].text, times[0].is_old) == ("14 Nov 2025, 08:30 UTC", True)
    assert times[1:] == [None, None]


# Failures


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (Status.DNS, "down"),
        (Status.UNREACHABLE, "down"),
        (Status.REFUSED, "down"),
        (Status.TIMEOUT, "down"),
        (Status.HOST_KEY, "no data"),
        (Status.AUTH, "no data"),
        (Status.NO_NVIDIA_SMI, "no data"),
        (Status.DRIVER, "no data"),
        (Status.NO_GPUS, "no data"),
        (Status.BAD_OUTPUT, "no data"),
        (Status.ERROR, "no data"),
    ],
)
def test_a_failed_host_is_a_grey_card_with_status_and_reason(status: Status, word: str) -> None:
    page = page_of(failed("node12", status, "the reason"))
    notice = page.hosts[0].notice
    assert notice is not None
    assert (notice.kind, notice.word, notice.status) == (Kind.FAILED, word, status.value)
    assert notice.reason == "the reason"
    assert page.hosts[0].cards == ()
    entry = page.attention[0]
    assert (entry.host, entry.text, entry.anchor) == ("node12", f"{word} · {status.value}", "host-node12")


def test_missing_gpus_and_warnings_are_faults_that_ask_for_attention() -> None:
    node3 = reading("node3", [gpu()], warning="infoROM is corrupted")
    page = build_page([node3, failed("node9")], config(host_config("node3", gpus=8), "node9"), NOW)
    assert page.hosts[0].faults == ("7 of 8 GPUs missing", "infoROM is corrupted")
    assert [(entry.host, entry.text) for entry in page.attention] == [
        ("node9", "down · timeout"),
        ("node3", "7 of 8 GPUs missing"),
        ("node3", "infoROM is corrupted"),
    ]


def test_as_many_gpus_as_expected_is_no_fault() -> None:
    page = build_page([reading("a", [gpu(), gpu(1)])], config(host_config("a", gpus=2)), NOW)
    assert page.hosts[0].faults == ()
    assert page.attention == ()


def test_a_bad_day_is_folded_after_eight_entries() -> None:
    page = page_of(*(failed(f"n{i}") for i in range(1, 21)))
    assert [entry.host for entry in page.attention] == [f"n{i}" for i in range(1, 9)]
    assert len(page.more_attention) == 12


def test_a_host_that_answers_without_any_gpu_says_so() -> None:
    page = page_of(reading("a", []))
    notice = page.hosts[0].notice
    assert notice is not None
    assert notice.word == "no GPUs"
    assert page.headline.text == "No GPUs found"


# Headline


def test_headline_counts_gpus_of_hosts_that_answered() -> None:
    page = page_of(reading("a", [gpu(0), gpu(1), busy_gpu(2)]), reading("b", [UNKNOWN_GPU]), failed("c"))
    assert (page.headline.number, page.headline.text) == ("2", "of 4 GPUs free")
    assert page.headline.hint == "1 of 3 hosts failed"
    assert page.tab_title == "2 of 4 GPUs free – GPU Monitor"
    assert [(t.count, t.word) for t in page.tallies] == [(2, "free"), (1, "busy"), (1, "unknown")]


def test_headline_when_no_gpu_is_free() -> None:
    page = page_of(reading("a", [busy_gpu()]))
    assert (page.headline.number, page.headline.text) == ("0", "of 1 GPU free")


def test_headline_when_every_host_is_down() -> None:
    page = page_of(failed("a"), failed("b"))
    assert (page.headline.number, page.headline.text) == ("", "No host answered")
    assert page.headline.hint == "All 2 hosts failed; the cards below show why."
    assert page.tab_title == "No host answered – GPU Monitor"
    assert page.models == ()


def test_headline_before_the_first_fetch() -> None:
    page = build_page([], config("a"), NOW)
    assert page.headline.text == "No data yet"
    assert page.data_time is None


def test_models_are_counted_those_with_most_memory_first() -> None:
    small = {"name": "NVIDIA GeForce RTX 3090", "memory_total_mib": 24576.0}
    page = page_of(
        reading("a", [gpu(0, **small), gpu(1, **small)]),
        reading("b", [gpu(0), busy_gpu(1), gpu(2, name="NVIDIA A100 80GB PCIe")]),
    )
    assert [(m.model, m.free, m.total) for m in page.models] == [("A100 80G", 2, 3), ("RTX 3090", 2, 2)]
    assert [m.bar.percent for m in page.models] == [67, 100]


def test_the_time_of_the_data_is_that_of_the_newest_reading() -> None:
    page = page_of(reading("a", [gpu()], fetched_at=READ_AT - timedelta(hours=2)), reading("b", [gpu()]))
    assert page.data_time is not None
    assert page.data_time.text == "14 Nov 2025, 09:10 UTC"
    assert not page.data_time.is_old


def test_data_older_than_fifteen_minutes_is_old() -> None:
    page = build_page([reading("a", [gpu()])], config("a"), READ_AT + timedelta(minutes=16))
    assert page.data_time is not None
    assert page.data_time.is_old


# Cards


def test_the_card_of_a_free_gpu() -> None:
    card = card_of(gpu(3))
    assert (card.index, card.model, card.kind, card.word) == ("3", "A100 80G", Kind.FREE, "free")
    assert (str(card.utilization.quantity), card.utilization.percent) == ("0 %", 0)
    assert (str(card.memory.quantity), card.memory.percent) == ("0 / 80 GB", 0)
    assert (card.holder.text, card.holder.is_name) == ("no processes", False)


def test_the_card_of_a_busy_gpu_names_its_holder_and_the_longest_runtime() -> None:
    held = (
        process(1, user="bob", memory_mib=1024.0, elapsed_s=60),
        process(2, user="carol", memory_mib=30000.0, elapsed_s=7200),
        process(3, user="carol", memory_mib=100.0, elapsed_s=90000),
    )
    card = card_of(busy_gpu(processes=held))
    assert (card.kind, card.word) == (Kind.BUSY, "busy")
    assert (str(card.utilization.quantity), str(card.memory.quantity)) == ("97 %", "40 / 80 GB")
    assert (card.holder.text, card.holder.more, card.holder.runtime) == ("carol", "+1", "1 d 1 h")
    assert card.holder.is_name


def test_a_gpu_held_without_work_is_held_idle() -> None:
    card = card_of(busy_gpu(utilization=0.0))
    assert (card.kind, card.word, card.holder.text) == (Kind.HELD, "held idle", "alice")


def test_what_is_not_known_is_a_dash_and_never_a_zero() -> None:
    card = card_of(UNKNOWN_GPU)
    assert (card.kind, card.word, card.model) == (Kind.UNKNOWN, "unknown", "unknown model")
    assert (str(card.utilization.quantity), card.utilization.percent) == ("–", None)
    assert (str(card.memory.quantity), card.memory.percent) == ("–", None)
    assert card.holder.text == "processes not listed"
    assert (card.tooltip.uuid, card.tooltip.fan_percent, card.tooltip.power_limit_w) == (None, None, None)
    assert facts(card) == {}


def test_a_desktop_does_not_hold_a_gpu_but_is_listed() -> None:
    xorg = process(900, type="G", name="/usr/lib/xorg/Xorg", user="root", memory_mib=120.0)
    card = card_of(gpu(memory_used_mib=130.0, processes=(xorg,)))
    assert (card.kind, card.holder.text) == (Kind.FREE, "desktop only")
    assert [row.name for row in card.tooltip.processes] == ["/usr/lib/xorg/Xorg"]


def test_memory_in_use_without_any_process_says_so() -> None:
    card = card_of(gpu(memory_used_mib=40000.0))
    assert (card.word, card.holder.text) == ("held idle", "39 GB held by no process")


@pytest.mark.parametrize(
    ("someone", "text", "is_name"),
    [
        (process(user="gone"), "gone", True),
        (process(user=None, uid=1007), "uid 1007", False),
        (process(user=None, state=GONE), "unknown user", False),
        (process(user=None), "unknown user", False),
    ],
)
def test_who_holds_it_when_there_is_no_name(someone: Process, text: str, is_name: bool) -> None:
    holder = card_of(busy_gpu(processes=(someone,))).holder
    assert (holder.text, holder.is_name) == (text, is_name)


def test_each_slice_is_in_the_card_of_its_gpu() -> None:
    cut = gpu(2, mig_mode=True, utilization=None, slices=slices(2, 1))
    page = page_of(reading("a", [cut, gpu(3)]))
    whole, other = page.hosts[0].boxes
    assert isinstance(whole, CutGpu)
    assert (whole.index, whole.model, whole.summary, page.hosts[0].columns) == (
        "2",
        "A100 80G",
        "1 of 2 free",
        2,
    )
    assert (*whole.slices, other) == page.hosts[0].cards
    free, taken = whole.slices
    assert (free.index, free.model, free.kind) == ("2:0", "1g.10gb A100 80G", Kind.FREE)
    assert (taken.index, taken.kind, taken.holder.text) == ("2:1", Kind.BUSY, "mia")
    assert str(taken.memory.quantity) == "5.1 / 10 GB"
    assert str(taken.utilization.quantity) == "–"
    assert taken.tooltip.uuid == "MIG-1"
    assert facts(taken)["Profile"] == "1g.10gb"


def test_a_gpu_with_a_taken_slice_is_not_a_free_gpu_and_its_slices_are_counted_apart() -> None:
    cut = gpu(0, mig_mode=True, utilization=None, slices=slices(7, 0, 3))
    page = page_of(reading("a", [cut, gpu(1)]))
    assert (page.headline.number, page.headline.text) == ("1", "of 2 GPUs free + 5 slices")
    assert [(m.model, m.free, m.total) for m in page.models] == [
        ("A100 80G", 1, 2),
        ("1g.10gb A100 80G", 5, 7),
    ]


def test_a_gpu_in_mig_mode_without_slices_says_that_nothing_can_run_on_it() -> None:
    card = card_of(gpu(mig_mode=True))
    assert (card.holder.text, card.kind) == ("MIG on, no slices yet", Kind.UNKNOWN)
    assert page_of(reading("a", [gpu(mig_mode=True)])).headline.number == "0"


def test_processes_outside_every_slice_are_not_lost() -> None:
    outside = (process(1, user="alice"), process(2, user="bob"))
    card = card_of(gpu(mig_mode=True, slices=slices(1), processes=outside))
    assert facts(card)["In no slice"] == "2 processes of alice, bob"


# Tooltips


def test_a_tooltip_lists_users_with_their_memory_then_processes() -> None:
    held = (
        process(20, user="bob", memory_mib=2048.0, elapsed_s=45, job="slurm 99", name="julia"),
        process(10, user="alice", memory_mib=20480.0, elapsed_s=187200),
        process(11, user="alice", memory_mib=10240.0, elapsed_s=None),
    )
    tip = card_of(busy_gpu(processes=held)).tooltip
    assert tip.model == "NVIDIA A100-SXM4-80GB"
    assert [(u.name, u.memory_mib, u.processes) for u in tip.users] == [("alice", 30720, 2), ("bob", 2048, 1)]
    assert [(p.pid, p.user, p.name, p.memory_mib, p.elapsed_s, p.job) for p in tip.processes] == [
        (10, "alice", "python", 20480, 187200, None),
        (11, "alice", "python", 10240, None, None),
        (20, "bob", "julia", 2048, 45, "slurm 99"),
    ]


def test_a_gpu_that_works_slowly_shows_its_state_clock_and_link() -> None:
    slow: dict[str, Any] = {
        "performance_state": "P8",
        "clock_sm_mhz": 405.0,
        "pcie_generation": 1,
        "pcie_generation_max": 4,
    }
    shown = facts(card_of(busy_gpu(**slow)))
    assert (shown["Performance state"], shown["PCIe"]) == ("P8 at 405 MHz", "generation 1 of 4")
    well = slow | {"performance_state": "P0", "pcie_generation": 4}
    for usual in (gpu(**slow), busy_gpu(**well)):
        assert {"Performance state", "PCIe"}.isdisjoint(facts(card_of(usual)))


def test_the_serial_number_is_on_the_card_of_a_broken_gpu() -> None:
    broken = (Fault("ecc-errors", "uncorrected: 5 in DRAM"),)
    assert facts(card_of(gpu(serial="1650000000001", faults=broken)))["Serial number"] == "1650000000001"
    assert "Serial number" not in facts(card_of(gpu(serial="1650000000001")))


def test_a_tooltip_has_the_facts_of_the_board() -> None:
    card = card_of(gpu(memory_used_mib=20480.0, fan_percent=41.0, temperature_c=63.0))
    tip = card.tooltip
    assert (tip.uuid, tip.fan_percent, tip.power_limit_w) == (
        "GPU-00000000-1111-2222-3333-444444444444",
        41.0,
        400.0,
    )
    assert facts(card) == {"Held by no process": "20 GB"}


def test_a_sum_with_unknown_parts_is_at_least_what_is_known() -> None:
    held = (
        process(1, memory_mib=None),
        process(2, memory_mib=3072.0),
        process(3, user="bob", memory_mib=None),
    )
    users = card_of(busy_gpu(processes=held)).tooltip.users
    assert [(u.name, u.memory_mib, u.is_least) for u in users] == [
        ("alice", 3072, True),
        ("bob", None, False),
    ]


def test_a_process_that_has_gone_is_marked() -> None:
    rows = card_of(
        busy_gpu(processes=(process(), process(5, user=None, name=None, state=GONE)))
    ).tooltip.processes
    assert {(row.pid, row.is_gone) for row in rows} == {(4711, False), (5, True)}


def test_ten_rows_and_a_count_stand_for_any_number_of_processes() -> None:
    crowd = tuple(process(pid, user=f"user{pid}", memory_mib=float(pid)) for pid in range(1, 18))
    tip = card_of(busy_gpu(processes=crowd)).tooltip
    assert [row.pid for row in tip.processes] == [17, 16, 15, 14, 13, 12, 11, 10, 9, 8]
    assert (tip.more_processes, len(tip.users), tip.more_users) == (7, 10, 7)


@pytest.mark.parametrize(
    ("shown", "sentence"),
    [
        (gpu(), "No processes."),
        (gpu(processes_known=False), "The driver gives no list of processes here."),
        (busy_gpu(), None),
    ],
)
def test_an_empty_list_of_processes_says_why(shown: Gpu, sentence: str | None) -> None:
    assert card_of(shown).tooltip.no_processes == sentence


def test_no_text_of_a_host_is_longer_than_the_page_allows() -> None:
    long = "x" * 100_000
    talker = process(user=long, name=long, job=long)
    noisy = busy_gpu(name=long, uuid=long, processes=(talker,))
    page = page_of(
        replace(reading("a", [noisy]), warning=long, driver_version=long, cuda_version=long),
        failed("b", Status.ERROR, long),
    )
    assert len(repr(page)) < 10_000
