"""`nvidia-smi -q -x` to `Gpu` records: one tolerant parser for all drivers.

    <nvidia_smi_log>
        <driver_version>550.90.07</driver_version>
        <gpu id="00000000:17:00.0">
            <fb_memory_usage><total>81559 MiB</total><used>512 MiB</used>...</fb_memory_usage>
            <gpu_power_readings><instant_power_draw>61.20 W</instant_power_draw>...

Values are found by their tag below its parent, never by the number of the schema: the same schema has
come with three layouts. What is missing or not a value is `None`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from xml.etree.ElementTree import Element

from gpumon_static.collect.nvidia import diagnosis, document, lost, mig
from gpumon_static.collect.nvidia.document import Texts, first, first_text
from gpumon_static.collect.values import known, lines, mib, number, watts, whole
from gpumon_static.collect.vendor import VendorReport
from gpumon_static.errors import HostError
from gpumon_static.model import Gpu, Process, Status
from gpumon_static.text import one_line

NEWEST_SCHEMA = 13
MOST_GPUS = 1024
"""GPUs that are read: a host has room for 16."""
LONGEST_NAME = 4096
"""Characters of a command line in which the program's name is looked for."""
MOST_LINES = 10_000
"""Lines around the XML in which a warning is looked for."""
MOST_WARNINGS = 50
_WARNING = re.compile(r"warning|unable to determine", re.IGNORECASE)

# The newest tag first; 285 to 319 have memory_usage, in "MB" that are MiB.
MEMORY_USED = ("fb_memory_usage/used", "memory_usage/used")
MEMORY_TOTAL = ("fb_memory_usage/total", "memory_usage/total")
POWER_DRAW = (
    "gpu_power_readings/instant_power_draw",
    "gpu_power_readings/average_power_draw",
    "gpu_power_readings/power_draw",
    "power_readings/instant_power_draw",
    "power_readings/power_draw",
)
POWER_LIMIT = (
    "gpu_power_readings/current_power_limit",
    "gpu_power_readings/enforced_power_limit",
    "power_readings/enforced_power_limit",
    "power_readings/current_power_limit",
    "gpu_power_readings/power_limit",
    "power_readings/power_limit",
)
PROCESSES = ("processes", "compute_processes")
GENERATION, WIDTH = "pci/pci_gpu_link_info/pcie_gen", "pci/pci_gpu_link_info/link_widths"
_PERFORMANCE_STATE = re.compile(r"P\d{1,2}", re.ASCII)


def parse(stdout: str, stderr: str = "", exit_status: int = 0, listing: str = "") -> VendorReport:
    """`listing` is the answer of `nvidia-smi -L`, where it was asked for. Raises `HostError`."""
    found = document.find(stdout, stderr, exit_status)
    all_elements = found.root.findall("gpu") or found.root.findall(".//gpu")
    missing = lost.find(found.around)
    if not all_elements and not missing:
        raise HostError(Status.NO_GPUS, "nvidia-smi lists no GPU")
    listed = mig.parse_list(listing)
    elements = _confirmed(all_elements, whole(found.root.findtext("attached_gpus")), listed)[:MOST_GPUS]
    described = [_gpu(place, element) for place, element in enumerate(elements)]
    gpus = diagnosis.with_inforom(described, found.around)
    indices = lost.indices(gpus, missing, listed)
    numbered = [
        gpu if gpu.index == index else replace(gpu, index=index)
        for gpu, index in zip(gpus, indices, strict=True)
    ]
    return VendorReport(
        driver_version=_version(found.root, "driver_version", "kmd_version"),
        cuda_version=_version(found.root, "cuda_version", "cuda_umd_version"),
        gpus=lost.merge([*mig.with_profiles(numbered, listed), *lost.as_gpus(gpus, missing, listed)]),
        warning=_warning(found.around),
        note=_note(found, len(all_elements), len(missing), len(listed)),
    )


def _confirmed(
    elements: list[Element], attached: int | None, listed: Sequence[mig.ListedGpu]
) -> list[Element]:
    """Where there are more GPUs than the driver counts, those that `-L` lists as well.

    A process name of several lines may pretend to be one. No name is in that list, nor before the count.
    """
    if not attached or len(elements) <= attached:
        return elements
    found: dict[str | None, list[Element]] = {one.uuid: [] for one in listed}
    for element in elements:
        found.get(known(element.findtext("uuid")), []).append(element)
    return [same[0] if len(same) == 1 else _bare(same[0]) for same in found.values() if same] or elements


def _bare(element: Element) -> Element:
    """Of a GPU that is there more than once: which one the driver wrote is not known."""
    bare = Element("gpu", element.attrib)
    bare.extend(child for child in element if child.tag in ("uuid", "product_name"))
    return bare


def _warning(around: str) -> str | None:
    found = (line.strip() for line in lines(around, MOST_LINES) if _WARNING.search(line))
    return one_line("; ".join(islice(found, MOST_WARNINGS)))


def _note(found: document.Document, described: int, missing: int, listed: int) -> str | None:
    notes = []
    if described > MOST_GPUS:
        notes.append(f"nvidia-smi describes {described} GPUs: the first {MOST_GPUS} are read")
    seen = described + missing
    if found.schema is not None and found.schema > NEWEST_SCHEMA:
        notes.append(f"nvidia-smi's schema v{found.schema} is new here: read as v{NEWEST_SCHEMA}")
    attached = whole(found.root.findtext("attached_gpus"))
    if attached and (attached > max(seen, listed) or described > attached):
        notes.append(f"nvidia-smi counts {attached} GPUs and describes {seen}")
    return "; ".join(notes) or None


def _gpu(place: int, element: Element) -> Gpu:
    gpu = Texts(element)
    lists = [found for tag in PROCESSES for found in element.findall(tag)]
    # An element with children or without any text is a list; the text `N/A` is an unknown one.
    processes_known = any(len(listed) > 0 or one_line(listed.text) is None for listed in lists)
    slices, unplaced = mig.slices(
        element, [Texts(info) for listed in lists[:1] for info in listed], _processes
    )
    return Gpu(
        index=place,
        uuid=first_text(gpu, "uuid"),
        name=first_text(gpu, "product_name"),
        bus_id=known(element.get("id")) or first_text(gpu, "pci/pci_bus_id"),
        utilization=first(gpu, ["utilization/gpu_util"], number),
        memory_used_mib=first(gpu, MEMORY_USED, mib),
        memory_total_mib=first(gpu, MEMORY_TOTAL, mib),
        temperature_c=first(gpu, ["temperature/gpu_temp"], number),
        temperature_limit_c=diagnosis.temperature_limit(gpu),
        fan_percent=first(gpu, ["fan_speed"], number),
        power_w=first(gpu, POWER_DRAW, watts),
        power_limit_w=first(gpu, POWER_LIMIT, watts),
        mig_mode=(first_text(gpu, "mig_mode/current_mig") or "").lower() == "enabled",
        slices=slices,
        processes=_processes(unplaced),
        processes_known=processes_known,
        faults=diagnosis.diagnose(gpu),
        clock_sm_mhz=first(gpu, ["clocks/sm_clock"], number),
        performance_state=first(gpu, ["performance_state"], _performance_state),
        pcie_generation=first(gpu, [f"{GENERATION}/current_link_gen"], whole),
        pcie_generation_max=first(gpu, [f"{GENERATION}/max_link_gen"], whole),
        serial=first_text(gpu, "serial"),
        clock_sm_max_mhz=first(gpu, ["max_clocks/sm_clock"], number),
        pcie_width=first(gpu, [f"{WIDTH}/current_link_width"], whole),
        pcie_width_max=first(gpu, [f"{WIDTH}/max_link_width"], whole),
        vbios=first_text(gpu, "vbios_version"),
    )


def _performance_state(text: str | None) -> str | None:
    state = known(text)
    return state if state and _PERFORMANCE_STATE.fullmatch(state) else None


def _processes(infos: Sequence[Texts]) -> tuple[Process, ...]:
    pids = [(info, first(info, ["pid"], whole)) for info in infos]
    return tuple(
        Process(
            pid=pid,
            type=first_text(info, "type"),
            name=first(info, ["process_name"], own_name),
            memory_mib=first(info, ["used_memory"], mib),
        )
        for info, pid in pids
        if pid is not None and pid >= 1
    )


def own_name(text: str | None) -> str | None:
    """The program's own name: no directory and no arguments, which are private."""
    line = " ".join(text[:LONGEST_NAME].split()) if text and known(text) else ""
    if re.match(r"[A-Za-z]:\\", line):
        return known(re.split(r"(?<=\.exe)\s", line, maxsplit=1, flags=re.IGNORECASE)[0].rpartition("\\")[2])
    # What comes after a blank may be an argument. Where it is part of the name, ps has the whole.
    return known(line.split(" ")[0].rpartition("/")[2].rstrip(":"))


def _version(root: Element, *tags: str) -> str | None:
    """The leading token: newer drivers append a remark to the number."""
    text = next((shown for tag in tags if (shown := known(root.findtext(tag)))), None)
    token = text.split()[0] if text else ""
    return token if token[:1].isdigit() else None
