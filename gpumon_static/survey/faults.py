"""What is wrong with GPUs and hosts, in words: the same on page, terminal and in the exports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from gpumon_static.collect.probe import framing
from gpumon_static.model import HostReading, rules
from gpumon_static.text import clip, count, natural_key

if TYPE_CHECKING:
    from gpumon_static.config.settings import Config, HostConfig
    from gpumon_static.model import Gpu
    from gpumon_static.survey.survey import SurveyedHost

DETAIL_LETTERS = 96
CLOCK_TOLERANCE_S = 30
ON_ITS_GPU = {"lost", "inforom"}
"""Rules whose line of nvidia-smi is not repeated for the host."""
READ_THE_LOG = "Look into the kernel log of the host (dmesg), and at what nvidia-smi prints there."


MISSING = "gpus-missing"


class HostFault(NamedTuple):
    """Of a host as a whole."""

    words: str
    action: str
    """What to do about it."""


def judged(readings: Iterable[HostReading], config: Config, now: datetime) -> list[HostReading]:
    """The readings without the faults that the config ignores, and with notices for those that it knows."""
    ignored = config.site.ignore_faults
    quiet = {host.name: host for host in config.hosts if host.ignore}
    if not ignored and not quiet:
        return list(readings)

    def kept(gpu: Gpu, host: HostConfig | None) -> Gpu:
        found = []
        for fault in gpu.faults:
            known = host.known(fault.rule, gpu.index, now) if host else None
            if fault.rule not in ignored:
                found.append(rules.acknowledged(fault, known.words) if known else fault)
        return replace(gpu, faults=tuple(found))

    return [
        replace(
            reading,
            gpus=tuple(kept(gpu, quiet.get(reading.host)) if gpu.faults else gpu for gpu in reading.gpus),
        )
        if any(gpu.faults for gpu in reading.gpus)
        else reading
        for reading in readings
    ]


def acknowledged_words(host: SurveyedHost) -> Iterator[str]:
    """What the config knows of a host's GPUs, for Health."""
    for gpu in host.gpus:
        yield from (
            f"GPU {gpu.index}: {fault.detail}" for fault in gpu.faults if rules.is_acknowledged(fault)
        )
    known = [one for one in host.config.ignore if one.rule == MISSING]
    is_marked = any(fault.action == rules.action(MISSING) for fault in host.found)
    if known and host.ok and host.reading and not is_marked and missing_gpus(host.config, host.reading, ()):
        yield f"{rules.word(MISSING)} {known[0].words}".strip()


def fault_words(gpu: Gpu) -> list[str]:
    """The short words of what is wrong with a GPU, the worst one first; notices are left out."""
    return [clip(rules.word(fault.rule), DETAIL_LETTERS) for fault in rules.marked(gpu.faults)]


def missing_gpus(host: HostConfig, reading: HostReading, ignored: Collection[str]) -> int:
    """How many fewer than the config expects."""
    if host.gpus is None or MISSING in ignored:
        return 0
    return max(0, host.gpus - len(reading.gpus))


def host_faults(host: HostConfig, reading: HostReading, ignored: Collection[str]) -> list[HostFault]:
    found = []
    if missing := missing_gpus(host, reading, ignored):
        words = f"{missing} of {count(host.gpus or 0, 'GPU')} missing"
        found.append(HostFault(words, rules.action(MISSING)))
    on_a_gpu = any(fault.rule in ON_ITS_GPU for gpu in reading.gpus for fault in gpu.faults)
    if reading.warning and not on_a_gpu:
        found.append(HostFault(reading.warning, READ_THE_LOG))
    return found


def usual_drivers(hosts: Sequence[SurveyedHost], ignored: Collection[str]) -> dict[str, str]:
    """For each host whose driver is another than that of most of its group: that of most."""
    if "driver-differs" in ignored:
        return {}
    # Drivers of two vendors are never the same.
    versions: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for host in hosts:
        group, reading = host.config.group, host.reading
        if group and reading and reading.driver_version:
            versions.setdefault((group, host.vendor), []).append((host.name, reading.driver_version))
    return {
        name: usual
        for group in versions.values()
        for usual in [_most_common([version for _, version in group])]
        for name, version in group
        if version != usual
    }


def _most_common(versions: Sequence[str]) -> str:
    """The most common version; of two as common, the newer one: the other hosts are still to be updated."""
    counted = Counter(versions)
    return max(counted, key=lambda version: (counted[version], natural_key(version)))


def clock_words(offset_s: int) -> str:
    """`95 s ahead`, or `right`: two seconds are what the way of an answer costs."""
    if abs(offset_s) <= 2:
        return "right"
    return f"{abs(offset_s)} s {'ahead' if offset_s > 0 else 'behind'}"


def is_clock_wrong(offset_s: int, took_s: float = 0) -> bool:
    """`took_s`: what passed at the most between the host's look at its clock and ours."""
    return offset_s > CLOCK_TOLERANCE_S or offset_s < -CLOCK_TOLERANCE_S - took_s


def wrong_clock(reading: HostReading) -> str | None:
    """By how much the host's clock differs; None where it does not, or where that is not known."""
    offset = reading.clock_offset_s
    if offset is None or not is_clock_wrong(offset, reading.fetch_seconds or 0):
        return None
    return clock_words(offset)


def outdated_probe(reading: HostReading) -> tuple[int, int] | None:
    """The version of the probe that is installed there and ours, where that one is older."""
    version, ours = reading.probe_version, framing.version()
    return (version, ours) if version is not None and version < ours else None
