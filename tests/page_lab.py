"""A few hosts of every kind, and the page of some readings."""

from __future__ import annotations

from datetime import timedelta

from playwright.sync_api import Locator, Page

from gpumon_static.model import Gpu, HostReading, Machine, Status
from gpumon_static.publish.page.html import render_page
from gpumon_static.publish.page.view import build_page
from tests.builders import NOW, READ_AT, busy_gpu, config, failed, gpu, reading, slices

TWO_MINUTES_LATER = READ_AT + timedelta(minutes=2)

LAB = (
    reading(
        "node1",
        [gpu(0), busy_gpu(1), busy_gpu(2, utilization=0.0), Gpu(3, processes_known=False)],
        machine=Machine(64, 12.0, 9.0, 8.0, 524288.0, 122880.0),
    ),
    reading("node2", [gpu(0, mig_mode=True, slices=slices(7, 1, 4)), *(busy_gpu(i) for i in range(1, 6))]),
    failed("node10", Status.DRIVER, "nvidia-smi cannot talk to the driver"),
)


def html_of(*readings: HostReading, refresh: int = 0) -> str:
    return render_page(build_page(readings, config(*(r.host for r in readings), refresh=refresh), NOW))


def card(page: Page, anchor: str) -> Locator:
    return page.locator(f"[id='{anchor}']")


def open_tips(page: Page) -> Locator:
    return page.locator(".tip:visible")
