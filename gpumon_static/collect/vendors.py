"""The GPUs of a host, of all vendors. Each vendor is a folder here and an entry in bounds/vendors.py.

docs/vendors.md has how to add one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module

from gpumon_static.bounds.vendors import ANY, VENDORS
from gpumon_static.collect.vendor import VendorReader, VendorReport
from gpumon_static.errors import HostError
from gpumon_static.model import Gpu, Status

READERS: Mapping[str, VendorReader] = {
    name: import_module(f"gpumon_static.collect.{name}").READER for name in VENDORS
}


def wanted(expected: str | None) -> tuple[str, ...]:
    """The vendors to look for on a host, by its `vendor` in the config."""
    return tuple(READERS) if expected in (None, ANY) else (expected,)


def _of(gpu: Gpu, vendor: str) -> Gpu:
    return gpu if gpu.vendor == vendor else replace(gpu, vendor=vendor)


def read_gpus(sections: Mapping[str, str], expected: str | None = None) -> VendorReport:
    """The GPUs of a host, of all vendors. Raises `HostError` where none of them has any."""
    reports: list[VendorReport] = []
    failures: dict[str, HostError] = {}
    for name in wanted(expected):
        try:
            report = READERS[name].read(sections)
        except HostError as error:
            error.vendor = name
            failures[name] = error
        else:
            reports.append(replace(report, gpus=tuple(_of(gpu, name) for gpu in report.gpus)))
    reported = [error for name, error in failures.items() if error.status is not READERS[name].absent]
    serious = [error for error in reported if error.status is not Status.NO_GPUS]
    reports = _without_consoles(reports)
    if not reports:
        raise reported[0] if reported else _nothing(failures, expected)
    if serious and not any(_has_own_memory(report) for report in reports):
        raise serious[0]
    return _merged(reports, serious)


def _has_own_memory(report: VendorReport) -> bool:
    return any(not gpu.memory_shared for gpu in report.gpus)


def _without_consoles(reports: list[VendorReport]) -> list[VendorReport]:
    """Beside cards of one vendor, the integrated GPU of another is there for the console."""
    cards = [report for report in reports if _has_own_memory(report)]
    return cards or reports


def _nothing(failures: Mapping[str, HostError], expected: str | None) -> HostError:
    """Where nothing is known of the vendor, the status is the one of release 0.1.0."""
    first = next(iter(failures.values()))
    if expected != ANY:
        return first
    return HostError(Status.NO_GPU_TOOL, "; ".join(error.reason for error in failures.values()))


def _merged(reports: Sequence[VendorReport], failures: Sequence[HostError]) -> VendorReport:
    gpus: list[Gpu] = []
    for report in reports:
        first = 1 + max((gpu.index for gpu in gpus), default=-1)
        gpus += (_numbered(gpu, first) for gpu in report.gpus) if first else report.gpus
    warnings = [*(report.warning for report in reports), *(error.reason for error in failures)]
    return VendorReport(
        gpus=tuple(gpus),
        driver_version=next((r.driver_version for r in reports if r.driver_version), None),
        cuda_version=next((r.cuda_version for r in reports if r.cuda_version), None),
        warning="; ".join(filter(None, warnings)) or None,
        note="; ".join(filter(None, (report.note for report in reports))) or None,
    )


def _numbered(gpu: Gpu, first: int) -> Gpu:
    """The index is of the host: files and pages identify a GPU by it. The vendor's own is its device."""
    return replace(gpu, index=first + gpu.index, device=gpu.device or str(gpu.index))
