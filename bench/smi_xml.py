"""An `nvidia-smi -q -x` of a busy machine, of the size that real ones have, made up for the benches.

Most of a real answer is `supported_clocks`, which nobody reads and everybody has to carry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

MEMORY_CLOCKS_MHZ = (2619, 1593)
GRAPHICS_CLOCKS_MHZ = range(1980, 180, -15)
REASONS = ("gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost")
ECC_COUNTS = ("sram_correctable", "sram_uncorrectable", "dram_correctable", "dram_uncorrectable")
CLOCKS = {"graphics_clock": 1980, "sm_clock": 1980, "mem_clock": 2619, "video_clock": 1545}


def document(gpus: int, pids: Sequence[int]) -> str:
    """Each GPU is held by all of `pids`."""
    lines = [
        '<?xml version="1.0" ?>',
        '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">',
        "<nvidia_smi_log>",
        "\t<driver_version>550.90.07</driver_version>",
        "\t<cuda_version>12.4</cuda_version>",
        f"\t<attached_gpus>{gpus}</attached_gpus>",
    ]
    for index in range(gpus):
        lines.append(f'\t<gpu id="00000000:{index + 16:02X}:00.0">')
        lines += (f"\t\t{line}" for line in _gpu(index, pids))
        lines.append("\t</gpu>")
    return "\n".join([*lines, "</nvidia_smi_log>", ""])


def _gpu(index: int, pids: Sequence[int]) -> Iterator[str]:
    used_mib = 20_000 + 1_000 * index
    yield "<product_name>NVIDIA H100 80GB HBM3</product_name>"
    yield "<product_brand>NVIDIA</product_brand>"
    yield "<persistence_mode>Enabled</persistence_mode>"
    yield from _block("mig_mode", {"current_mig": "Disabled", "pending_mig": "Disabled"})
    yield f"<uuid>GPU-5ca1ab1e-0000-4000-8000-{index:012d}</uuid>"
    yield from _block("pci", {f"pci_counter_{i}": f"{i * 977} KB/s" for i in range(20)})
    yield "<fan_speed>N/A</fan_speed>"
    yield from _block("clocks_event_reasons", {f"clocks_event_reason_{r}": "Not Active" for r in REASONS})
    memory = {"total": "81559 MiB", "used": f"{used_mib} MiB", "free": f"{81559 - used_mib} MiB"}
    yield from _block("fb_memory_usage", memory)
    yield from _block("utilization", {"gpu_util": f"{90 + index} %", "memory_util": "41 %"})
    for kind in ("volatile", "aggregate"):
        yield from _block(f"ecc_{kind}", dict.fromkeys(ECC_COUNTS, "0"))
    yield from _block("temperature", {"gpu_temp": f"{50 + index} C", "gpu_temp_max_threshold": "87 C"})
    power = {"instant_power_draw": f"{500 + index}.25 W", "current_power_limit": "700.00 W"}
    yield from _block("gpu_power_readings", power)
    for kind in ("clocks", "max_clocks"):
        yield from _block(kind, {name: f"{mhz} MHz" for name, mhz in CLOCKS.items()})
    yield from _supported_clocks()
    yield "<processes>"
    for pid in pids:
        process = {"pid": pid, "type": "C", "process_name": "/opt/conda/bin/python3"}
        share = f"{used_mib // len(pids)} MiB"
        yield from (f"\t{line}" for line in _block("process_info", {**process, "used_memory": share}))
    yield "</processes>"


def _supported_clocks() -> Iterator[str]:
    yield "<supported_clocks>"
    for memory_mhz in MEMORY_CLOCKS_MHZ:
        yield "\t<supported_mem_clock>"
        yield f"\t\t<value>{memory_mhz} MHz</value>"
        for mhz in GRAPHICS_CLOCKS_MHZ:
            yield f"\t\t<supported_graphics_clock>{mhz} MHz</supported_graphics_clock>"
        yield "\t</supported_mem_clock>"
    yield "</supported_clocks>"


def _block(tag: str, values: dict[str, object] | dict[str, str]) -> Iterator[str]:
    yield f"<{tag}>"
    for name, value in values.items():
        yield f"\t<{name}>{value}</{name}>"
    yield f"</{tag}>"
