"""load_data.csv: what is written comes back, and what is no snapshot is refused in words."""

from __future__ import annotations

import csv
import string
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon_static.errors import GpumonError
from gpumon_static.model import Disk, Fault, Gpu, HostReading, Machine, MigDevice, Process, Status
from gpumon_static.store import snapshot
from tests.builders import busy_gpu, failed, gpu, process, reading, slices

CONTRACT = [
    "fetched_at", "host", "status", "error", "fetch_seconds", "driver_version", "cuda_version", "gpu_index",
    "gpu_uuid", "gpu_name", "gpu_utilization", "gpu_memory_used_mib", "gpu_memory_total_mib",
    "gpu_temperature_c", "gpu_fan_percent", "gpu_power_w", "gpu_power_limit_w", "mig_device", "pid",
    "process_type", "process_name", "process_memory_mib", "user", "elapsed_s", "job",
]  # fmt: skip

texts = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1)
names = st.text(string.ascii_lowercase + string.digits + ".-", min_size=1)
numbers = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(0, 2**31)


def maybe(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | values


processes = st.lists(
    st.builds(
        Process,
        pid=st.integers(1, 2**22),
        type=maybe(st.sampled_from(["C", "G", "C+G", "M+C"])),
        name=maybe(texts),
        memory_mib=maybe(numbers),
        user=maybe(texts),
        uid=maybe(counts),
        elapsed_s=maybe(counts),
        state=maybe(st.sampled_from(["R", "Sl+", "gone"])),
        job=maybe(texts),
        command_line=maybe(texts),
    ),
    max_size=3,
).map(tuple)
mig_devices = st.builds(
    MigDevice,
    index=st.integers(0, 7),
    gpu_instance=maybe(st.integers(0, 20)),
    compute_instance=maybe(st.integers(0, 20)),
    uuid=maybe(texts),
    profile=maybe(texts),
    memory_used_mib=maybe(numbers),
    memory_total_mib=maybe(numbers),
    processes=processes,
)
gpus = st.builds(
    Gpu,
    index=st.integers(0, 63),
    uuid=maybe(texts),
    name=maybe(texts),
    bus_id=maybe(texts),
    utilization=maybe(numbers),
    memory_used_mib=maybe(numbers),
    memory_total_mib=maybe(numbers),
    temperature_c=maybe(numbers),
    fan_percent=maybe(numbers),
    power_w=maybe(numbers),
    power_limit_w=maybe(numbers),
    mig_mode=st.booleans(),
    slices=st.lists(mig_devices, max_size=3, unique_by=lambda s: s.index).map(tuple),
    processes=processes,
    processes_known=st.booleans(),
    faults=st.lists(st.builds(Fault, st.from_regex("[a-z-]+", fullmatch=True), maybe(texts))).map(tuple),
)
disks = st.builds(
    Disk, texts.map(lambda text: "/" + text), maybe(numbers), maybe(numbers), maybe(st.booleans())
)
machines = st.builds(
    Machine,
    cpu_count=maybe(counts),
    load_1m=maybe(numbers),
    load_5m=maybe(numbers),
    load_15m=maybe(numbers),
    ram_total_mib=maybe(numbers),
    ram_used_mib=maybe(numbers),
    cpu_utilization=maybe(numbers),
    swap_total_mib=maybe(numbers),
    swap_used_mib=maybe(numbers),
    uptime_s=maybe(counts),
    disks=st.lists(disks, max_size=3).map(tuple),
)
readings = st.builds(
    HostReading,
    host=names,
    fetched_at=st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
    status=st.sampled_from(Status),
    error=maybe(texts),
    fetch_seconds=maybe(numbers),
    driver_version=maybe(texts),
    cuda_version=maybe(texts),
    gpus=st.lists(gpus, max_size=3, unique_by=lambda g: g.index).map(tuple),
    machine=machines,
    warning=maybe(texts),
    note=maybe(texts),
)


@given(st.lists(readings, min_size=1, max_size=4, unique_by=lambda r: r.host))
def test_readings_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, given: list[HostReading]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "load_data.csv"
    snapshot.write(path, given)
    assert snapshot.read(path) == given


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_columns_of_the_contract_come_first_in_their_order(tmp_path: Path) -> None:
    snapshot.write(tmp_path / "x.csv", [reading("a", [gpu()])])
    assert (tmp_path / "x.csv").read_text().splitlines()[0].split(",")[: len(CONTRACT)] == CONTRACT


def test_a_row_per_process_per_idle_gpu_and_per_failed_host(tmp_path: Path) -> None:
    shared = busy_gpu(1, processes=(process(1, user="ada"), process(2, user="bob", memory_mib=None)))
    mig = gpu(2, slices=slices(2, 1))
    snapshot.write(tmp_path / "x.csv", [reading("a", [gpu(0), shared, mig]), failed("b", Status.AUTH, "no")])
    found = [
        (r["host"], r["status"], r["gpu_index"], r["mig_device"], r["pid"], r["user"])
        for r in rows(tmp_path / "x.csv")
    ]
    assert found == [
        ("a", "ok", "0", "", "", ""),
        ("a", "ok", "1", "", "1", "ada"),
        ("a", "ok", "1", "", "2", "bob"),
        ("a", "ok", "2", "0", "", ""),
        ("a", "ok", "2", "1", "4711", "mia"),
        ("b", "auth", "", "", "", ""),
    ]


def test_cells_read_as_a_script_expects_them(tmp_path: Path) -> None:
    one = gpu(0, utilization=97.0, memory_used_mib=1024.0, power_w=61.25, temperature_c=None)
    at = datetime(2025, 11, 14, 9, 10, 5, tzinfo=UTC)
    snapshot.write(tmp_path / "x.csv", [reading("a", [one], fetched_at=at, fetch_seconds=0.5)])
    (row,) = rows(tmp_path / "x.csv")
    assert row["fetched_at"] == "2025-11-14T09:10:05Z"
    assert (row["gpu_utilization"], row["gpu_memory_used_mib"], row["gpu_power_w"]) == ("97", "1024", "61.25")
    assert row["gpu_temperature_c"] == ""
    assert row["fetch_seconds"] == "0.5"


def test_a_file_with_only_the_columns_of_the_contract_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(",".join(CONTRACT) + "\n2025-01-01T00:00:00Z,a,ok,,,,,0,,X,3,,,,,,,,7,C,NA,,null,,\n")
    (found,) = snapshot.read(path)
    assert found.gpus[0].utilization == 3
    assert (found.gpus[0].processes[0].name, found.gpus[0].processes[0].user) == ("NA", "null")


def test_faults_and_disks_read_as_a_person_expects_them(tmp_path: Path) -> None:
    faults = (Fault("ecc-errors", "uncorrected: 5 in DRAM"), Fault("remap-failure"), Fault("x", "a; b"))
    machine = Machine(disks=(Disk("/", 59799.0, 467850.0, False), Disk("/big data", 7340032.0, None, True)))
    snapshot.write(tmp_path / "x.csv", [reading("a", [gpu(0, faults=faults)], machine=machine)])
    (row,) = rows(tmp_path / "x.csv")
    assert row["gpu_faults"] == r"ecc-errors: uncorrected: 5 in DRAM; remap-failure; x: a\; b"
    assert row["disks"] == "/ 59799/467850 ssd; /big data 7340032/- hdd"


def test_new_columns_come_after_those_of_older_files(tmp_path: Path) -> None:
    snapshot.write(tmp_path / "x.csv", [reading("a", [gpu()])])
    header = (tmp_path / "x.csv").read_text().splitlines()[0].split(",")
    assert header[len(CONTRACT) : len(CONTRACT) + 3] == ["uid", "process_state", "gpu_bus_id"]
    assert header[-8:] == [
        "gpu_faults", "command_line", "cpu_utilization", "swap_used_mib", "swap_total_mib", "uptime_s", "disks",
        "note",
    ]  # fmt: skip


HEADER = ",".join(CONTRACT) + "\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"date,price\n2020,3\n", "is not a file of gpumon-static"),
        (b"\xff\xfe\x00", "cannot read"),
        (HEADER.encode() + b"2025-01-01T00:00:00Z,a,o", "is cut off in its last line"),
        (HEADER.encode() + b"2025-01-01T00:00:00Z,a,ok\n", "line 2 has 3 columns, not 25"),
        (HEADER.encode() + b'2025-01-01T00:00:00Z,"a,ok\n', "is damaged"),
        (HEADER.encode() + b"2025-01-01T00:00:00Z,a,fine" + b"," * 22 + b"\n", "line 2: 'fine' is no status"),
        (HEADER.encode() + b"yesterday,a,ok" + b"," * 22 + b"\n", "line 2: 'yesterday' is no fetched_at"),
        (
            HEADER.encode() + b"2025-01-01T00:00:00Z,a,ok,,,,,0,,,many" + b"," * 14 + b"\n",
            "line 2: 'many' is no gpu_utilization",
        ),
        (
            HEADER.encode() + b"2025-01-01T00:00:00Z,a,ok,,,,,0,,,nan" + b"," * 14 + b"\n",
            "line 2: 'nan' is no gpu_utilization",
        ),
    ],
)
def test_what_is_no_whole_snapshot_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(GpumonError, match="x.csv") as error:
        snapshot.read(tmp_path / "x.csv")
    assert words in str(error.value)


def test_no_file_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(GpumonError, match="run `gpumon-static fetch` first"):
        snapshot.read(tmp_path / "x.csv")


def test_a_snapshot_cut_anywhere_never_gives_a_wrong_reading(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    whole = [reading("a", [busy_gpu(0), gpu(1, slices=slices(2, 0))]), failed("b")]
    snapshot.write(path, whole)
    content = path.read_bytes()
    for end in range(len(content)):
        path.write_bytes(content[:end])
        try:
            found = snapshot.read(path)
        except GpumonError:
            continue
        # Cut at the end of a line: fewer rows, each of them true.
        assert content[end - 1 : end] == b"\n"
        for got, had in zip(found, whole, strict=False):
            assert [g.uuid for g in got.gpus] == [g.uuid for g in had.gpus][: len(got.gpus)]
