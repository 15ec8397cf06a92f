"""tests/captures/collect.sh: a user's capture tells all about the GPUs and nothing about the user."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from gpumon_static.collect import amd
from gpumon_static.collect.nvidia import mig, smi
from tests.amd_tree import Card, build
from tests.places import CAPTURES, SHARED

SCRIPT = CAPTURES / "collect.sh"
SHELLS = [["dash"], ["bash", "--posix"], ["busybox", "sh"]]
UUID = "9d3c5e1f-1a2b-4c5d-8e9f-0123456789ab"
PRIVATE = f"""<nvidia_smi_log>
	<driver_version>550.1</driver_version>
	<gpu id="00000000:17:00.0">
		<product_name>NVIDIA A100-SXM4-80GB</product_name>
		<serial>1324420012345</serial>
		<uuid>GPU-{UUID}</uuid>
		<pdi>0x123456789a0bcdef</pdi>
		<platformInfo>
			<chassis_serial_number>1821225190042</chassis_serial_number>
		</platformInfo>
		<fabric>
			<clusterUuid>{UUID.replace("9d3c", "aaaa")}</clusterUuid>
		</fabric>
		<fb_memory_usage>
			<used>512 MiB</used>
		</fb_memory_usage>
		<processes>
			<process_info>
				<pid>41234</pid>
				<type>C</type>
				<process_name>/home/ada/secret-project/train.py --token=s3cret</process_name>
				<used_memory>500 MiB</used_memory>
			</process_info>
			<process_info>
				<pid>41235</pid>
				<process_name><script>alert("ada")</script></process_name>
			</process_info>
			<process_info>
				<pid>41236</pid>
				<process_name>two
lines of ada</process_name>
			</process_info>
			<process_info>
				<pid>41234</pid>
				<process_name>[Not Found]</process_name>
			</process_info>
		</processes>
	</gpu>
</nvidia_smi_log>
"""
SECRETS = [
    "ada",
    "secret",
    "s3cret",
    "41234",
    "41235",
    "41236",
    "13244",
    "0x12345",
    "18212",
    "9d3c",
    "script",
    "visible",
]


def collect(shell: list[str], directory: Path, xml: str, host: str = "ada-desk.visible.example") -> str:
    programs = directory / "bin"
    programs.mkdir(exist_ok=True)
    (directory / "xml").write_text(xml)
    listing = f"GPU 0: X (UUID: GPU-{UUID})"
    (programs / "nvidia-smi").write_text(
        f"#!/bin/sh\n[ $1 = -L ] && echo '{listing}' || cat {directory}/xml\n"
    )
    (programs / "uname").write_text(f"#!/bin/sh\n[ $1 = -n ] && echo {host} || echo Linux {host} x86_64\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run([*shell, SCRIPT], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
def test_nothing_private_is_in_a_capture_and_it_is_still_read(shell: list[str], tmp_path: Path) -> None:
    capture = collect(shell, tmp_path, PRIVATE)
    for secret in SECRETS:
        assert secret not in capture, secret
    (gpu,) = smi.parse(capture, listing=capture).gpus
    assert (gpu.name, gpu.bus_id, gpu.memory_used_mib) == ("NVIDIA A100-SXM4-80GB", "00000000:17:00.0", 512)
    assert [(p.pid, p.name, p.memory_mib) for p in gpu.processes] == [
        (1, "process-1", 500),
        (2, "process-2", None),
        (3, "masked", None),
        (1, None, None),
    ]
    assert gpu.uuid == "GPU-00000000-0000-0000-0000-000000000001"
    assert [listed.uuid for listed in mig.parse_list(capture)] == [gpu.uuid], "the same value, the same mask"


@pytest.mark.parametrize("path", sorted(SHARED.glob("*.xml"))[::6], ids=lambda p: p.stem)
def test_masking_changes_no_reading(tmp_path: Path, path: Path) -> None:
    text = path.read_text(errors="replace")
    before = smi.parse(text)
    after = smi.parse(collect(["dash"], tmp_path, text))
    assert (after.driver_version, len(after.gpus)) == (before.driver_version, len(before.gpus))
    for old, new in zip(before.gpus, after.gpus, strict=True):
        assert (new.name, new.bus_id, new.utilization) == (old.name, old.bus_id, old.utilization)
        assert (new.memory_used_mib, new.power_w, new.faults) == (
            old.memory_used_mib,
            old.power_w,
            old.faults,
        )
        assert len(new.all_processes) == len(old.all_processes)
    real = set(re.findall(r"GPU-(?!0{8})[0-9a-f]{8}-[0-9a-f-]{27}", text))
    assert not [uuid for uuid in real if uuid in collect(["dash"], tmp_path, text)]


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
def test_the_files_of_amd_are_collected_masked_and_still_read(shell: list[str], tmp_path: Path) -> None:
    card = Card(1, "0000:05:00.0", gpu_ids=(51140,), files={"serial_number": "692251001234"})
    mine = {"vram_51140": "8589934592", "pasid": "32770", "stats_51140/cu_occupancy": "12"}
    build(tmp_path / "sys", [card, Card(2, "0000:26:00.0", gpu_ids=(7,))], {41234: mine})
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/uname").write_text("#!/bin/sh\n[ $1 = -n ] && echo ada-desk || echo Linux ada-desk\n")
    (tmp_path / "bin/uname").chmod(0o755)
    environment = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "GPUMON_SYS": f"{tmp_path}/sys"}
    done = subprocess.run([*shell, SCRIPT], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    for secret in ("a1b2c3d4", "692251", "41234", "ada"):
        assert secret not in done.stdout, secret
    first, second = amd.read({"amd": done.stdout + "processes:\n"}).gpus
    assert (first.uuid, second.uuid) == ("GPU-0000000000000002", "GPU-0000000000000004"), (
        "the serial numbers are 1 and 3"
    )
    assert (first.memory_total_mib, first.power_w, first.temperature_c) == (192 * 1024, 133, 41)
    assert [(p.pid, p.memory_mib, p.compute_units) for p in first.processes] == [(1, 8192, 12)]


def test_a_machine_without_nvidia_smi_is_told_so(tmp_path: Path) -> None:
    done = subprocess.run(
        ["sh", SCRIPT],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"GPUMON_SYS": str(tmp_path)},
    )
    assert (done.returncode, "nvidia-smi is not installed" in done.stderr) == (1, True)
