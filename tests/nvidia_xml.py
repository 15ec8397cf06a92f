"""What a stand-in for nvidia-smi prints: one A100, and its processes."""

from __future__ import annotations

XML = """<?xml version="1.0" ?>
<nvidia_smi_log>
	<driver_version>550.90.07</driver_version>
	<cuda_version>12.4</cuda_version>
	<gpu id="00000000:17:00.0">
		<product_name>NVIDIA A100-SXM4-80GB</product_name>
		<uuid>GPU-{uuid}</uuid>
		<fan_speed>N/A</fan_speed>
		<fb_memory_usage><total>81920 MiB</total><used>{used} MiB</used><free>0 MiB</free></fb_memory_usage>
		<utilization><gpu_util>{utilization} %</gpu_util></utilization>
		<temperature><gpu_temp>55 C</gpu_temp></temperature>
		<gpu_power_readings><power_draw>250.10 W</power_draw><current_power_limit>400.00 W</current_power_limit></gpu_power_readings>
		<processes>{processes}</processes>
	</gpu>
</nvidia_smi_log>
"""
PROCESS = """
			<process_info>
				<pid>{pid}</pid>
				<type>C</type>
				<process_name>/usr/bin/python3</process_name>
				<used_memory>40960 MiB</used_memory>
			</process_info>
"""


def xml(uuid: str = "a", utilization: int = 0, used: int = 4, pids: tuple[int, ...] = ()) -> str:
    processes = "".join(PROCESS.format(pid=pid) for pid in pids)
    return XML.format(uuid=uuid, utilization=utilization, used=used, processes=processes)
