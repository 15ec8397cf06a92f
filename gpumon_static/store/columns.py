"""The columns of `load_data.csv`: their order, the field each one is of, and what it means.

The first ones, up to `job`, are a contract with the scripts of users: their names and order stay, and new
columns come last. docs/outputs.md is generated from here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gpumon_static.model import Allocated, Status
from gpumon_static.store import cells

CONTRACT = (
    "fetched_at host status error fetch_seconds driver_version cuda_version gpu_index gpu_uuid gpu_name"
    " gpu_utilization gpu_memory_used_mib gpu_memory_total_mib gpu_temperature_c gpu_fan_percent gpu_power_w"
    " gpu_power_limit_w mig_device pid process_type process_name process_memory_mib user elapsed_s job"
).split()
EXTRA = (
    "uid process_state gpu_bus_id gpu_mig_mode gpu_processes_known mig_uuid mig_profile mig_gpu_instance"
    " mig_compute_instance mig_memory_used_mib mig_memory_total_mib warning cpu_count load_1m load_5m"
    " load_15m ram_used_mib ram_total_mib gpu_faults command_line cpu_utilization swap_used_mib"
    " swap_total_mib uptime_s disks note gpu_vendor gpu_device gpu_memory_shared gpu_utilization_sticks"
    " compute_units slurm_node slurm_state slurm_reason slurm_takes_jobs slurm_kind slurm_allocated slurm_job"
    " slurm_job_name slurm_user slurm_started_at slurm_ends_at gpu_temperature_limit_c"
    " probe_version clock_offset_s slurm_partition slurm_account"
).split()
COLUMNS = CONTRACT + EXTRA


class CsvColumn(NamedTuple):
    """Where the value of a column goes, how its cell is read, and what it is, as a line of Markdown."""

    field: str
    convert: Callable[[str], Any]
    about: str


# Each record's fields, by column. A cell that is empty leaves the field's default.
HOST: dict[str, CsvColumn] = {
    "fetched_at": CsvColumn("fetched_at", cells.moment, "when the host was read; UTC, ISO 8601"),
    "host": CsvColumn("host", cells.text, "name, as in the config, without user and port"),
    "status": CsvColumn("status", Status, "`ok`, or why there is no reading"),
    "error": CsvColumn("error", cells.text, "one line that explains the status"),
    "fetch_seconds": CsvColumn("fetch_seconds", cells.finite, "how long reading the host took"),
    "driver_version": CsvColumn("driver_version", cells.text, "version of the driver"),
    "cuda_version": CsvColumn("cuda_version", cells.text, "highest CUDA version that the driver supports"),
    "warning": CsvColumn("warning", cells.text, "warning that nvidia-smi printed beside good data"),
    "note": CsvColumn(
        "note", cells.text, "how the reading was made, e.g. what was out of range and left out"
    ),
    "probe_version": CsvColumn("probe_version", cells.whole, "version of the probe that ran there"),
    "clock_offset_s": CsvColumn(
        "clock_offset_s", cells.whole, "its clock less the collector's, in seconds; above 0 is ahead"
    ),
}
MACHINE: dict[str, CsvColumn] = {
    "cpu_count": CsvColumn("cpu_count", cells.whole, "CPUs of the host"),
    "load_1m": CsvColumn("load_1m", cells.finite, "load average over 1 minute"),
    "load_5m": CsvColumn("load_5m", cells.finite, "load average over 5 minutes"),
    "load_15m": CsvColumn("load_15m", cells.finite, "load average over 15 minutes"),
    "ram_used_mib": CsvColumn("ram_used_mib", cells.finite, "RAM in use"),
    "ram_total_mib": CsvColumn("ram_total_mib", cells.finite, "RAM"),
    "cpu_utilization": CsvColumn(
        "cpu_utilization", cells.finite, "percent of all CPUs, while the host was read"
    ),
    "swap_used_mib": CsvColumn("swap_used_mib", cells.finite, "swap in use"),
    "swap_total_mib": CsvColumn("swap_total_mib", cells.finite, "swap"),
    "uptime_s": CsvColumn("uptime_s", cells.whole, "seconds since boot"),
    "disks": CsvColumn(
        "disks",
        cells.disks,
        "`/ 59799/467850 ssd; /data 7340032/9000000 hdd`: MiB used/total; `-` is not known",
    ),
}
GPU: dict[str, CsvColumn] = {
    "gpu_index": CsvColumn(
        "index",
        cells.whole,
        "nvidia-smi's index; GPUs of other vendors are counted on from there; empty: the host has no reading",
    ),
    "gpu_uuid": CsvColumn("uuid", cells.text, "UUID of the GPU"),
    "gpu_name": CsvColumn("name", cells.text, "full name of the GPU"),
    "gpu_utilization": CsvColumn("utilization", cells.finite, "percent of the time in which a kernel ran"),
    "gpu_memory_used_mib": CsvColumn("memory_used_mib", cells.finite, "GPU memory in use"),
    "gpu_memory_total_mib": CsvColumn("memory_total_mib", cells.finite, "GPU memory"),
    "gpu_temperature_c": CsvColumn("temperature_c", cells.finite, "degrees Celsius"),
    "gpu_temperature_limit_c": CsvColumn(
        "temperature_limit_c", cells.finite, "degrees Celsius at which it slows down"
    ),
    "gpu_fan_percent": CsvColumn("fan_percent", cells.finite, "fan speed, percent of its maximum"),
    "gpu_power_w": CsvColumn("power_w", cells.finite, "power draw in watts"),
    "gpu_power_limit_w": CsvColumn("power_limit_w", cells.finite, "power limit in watts"),
    "gpu_bus_id": CsvColumn("bus_id", cells.text, "PCI bus id"),
    "gpu_mig_mode": CsvColumn("mig_mode", cells.flag, "whether MIG is on"),
    "gpu_processes_known": CsvColumn(
        "processes_known", cells.flag, "whether the driver gives a list of processes"
    ),
    "gpu_faults": CsvColumn(
        "faults", cells.faults, "`rule: what was seen; rule: ...`; a `;` inside is `\\;`"
    ),
    "gpu_vendor": CsvColumn("vendor", cells.text, "`nvidia` or `amd`"),
    "gpu_device": CsvColumn(
        "device", cells.text, "what `HIP_VISIBLE_DEVICES` takes, where that is not the index"
    ),
    "gpu_memory_shared": CsvColumn(
        "memory_shared", cells.flag, "whether its memory is the CPU's RAM, used by the whole host"
    ),
    "gpu_utilization_sticks": CsvColumn(
        "utilization_sticks", cells.flag, "whether its utilization may stay at 100 % without work"
    ),
}
SLICE: dict[str, CsvColumn] = {
    "mig_device": CsvColumn("index", cells.whole, "index of the slice; empty: the whole GPU"),
    "mig_uuid": CsvColumn("uuid", cells.text, "UUID of the slice"),
    "mig_profile": CsvColumn("profile", cells.text, "profile of the slice, e.g. `3g.40gb`"),
    "mig_gpu_instance": CsvColumn("gpu_instance", cells.whole, "its GPU instance"),
    "mig_compute_instance": CsvColumn("compute_instance", cells.whole, "its compute instance"),
    "mig_memory_used_mib": CsvColumn("memory_used_mib", cells.finite, "memory in use of the slice"),
    "mig_memory_total_mib": CsvColumn("memory_total_mib", cells.finite, "memory of the slice"),
}
PROCESS: dict[str, CsvColumn] = {
    "pid": CsvColumn("pid", cells.whole, "process id; empty: no process"),
    "process_type": CsvColumn(
        "type", cells.text, "nvidia-smi's letters: `C` compute, `G` graphics, `C+G` both, `M` MPS"
    ),
    "process_name": CsvColumn("name", cells.text, "name of the program, without directory and arguments"),
    "process_memory_mib": CsvColumn("memory_mib", cells.finite, "GPU memory of the process"),
    "user": CsvColumn("user", cells.text, "login of the owner"),
    "elapsed_s": CsvColumn("elapsed_s", cells.whole, "seconds since the process started"),
    "job": CsvColumn("job", cells.text, "`slurm:12345`, `docker:3f2a90c3e7d5`, ..."),
    "uid": CsvColumn("uid", cells.whole, "numeric user id of the owner"),
    "process_state": CsvColumn("state", cells.text, "state letters of ps, or `gone`"),
    "command_line": CsvColumn("command_line", cells.text, "with arguments; only with `fetch.command_lines`"),
    "compute_units": CsvColumn(
        "compute_units",
        cells.whole,
        "compute units that it uses at this moment, where they are counted",
    ),
}
NODE: dict[str, CsvColumn] = {
    "slurm_node": CsvColumn(
        "node", cells.text, "Slurm's name of the host; empty: no Slurm was asked, or knows it"
    ),
    "slurm_state": CsvColumn("state", cells.text, "state of the node, as Slurm writes it: `MIXED+DRAIN`"),
    "slurm_reason": CsvColumn("reason", cells.text, "Slurm's reason for that state"),
    "slurm_takes_jobs": CsvColumn("takes_jobs", cells.flag, "whether Slurm starts jobs of everybody there"),
    "slurm_kind": CsvColumn("kind", cells.text, "Slurm's name of its GPUs, where all are of one kind"),
}
ALLOCATION: dict[str, CsvColumn] = {
    "slurm_allocated": CsvColumn(
        "allocated", Allocated, "whether a job has the GPU: `yes`, `no`, `unknown`; empty: no Slurm"
    ),
    "slurm_job": CsvColumn("job", cells.text, "id of that job"),
    "slurm_job_name": CsvColumn("job_name", cells.text, "its name; only with `slurm.job_names`"),
    "slurm_user": CsvColumn("user", cells.text, "login of its owner"),
    "slurm_started_at": CsvColumn("started_at", cells.moment, "when it started; UTC, ISO 8601"),
    "slurm_ends_at": CsvColumn("ends_at", cells.moment, "when it ends at the latest, by its time limit"),
    "slurm_partition": CsvColumn("partition", cells.text, "its partition"),
    "slurm_account": CsvColumn("account", cells.text, "its account"),
}
TABLES = (HOST, MACHINE, GPU, SLICE, PROCESS, NODE, ALLOCATION)
