"""What is shown of one moment, now or by `show --at`, and what was reported of it: more than a state."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from tests.truth.checks import COARSE_LEVEL, HALF_LEVEL, Checks, decoded, place_of
from tests.truth.reference import Look
from tests.truth.schedule import GROUPS, SHOWN_NAMES

PLAIN = {
    "utilization": "percent",
    "memory_used_mib": "used_mib",
    "temperature_c": "celsius",
    "power_w": "watts",
}
GAUGES: dict[str, Callable[[Look], float | None]] = {
    "gpumon_gpu_utilization_ratio": lambda look: None if look.percent is None else look.percent / 100,
    "gpumon_gpu_memory_used_bytes": lambda look: None if look.used_mib is None else look.used_mib << 20,
    "gpumon_gpu_temperature_celsius": lambda look: look.celsius,
    "gpumon_gpu_power_watts": lambda look: look.watts,
}


@dataclass
class Moments:
    checks: Checks
    _down: set[tuple[str, str, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.pipeline, self.reference = self.checks.pipeline, self.checks.reference
        self.same = self.checks.findings.same

    def now(self, at: int) -> None:
        """After `render`."""
        document = json.loads(self.pipeline.site("gpus.json"))
        looks = self._looks(self.reference.runs[-1])
        self._document("gpus.json", at, document, looks, lambda user: SHOWN_NAMES.get(user, user))
        self._gauges(at, looks)
        self._free(at, looks)
        self._levels(at)
        self._host_events(at)

    def then(self, at: int, run: int) -> None:
        """What `show --at` prints later about a run."""
        if at == run:
            return
        text = self.pipeline.command(at, "show", "--at", f"{at - run}s", "--json")
        self._document("show --at", run, json.loads(text), self._looks(run), str)

    def _looks(self, run: int) -> list[Look]:
        """What the hosts that answered in a run reported."""
        looks = self.reference.looks
        return [look for look in looks[-200 * len(GROUPS) :] if look.run == run and look.is_seen] or [
            look for look in looks if look.run == run and look.is_seen
        ]

    def _document(
        self, kind: str, at: int, document: dict[str, Any], looks: list[Look], shown: Callable[[str], str]
    ) -> None:
        found = {
            (host["name"], gpu["index"]): gpu
            for host in document["hosts"]
            for gpu in host["gpus"]
            if host["status"] == "ok"
        }
        wholes = [look for look in looks if look.slice is None]
        self.same(f"{kind}: GPUs", at, sorted((look.host, look.index) for look in wholes), sorted(found))
        for look in wholes:
            gpu = found.get((look.host, look.index), {"slices": [], "processes": []})
            what = (at, look.host, look.index)
            self.same(f"{kind}: state of a GPU", what, look.state, gpu.get("state"))
            for name, field_ in PLAIN.items():
                self.same(f"{kind}: {name}", what, getattr(look, field_), gpu.get(name))
            if look.share:
                names = sorted({shown(user) for user in look.users})
                is_allocated = look.state == "held" and not gpu["processes"]
                seen = sorted(gpu.get("users", ())) if not is_allocated else names
                self.same(f"{kind}: users", what, names, seen)
        states = Counter(look.state for look in wholes)
        totals = document["totals"]
        for state in ("free", "busy", "held", "unknown"):
            self.same(f"{kind}: GPUs in all, {state}", at, states[state], totals[f"gpus_{state}"])
        self.same(f"{kind}: GPUs in all", at, len(wholes), totals["gpus"])

    def _gauges(self, at: int, looks: list[Look]) -> None:
        text = self.pipeline.site("metrics.prom")
        for name, value in GAUGES.items():
            found = {
                (m[1], int(m[2])): float(m[3])
                for m in re.finditer(
                    rf'^{name}\{{host="([^"]+)"[^}}]*?gpu="(\d+)"[^}}]*\}} (\S+)$', text, re.M
                )
            }
            for look in looks:
                if look.slice is None:
                    key = look.host, look.index
                    self.same(f"metrics: {name}", (at, key), value(look), found.get(key), 1e-9)
        up = {
            m[1]: int(m[2]) for m in re.finditer(r'^gpumon_host_up\{host="([^"]+)"[^}]*\} (\d)$', text, re.M)
        }
        for host, asked in self.reference.readings.items():
            self.same("metrics: gpumon_host_up", (at, host), int(asked[-1][1]), up.get(host))
        used: Counter[str] = Counter()
        for look in looks:
            is_whole = look.slice is None and look.share and look.oldest is not None
            for user in {SHOWN_NAMES.get(user, user) for user in look.users} if is_whole else ():
                used[user] += 1
        cut = {user for look in looks if look.slice is not None for user in look.users}
        holding = {
            m[1]: float(m[2])
            for m in re.finditer(r'^gpumon_user_gpus\{user="([^"]+)"[^}]*\} (\S+)$', text, re.M)
        }
        for user in {*used} - {SHOWN_NAMES.get(name, name) for name in cut}:
            self.same("metrics: gpumon_user_gpus", (at, user), used[user], holding.get(user))

    def _free(self, at: int, looks: list[Look]) -> None:
        """free.txt: what is offered. Slices of a GPU are lines of their own."""
        cut = {(look.host, look.index) for look in looks if look.slice is not None}
        expected = sorted(
            f"{look.host} {place_of(look)}"
            for look in looks
            if look.state == "free" and (look.slice is not None or (look.host, look.index) not in cut)
        )
        lines = self.pipeline.site("free.txt").splitlines()
        found = sorted(" ".join(line.split()[:2]) for line in lines if not line.startswith("#"))
        devices = {line for line in found if ":" in line or "MIG" in line}
        self.same(
            "free.txt: whole GPUs",
            at,
            [e for e in expected if ":" not in e],
            [f for f in found if f not in devices],
        )
        self.same("free.txt: slices", at, sum(":" in line for line in expected), len(devices))

    def _levels(self, at: int) -> None:
        """Charts of utilization and memory: of all hosts, of each host; and the hours of each card."""
        past = self.pipeline.block("past")
        self._level("chart of all hosts", at, past, past["cluster"], None, HALF_LEVEL)
        for name, levels in past["hosts"]:
            self._level("chart of a host", at, past, levels, name, COARSE_LEVEL)

    def _level(self, kind: str, at: int, past: Any, drawn: Any, host: str | None, within: float) -> None:
        for range_, pair in drawn.items():
            step, count, first = past["step"][range_], past["count"][range_], past["first"][range_]
            expected = self._means(at, host, step, first)
            for number, what in enumerate(("utilization", "memory")):
                for place, value in enumerate(decoded(pair[number], count, 100)):
                    want = expected[number].get(first + place)
                    self.same(
                        f"{kind}: {what}, {range_}", (at, host, first + place), want, value, 100 * within
                    )

    def _means(self, at: int, host: str | None, step: int, first: int) -> list[dict[int, float]]:
        sums: list[dict[int, list[float]]] = [{}, {}]
        for look, seconds in self.reference.counted(first * step, at):
            if look.slice is not None or host not in (None, look.host):
                continue
            weight, total = max(seconds, 1), self.reference.lab.cards[look.uuid].model.total_mib
            for number, (value, whole) in enumerate(((look.percent, 100), (look.used_mib, total))):
                if value is not None:
                    row = sums[number].setdefault(look.run // step, [0.0, 0.0])
                    row[0] += 100 * value * weight
                    row[1] += whole * weight
        return [{point: part / whole for point, (part, whole) in found.items()} for found in sums]

    def _host_events(self, at: int) -> None:
        """A host is down after two runs without an answer, since the first of them; up since it answered again."""
        path = self.pipeline.config.paths.data / "events.json"
        listed = json.loads(path.read_text())["events"]
        found = {
            (event["host"], event["type"], _time(event["since"])): event.get("lasted_s")
            for event in listed
            if event["type"] in ("host-down", "host-up")
        }
        oldest = min((_time(event["at"]) for event in listed), default=at)
        for host in GROUPS:
            for kind, since, known_at, lasted in self._changes(host):
                key = host, kind, since
                if known_at <= oldest or key in self._down:
                    continue
                self._down.add(key)
                self.same(f"event {kind}: since", key, True, key in found)
                if lasted is not None and key in found:
                    self.same("event host-up: how long it was down", key, lasted, found[key], 1)
        expected = {(host, kind, since) for host in GROUPS for kind, since, _, _ in self._changes(host)}
        self.same("events of hosts: none that was not", at, [], sorted({*found} - expected))

    def _changes(self, host: str) -> list[tuple[str, int, int, int | None]]:
        """Of a host: kind, since, when it was clear, and how long it had lasted."""
        found: list[tuple[str, int, int, int | None]] = []
        is_down, since, asked = False, 0, self.reference.readings[host]
        for (before, was_up), (now, is_up) in pairwise(asked):
            if was_up is is_up and is_up is is_down:
                found.append(
                    ("host-up", before, now, before - since) if is_up else ("host-down", before, now, None)
                )
                is_down, since = not is_up, before
        return found


def _time(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())
