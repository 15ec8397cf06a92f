"""`gpumon-static check`: connect to each host as fetch does, and report every step."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum

from gpumon_static.bounds.tables import TEXTS
from gpumon_static.bounds.vendors import FIRST, vendor_of
from gpumon_static.check import advice
from gpumon_static.collect.engines.ask import ask
from gpumon_static.collect.engines.threads import fan_out
from gpumon_static.collect.probe import framing, ps
from gpumon_static.collect.readers import ReaderFactory, Readers
from gpumon_static.collect.trace import Step, Trace
from gpumon_static.collect.vendors import READERS
from gpumon_static.config.settings import Config, HostConfig
from gpumon_static.errors import GpumonError, HostError
from gpumon_static.model import HostReading, Status
from gpumon_static.survey.faults import clock_words, is_clock_wrong
from gpumon_static.text import count, one_line
from gpumon_static.times import Clock

SLOW_READER_S = 5.0
CLOCK_MARK = b" clock\n"
FAILS_AT = {
    Status.DNS: Step.NAME,
    Status.UNREACHABLE: Step.PORT,
    Status.REFUSED: Step.PORT,
    Status.HOST_KEY: Step.HOST_KEY,
    Status.AUTH: Step.LOGIN,
    Status.NO_SHELL: Step.SHELL,
    Status.NO_NVIDIA_SMI: Step.GPUS,
    Status.NO_GPU_TOOL: Step.GPUS,
    Status.DRIVER: Step.GPUS,
    Status.NO_GPUS: Step.GPUS,
    Status.BAD_OUTPUT: Step.GPUS,
}
"""Where nothing but its status is known of a host; the others may fail anywhere."""


class Mark(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    UNTRIED = "untried"


@dataclass(frozen=True)
class Finding:
    step: str
    mark: Mark
    told: str = ""
    next: tuple[str, ...] = ()
    """What to do about it: command lines, or a sentence."""


@dataclass(frozen=True)
class HostCheck:
    host: str
    findings: tuple[Finding, ...]
    seconds: float | None = None
    status: str | None = None
    """The status that fetch would report; None while the host is being asked."""
    state: str = ""
    """Of a host that is not in use: "maintenance until 2026-12-01"."""

    @property
    def mark(self) -> Mark:
        return worst(self.findings) if self.status else Mark.UNTRIED

    @property
    def is_failure(self) -> bool:
        """As for fetch, a host that is not in use may fail."""
        return self.mark is Mark.FAILED and not self.state


@dataclass(frozen=True)
class CheckReport:
    surroundings: tuple[Finding, ...]
    """The config, the directories, the files that a run needs."""
    hosts: tuple[HostCheck, ...]

    @property
    def ok(self) -> bool:
        return worst(self.surroundings) is not Mark.FAILED and not any(h.is_failure for h in self.hosts)

    def to_json(self) -> str:
        return json.dumps({"ok": self.ok} | asdict(self), indent=2)


def worst(findings: Sequence[Finding]) -> Mark:
    marks = {finding.mark for finding in findings}
    return next((mark for mark in (Mark.FAILED, Mark.WARNING) if mark in marks), Mark.OK)


LONGEST_MARKER = 40
"""Bytes of the markers that the probe prints when it starts a vendor's tool and when that has ended."""


class Record(Trace):
    """Record of one host's steps: what each reported, and when."""

    def __init__(self, clock: Clock) -> None:
        self.findings: dict[Step, Finding] = {}
        self._clock = clock
        self.clock_read_at: datetime | None = None
        self._began: dict[str, float] = {}
        self._looked_at = 0
        self.seconds: dict[str, float] = {}
        """How long reading the GPUs of each vendor took."""
        self.failure: HostError | None = None

    def done(self, step: Step, told: str) -> None:
        self.findings[step] = Finding(step, Mark.OK, told)

    def warn(self, step: Step, told: str, *next_: str) -> None:
        self.findings[step] = Finding(step, Mark.WARNING, told, next_)

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


class Checkup:
    """The hosts of one check, to be looked at while it runs."""

    def __init__(self, config: Config, hosts: Sequence[HostConfig], clock: Clock) -> None:
        self._config = config
        self._hosts = hosts
        self._clock = clock
        self._records = {host.name: Record(clock) for host in hosts}
        self._readings: dict[str, HostReading] = {}

    def run(self) -> tuple[HostCheck, ...]:
        factory = ReaderFactory(self._config.path, tuple(self._hosts), self._clock)
        if self._config.fetch.engine == "dask":
            self._run_on_workers(factory)
            return self.so_far()
        with factory.open() as read:
            fan_out(
                self._hosts,
                lambda host: examine(host, read, self._records[host.name]),
                workers=self._config.fetch.workers,
                deadline=self._config.fetch.deadline,
                clock=self._clock,
                patience=read.patience,
                on_reading=lambda reading: self._readings.__setitem__(reading.host, reading),
            )
        return self.so_far()

    def _run_on_workers(self, factory: ReaderFactory) -> None:
        """By way of the Dask workers, which tell how it went and not each step."""
        try:
            ask(factory, self._config.fetch, on_reading=self._note)
        except GpumonError as error:
            for host in self._hosts:
                self._readings[host.name] = HostReading(host.name, self._clock(), Status.ERROR, str(error))

    def _note(self, reading: HostReading) -> None:
        record = self._records[reading.host]
        failed = None if reading.ok else FAILS_AT.get(reading.status, Step.NAME)
        for step in (Step.NAME, Step.PORT, Step.HOST_KEY, Step.LOGIN, Step.SHELL, Step.GPUS):
            if step == failed:
                break
            record.done(step, "by a Dask worker")
        else:
            host = next(host for host in self._hosts if host.name == reading.host)
            _look_at_gpus(host, reading, record)
        self._readings[reading.host] = reading

    def so_far(self) -> tuple[HostCheck, ...]:
        return tuple(self._host(host, self._readings.get(host.name)) for host in self._hosts)

    def _host(self, host: HostConfig, reading: HostReading | None) -> HostCheck:
        findings = dict(self._records[host.name].findings)
        failed = next((step for step in Step if step not in findings), None)
        if failed and reading and not reading.ok:
            # A host that was given up has no error of its own, only a status.
            told = reading.error or reading.status.value
            failure = self._records[host.name].failure or HostError(reading.status, told)
            told = one_line(failure.told, TEXTS[HostReading]["error"]) or failure.status.value
            findings[failed] = Finding(failed, Mark.FAILED, told, advice.after(host, failed, failure))
        in_order = tuple(findings.get(step, Finding(step, Mark.UNTRIED)) for step in Step)
        if reading is None:
            return HostCheck(host.name, in_order)
        state = host.state_words(reading.fetched_at)
        return HostCheck(host.name, in_order, reading.fetch_seconds, reading.status, state)


def examine(host: HostConfig, read: Readers, record: Record) -> HostReading:
    """Read one host as fetch does, and record each step; raises `HostError`."""
    try:
        return _examine(host, read, record)
    except HostError as failure:
        record.failure = failure
        raise


def _examine(host: HostConfig, read: Readers, record: Record) -> HostReading:
    started = time.monotonic()
    raw = read.raw(host, record)
    output = framing.decoded(raw)
    sections = framing.sections(output)
    before = len(output[: output.index(framing.BEGIN_MARK.decode())].strip().splitlines())
    chatter = f", after {before} lines that the login shell printed" if before else ""
    _look_at_probe(host, framing.told_version(output), sections, chatter, record)
    _look_at_ps(host, sections, record)
    _look_at_clock(host, sections, record)
    reading = read.parse(host, raw)
    _look_at_gpus(host, reading, record)
    return replace(reading, fetch_seconds=round(time.monotonic() - started, 3))


def _look_at_probe(
    host: HostConfig, version: int, sections: Mapping[str, str], chatter: str, record: Record
) -> None:
    """A forced command runs the probe that is installed there, which may be old and gets no settings."""
    ours = framing.version()
    if framing.was_sent(sections):
        record.done(Step.SHELL, f"sh ran the probe{chatter}")
        return
    told = f"the installed probe, version {version}{chatter}"
    if version > ours:
        told += f"; this gpumon-static has version {ours}"
        record.warn(Step.SHELL, told, "update gpumon-static on the collector")
    elif version < ours:
        told += f", is older than this gpumon-static, which has version {ours}"
        record.warn(Step.SHELL, told, advice.replace_probe(host), *advice.unreached(host))
    elif unreached := advice.unreached(host):
        record.warn(Step.SHELL, f"{told}, gets no settings from config.ini", *unreached)
    else:
        record.done(Step.SHELL, told)


def _look_at_ps(host: HostConfig, sections: Mapping[str, str], record: Record) -> None:
    table = ps.table(sections)
    if table.hides:
        told = "other users' processes are hidden (hidepid): GPUs are seen, whose jobs they run is not"
        record.warn(Step.PS, told, *advice.hidden_processes(host))
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
    told = f"driver {reading.driver_version or 'unknown'}, {gpus}"
    if slowest is not None:
        told += f", {sum(record.seconds.values()):.1f} s"
    if host.gpus is not None and len(reading.gpus) < host.gpus:
        told += f"; config.ini expects {host.gpus}"
        record.warn(Step.GPUS, told, *advice.missing_gpus(host, found))
    elif slowest is not None and record.seconds[slowest] > SLOW_READER_S:
        record.warn(Step.GPUS, told, *advice.slow_reader(host, slowest))
    else:
        record.done(Step.GPUS, told)
