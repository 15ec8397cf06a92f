"""What a host tells, from its programs over real SSH to the CSV and the page."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import PROGRAM, gpumon, rows
from tests.sshd import GpuHosts

pytestmark = pytest.mark.usefixtures("home")

XML = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v99.dtd">
<nvidia_smi_log>
	<driver_version>599.10</driver_version>
	<attached_gpus>2</attached_gpus>
	<gpu id="00000000:17:00.0">
		<product_name>NVIDIA H100 80GB HBM3</product_name>
		<mig_mode>
			<current_mig>Enabled</current_mig>
		</mig_mode>
		<mig_devices>
			<mig_device>
				<index>0</index>
				<gpu_instance_id>2</gpu_instance_id>
				<compute_instance_id>0</compute_instance_id>
				<fb_memory_usage><total>40448 MiB</total><used>9000 MiB</used></fb_memory_usage>
			</mig_device>
		</mig_devices>
		<uuid>GPU-a</uuid>
		<fb_memory_usage><total>81559 MiB</total><used>9060 MiB</used></fb_memory_usage>
		<ecc_errors><volatile><dram_uncorrectable>5</dram_uncorrectable></volatile></ecc_errors>
		<processes>
			<process_info>
				<gpu_instance_id>2</gpu_instance_id>
				<compute_instance_id>0</compute_instance_id>
				<pid>{pid}</pid>
				<type>C</type>
				<process_name>/usr/bin/python3 --secret</process_name>
				<used_memory>8990 MiB</used_memory>
			</process_info>
		</processes>
	</gpu>
	<gpu id="00000000:AA:00.0">
		<uuid>GPU-c</uuid>
		<fb_memory_usage><total>81559 MiB</total><used>30000 MiB</used></fb_memory_usage>
		<utilization><gpu_util>0 %</gpu_util></utilization>
		<processes></processes>
	</gpu>
</nvidia_smi_log>
"""
LISTING = "GPU 0: H100 (UUID: GPU-a)\n  MIG 3g.40gb     Device  0: (UUID: MIG-b)\nGPU 2: H100 (UUID: GPU-c)\n"
LOST = "Unable to determine the device handle for GPU0000:5F:00.0: Unknown Error"


@pytest.fixture
def job() -> Iterator[int]:
    """The PID of a process with something to hide in its arguments."""
    child = subprocess.Popen(["sh", "-c", "sleep 300; : --token=s3cret"], start_new_session=True)
    yield child.pid
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def add_host(hosts: GpuHosts, directory: Path, pid: int) -> str:
    (directory / "xml").write_text(XML.format(pid=pid))
    (directory / "list").write_text(LISTING)
    return hosts.add(f"case $1 in -L) cat {directory}/list ;; *) echo '{LOST}'; cat {directory}/xml ;; esac")


def test_slices_faults_disks_and_ghosts_reach_the_csv_and_the_page(
    gpu_hosts: GpuHosts, tmp_path: Path, job: int
) -> None:
    host = add_host(gpu_hosts, tmp_path, job)
    config = gpu_hosts.config(tmp_path, host, more="disks = ['/', '/proc']\ncommand_lines = true\n")
    login = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    with config.open("a") as file:
        file.write(f"[users]\n{login} = 'Ada Lovelace'\n")
    done = gpumon("fetch", "-v", "-c", config)
    assert done.returncode == 0
    assert "schema v99 is new here: read as v13" in done.stderr
    mine, lost, idle = rows(tmp_path / "data/load_data.csv")
    assert (mine["gpu_index"], mine["mig_device"], mine["mig_profile"], mine["mig_uuid"]) == (
        "0",
        "0",
        "3g.40gb",
        "MIG-b",
    )
    assert mine["gpu_faults"] == "ecc-errors: uncorrected: 5 in DRAM"
    assert (mine["process_name"], mine["user"]) == ("python3", login)
    assert mine["command_line"] == "sh -c sleep 300; : --token=s3cret"
    assert (lost["gpu_index"], lost["gpu_bus_id"]) == ("1", "0000:5F:00.0")
    assert lost["gpu_faults"] == "lost: Unknown Error"
    assert idle["gpu_index"] == "2"
    assert mine["disks"].startswith("/ ")
    assert float(mine["cpu_utilization"]) >= 0
    assert int(mine["uptime_s"]) > 0

    assert gpumon("render", "-c", config).returncode == 0
    page = (tmp_path / "site/index.html").read_text()
    for words in (
        "GPU 0: ECC errors",
        "GPU 1: lost",
        '["Held by no process","29 GB"]',
        "Ada Lovelace",
        "not reported per slice",
    ):
        assert words in page, words
    assert "s3cret" not in page, "command lines are collected, and not shown"
    with config.open("a") as file:
        file.write("[site]\nshow_command_lines = true\nignore_faults = ['ecc-errors']\n")
    assert gpumon("render", "-c", config).returncode == 0
    page = (tmp_path / "site/index.html").read_text()
    assert "s3cret" in page
    assert "ECC errors" not in page


def processes_of(address: str) -> list[str]:
    """All that sshd has started for connections to this address, sshd itself left out."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            environment = (entry / "environ").read_bytes() if entry.name.isdecimal() else b""
            if f" {address} ".encode() in environment and b"SSH_CONNECTION=" in environment:
                found.append((entry / "cmdline").read_text().replace("\0", " ").strip())
        except OSError:
            continue
    return found


@pytest.mark.parametrize("transport", ["paramiko", "openssh"])
def test_no_process_stays_on_the_host_when_the_client_dies(
    gpu_hosts: GpuHosts, tmp_path: Path, transport: str
) -> None:
    host = gpu_hosts.add("trap '' TERM HUP; while :; do sleep 0.3; done")
    config = gpu_hosts.config(tmp_path, host, more=f"transport = '{transport}'\n")
    config.write_text(config.read_text().replace("command_timeout = 10", "command_timeout = 300"))
    client = subprocess.Popen([*PROGRAM, "fetch", "-c", config], start_new_session=True)
    end = time.monotonic() + 60
    while not any("sleep 0.3" in line for line in processes_of(host)):
        assert time.monotonic() < end, "the probe did not start"
        time.sleep(0.2)
    os.killpg(client.pid, signal.SIGKILL)
    client.wait()
    end = time.monotonic() + 120
    while left := processes_of(host):
        assert time.monotonic() < end, left
        time.sleep(0.2)
