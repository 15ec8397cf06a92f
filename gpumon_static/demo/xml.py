"""A reading to what `nvidia-smi -q -x` prints, with the tags that each generation of drivers has.

    470            power_readings, clocks_throttle_reasons, memory without `reserved`
    525            the same, with `reserved`
    535, 550       gpu_power_readings/power_draw, clocks_event_reasons
    570.124, 580   gpu_power_readings/average_power_draw and instant_power_draw

Only the lists of supported clocks are left out: they are two thirds of the real text, and are never read.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TypeAlias
from xml.sax.saxutils import escape

from gpumon_static.demo.lab import DemoGpu, DemoHost
from gpumon_static.demo.people import GROUPS
from gpumon_static.model import Gpu, HostReading, MigDevice, Process

Value: TypeAlias = "str | dict[str, Value] | list[Value]"
"""A text, a block of tags, or the same tag several times."""

NA = "N/A"
_PATHS = {program.name: program.path for group in GROUPS.values() for program in group.programs}
_SYSTEM_PATHS = {"Xorg": "/usr/lib/xorg/Xorg", "gnome-shell": "/usr/bin/gnome-shell"}


def render(host: DemoHost, reading: HostReading) -> str:
    schema = "v11" if _driver(host) < (525,) else "v13" if _driver(host) >= (580,) else "v12"
    lines = [
        '<?xml version="1.0" ?>',
        f'<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_{schema}.dtd">',
        "<nvidia_smi_log>",
        *_lines("timestamp", _timestamp(reading.fetched_at), 1),
        *_lines("driver_version", host.driver, 1),
        *_lines("cuda_version", host.cuda or "N/A", 1),
        *_lines("attached_gpus", str(len(reading.gpus)), 1),
    ]
    for demo, gpu in zip(host.gpus, reading.gpus, strict=True):
        lines.append(f'\t<gpu id="{gpu.bus_id}">')
        for tag, value in _gpu(host, demo, gpu).items():
            lines += _lines(tag, value, 2)
        lines.append("\t</gpu>\n")
    lines.append("</nvidia_smi_log>\n")
    return "\n".join(lines)


def _lines(tag: str, value: Value, depth: int) -> Iterator[str]:
    indent = "\t" * depth
    if isinstance(value, str):
        yield f"{indent}<{tag}>{escape(value)}</{tag}>"
    elif isinstance(value, list):
        for one in value:
            yield from _lines(tag, one, depth)
    else:
        yield f"{indent}<{tag}>"
        for inner, child in value.items():
            yield from _lines(inner, child, depth + 1)
        yield f"{indent}</{tag}>"


def _driver(host: DemoHost) -> tuple[int, ...]:
    return tuple(int(part) for part in host.driver.split("."))


def _timestamp(at: datetime) -> str:
    # Not strftime: its names of days and months follow the locale.
    return at.ctime()


def _gpu(host: DemoHost, demo: DemoGpu, gpu: Gpu) -> dict[str, Value]:
    power_state = gpu.performance_state or NA
    return {
        **_identity(host, demo, gpu),
        "pci": _pci(gpu),
        "fan_speed": _with_unit(gpu.fan_percent, "%"),
        "performance_state": power_state,
        **_clock_reasons(host, gpu),
        "fb_memory_usage": _memory(host, demo, gpu),
        "bar1_memory_usage": {"total": "256 MiB", "used": "4 MiB", "free": "252 MiB"},
        "compute_mode": "Default",
        "utilization": _utilization(gpu),
        **_ecc(demo, gpu),
        "temperature": {
            "gpu_temp": _with_unit(gpu.temperature_c, "C"),
            "gpu_temp_max_threshold": f"{demo.model.full_c + 24} C",
            "gpu_temp_slow_threshold": f"{demo.model.slow_c} C",
            "gpu_target_temperature": NA,
            "memory_temp": NA,
        },
        **_power(host, gpu, power_state),
        "clocks": _clocks(gpu.clock_sm_mhz),
        "max_clocks": _clocks(gpu.clock_sm_max_mhz),
        "processes": {"process_info": _processes(gpu)},
        "accounted_processes": {},
    }


def _identity(host: DemoHost, demo: DemoGpu, gpu: Gpu) -> dict[str, Value]:
    mig = "Enabled" if gpu.mig_mode else "Disabled" if demo.model.can_mig else NA
    slices: Value = (
        {"mig_device": [_slice(demo, mig) for mig in gpu.slices]} if gpu.slices else "\n\t\t\tNone\n\t\t"
    )
    return {
        "product_name": demo.model.name,
        "product_brand": "GeForce" if "GeForce" in demo.model.name else "NVIDIA",
        "product_architecture": demo.model.architecture,
        "display_active": "Disabled",
        "persistence_mode": "Enabled",
        "mig_mode": {"current_mig": mig, "pending_mig": mig},
        "mig_devices": slices,
        "accounting_mode": "Disabled",
        "serial": gpu.serial or NA,
        "uuid": demo.uuid,
        "minor_number": str(demo.index),
        "vbios_version": gpu.vbios or NA,
        "gpu_virtualization_mode": {"virtualization_mode": "None", "host_vgpu_mode": NA},
        **({"gpu_recovery_action": "None"} if _driver(host) >= (570,) else {}),
    }


def _slice(demo: DemoGpu, mig: MigDevice) -> Value:
    profile = demo.slices[mig.index].profile
    total, used = mig.memory_total_mib or 0, mig.memory_used_mib or 0
    return {
        "index": str(mig.index),
        "gpu_instance_id": str(mig.gpu_instance),
        "compute_instance_id": str(mig.compute_instance),
        "device_attributes": {"shared": {"multiprocessor_count": str(profile.multiprocessors)}},
        "ecc_error_count": {"volatile_count": {"sram_uncorrectable": "0"}},
        "fb_memory_usage": {
            "total": _with_unit(total, "MiB"),
            "reserved": "0 MiB",
            "used": _with_unit(used, "MiB"),
            "free": _with_unit(total - used, "MiB"),
        },
    }


def _pci(gpu: Gpu) -> Value:
    generations: dict[str, Value] = {
        "max_link_gen": str(gpu.pcie_generation_max),
        "current_link_gen": str(gpu.pcie_generation),
    }
    return {
        "pci_bus": (gpu.bus_id or "")[9:11],
        "pci_bus_id": gpu.bus_id or NA,
        "pci_gpu_link_info": {
            "pcie_gen": generations,
            "link_widths": {
                "max_link_width": f"{gpu.pcie_width_max}x",
                "current_link_width": f"{gpu.pcie_width}x",
            },
        },
        "replay_counter": "0",
    }


def _clock_reasons(host: DemoHost, gpu: Gpu) -> dict[str, Value]:
    word = "event" if _driver(host) >= (535,) else "throttle"
    near_limit = (gpu.power_w or 0) > 0.9 * (gpu.power_limit_w or 1)
    active = {"gpu_idle": not gpu.all_processes, "sw_power_cap": near_limit}
    names = (
        "gpu_idle sw_power_cap hw_slowdown hw_thermal_slowdown hw_power_brake_slowdown sw_thermal_slowdown"
    )
    reasons: dict[str, Value] = {
        f"clocks_{word}_reason_{name}": "Active" if active.get(name) else "Not Active"
        for name in names.split()
    }
    return {f"clocks_{word}_reasons": reasons}


def _memory(host: DemoHost, demo: DemoGpu, gpu: Gpu) -> Value:
    total, used = demo.model.memory_mib, gpu.memory_used_mib or 0
    reserved = demo.model.reserved_mib if _driver(host) >= (510,) else 0
    return {
        "total": _with_unit(total, "MiB"),
        **({"reserved": _with_unit(reserved, "MiB")} if reserved else {}),
        "used": _with_unit(used, "MiB"),
        "free": _with_unit(max(0, total - reserved - used), "MiB"),
    }


def _utilization(gpu: Gpu) -> Value:
    share = (gpu.memory_used_mib or 0) / (gpu.memory_total_mib or 1)
    bandwidth = None if gpu.utilization is None else round(gpu.utilization * (0.2 + 0.5 * share))
    return {
        "gpu_util": _with_unit(gpu.utilization, "%"),
        "memory_util": _with_unit(bandwidth, "%"),
        "encoder_util": _with_unit(None if gpu.utilization is None else 0, "%"),
        "decoder_util": _with_unit(None if gpu.utilization is None else 0, "%"),
    }


def _ecc(demo: DemoGpu, gpu: Gpu) -> dict[str, Value]:
    mode, count = ("Enabled", "0") if demo.model.has_ecc else (NA, NA)
    names = ("sram_correctable", "sram_uncorrectable", "dram_correctable", "dram_uncorrectable")
    counts: dict[str, Value] = dict.fromkeys(names, count)
    if gpu.faults:
        counts["dram_uncorrectable"] = "2"
    return {
        "ecc_mode": {"current_ecc": mode, "pending_ecc": mode},
        "ecc_errors": {"volatile": counts, "aggregate": counts},
        "remapped_rows": {
            "remapped_row_corr": "0",
            "remapped_row_unc": "0",
            "remapped_row_pending": "No",
            "remapped_row_failure": "No",
        }
        if demo.model.architecture in ("Ampere", "Hopper") and demo.model.has_ecc
        else NA,
    }


def _power(host: DemoHost, gpu: Gpu, power_state: str) -> dict[str, Value]:
    draw, limit = f"{gpu.power_w:.2f} W", f"{gpu.power_limit_w:.2f} W"
    if _driver(host) < (535,):
        old: dict[str, Value] = {
            "power_state": power_state,
            "power_management": "Supported",
            "power_draw": draw,
            "power_limit": limit,
            "default_power_limit": limit,
            "enforced_power_limit": limit,
        }
        return {"power_readings": old}
    limits: dict[str, Value] = {
        "current_power_limit": limit,
        "requested_power_limit": limit,
        "default_power_limit": limit,
    }
    if _driver(host) < (570, 124):
        draws: dict[str, Value] = {"power_draw": draw}
    else:
        draws = {"average_power_draw": f"{0.98 * (gpu.power_w or 0):.2f} W", "instant_power_draw": draw}
    unknown: dict[str, Value] = dict.fromkeys({**draws, **limits}, NA)
    return {
        "gpu_power_readings": {"power_state": power_state, **draws, **limits},
        "module_power_readings": {"power_state": power_state, **unknown},
    }


def _clocks(mhz: float | None) -> Value:
    clock = _with_unit(mhz, "MHz")
    return {"graphics_clock": clock, "sm_clock": clock}


def _processes(gpu: Gpu) -> list[Value]:
    whole = [_process(process, NA, NA) for process in gpu.processes]
    return whole + [
        _process(process, str(mig.gpu_instance), str(mig.compute_instance))
        for mig in gpu.slices
        for process in mig.processes
    ]


def _process(process: Process, gpu_instance: str, compute_instance: str) -> Value:
    name = process.name or ""
    path = _SYSTEM_PATHS.get(name) or _PATHS.get(name, name)
    return {
        "gpu_instance_id": gpu_instance,
        "compute_instance_id": compute_instance,
        "pid": str(process.pid),
        "type": process.type or NA,
        "process_name": path.format(user=process.user or "nobody"),
        "used_memory": _with_unit(process.memory_mib, "MiB"),
    }


def _with_unit(value: float | None, unit: str) -> str:
    return NA if value is None else f"{value:.0f} {unit}"
