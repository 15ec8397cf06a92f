"""How `check` reads a host: as fetch does, in a worker as well, and with a finding for each step."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gpumon_static.bounds.tables import TEXTS
from gpumon_static.bounds.vendors import FIRST, vendor_of
from gpumon_static.check import advice
from gpumon_static.check.findings import Finding, Hint, Mark
from gpumon_static.collect.probe import framing, ps
from gpumon_static.collect.readers import ReaderFactory, Readers
from gpumon_static.collect.trace import Step, Trace
from gpumon_static.collect.vendors import READERS
from gpumon_static.config.settings import HostConfig
from gpumon_static.errors import HostError
from gpumon_static.model import HostReading
from gpumon_static.survey.faults import clock_words, is_clock_wrong
from gpumon_static.text import count, one_line
from gpumon_static.times import Clock

SLOW_READER_S = 5.0
CLOCK_MARK = b" clock\n"
LONGEST_MARKER = 40
"""Bytes of the markers that the probe prints when it starts a vendor's tool and when that has ended."""


class Record(Trace):
    """Record of one host's steps: what each reported, and when."""

    def __init__(self, clock: Clock, report: Callable[[Finding], None] = lambda _: None) -> None:
        """`report`: gets each finding as it is made."""
        self.findings: dict[Step, Finding] = {}
        self._report = report
        self._clock = clock
        self.clock_read_at: datetime | None = None
        self._began: dict[str, float] = {}
        self._looked_at = 0
        self.seconds: dict[str, float] = {}
        """How long reading the GPUs of each vendor took."""

    def done(self, step: Step, message: str) -> None:
        self._add(Finding(step, Mark.OK, message))

    def warn(self, step: Step, message: str, *next_: Hint) -> None:
        self._add(Finding(step, Mark.WARNING, message, next_))

    def fail(self, host: HostConfig, failure: HostError) -> None:
        """At the first step that is not done."""
        step = next(step for step in Step if step not in self.findings)
        self._add(failed(host, step, failure))

    def _add(self, finding: Finding) -> None:
        self.findings[Step(finding.step)] = finding
        self._report(finding)

    def received(self, output: bytearray) -> None:
        """Measure the readers: the probe marks when each starts and when it has ended."""
        # From a little before where the last look ended: a marker may come in two pieces.
        start, self._looked_at = max(0, self._looked_at - LONGEST_MARKER), len(output)
        if self.clock_read_at is None and output.find(CLOCK_MARK, start) >= 0:
            self.clock_read_at = self._clock()
        for name, reader in READERS.items():
            if name not in self._began and output.find(reader.begins, start) >= 0:
                self._began[name] = time.monotonic()
            if name in self._began and name not in self.seconds and output.find(reader.ends, start) >= 0:
                self.seconds[name] = time.monotonic() - self._began[name]


@dataclass(frozen=True)
class Examiners(Readers):
    """Readers that note what they find of each host."""

    _records: dict[str, Record] = field(default_factory=dict)

    def trace(self, host: HostConfig) -> Trace:
        record = Record(self.clock, lambda finding: self.note(host.name, finding))
        self._records[host.name] = record
        return record

    def raw(self, host: HostConfig) -> bytes:
        try:
            return super().raw(host)
        except HostError as failure:
            self._records.pop(host.name).fail(host, failure)
            raise

    def parse(self, host: HostConfig, output: bytes) -> HostReading:
        record = self._records.pop(host.name)
        try:
            _look_at_answer(host, framing.decoded(output), record)
            reading = super().parse(host, output)
        except HostError as failure:
            record.fail(host, failure)
            raise
        _look_at_gpus(host, reading, record)
        return reading


@dataclass(frozen=True)
class ExaminerFactory(ReaderFactory):
    kind = Examiners


def failed(host: HostConfig, step: Step, failure: HostError) -> Finding:
    message = one_line(failure.message, TEXTS[HostReading]["error"]) or failure.status.value
    return Finding(step, Mark.FAILED, message, advice.after(host, step, failure))


def _look_at_answer(host: HostConfig, output: str, record: Record) -> None:
    sections = framing.sections(output)
    before = len(output[: output.index(framing.BEGIN_MARK.decode())].strip().splitlines())
    chatter = f", after {before} lines that the login shell printed" if before else ""
    _look_at_probe(host, framing.probe_version_of(output), sections, chatter, record)
    _look_at_ps(host, sections, record)
    _look_at_clock(host, sections, record)


def _look_at_probe(
    host: HostConfig, version: int, sections: Mapping[str, str], chatter: str, record: Record
) -> None:
    """A forced command runs the probe that is installed there, which may be old and gets no settings."""
    ours = framing.version()
    if framing.was_sent(sections):
        record.done(Step.SHELL, f"sh ran the probe{chatter}")
        return
    message = f"the installed probe, version {version}{chatter}"
    if version > ours:
        message += f"; this gpumon-static has version {ours}"
        record.warn(Step.SHELL, message, Hint("update gpumon-static on the collector"))
    elif version < ours:
        message += f", is older than this gpumon-static, which has version {ours}"
        record.warn(Step.SHELL, message, advice.replace_probe(host), *advice.unreached(host, {}))
    elif unreached := advice.unreached(host, framing.received(sections)):
        record.warn(Step.SHELL, f"{message}, gets no settings from config.ini", *unreached)
    else:
        record.done(Step.SHELL, message)


def _look_at_ps(host: HostConfig, sections: Mapping[str, str], record: Record) -> None:
    table = ps.table(sections)
    if table.hides:
        message = "other users' processes are hidden (hidepid): GPUs are seen, whose jobs they run is not"
        record.warn(Step.PS, message, *advice.hidden_processes(host))
    elif "ps" not in sections:
        # That part of the probe is a process of its own; the rest of the answer is whole.
        message = "the host could not start a process for the list of processes: users are not shown"
        record.warn(Step.PS, message, *advice.no_room(host))
    elif not table.entries:
        record.warn(Step.PS, "no ps and no /proc: no user names will be shown", *advice.no_ps(host))
    elif all(entry.elapsed_s is None for entry in table.entries.values()):
        record.warn(
            Step.PS, "ps lacks elapsed times: names are shown, run times are not", *advice.no_ps(host)
        )
    else:
        record.done(Step.PS, "reports users and run times")


def _look_at_clock(host: HostConfig, sections: Mapping[str, str], record: Record) -> None:
    text = sections.get("clock", "").strip()
    if not text.isdecimal() or record.clock_read_at is None:
        record.warn(Step.CLOCK, "the host did not report its time")
        return
    off = round(int(text) - record.clock_read_at.timestamp())
    if is_clock_wrong(off):
        record.warn(Step.CLOCK, clock_words(off), *advice.wrong_clock(host))
    else:
        record.done(Step.CLOCK, clock_words(off))


def _noun(vendor: str) -> str:
    """GPU, for the vendor of most labs; AMD GPU."""
    return "GPU" if vendor_of(vendor) is FIRST else f"{vendor_of(vendor).word} GPU"


def _look_at_gpus(host: HostConfig, reading: HostReading, record: Record) -> None:
    found = Counter(gpu.vendor for gpu in reading.gpus)
    gpus = " + ".join(count(number, _noun(vendor)) for vendor, number in found.items())
    slowest = max(record.seconds, key=record.seconds.__getitem__, default=None)
    message = f"driver {reading.driver_version or 'unknown'}, {gpus}"
    if slowest is not None:
        message += f", {sum(record.seconds.values()):.1f} s"
    if host.gpus is not None and len(reading.gpus) < host.gpus:
        message += f"; config.ini expects {host.gpus}"
        record.warn(Step.GPUS, message, *advice.missing_gpus(host, found))
    elif slowest is not None and record.seconds[slowest] > SLOW_READER_S:
        record.warn(Step.GPUS, message, *advice.slow_reader(host, slowest))
    else:
        record.done(Step.GPUS, message)
