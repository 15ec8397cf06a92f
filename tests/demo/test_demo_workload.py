"""The demo lab as a function of seed and time, and its hosts' words in every driver's dialect."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import pytest

from gpumon_static.collect.nvidia import smi
from gpumon_static.collect.probe import ps
from gpumon_static.config.settings import BusyConfig, PathsConfig
from gpumon_static.demo import answers, past, xml
from gpumon_static.demo.lab import DemoHost, DemoSpec, build
from gpumon_static.demo.workload import healthy_reading, reading
from gpumon_static.model import GONE, NOT_ALLOCATED, Gpu, HostReading, Process, Status
from gpumon_static.model.states import State
from gpumon_static.store import events_file
from gpumon_static.store.history.past import read as read_past
from gpumon_static.store.history.reader import ask
from gpumon_static.survey.jobs import find_jobs
from gpumon_static.survey.state import gpu_state, slice_state, slices_of
from gpumon_static.survey.supply import SupplyVerdict, supply_rows
from gpumon_static.terminal.show import survey_of
from tests.builders import config

LAB = {host.name: host for host in build(DemoSpec())}
THURSDAY = datetime(2026, 8, 20, 14, 0, tzinfo=UTC)
SUNDAY_NIGHT = datetime(2026, 8, 23, 4, 0, tzinfo=UTC)
BUSY = BusyConfig()


lab = cache(lambda seed: build(DemoSpec(seed=seed)))


def lab_readings(at: datetime, seed: int = 1) -> list[HostReading]:
    return [reading(host, at) for host in lab(seed)]


def compute_pids(readings: list[HostReading]) -> dict[tuple[str, int], Process]:
    return {
        (r.host, p.pid): p
        for r in readings
        for g in r.gpus
        for p in g.all_processes
        if not p.is_graphics_only
    }


def all_gpus(readings: list[HostReading]) -> Iterator[Gpu]:
    return (gpu for r in readings for gpu in r.gpus)


def test_same_seed_and_time_give_the_same_lab_in_every_process() -> None:
    code = (
        "from datetime import UTC, datetime; from gpumon_static.demo import lab, workload;"
        "at = datetime(2026, 8, 20, 14, tzinfo=UTC);"
        "print([workload.reading(host, at) for host in lab.build(lab.DemoSpec(seed=7))])"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": salt},
            capture_output=True,
            check=True,
            text=True,
        ).stdout.strip()
        for salt in ("1", "2")
    }
    assert printed == {str(lab_readings(THURSDAY, seed=7))}


def test_another_seed_is_another_lab() -> None:
    one, other = lab_readings(THURSDAY, seed=1), lab_readings(THURSDAY, seed=2)
    assert [r.host for r in one] == [r.host for r in other]
    assert {g.uuid for g in all_gpus(one)}.isdisjoint(g.uuid for g in all_gpus(other))
    assert compute_pids(one).keys() != compute_pids(other).keys()


def test_five_minutes_later_mostly_the_same_jobs_run_on() -> None:
    before = compute_pids(lab_readings(THURSDAY))
    after = compute_pids(lab_readings(THURSDAY + timedelta(minutes=5)))
    same = before.keys() & after.keys()
    assert len(same) >= 0.9 * len(before)
    owned = [key for key in same if before[key].state != GONE]
    assert {(after[key].elapsed_s or 0) - (before[key].elapsed_s or 0) for key in owned} == {300}
    assert all(before[key].user == after[key].user for key in same)


def test_two_weeks_later_no_job_is_left() -> None:
    before = compute_pids(lab_readings(THURSDAY))
    assert before.keys().isdisjoint(compute_pids(lab_readings(THURSDAY + timedelta(days=14))))


def test_by_day_more_gpus_work_than_by_night() -> None:
    def busy_at(hour: int) -> int:
        days = [datetime(2026, 8, day, hour, tzinfo=UTC) for day in range(3, 29)]
        return sum(gpu_state(g, BUSY) is State.BUSY for at in days for g in all_gpus(lab_readings(at)))

    assert busy_at(15) > 1.2 * busy_at(6)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("at", [THURSDAY, SUNDAY_NIGHT])
def test_every_state_is_in_the_lab_at_any_time(seed: int, at: datetime) -> None:
    readings = {r.host: r for r in lab_readings(at, seed)}
    statuses = {name: r.status for name, r in readings.items() if not r.ok}
    assert statuses == {"language-03": Status.REFUSED, "render-01": Status.DRIVER}

    vision = readings["vision-01"].gpus
    assert [gpu_state(vision[i], BUSY) for i in (0, 3, 4, 7)] == [
        State.BUSY,
        State.BUSY,
        State.HELD,
        State.FREE,
    ]
    assert len({gpu.processes[0].user for gpu in vision[:4]}) == 1
    assert len({gpu.processes[0].pid for gpu in vision[:4]}) == 4

    assert len({p.user for p in readings["vision-02"].gpus[0].processes}) == 2

    desktop = readings["desk-01"].gpus[0]
    assert gpu_state(desktop, BUSY) is State.FREE
    assert [(p.type, p.name) for p in desktop.processes] == [("G", "Xorg"), ("G", "gnome-shell")]

    sliced = readings["slices-01"].gpus[0]
    assert sliced.mig_mode
    assert sliced.utilization is None
    assert [s.profile for s in sliced.slices] == ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"]
    states = [slice_state(s, sliced, BUSY) for s in slices_of(sliced)]
    assert [states[0], states[2], states[3]] == [State.BUSY, State.BUSY, State.FREE]

    ghost = readings["chem-02"].gpus[0]
    assert gpu_state(ghost, BUSY) is State.HELD
    assert [(p.state, p.user) for p in ghost.processes] == [(GONE, None)]


def test_a_failing_host_was_well_before_for_the_sake_of_history() -> None:
    assert [len(healthy_reading(LAB[name], THURSDAY).gpus) for name in ("language-03", "render-01")] == [4, 2]


def test_numbers_stay_within_what_the_card_can_do_for_a_week() -> None:
    for hours in range(0, 7 * 24, 5):
        for name, host in LAB.items():
            gpus = healthy_reading(host, THURSDAY + timedelta(hours=hours)).gpus
            pids = [p.pid for g in gpus for p in g.all_processes]
            assert len(pids) == len(set(pids)), name
            for gpu, demo in zip(gpus, host.gpus, strict=True):
                assert (gpu.memory_used_mib or 0) <= demo.model.memory_mib - demo.model.reserved_mib
                assert 5 < (gpu.power_w or 0) <= (gpu.power_limit_w or 0)
                assert 30 <= (gpu.temperature_c or 0) <= 85
                assert gpu.utilization is None or 0 <= gpu.utilization <= 100
                assert (gpu.fan_percent is not None) == demo.model.has_fan
                assert all(0 < p.pid < 2**22 for p in gpu.all_processes)


def test_size_is_as_asked() -> None:
    hosts = build(DemoSpec(hosts=64, gpus=8))
    assert len({host.name for host in hosts}) == 64
    assert {len(host.gpus) for host in hosts} == {8}
    assert sum(host.fate is not Status.OK for host in hosts) == 2
    # Every GPU has its lane, and no GPU two of them.
    for host in hosts:
        whole = [place.gpu for lane in host.lanes for place in lane.places if place.slice is None]
        sliced = [gpu.index for gpu in host.gpus if gpu.slices]
        assert sorted(whole + sliced) == list(range(8))
    assert [len(host.gpus) for host in build(DemoSpec(hosts=2, gpus=1))] == [1, 1]


def without_owners(gpu: Gpu) -> Gpu:
    """What the XML alone can tell: no owners, nothing of Slurm, and neither names nor UUIDs of slices."""

    def bare(processes: tuple[Process, ...]) -> tuple[Process, ...]:
        return tuple(replace(p, user=None, uid=None, elapsed_s=None, state=None, job=None) for p in processes)

    slices = tuple(replace(s, uuid=None, profile=None, processes=bare(s.processes)) for s in gpu.slices)
    return replace(gpu, slices=slices, processes=bare(gpu.processes), allocation=NOT_ALLOCATED)


WITH_NVIDIA = [host for host in LAB.values() if host.cuda]


@pytest.mark.parametrize("host", WITH_NVIDIA, ids=lambda host: f"{host.name}-{host.driver}")
def test_xml_of_each_driver_parses_to_the_numbers_of_the_workload(host: DemoHost) -> None:
    told = healthy_reading(host, THURSDAY)
    report = smi.parse(xml.render(host, told))
    assert (report.driver_version, report.cuda_version) == (host.driver, host.cuda)
    assert report.gpus == tuple(without_owners(gpu) for gpu in told.gpus)
    assert report.warning is None


@pytest.mark.parametrize(
    ("driver", "schema", "present", "absent"),
    [
        ("470.256.02", "v11", "<power_readings>", "<gpu_power_readings>"),
        ("470.256.02", "v11", "<clocks_throttle_reasons>", "<reserved>"),
        ("525.147.05", "v12", "<power_readings>", "<gpu_power_readings>"),
        ("525.147.05", "v12", "<reserved>448 MiB</reserved>", "<clocks_event_reasons>"),
        ("535.183.01", "v12", "<gpu_power_readings>", "<power_readings>"),
        ("550.90.07", "v12", "<power_draw>10.20 W</power_draw>", "<instant_power_draw>"),
        ("570.124.06", "v12", "<instant_power_draw>10.20 W</instant_power_draw>", "<power_draw>"),
        ("580.105.08", "v13", "<average_power_draw>10.00 W</average_power_draw>", "<power_draw>"),
    ],
)
def test_each_driver_has_the_tags_of_its_time(driver: str, schema: str, present: str, absent: str) -> None:
    host = replace(LAB["teach-01"], driver=driver)
    told = healthy_reading(host, THURSDAY)
    told = replace(told, gpus=tuple(replace(gpu, power_w=10.20) for gpu in told.gpus))
    text = xml.render(host, told)
    assert f"nvsmi_device_{schema}.dtd" in text
    assert present in text
    assert absent not in text


def test_ps_answers_with_whole_logins_and_without_the_processes_that_are_gone() -> None:
    process = Process(4711, "C", "VLLM::EngineCore", 40960.0, "konstantina", 1003, 95, "Rl")
    line = answers.ps_line(process)
    assert line == "   4711  1003       01:35 Rl   konstantina                      VLLM::EngineCor\n"
    assert ps.parse(line)[4711].user == "konstantina"
    host = LAB["chem-02"]
    told = healthy_reading(host, THURSDAY)
    ghost, living = told.gpus[0].processes[0], told.gpus[1].processes[0]
    assert ps.parse(answers.files(host, told)["ps"]).keys() == {living.pid}
    assert ghost.pid != living.pid


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "00:00"), (95, "01:35"), (3600, "01:00:00"), (86399, "23:59:59"), (2 * 86400 + 3661, "2-01:01:01")],
)
def test_elapsed_time_is_written_as_ps_does(seconds: int, text: str) -> None:
    assert answers.elapsed_time(seconds) == text
    assert ps.elapsed_seconds(text) == seconds


def test_list_of_devices_names_profile_and_uuid_of_each_slice() -> None:
    host = LAB["slices-01"]
    first, second = host.gpus
    assert answers.smi_list(healthy_reading(host, THURSDAY)).splitlines() == [
        f"GPU 0: NVIDIA A100 80GB PCIe (UUID: {first.uuid})",
        f"  MIG 3g.40gb     Device  0: (UUID: {first.slices[0].uuid})",
        f"  MIG 2g.20gb     Device  1: (UUID: {first.slices[1].uuid})",
        f"  MIG 1g.10gb     Device  2: (UUID: {first.slices[2].uuid})",
        f"  MIG 1g.10gb     Device  3: (UUID: {first.slices[3].uuid})",
        f"GPU 1: NVIDIA A100 80GB PCIe (UUID: {second.uuid})",
    ]


# Worth showing


def test_a_job_runs_on_two_hosts_at_any_time() -> None:
    for at in (THURSDAY, SUNDAY_NIGHT):
        survey = survey_of(lab_readings(at), config(*LAB), at)
        wide = [job for job in find_jobs(survey).all if len(job.hosts) > 1]
        assert [(job.by_host, job.id is not None) for job in wide] == [
            ([("vision-01", "0–3"), ("vision-02", "1, 2")], True)
        ]


def test_a_course_takes_all_its_gpus_on_weekday_afternoons_only() -> None:
    def taken(at: datetime) -> list[bool]:
        return [gpu_state(gpu, BUSY).is_taken for gpu in healthy_reading(LAB["teach-01"], at).gpus]

    for day in range(4):
        assert taken(THURSDAY.replace(day=17 + day)) == [True] * 4
    assert taken(SUNDAY_NIGHT) == taken(SUNDAY_NIGHT.replace(hour=14)) == [True, False, False, False]


def test_the_past_has_something_to_say(tmp_path: Path) -> None:
    """Hosts that went down and came back, a fault that came, a machine's values; a model held idle, one short."""
    setup = replace(config(*LAB), paths=PathsConfig(tmp_path, tmp_path))
    past.fill(setup, list(LAB.values()), THURSDAY, 20)
    known = ask(setup.history_path, lambda reader: read_past(reader, THURSDAY, by_group=True))
    assert {"host-down", "host-up", "gpu-fault", "gpu-freed"} <= {event.type for event in known.events}
    assert set(known.machines["24h"].hosts) >= {"vision-01", "language-01"}
    assert any((found.share or 0) < 1 for found in known.availability.values())
    verdicts = {row.verdict for row in supply_rows(known.supply["30d"][0])}
    assert {SupplyVerdict.SHORT, SupplyVerdict.HELD, SupplyVerdict.AMPLE} <= verdicts
    assert events_file.load(events_file.path_in(tmp_path)).newest is not None
