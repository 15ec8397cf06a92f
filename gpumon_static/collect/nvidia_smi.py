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
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING
from xml.etree.ElementTree import ParseError
from xml.sax.saxutils import escape, unescape

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from gpumon_static.collect.text import known, number, one_line
from gpumon_static.errors import HostError
from gpumon_static.model import Gpu, MigDevice, Process, Status

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

# The newest tag first; 285 to 319 have memory_usage, in "MB" that are MiB.
MEMORY = ("fb_memory_usage", "memory_usage")
POWER_DRAW = (
    "gpu_power_readings/instant_power_draw",
    "gpu_power_readings/average_power_draw",
    "gpu_power_readings/power_draw",
    "power_readings/power_draw",
)
POWER_LIMIT = (
    "gpu_power_readings/current_power_limit",
    "gpu_power_readings/enforced_power_limit",
    "power_readings/enforced_power_limit",
    "gpu_power_readings/power_limit",
    "power_readings/power_limit",
)
PROCESSES = ("processes", "compute_processes")

_DOCUMENT = re.compile(r"(?:<\?xml|<nvidia_smi_log)(?:.*?)</nvidia_smi_log\s*>", re.DOTALL)
_LOST = re.compile(r"Unable to determine the device handle for GPU\s?(\d+): (?:GPU)?([0-9A-Fa-f:.]+):")
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_PROCESS_NAME = re.compile(r"(?<=<process_name>).*?(?=</process_name>)", re.DOTALL)

# What nvidia-smi prints instead of XML, and what that means. Its exit status is no safe guide: 255 is
# also that of ssh, and the driver's messages come on stdout.
_MESSAGES = (
    (re.compile(r"No devices were found", re.IGNORECASE), Status.NO_GPUS),
    (re.compile(r"couldn't communicate with the NVIDIA driver", re.IGNORECASE), Status.DRIVER),
    (re.compile(r"Failed to initialize NVML", re.IGNORECASE), Status.DRIVER),
    (re.compile(r"couldn't find libnvidia-ml", re.IGNORECASE), Status.DRIVER),
    (re.compile(r"Unable to determine the device handle", re.IGNORECASE), Status.DRIVER),
    (re.compile(r"GPU is lost|driver is not loaded|version mismatch", re.IGNORECASE), Status.DRIVER),
)
_DRIVER_EXITS = {4, 9, 12, 15, 18}
_TIMEOUT_EXITS = {124, 137}


@dataclass(frozen=True)
class SmiReport:
    driver_version: str | None
    cuda_version: str | None
    gpus: tuple[Gpu, ...]
    warning: str | None


def parse(stdout: str, stderr: str = "", exit_status: int = 0) -> SmiReport:
    """A complete document counts, whatever the exit status; an incomplete one is refused."""
    match = _DOCUMENT.search(stdout)
    if not match:
        raise _no_document(stdout, stderr, exit_status)
    root = _root(match[0])
    elements = root.findall("gpu")
    if not elements:
        raise HostError(Status.NO_GPUS, "nvidia-smi lists no GPU")
    around = stdout[: match.start()] + "\n" + _DOCUMENT.sub("", stdout[match.end() :]) + "\n" + stderr
    lost = {int(index) for index, _bus in _LOST.findall(around)}
    free_indices = (i for i in range(len(elements) + len(lost)) if i not in lost)
    return SmiReport(
        driver_version=_version(root, "driver_version"),
        cuda_version=_version(root, "cuda_version"),
        gpus=tuple(_gpu(i, element) for i, element in zip(free_indices, elements, strict=False)),
        warning=_warning(around),
    )


def _root(document: str) -> Element:
    document = _NOT_XML.sub("\ufffd", document)
    try:
        return fromstring(document)
    except (ParseError, DefusedXmlException):
        pass
    try:
        # Some drivers print process names as they are: `<script>` is a legal one.
        return fromstring(_PROCESS_NAME.sub(lambda m: escape(unescape(m[0])), document))
    except ParseError as error:
        raise HostError(Status.BAD_OUTPUT, f"nvidia-smi's XML is not well-formed: {error}") from error
    except DefusedXmlException as error:
        raise HostError(Status.BAD_OUTPUT, "nvidia-smi's XML declares entities: refused") from error


def _no_document(stdout: str, stderr: str, exit_status: int) -> HostError:
    said = one_line(stdout) or one_line(stderr)
    if exit_status == 127:
        return HostError(Status.NO_NVIDIA_SMI, "nvidia-smi is not installed, or not on this login's PATH")
    if exit_status in _TIMEOUT_EXITS:
        return HostError(Status.TIMEOUT, "nvidia-smi did not answer in time: the driver may hang")
    if "<nvidia_smi_log" in stdout:
        return HostError(Status.BAD_OUTPUT, f"nvidia-smi's XML was cut off after {len(stdout)} characters")
    for pattern, status in _MESSAGES:
        if pattern.search(stdout) or pattern.search(stderr):
            return HostError(status, said or "nvidia-smi failed")
    if exit_status in _DRIVER_EXITS:
        return HostError(Status.DRIVER, said or f"nvidia-smi failed with exit status {exit_status}")
    if said is None:
        return HostError(Status.BAD_OUTPUT, f"nvidia-smi printed nothing (exit status {exit_status})")
    return HostError(Status.BAD_OUTPUT, f"nvidia-smi printed no XML (exit status {exit_status}): {said}")


def _warning(around: str) -> str | None:
    lines = [line for line in around.splitlines() if re.search(r"warning|unable to determine", line, re.I)]
    return one_line("; ".join(line.strip() for line in lines))


def _gpu(index: int, gpu: Element) -> Gpu:
    listed = next((found for tag in PROCESSES if (found := gpu.find(tag)) is not None), None)
    # An element with children or without any text is a list; the text `N/A` is an unknown one.
    processes_known = listed is not None and (len(listed) > 0 or one_line(listed.text) is None)
    infos = list(listed) if listed is not None else []
    slices, unplaced = _slices(gpu, infos)
    memory = next((found for tag in MEMORY if (found := gpu.find(tag)) is not None), None)
    return Gpu(
        index=index,
        uuid=known(gpu.findtext("uuid")),
        name=known(gpu.findtext("product_name")),
        bus_id=known(gpu.get("id")),
        utilization=number(gpu.findtext("utilization/gpu_util")),
        memory_used_mib=number(memory.findtext("used")) if memory is not None else None,
        memory_total_mib=number(memory.findtext("total")) if memory is not None else None,
        temperature_c=number(gpu.findtext("temperature/gpu_temp")),
        fan_percent=number(gpu.findtext("fan_speed")),
        power_w=_first_number(gpu, POWER_DRAW),
        power_limit_w=_first_number(gpu, POWER_LIMIT),
        mig_mode=known(gpu.findtext("mig_mode/current_mig")) == "Enabled",
        slices=slices,
        processes=_processes(unplaced),
        processes_known=processes_known,
    )


def _slices(gpu: Element, infos: list[Element]) -> tuple[tuple[MigDevice, ...], list[Element]]:
    """The MIG devices with their processes, which nvidia-smi lists under the GPU by instance ids."""
    placed: list[Element] = []
    slices = []
    for position, device in enumerate(gpu.findall("mig_devices/mig_device")):
        instances = _instances(device)
        mine = [info for info in infos if None not in instances and _instances(info) == instances]
        placed += mine
        index = number(device.findtext("index"))
        slices.append(
            MigDevice(
                index=int(index) if index is not None else position,
                gpu_instance=instances[0],
                compute_instance=instances[1],
                memory_used_mib=number(device.findtext("fb_memory_usage/used")),
                memory_total_mib=number(device.findtext("fb_memory_usage/total")),
                processes=_processes(mine),
            )
        )
    return tuple(slices), [info for info in infos if info not in placed]


def _instances(element: Element) -> tuple[int | None, int | None]:
    ids = (number(element.findtext(tag)) for tag in ("gpu_instance_id", "compute_instance_id"))
    gpu_instance, compute_instance = (None if i is None else int(i) for i in ids)
    return gpu_instance, compute_instance


def _processes(infos: list[Element]) -> tuple[Process, ...]:
    pids = [(info, number(info.findtext("pid"))) for info in infos]
    return tuple(
        Process(
            pid=int(pid),
            type=known(info.findtext("type")),
            name=own_name(info.findtext("process_name")),
            memory_mib=number(info.findtext("used_memory")),
        )
        for info, pid in pids
        if pid is not None and pid >= 1
    )


def own_name(text: str | None) -> str | None:
    """The program's own name: no directory and no arguments, which are the user's private business."""
    line = " ".join(text.split()) if text and known(text) else ""
    if re.match(r"[A-Za-z]:\\", line):
        return known(re.split(r"(?<=\.exe)\s", line, maxsplit=1, flags=re.IGNORECASE)[0].rpartition("\\")[2])
    first, *rest = line.split(" ")
    # A blank may be part of the name, as in `/usr/lib/plexmediaserver/Plex Transcoder`.
    words = takewhile(str.isalpha, rest)
    return known(" ".join([first.rpartition("/")[2], *words]))


def _first_number(gpu: Element, tags: tuple[str, ...]) -> float | None:
    values = (number(gpu.findtext(tag)) for tag in tags)
    return next((value for value in values if value is not None), None)


def _version(root: Element, tag: str) -> str | None:
    """The leading token: newer drivers append a remark to the number."""
    text = known(root.findtext(tag))
    token = text.split()[0] if text else ""
    return token if token[:1].isdigit() else None
