"""load_data.csv: what is written comes back, and what is no snapshot is refused in words."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings

from gpumon_static.bounds.reading import bounded
from gpumon_static.errors import GpumonError
from gpumon_static.model import Disk, Fault, HostReading, Machine, Status
from gpumon_static.store import snapshot
from gpumon_static.store.columns import BY_NAME, COLUMNS
from tests.builders import busy_gpu, failed, gpu, process, reading, slices
from tests.wild import labs

CONTRACT = [
    "fetched_at", "host", "status", "error", "fetch_seconds", "driver_version", "cuda_version", "gpu_index",
    "gpu_uuid", "gpu_name", "gpu_utilization", "gpu_memory_used_mib", "gpu_memory_total_mib",
    "gpu_temperature_c", "gpu_fan_percent", "gpu_power_w", "gpu_power_limit_w", "mig_device", "pid",
    "process_type", "process_name", "process_memory_mib", "user", "elapsed_s", "job",
]  # fmt: skip


@settings(max_examples=60)
@given(labs(4))
def test_what_passed_the_gate_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, given: list[HostReading]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "load_data.csv"
    passed = [bounded(reading) for reading in given]
    snapshot.write(path, passed)
    # Not by assert: the difference of two large readings takes minutes to print.
    if snapshot.read(path) != passed:
        pytest.fail("what was read is not what was written")


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
    assert header[-38:] == [
        "gpu_faults", "command_line", "cpu_utilization", "swap_used_mib", "swap_total_mib", "uptime_s", "disks",
        "note", "gpu_vendor", "gpu_device", "gpu_memory_shared", "gpu_utilization_sticks", "compute_units",
        "slurm_node", "slurm_state", "slurm_reason", "slurm_takes_jobs", "slurm_kind", "slurm_allocated",
        "slurm_job", "slurm_job_name", "slurm_user", "slurm_started_at", "slurm_ends_at",
        "gpu_temperature_limit_c", "probe_version", "clock_offset_s", "slurm_partition", "slurm_account",
        "gpu_clock_sm_mhz", "gpu_performance_state", "gpu_pcie_generation", "gpu_pcie_generation_max", "gpu_serial",
        "gpu_clock_sm_max_mhz", "gpu_pcie_width", "gpu_pcie_width_max", "gpu_vbios",
    ]  # fmt: skip


def test_each_column_has_a_position_of_its_own() -> None:
    assert [BY_NAME[name].position for name in COLUMNS] == list(range(1, len(COLUMNS) + 1))


HEADER = ",".join(CONTRACT) + "\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"date,price\n2020,3\n", "is not a file of gpumon-static"),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
        (HEADER.encode() + b"2025-01-01T00:00:00Z,a,o", "is cut off in its last line"),
        (HEADER.encode() + b"2025-01-01T00:00:00Z,a,ok\n", "line 2 has 3 columns, not 25"),
        (HEADER.encode() + b'2025-01-01T00:00:00Z,"a,ok\n', "is damaged"),
        (
            HEADER.encode() + b"2025-01-01T00:00:00Z,a,fine" + b"," * 22 + b"\n",
            "line 2: 'fine' is not a valid status",
        ),
        (
            HEADER.encode() + b"yesterday,a,ok" + b"," * 22 + b"\n",
            "line 2: 'yesterday' is not a valid fetched_at",
        ),
        (
            HEADER.encode() + b"2025-01-01T00:00:00Z,a,ok,,,,,0,,,many" + b"," * 14 + b"\n",
            "line 2: 'many' is not a valid gpu_utilization",
        ),
        (
            HEADER.encode() + b"2025-01-01T00:00:00Z,a,ok,,,,,0,,,nan" + b"," * 14 + b"\n",
            "line 2: 'nan' is not a valid gpu_utilization",
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


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "'=", "''@"])
def test_no_text_is_a_formula_to_a_spreadsheet_and_each_comes_back(tmp_path: Path, start: str) -> None:
    text = f"{start}cmd|'/c calc'!A1"
    wild = gpu(
        0,
        name=text,
        faults=(Fault("lost", text),),
        temperature_c=-5.0,
        processes=(process(user=text, name=text, job=text, command_line=text, type=start[:1]),),
    )
    given = reading("a", [wild], error=text, warning=text, note=text, machine=Machine(disks=(Disk(text),)))
    snapshot.write(tmp_path / "x.csv", [given])
    (row,) = rows(tmp_path / "x.csv")
    assert [name for name, cell in row.items() if cell[:1] in tuple("=+-@\t\r")] == ["gpu_temperature_c"]
    assert row["gpu_temperature_c"] == "-5"
    assert row["user"] == f"'{text}"
    assert snapshot.read(tmp_path / "x.csv") == [given]


@pytest.mark.parametrize("before", ["x;", "x; ", 'x;"', "x; ;", "x;\\"])
@pytest.mark.parametrize("start", ["=", "+", "-", "@", "'=", "''@"])
def test_no_text_is_a_formula_where_a_semicolon_parts_the_cells(
    tmp_path: Path, before: str, start: str
) -> None:
    text = f"{before}{start}1+1"
    wild = gpu(
        0, name=text, faults=(Fault("lost", text),), processes=(process(user=text, name=text, job=text),)
    )
    given = reading("a", [wild], error=text, machine=Machine(disks=(Disk(text),)))
    snapshot.write(tmp_path / "x.csv", [given])
    with (tmp_path / "x.csv").open(newline="") as file:
        cells = [cell.strip(' "') for row in csv.reader(file, delimiter=";") for cell in row]
    assert [cell for cell in cells if cell.startswith(tuple("=+-@"))] == []
    assert snapshot.read(tmp_path / "x.csv") == [given]


def test_an_apostrophe_of_an_older_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(HEADER + "2025-01-01T00:00:00Z,a,ok,,,,,0,,X,3,,,,,,,,7,C,'quoted',,''x,,\n")
    (found,) = snapshot.read(path)
    assert (found.gpus[0].processes[0].name, found.gpus[0].processes[0].user) == ("'quoted'", "''x")


def written_by_0_1_0(path: Path, **cells: str) -> None:
    """A file with one row of host a, as a version without a gate would have written it."""
    row = dict.fromkeys(COLUMNS, "") | {
        "fetched_at": "2025-11-14T09:10:00Z", "host": "a", "status": "ok", "gpu_index": "0", "pid": "7",
    }  # fmt: skip
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerow(row | cells)


def test_an_older_file_is_read_within_the_bounds_of_now(tmp_path: Path) -> None:
    disks = "; ".join(f"/mnt/{n}/{'x' * 100} 1/2 ssd" for n in range(2000))
    written_by_0_1_0(
        tmp_path / "x.csv",
        gpu_temperature_c="-300",
        ram_total_mib="9" * 308,
        elapsed_s="9" * 5000,
        gpu_uuid="GPU-" + "x" * 1_000_000,
        user="evil\u202eresu",
        disks=disks,
    )
    (found,) = snapshot.read(tmp_path / "x.csv")
    (one,) = found.gpus
    assert (one.temperature_c, found.machine.ram_total_mib, one.uuid) == (None, None, None)
    assert (one.processes[0].elapsed_s, one.processes[0].user) == (None, "evil\ufffdresu")
    assert len(found.machine.disks) == 16
    assert found.note is not None
    assert found.note.startswith("4 values out of range (")
    assert found.note.endswith("left out: 1984 disks")


def test_a_gpu_of_an_older_file_with_an_impossible_index_is_left_out(tmp_path: Path) -> None:
    written_by_0_1_0(tmp_path / "x.csv", gpu_index="1" * 30)
    (found,) = snapshot.read(tmp_path / "x.csv")
    assert (found.gpus, found.note) == ((), "left out: 1 GPU")


def test_the_words_about_a_damaged_cell_are_few(tmp_path: Path) -> None:
    written_by_0_1_0(tmp_path / "x.csv", gpu_utilization="x" * 100_000)
    with pytest.raises(GpumonError) as error:
        snapshot.read(tmp_path / "x.csv")
    assert len(str(error.value)) < 300 + len(str(tmp_path))
