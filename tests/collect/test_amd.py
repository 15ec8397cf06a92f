"""AMD cards, from the kernel's files by the real probe; over real SSH where that matters."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpumon_static.collect import reading
from gpumon_static.collect.amd import cards, tree
from gpumon_static.collect.probe import framing
from gpumon_static.config.settings import BusyConfig
from gpumon_static.errors import HostError
from gpumon_static.model import Fault, Gpu, HostReading, Process, Status
from gpumon_static.model.states import State
from gpumon_static.survey.state import gpu_state
from tests.amd_tree import APU, GIB, IDS, Card, build, radeon, write
from tests.command import gpumon, rows
from tests.nvidia_xml import xml
from tests.ssh_lab import Sshd, root_only, sshd
from tests.sshd import GpuHosts

NOW = datetime(2025, 1, 1, tzinfo=UTC)
SHELLS = [["dash"], ["bash", "--posix"], ["busybox", "sh"]]
BUSY = BusyConfig()


def probe(directory: Path, shell: list[str] | None = None, **settings: str) -> str:
    """The probe on this machine, with /sys and libdrm's list in `directory`."""
    write(directory / "share/libdrm/amdgpu.ids", IDS)
    environment = {
        "PATH": f"{directory}/bin:{os.environ['PATH']}",
        "GPUMON_SYS": f"{directory}/sys",
        "GPUMON_SHARE": f"{directory}/share",
        "GPUMON_DISKS": "",
    }
    done = subprocess.run(
        [*(shell or ["dash"]), "-s"],
        input=framing.script(),
        env=environment | settings,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


def read(directory: Path, *found: Card, processes: dict[int, dict[str, str]] | None = None) -> HostReading:
    build(directory / "sys", list(found), processes)
    return reading.parse("n", probe(directory), NOW)


def mi300x(number: int, slot: str, gpu_id: int, **files: str | None) -> Card:
    return Card(
        number, slot, gpu_ids=(gpu_id,), files={name.replace("__", "/"): v for name, v in files.items()}
    )


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
def test_cards_and_their_owners_come_through_in_every_shell(shell: list[str], tmp_path: Path) -> None:
    mine = {"vram_51140": str(8 * GIB), "sdma_51140": "12", "vram_7": "0", "stats_51140/cu_occupancy": "304"}
    found = [mi300x(1, "0000:05:00.0", 51140, gpu_busy_percent="97"), mi300x(2, "0001:26:00.0", 7)]
    build(tmp_path / "sys", found, {os.getpid(): mine})
    read_back = reading.parse("n", probe(tmp_path, shell), NOW)
    first, second = read_back.gpus
    assert (first.index, first.vendor, first.device, first.bus_id) == (0, "amd", None, "0000:05:00.0")
    assert (first.name, first.uuid) == ("AMD Instinct MI300X OAM", "GPU-a1b2c3d400000001")
    assert (first.utilization, first.memory_used_mib, first.memory_total_mib) == (97, 286, 192 * 1024)
    assert (first.temperature_c, first.power_w, first.power_limit_w, first.fan_percent) == (
        41,
        133,
        750,
        None,
    )
    assert first.temperature_limit_c == 100, "of the junction, which is the one that is read"
    assert (first.clock_sm_mhz, first.serial, first.vbios) == (132, "692305000001", "113-M3000100-102")
    assert (first.pcie_generation, first.pcie_generation_max, first.pcie_width) == (5, 5, 16)
    (process,) = first.processes
    owner = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    assert (process.pid, process.user, process.type) == (os.getpid(), owner, "C")
    assert (process.memory_mib, process.compute_units) == (8192, 304)
    assert process.name
    assert (second.index, second.processes, second.processes_known) == (1, (), True)
    assert read_back.driver_version == Path("/proc/sys/kernel/osrelease").read_text().strip()


def test_the_version_of_a_driver_package_counts_before_the_kernels(tmp_path: Path) -> None:
    write(tmp_path / "sys/module/amdgpu/version", "6.10.5")
    assert read(tmp_path, radeon()).driver_version == "6.10.5"


def test_a_radeon_has_the_name_of_libdrm_and_a_card_without_one_its_pci_id(tmp_path: Path) -> None:
    other = Card(
        2, "0000:44:00.0", "0x7fff", "0x01", {"product_name": None, "unique_id": "0000000000000000"}, (9,)
    )
    known, unknown = read(tmp_path, radeon(), other).gpus
    assert (known.name, known.uuid, known.fan_percent) == ("AMD Radeon RX 7900 XTX", None, 40)
    assert (known.temperature_c, known.power_w) == (68, 291)
    assert (unknown.name, unknown.uuid) == ("AMD 1002:7fff", None)


def test_a_card_that_amdkfd_does_not_know_is_not_shown(tmp_path: Path) -> None:
    """An iGPU for the console, or a virtual function."""
    console = Card(0, "0000:c1:00.0", "0x1506", "0xc1", {"product_name": None})
    assert [gpu.bus_id for gpu in read(tmp_path, console, radeon()).gpus] == ["0000:03:00.0"]


def test_only_cards_that_cannot_compute_are_a_host_without_gpus(tmp_path: Path) -> None:
    with pytest.raises(HostError) as error:
        read(tmp_path, Card(0, "0000:c1:00.0"))
    assert (error.value.status, error.value.vendor) == (Status.NO_GPUS, "amd")


@pytest.mark.parametrize("in_function", [False, True])
def test_partitions_are_one_gpu_with_the_numbers_of_all(tmp_path: Path, in_function: bool) -> None:
    cut = Card(1, "0000:05:00.0", gpu_ids=(1, 2, 3, 4), in_function=in_function)
    held = {f"vram_{number}": str(GIB) for number in (2, 4)} | {"vram_1": "0", "vram_3": "0", "vram_9": "0"}
    whole, next_one = read(tmp_path, cut, mi300x(2, "0000:26:00.0", 9), processes={4242: held}).gpus
    assert (whole.device, next_one.device) == ("0,1,2,3", "4")
    assert [(p.pid, p.memory_mib) for p in whole.processes] == [(4242, 2048)]
    assert next_one.processes == ()


def test_an_apu_counts_the_ram_that_it_reaches_and_is_marked_as_sharing_it(tmp_path: Path) -> None:
    apu = Card(1, "0000:c5:00.0", "0x1586", "0xc1", APU | {"gpu_busy_percent": "0"}, (77,), 110501)
    (gpu,) = read(tmp_path, apu, processes={4242: {"vram_77": "0", "sdma_77": "0"}}).gpus
    assert (gpu.memory_shared, gpu.memory_total_mib, gpu.memory_used_mib) == (
        True,
        62.5 * 1024,
        3 * 1024 + 400,
    )
    assert [process.pid for process in gpu.processes] == [4242], "its memory may be RAM, which is not counted"
    assert gpu_state(gpu, BUSY) is State.HELD
    (free,) = read(tmp_path / "b", apu).gpus
    assert gpu_state(free, BUSY) is State.FREE, "busy.memory does not apply to RAM"


def test_a_card_that_sleeps_is_not_woken_and_is_free(tmp_path: Path) -> None:
    asleep = radeon(power__runtime_status="suspended", mem_info_vram_used="0")
    build(tmp_path / "sys", [asleep])
    sent = framing.sections(probe(tmp_path))["amd"]
    assert "gpu_busy_percent" not in sent
    assert "hwmon" not in sent
    (gpu,) = reading.parse("n", probe(tmp_path), NOW).gpus
    assert (gpu.utilization, gpu.temperature_c, gpu_state(gpu, BUSY)) == (None, None, State.FREE)


def test_missing_and_damaged_files_are_unknown(tmp_path: Path) -> None:
    nothing = dict.fromkeys(["gpu_busy_percent", "mem_info_vram_used", "hwmon/hwmon7/power1_average"])
    damaged = {"hwmon/hwmon7/temp1_input": "N/A", "hwmon/hwmon7/pwm1_max": "0", "current_link_width": "?"}
    damaged["current_link_speed"] = "Unknown"
    files: dict[str, str | None] = dict(radeon().files) | nothing | damaged
    (gpu,) = read(tmp_path, Card(1, "0000:03:00.0", "0x744c", "0xc8", files, (5,))).gpus
    assert (gpu.utilization, gpu.memory_used_mib, gpu.power_w, gpu.temperature_c) == (None, None, None, None)
    assert (gpu.memory_total_mib, gpu.faults) == (24 * 1024, ())
    assert (gpu.pcie_width, gpu.pcie_generation) == (None, None)


def test_a_kernel_without_a_list_of_processes_is_not_one_without_processes(tmp_path: Path) -> None:
    build(tmp_path / "sys", [radeon(gpu_busy_percent=None, mem_info_vram_used=None)])
    (tmp_path / "sys/class/kfd/kfd/proc").rmdir()
    (gpu,) = reading.parse("n", probe(tmp_path), NOW).gpus
    assert (gpu.processes_known, gpu_state(gpu, BUSY)) == (False, State.UNKNOWN)


FAULTS: dict[str, tuple[dict[str, str | None], Fault]] = {
    "memory errors": (
        {"ras/umc_err_count": "ue: 3\nce: 9", "ras/gfx_err_count": "ue: 1\nce: 0"},
        Fault("ecc-errors", "uncorrected: 1 in gfx, 3 in umc"),
    ),
    "hotspot": (
        {"hwmon/hwmon7/temp2_input": "110000"},
        Fault("hot-throttle", "hotspot 110 °C, its limit is 110 °C"),
    ),
    "memory": (
        {"hwmon/hwmon7/temp3_input": "106000", "hwmon/hwmon7/temp3_crit": "105000"},
        Fault("over-temperature", "memory 106 °C, its limit is 105 °C"),
    ),
    "link": ({"current_link_width": "4"}, Fault("pcie-width", "x4 of x16")),
    "fan": ({"hwmon/hwmon7/pwm1": "0", "hwmon/hwmon7/temp1_input": "85000"}, Fault("fan", "0 % at 85 °C")),
}


@pytest.mark.parametrize(("files", "fault"), FAULTS.values(), ids=FAULTS)
def test_faults_are_found_in_the_files(tmp_path: Path, files: dict[str, str | None], fault: Fault) -> None:
    broken = Card(1, "0000:03:00.0", "0x744c", "0xc8", dict(radeon().files) | files, (5,), 110000)
    assert read(tmp_path, broken).gpus[0].faults == (fault,)


def test_corrected_errors_an_idle_link_and_a_fan_at_rest_are_no_faults(tmp_path: Path) -> None:
    files: dict[str, str | None] = {
        "ras/umc_err_count": "ue: 0\nce: 900",
        "current_link_width": "4",
        "gpu_busy_percent": "0",
        "hwmon/hwmon7/pwm1": "0",
        "hwmon/hwmon7/temp2_crit": "0",
    }
    fine = Card(1, "0000:03:00.0", "0x744c", "0xc8", dict(radeon().files) | files, (5,), 110000)
    assert read(tmp_path, fine).gpus[0].faults == ()


def at_100(*processes: Process, sticks: bool = True) -> Gpu:
    return Gpu(
        0,
        utilization=100,
        memory_used_mib=9000,
        memory_total_mib=16000,
        processes=processes,
        utilization_sticks=sticks,
    )


@pytest.mark.parametrize(
    ("gpu", "state"),
    [
        (at_100(Process(1, "C", state="Rl")), State.BUSY),
        (at_100(Process(1, "C", state="Sl")), State.BUSY),
        (at_100(Process(1, "C", state=None)), State.BUSY),
        (at_100(), State.BUSY),
        (at_100(Process(1, "C", state="Tl")), State.HELD),
        (at_100(Process(1, "C", state="gone"), Process(2, "C", state="Z")), State.HELD),
        (at_100(Process(1, "C", state="Rl", compute_units=0)), State.HELD),
        (at_100(Process(1, "C", state="Rl", compute_units=0), Process(2, "C", state="Sl")), State.BUSY),
        (at_100(Process(1, "C", state="Tl"), sticks=False), State.BUSY),
    ],
)
def test_a_gpu_that_sticks_at_100_percent_is_busy_only_with_a_process_that_can_compute(
    gpu: Gpu, state: State
) -> None:
    assert gpu_state(gpu, BUSY) is state


def test_an_apu_beside_a_card_is_for_the_console(tmp_path: Path) -> None:
    apu = Card(0, "0000:c5:00.0", "0x164e", "0xc1", dict(APU), (77,), 100306)
    (shown,) = read(tmp_path, apu, radeon()).gpus
    assert (shown.index, shown.bus_id, shown.device) == (0, "0000:03:00.0", "1"), "HIP counts the APU too"
    nvidia_smi(tmp_path / "b", f"cat {tmp_path}/b/xml")
    write(tmp_path / "b/xml", xml("fine"))
    write(tmp_path / "b/sys/bus/pci/devices/0000:17:00.0/vendor", "0x10de")
    assert [gpu.vendor for gpu in read(tmp_path / "b", apu).gpus] == ["nvidia"]
    nvidia_smi(tmp_path / "b", "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
    with pytest.raises(HostError) as error:
        reading.parse("n", probe(tmp_path / "b"), NOW)
    assert error.value.status is Status.DRIVER, "the console's GPU does not hide that the cards are gone"


def test_rdna4_and_apus_are_those_that_stick(tmp_path: Path) -> None:
    rdna4 = Card(1, "0000:03:00.0", "0x7550", "0xc0", dict(radeon().files), (5,), 120001)
    apu = Card(2, "0000:c5:00.0", "0x1586", "0xc1", dict(APU), (77,), 110501)
    found = [*read(tmp_path, rdna4, radeon(3, "0000:44:00.0")).gpus, *read(tmp_path / "b", apu).gpus]
    assert [gpu.utilization_sticks for gpu in found] == [True, False, True]


def nvidia_smi(directory: Path, script: str) -> None:
    program = directory / "bin/nvidia-smi"
    write(program, f"#!/bin/sh\n{script}")
    program.chmod(0o755)


def test_a_host_without_amd_has_no_section_of_it(tmp_path: Path) -> None:
    nvidia_smi(tmp_path, f"cat {tmp_path}/xml")
    write(tmp_path / "xml", xml("fine"))
    # The console of a server, without the driver for computing.
    write(tmp_path / "sys/class/drm/card0/device/vendor", "0x1002")
    sent = framing.sections(probe(tmp_path))
    assert not [name for name in sent if name.startswith("amd")]
    assert "smi-status" in sent


def test_nvidia_smi_is_not_run_where_there_are_only_other_gpus(tmp_path: Path) -> None:
    nvidia_smi(tmp_path, f"touch {tmp_path}/ran; exit 9")
    assert len(read(tmp_path, radeon()).gpus) == 1
    assert not (tmp_path / "ran").exists()
    write(tmp_path / "sys/bus/pci/devices/0000:17:00.0/vendor", "0x10de")
    found = reading.parse("n", probe(tmp_path), NOW)
    assert (tmp_path / "ran").exists()
    assert (len(found.gpus), found.warning) == (1, "nvidia-smi failed with exit status 9")


def test_a_file_that_hangs_is_given_up_and_costs_only_these_gpus(tmp_path: Path) -> None:
    build(tmp_path / "sys", [radeon(gpu_busy_percent=None)])
    os.mkfifo(tmp_path / "sys/class/drm/card1/device/gpu_busy_percent")
    with pytest.raises(HostError) as error:
        reading.parse("n", probe(tmp_path, GPUMON_TIMEOUT="1"), NOW)
    assert (error.value.status, error.value.vendor) == (Status.TIMEOUT, "amd")
    nvidia_smi(tmp_path, f"cat {tmp_path}/xml")
    write(tmp_path / "xml", xml("fine"))
    write(tmp_path / "sys/bus/pci/devices/0000:17:00.0/vendor", "0x10de")
    found = reading.parse("n", probe(tmp_path, GPUMON_TIMEOUT="1"), NOW)
    assert [gpu.vendor for gpu in found.gpus] == ["nvidia"]
    assert "amdgpu could not be read in time" in (found.warning or "")


HOSTILE = {
    "a place on the bus that is none": "kfd/kfd/topology/nodes/1/properties:location_id -1\n",
    "a huge number": f"kfd/kfd/topology/nodes/1/gpu_id:{'9' * 200}\n",
    "markup": "drm/card1/device/product_name:<script>alert(1)</script>\n",
    "a path in a path": "drm/card1/device/../../../etc/passwd:root\n",
    "no number": "kfd/kfd/proc/1e9/vram_x:7\n",
    "a line without end": "drm/card1/device/product_name:" + "x" * 100_000,
    "an unprintable one": "drm/card1/device/product_name:\x00\x1b[2J\u202e\n",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_what_a_host_makes_up_is_read_without_harm(text: str) -> None:
    honest = (
        "drm/card1/device/vendor:0x1002\ndrm/card1/device/uevent:PCI_SLOT_NAME=0000:05:00.0\n"
        "kfd/kfd/topology/nodes/1/gpu_id:7\nkfd/kfd/topology/nodes/1/properties:location_id 1280\n"
    )
    for mixed in (honest + text, text + honest, text):
        for gpu in cards.gpus(tree.parse(mixed)):
            assert (gpu.index, gpu.device) == (0, None)
            assert len(gpu.name or "") <= 200
            assert "\x1b" not in (gpu.name or "")


# Over real SSH, with the tree bound over /sys.


@pytest.fixture(scope="module")
def job() -> Iterator[int]:
    with subprocess.Popen(["sleep", "600"]) as child:
        yield child.pid
        child.kill()


@pytest.fixture
def lab(gpu_hosts: GpuHosts, tmp_path: Path, job: int) -> Iterator[Sshd]:
    """An sshd that sees this /sys: an NVIDIA card, a Radeon, an MI300X with a process, and a console."""
    found = [
        Card(0, "0000:c1:00.0", "0x1506", "0xc1", {"product_name": None}),
        radeon(1, gpu_busy_percent="0", mem_info_vram_used="0"),
        mi300x(2, "0000:26:00.0", 7, gpu_busy_percent="99", mem_info_vram_used=str(70 * GIB)),
    ]
    build(tmp_path / "sys", found, {job: {"vram_7": str(68 * GIB), "vram_51140": "0"}})
    write(tmp_path / "sys/bus/pci/devices/0000:17:00.0/vendor", "0x10de")
    write(tmp_path / "share/libdrm/amdgpu.ids", IDS)
    bound = ["unshare", "--mount", "sh", "-c", f'mount --bind {tmp_path}/sys /sys && exec "$@"', "sh"]
    own = f"SetEnv PATH={gpu_hosts.directory}/bin:/usr/bin:/bin HOME={gpu_hosts.directory} GPUMON_SHARE={tmp_path}/share"
    with sshd(gpu_hosts, tmp_path / "sshd", own, inside=bound) as started:
        yield started


def config_of(hosts: GpuHosts, directory: Path, port: int, *addresses: str, more: str = "") -> Path:
    key = hosts.host_key.with_suffix(".pub").read_text().split()[:2]
    (directory / "known_hosts").write_text("".join(f"[{a}]:{port} {key[0]} {key[1]}\n" for a in addresses))
    return hosts.config(directory, *(f"{address}:{port}" for address in addresses), more=more)


@root_only
@pytest.mark.usefixtures("home")
def test_a_host_with_both_vendors_shows_both_from_the_probe_to_the_page(
    gpu_hosts: GpuHosts, tmp_path: Path, lab: Sshd, job: int
) -> None:
    both, only_amd, without = gpu_hosts.add_xml(xml("fine")), gpu_hosts.address(77), gpu_hosts.address(77)
    more = f"[hosts.'{only_amd}']\nvendor = 'amd'\n[hosts.'{without}']\nvendor = 'nvidia'\n"
    config = config_of(gpu_hosts, tmp_path, lab.port, both, only_amd, without, more=more)
    (gpu_hosts.answers / without).write_text("exit 127")
    assert gpumon("fetch", "-c", config).returncode == 0
    found = rows(tmp_path / "data/load_data.csv")
    mine = [row for row in found if row["host"] == both]
    login = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    assert [(r["gpu_index"], r["gpu_vendor"], r["gpu_device"], r["user"]) for r in mine] == [
        ("0", "nvidia", "", ""),
        ("1", "amd", "0", ""),
        ("2", "amd", "1", login),
    ]
    assert [r["gpu_name"] for r in mine[1:]] == ["AMD Radeon RX 7900 XTX", "AMD Instinct MI300X OAM"]
    assert (mine[2]["pid"], mine[2]["process_memory_mib"]) == (str(job), str(68 * 1024))
    assert [r["gpu_index"] for r in found if r["host"] == only_amd] == ["0", "1"]
    assert [r["status"] for r in found if r["host"] == without] == ["no-nvidia-smi"]

    assert gpumon("render", "-c", config).returncode == 0
    gpus = next(
        h for h in json.loads((tmp_path / "site/gpus.json").read_text())["hosts"] if h["name"] == both
    )["gpus"]
    assert [(g["index"], g["vendor"], g["device"], g["state"]) for g in gpus] == [
        (0, "nvidia", "0", "free"),
        (1, "amd", "0", "free"),
        (2, "amd", "1", "busy"),
    ]
    page = (tmp_path / "site/index.html").read_text()
    assert "RX 7900 XTX" in page
    assert "HIP_VISIBLE_DEVICES=" in page
    offered = gpumon("free", "--model", "7900", "-c", config).stdout
    assert "'env HIP_VISIBLE_DEVICES=0 " in offered
    assert "CUDA" not in offered
    told = gpumon("check", "-c", config, both).stdout
    assert "1 GPU + 2 AMD GPUs" in told


@pytest.mark.usefixtures("home")
def test_a_host_without_any_gpu_has_the_status_of_what_was_expected(
    gpu_hosts: GpuHosts, tmp_path: Path
) -> None:
    vendors = ("", "nvidia", "amd", "any")
    hosts = dict(zip(vendors, (gpu_hosts.address(77) for _ in vendors), strict=True))
    more = "".join(f"[hosts.'{hosts[vendor]}']\nvendor = '{vendor}'\n" for vendor in vendors if vendor)
    config = gpu_hosts.config(tmp_path, *hosts.values(), more=more)
    gpumon("fetch", "-c", config)
    statuses = {row["host"]: row["status"] for row in rows(tmp_path / "data/load_data.csv")}
    assert [statuses[hosts[vendor]] for vendor in vendors] == ["no-nvidia-smi"] * 2 + ["no-gpu-tool"] * 2
    report = json.loads(gpumon("check", "--json", "-c", config).stdout)
    advice = {
        host["host"]: " ".join(line for finding in host["findings"] for line in finding["next"])
        for host in report["hosts"]
    }
    words = [[word for word in ("nvidia-smi", "kfd") if word in advice[hosts[vendor]]] for vendor in vendors]
    assert words == [["nvidia-smi"], ["nvidia-smi"], ["kfd"], ["nvidia-smi", "kfd"]]


WINDOWS = {
    "cmd": "'sh' is not recognized as an internal or external command,\r\noperable program or batch file.",
    "German cmd": 'Der Befehl "sh" ist entweder falsch geschrieben oder\r\nkonnte nicht gefunden werden.',
    "PowerShell": "sh : The term 'sh' is not recognized as the name of a cmdlet\n + CategoryInfo : ObjectNotFound:"
    " (sh:String) [], CommandNotFoundException\n",
    "a switch": "% Unknown command",
}


@pytest.mark.parametrize("text", WINDOWS.values(), ids=WINDOWS)
def test_a_host_without_a_posix_shell_says_so(text: str) -> None:
    with pytest.raises(HostError) as error:
        framing.sections(text)
    assert error.value.status is Status.NO_SHELL
    assert error.value.message.startswith("it answers, but has no POSIX shell")


@pytest.mark.usefixtures("home")
def test_windows_over_ssh_is_not_bad_output(gpu_hosts: GpuHosts, tmp_path: Path) -> None:
    write(tmp_path / "says", WINDOWS["cmd"])
    rule = f"ForceCommand cat {tmp_path}/says >&2; exit 1"
    hosts = [gpu_hosts.address(), gpu_hosts.address()]
    with sshd(gpu_hosts, tmp_path / "sshd", rule) as started:
        more = f"[hosts.'{hosts[1]}']\ntransport = 'openssh'\n"
        config = config_of(gpu_hosts, tmp_path, started.port, *hosts, more=more)
        gpumon("fetch", "-c", config)
        found = rows(tmp_path / "data/load_data.csv")
        told = gpumon("check", "-c", config).stdout
    assert [row["status"] for row in found] == ["no-shell", "no-shell"]
    assert all("it answers, but has no POSIX shell" in row["error"] for row in found)
    assert told.count("WSL") == 2
