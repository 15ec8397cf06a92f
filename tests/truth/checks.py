"""Every answer of the pipeline at one time, beside the reference."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from tests.truth.pipeline import Pipeline
from tests.truth.reference import KNOWN, Look, Reference
from tests.truth.schedule import DAY, GROUPS, HOUR, SHOWN_NAMES, SLICES, ZONE

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
HALF_LEVEL = 0.5 / 63 + 1e-3
COARSE_LEVEL = 2.5 / 63 + 1e-3
"""Of the small charts, which have every fourth level."""
RUN_S = 10
"""A run that is under way when a period begins: its hosts are asked within so many seconds."""
MOST_SHOWN = 3
PARTS: dict[str, Callable[[Look], str]] = {
    "host": lambda look: look.host,
    "group": lambda look: GROUPS[look.host],
    "model": lambda look: look.name,
}


@dataclass
class Findings:
    checked: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def same(self, kind: str, what: Any, expected: Any, found: Any, within: float = 0) -> None:
        self.checked[kind] += 1
        if expected == found:
            return
        is_number = isinstance(expected, int | float) and isinstance(found, int | float)
        if is_number and abs(expected - found) <= within:
            return
        self.wrong[kind] += 1
        if len(self.examples[kind]) < MOST_SHOWN:
            self.examples[kind].append(f"{what}: {found!r}, should be {expected!r}")

    def table(self) -> str:
        lines = ["| what | checked | wrong |", "|---|---:|---:|"]
        lines += [f"| {kind} | {self.checked[kind]:,} | {self.wrong[kind]:,} |" for kind in self.checked]
        return "\n".join([*lines, f"| **all** | **{self.checked.total():,}** | **{self.wrong.total():,}** |"])


@dataclass
class Checks:
    pipeline: Pipeline
    reference: Reference
    findings: Findings = field(default_factory=Findings)
    _events_seen: set[str] = field(default_factory=set)

    def now(self, at: int) -> None:
        """What is shown of this moment, after `render`."""
        self._states(at)
        self._metrics()

    def past(self, at: int, *periods: str) -> None:
        for period in periods:
            self._users(at, period)
            self._gpus(at, period)
            self._supply(at, period)
        self._hours_csv(at)
        self._rntop(at)

    def page(self, at: int) -> None:
        self._since(at)
        self._last_day(at)
        self._people(at)
        self._availability(at)
        self._charts(at)
        self._week(at)

    # Now

    def _states(self, at: int) -> None:
        document = json.loads(self.pipeline.site("gpus.json"))
        for host in document["hosts"]:
            known = self.reference.last[host["name"]]
            found: dict[Any, Any] = {}
            is_up = self.reference.readings[host["name"]][-1][1]
            expected = {
                k: s.look
                for k, s in known.items()
                if s.look.at == self.reference.readings[host["name"]][-1][0]
            }
            by_place = {(look.index, look.slice): look for look in expected.values()} if is_up else {}
            for gpu in host["gpus"]:
                found[gpu["index"], None] = gpu
                found |= {(gpu["index"], cut["index"]): cut for cut in gpu["slices"]}
            self.findings.same(
                "gpus.json: GPUs listed",
                (at, host["name"]),
                sorted(by_place, key=str),
                sorted(found, key=str),
            )
            for place, look in by_place.items():
                if gpu := found.get(place):
                    self._state(at, host["name"], place, look, gpu)

    def _state(self, at: int, host: str, place: Any, look: Look, gpu: dict[str, Any]) -> None:
        same = self.findings.same
        what = (at, host, place)
        same("gpus.json: state", what, look.state, gpu["state"])
        is_cut = bool(gpu.get("slices"))
        usable = look.state == "free" and not is_cut
        same("gpus.json: usable", what, usable, gpu["is_usable"])
        same("gpus.json: utilization", what, look.percent, gpu.get("utilization"))

    def _metrics(self) -> None:
        document = json.loads(self.pipeline.site("gpus.json"))
        text = self.pipeline.site("metrics.prom")
        metric = {
            (m[1], int(m[2])): int(m[3])
            for m in re.finditer(
                r'^gpumon_gpu_usable\{host="([^"]+)"[^}]*?gpu="(\d+)"[^}]*\} (\d)$', text, re.M
            )
        }
        for host in document["hosts"]:
            for gpu in host["gpus"]:
                expected = int(gpu["is_usable"])
                self.findings.same(
                    "metrics: usable",
                    (host["name"], gpu["index"]),
                    expected,
                    metric.get((host["name"], gpu["index"])),
                )

    def events(self) -> None:
        """GPUs freed: after the time in which they were seen in use. None while Slurm does not answer."""
        path = self.pipeline.config.paths.data / "events.json"
        for event in json.loads(path.read_text())["events"]:
            if event["type"] != "gpu-freed" or len(event["gpus"]) != 1 or event["id"] in self._events_seen:
                continue
            self._events_seen.add(event["id"])
            since = int(datetime.fromisoformat(event["since"]).timestamp())
            uuid = event["gpus"][0].get("uuid")
            used = self.reference.in_use_before(event["host"], uuid, since)
            within = 2 * self.reference.lab.interval
            self.findings.same(
                "gpu-freed: hours of use", (event["host"], uuid, since), used, event["lasted_s"], within
            )
            is_free = not self.reference.lab.at_work(uuid, since)
            self.findings.same("gpu-freed: no job has it", (event["host"], uuid, since), True, is_free)

    # Hours

    def _users(self, at: int, period: str) -> None:
        since = at - seconds_of(period)
        parts: list[tuple[str | None, Callable[[Look], str] | None]] = [(None, None), *PARTS.items()]
        for part, where in parts:
            words = ["history", "users", "--since", period, *(["--by", part] if part else [])]
            found = {(row["user"], row.get(part or "")): row for row in self.pipeline.rows(at, *words)}
            # Reports have a word in the place of the name of an unknown user.
            known = self.reference.users(since, at, where)
            expected = {(user or "unknown", part_name): sums for (user, part_name), sums in known.items()}
            self.findings.same(
                "hours of users: rows", (at, period, part), sorted(expected, key=str), sorted(found, key=str)
            )
            for key, (busy, held, work, measured, allocated, idle) in expected.items():
                row = found.get(key, {})
                what = (at, period, part, key)
                self._hours("hours of users: busy", what, busy, row.get("busy_hours"))
                self._hours("hours of users: held idle", what, held, row.get("held_idle_hours"))
                self._hours("hours of users: allocated", what, allocated, row.get("allocated_hours") or 0)
                self._hours(
                    "hours of users: allocated and idle", what, idle, row.get("allocated_idle_hours") or 0
                )
                active = round(work / measured, 1) if measured else None
                self.findings.same(
                    "hours of users: GPU active", what, active, row.get("efficiency_percent"), 0.35
                )

    def _hours(self, kind: str, what: Any, seconds: float, found: float | None) -> None:
        self.findings.same(kind, what, seconds / HOUR, found, 0.006 + RUN_S / HOUR)

    def _gpus(self, at: int, period: str) -> None:
        since = at - seconds_of(period)
        expected = self.reference.gpus(since, at)
        rows = self.pipeline.rows(at, "history", "gpus", "--since", period)
        told = json.loads(self.pipeline.command(at, "history", "hosts", "--since", period, "--json"))
        first = max(since, self.reference.runs[0])
        seen = sum(since <= run <= at for run in self.reference.runs)
        self.findings.same("runs seen", (at, period), seen, told["runs"], 1)
        expect = (at - first) / self.reference.lab.interval
        self.findings.same("runs expected", (at, period), expect, told["runs_expected"], 2)
        found = {(row["host"], row["uuid"], _slice(row["gpu"])): row for row in rows}
        self.findings.same(
            "hours of GPUs: rows", (at, period), sorted(expected, key=str), sorted(found, key=str)
        )
        for key, want in expected.items():
            row = found.get(key, {})
            self._times("hours of GPUs", (at, period, key), want, row)
            for number, name in enumerate(("utilization_percent", "memory_mib", "temperature_c", "power_w")):
                levels = [
                    (levels[number], levels[4]) for levels in want["levels"] if levels[number] is not None
                ]
                mean = sum(v * w for v, w in levels) / sum(w for _, w in levels) if levels else None
                self.findings.same(
                    f"GPUs: mean of {name}", (at, period, key), mean, row.get(name), 0.06 + (mean or 0) * 0.01
                )
                most = max((value for value, _ in levels), default=None)
                self.findings.same(f"GPUs: largest {name}", (at, period, key), most, row.get(_largest(name)))
        hosts = {row["host"]: row for row in self.pipeline.rows(at, "history", "hosts", "--since", period)}
        for host in GROUPS:
            wholes = [
                want for (where, _, slice_), want in expected.items() if where == host and slice_ is None
            ]
            sums = {state: sum(want[state] for want in wholes) for state in (*KNOWN, "unknown")}
            self._times("hours of hosts", (at, period, host), sums, hosts.get(host, {}), len(wholes))

    def _times(self, kind: str, what: Any, want: dict[str, Any], row: dict[str, Any], gpus: int = 1) -> None:
        for state, name in (
            ("busy", "busy"),
            ("held", "held_idle"),
            ("free", "free"),
            ("unknown", "unknown"),
        ):
            within = 0.006 + gpus * RUN_S / HOUR
            self.findings.same(f"{kind}: {state}", what, want[state] / HOUR, row.get(f"{name}_hours"), within)

    def _supply(self, at: int, period: str) -> None:
        since = at - seconds_of(period)
        for by_group in (False, True):
            expected = self.reference.supply(since, at, by_group)
            long = self.reference.held_long(since, at)
            for (model, group), want in expected.items():
                want["long"] = sum(s for (m, g), s in long.items() if m == model and group in (None, g))
            words = ["history", "supply", "--since", period, *(["--by", "group"] if by_group else [])]
            found = {(row["model"], row.get("group")): row for row in self.pipeline.rows(at, *words)}
            what = (at, period, by_group)
            self.findings.same("supply: rows", what, sorted(expected, key=str), sorted(found, key=str))
            for key, want in expected.items():
                self._model((*what, key), want, found.get(key, {}), at)

    def _model(self, what: Any, want: dict[str, Any], row: dict[str, Any], at: int) -> None:
        known = sum(want[state] for state in KNOWN)
        shares = {
            "busy_percent": _share(want["busy"], known),
            "held_idle_percent": _share(want["held"], known),
            "free_percent": _share(want["free"], known),
            "none_free_percent": _share(want["none"], want["judged"]),
            **{
                f"{name}_free_percent": _share(want[name], want["judged"]) if want["most"] >= number else None
                for name, number in (("two", 2), ("four", 4), ("eight", 8))
            },
            "unknown_percent": 100
            - (_share(known * want["counted"], want["all"] * (at - want["first"])) or 0),
            "coverage_percent": _share(known * want["counted"], want["all"] * (at - want["first"])),
            "reclaimable_percent": _share(want["long"], known),
            "held_pauses_percent": _share(want["held"] - want["long"], known),
            "allocated_percent": _share(want["allocated"], want["reported"]),
            "allocated_idle_percent": _share(want["idle"], want["reported"]),
        }
        self.findings.same("supply: GPUs", what, want["gpus"], row.get("gpus"))
        self.findings.same(
            "supply: GPU days held idle", what, want["held"] / DAY, row.get("held_idle_gpu_days"), 0.06
        )
        for name, share in shares.items():
            self.findings.same(f"supply: {name}", what, share, row.get(name), 0.15)

    def _hours_csv(self, at: int) -> None:
        text = self.pipeline.command(at, "history", "export", "--csv", "--since", "3d")
        rows = list(csv.DictReader(io.StringIO(text)))
        sums: dict[str, float] = defaultdict(float)
        for row in rows:
            sums[row["user"]] += float(row["busy_s"]) + float(row["held_s"])
        for (user, _), (busy, held, *_) in self.reference.users(at - 3 * DAY, at).items():
            if busy + held:
                self.findings.same(
                    "export --csv: hours", (at, user), (busy + held) / HOUR, sums[user] / HOUR, 0.05
                )

    def _rntop(self, at: int) -> None:
        text = self.pipeline.command(at, "history", "export", "--rntop", "--since", "3d")
        rows = list(csv.DictReader(io.StringIO(text)))
        found = Counter(_time(row["timestamp"]) // HOUR for row in rows)
        looks = self.reference.counted(at - 3 * DAY, at)
        expected = Counter(
            look.at // HOUR for look, _ in looks if look.percent is not None and look.at >= at - 3 * DAY
        )
        for hour in sorted({*expected, *found})[1:]:
            self.findings.same(
                "export --rntop: samples by the hour", hour * HOUR, expected[hour], found[hour]
            )

    # The page

    def _cards(self) -> Iterator[tuple[tuple[str, str, int | None], Look, int, int | None, str]]:
        for host, known in self.reference.last.items():
            for key, entry in known.items():
                if entry.look.at == self.reference.readings[host][-1][0]:
                    yield (host, *key), entry.look, entry.since, entry.taken, place_of(entry.look)

    def _card(self, host: str, place: str) -> str:
        """The element of a card."""
        anchor = f"host-{host}:{place.replace(':', '.')}"
        page = self.pipeline.site("index.html")
        found = re.search(rf'<li class="[^"]*" id="{re.escape(anchor)}"[^>]*>.*?</li>', page, re.S)
        return found[0] if found else ""

    def _since(self, at: int) -> None:
        cuts = {(look.host, look.index) for _, look, *_ in self._cards() if look.slice is not None}
        for key, look, since, taken, place in self._cards():
            if look.state == "unknown" or (look.slice is None and (look.host, look.index) in cuts):
                continue
            card = self._card(look.host, place)
            if look.state == "free":
                self.findings.same(
                    "card: free for", (at, key), True, f"free for {_duration(at - since)}" in card
                )
            elif look.state == "busy" and not look.allocated:
                iso = datetime.fromtimestamp(taken or since, UTC).strftime("%Y-%m-%dT%H:%MZ")
                found = re.search(r'<time class="[^"]*" datetime="([^"]*)"', card)
                self.findings.same("card: busy since", (at, key), iso, found[1] if found else card)

    def _last_day(self, at: int) -> None:
        sums = self.reference.last_day(at)
        past = self.pipeline.block("past")
        page = self.pipeline.block("data")
        cut = {(look.host, look.index) for _, look, *_ in self._cards() if look.slice is not None}
        for key, look, _, _, place in self._cards():
            if look.slice is None and (look.host, look.index) in cut:
                continue
            card = self._card(look.host, place)
            row = _past_row(past, page, look.host, place)
            self.findings.same("last 24 h: cards that have it", (at, key), True, bool(card and row))
            if not card or row is None:
                continue
            self._hours_of_card((at, key), row, past)
            found = dict(zip(("busy", "held", "free"), row["spent"], strict=True))
            found["unknown"] = DAY // 60 - sum(found.values())
            self._largest(at, key, row["peaks"])
            want = sums[key] | {"unknown": DAY - sum(sums[key].values())}
            for state, seconds in want.items():
                self.findings.same(f"last 24 h: {state}", (at, key), seconds / 60, found[state], 1.6)
            found_ribbon = re.search(r'data-r="([^"]*)"', card)
            ribbon = found_ribbon[1] if found_ribbon else ""
            self._ribbon((at, key), self._slots(key, at), ribbon)
            users = self._users_of_slots(key, at)
            self._bands((at, key), users, row["bands"], ribbon, past["users"])

    def _hours_of_card(self, what: Any, row: Any, past: Any) -> None:
        """The small chart of a card: means of the hours of the clock, at every fourth level."""
        at, (_, uuid, slice_) = what
        sums: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for look, seconds in self.reference.counted(
            past["hour"] * HOUR, at, self.reference.of_card[uuid, slice_]
        ):
            if look.percent is not None:
                place = sums[look.run // HOUR - past["hour"]]
                place[0] += look.percent * max(1, seconds)
                place[1] += max(1, seconds)
        moved = {
            look.run // HOUR - past["hour"]
            for look in self.reference.of_card[uuid, slice_]
            if look.host != what[1][0]
        }
        for hour, value in enumerate(decoded(row["utilization"], 24, 100)):
            want = sums[hour][0] / sums[hour][1] if hour in sums else None
            if hour not in moved:
                self.findings.same(
                    "card: utilization by the hour", (*what, hour), want, value, 100 * COARSE_LEVEL + 0.5
                )

    def _users_of_slots(self, key: tuple[str, str, int | None], at: int) -> dict[int, set[str]]:
        found: dict[int, set[str]] = defaultdict(set)
        first = (at - DAY) // 900 + 1
        for look, seconds in self.reference.counted(at - DAY - 900, at, self.reference.of_card[key[1:]]):
            names = ", ".join(sorted({SHOWN_NAMES.get(user, user) for user in look.users}))
            for slot in range(look.at // 900, (look.at + max(seconds, 1) - 1) // 900 + 1):
                found[slot - first].add(names)
        return found

    def _bands(
        self, what: Any, users: dict[int, set[str]], owners: list[int], ribbon: str, names: list[str]
    ) -> None:
        """Each quarter of an hour has the name of somebody who was there, or none where nobody was all the time.

        The page has the owner where it changes, and the ribbon has whether the card was taken.
        """
        changes = dict(zip(owners[::2], owners[1::2], strict=True))
        letters = "".join(letter * int(length) for letter, length in re.findall(r"([a-z ])(\d+)", ribbon))
        name = ""
        for slot, letter in enumerate(letters):
            name = names[changes[slot]] if slot in changes else name
            if slot in users:
                shown = name if letter in "bh" else ""
                self.findings.same("ribbon: whose", (*what, slot), True, shown in users[slot])

    def _largest(self, at: int, key: tuple[str, str, int | None], found: list[int | None]) -> None:
        """Single readings of the last 24 hours of the clock."""
        first = (at // HOUR - 23) * HOUR
        looks = [look for look in self.reference.of_card[key[1:]] if look.run >= first]
        total = self.reference.lab.cards[key[1]].model.total_mib if key[2] is None else SLICES[key[2]][1]
        levels = (
            [look.percent for look in looks],
            [None if look.used_mib is None else 100 * look.used_mib // total for look in looks],
            [look.celsius for look in looks],
            [look.watts for look in looks],
        )
        for number, values in enumerate(levels):
            most = max((value for value in values if value is not None), default=None)
            self.findings.same("last 24 h: at most", (at, key, number), most, found[number])

    def _slots(self, key: tuple[str, str, int | None], at: int) -> dict[int, Counter[str]]:
        """Of the last day, by quarter of an hour: seconds in each state."""
        first = (at - DAY) // 900 + 1
        found: dict[int, Counter[str]] = defaultdict(Counter)
        for look, seconds in self.reference.counted(at - DAY - 900, at, self.reference.of_card[key[1:]]):
            start = max(look.at, at - DAY - 900)
            while seconds > 0:
                step = min(seconds, 900 - start % 900)
                found[start // 900 - first][look.state] += step
                start, seconds = start + step, seconds - step
        return found

    def _ribbon(self, what: Any, slots: dict[int, Counter[str]], ribbon: str) -> None:
        drawn = "".join(letter * int(number) for letter, number in re.findall(r"([a-z ])(\d+)", ribbon))
        for slot in range(96):
            spent = slots.get(slot, Counter())
            if not spent or not spent.total():
                continue
            letter = drawn[slot] if slot < len(drawn) else " "
            state = {"b": "busy", "h": "held", "f": "free", "u": "unknown"}.get(letter, "none")
            # The state of most of its time; two may have as much.
            most = max(spent.values())
            is_most = spent[state] >= most - 5 or most < 60
            self.findings.same("ribbon: most of a quarter of an hour", (*what, slot), True, is_most)

    def _people(self, at: int) -> None:
        things = self.pipeline.block("things")
        found = dict(things["usage"])
        self.findings.same("page: rows of GPU hours", at, len(found), len(things["usage"]))
        for place, days in enumerate((1, 7, 30)):
            expected = _by_name(self.reference.users(at - days * DAY, at))
            for name, (busy, held, work, measured, *_) in expected.items():
                if not busy + held:
                    continue
                hours, idle, active = found.get(name, [[None] * 3] * 3)[place]
                what = (at, days, name)
                self.findings.same("page: GPU hours of users", what, (busy + held) / HOUR, hours, 0.06)
                self.findings.same("page: idle hours of users", what, held / HOUR, idle, 0.06)
                want = round(work / measured) if measured else None
                self.findings.same("page: GPU active of users", what, want, active, 1)
        self._used(at, things)

    def _used(self, at: int, things: Any) -> None:
        """Of each host: rows, and what those that are not listed add up to."""
        names = [host[1] for host in self.pipeline.block("data")["hosts"]]
        expected: dict[str, float] = defaultdict(float)
        for (_, host), (busy, held, *_) in self.reference.users(at - 30 * DAY, at, PARTS["host"]).items():
            expected[host] += (busy + held) / HOUR
        for place, rows in things["used"].items():
            host = names[int(place)]
            listed = sum(row[1] for row in rows)
            self.findings.same("page: who used a host, all hours", (at, host), expected[host], listed, 0.5)

    def _availability(self, at: int) -> None:
        names = [host[1] for host in self.pipeline.block("data")["hosts"]]
        found = self.pipeline.block("things")["up"]
        for host, (up, down, first) in self.reference.availability(at).items():
            share, known = found[str(names.index(host))]
            self.findings.same("availability", (at, host), int(1000 * up / (up + down)) / 10, share, 0.1)
            self.findings.same(
                "availability: known", (at, host), round(100 * (up + down) / (at - first)), known, 1
            )

    def _charts(self, at: int) -> None:
        past = self.pipeline.block("past")
        for name, size, series, _ in past["models"]:
            for key, letters in series.items():
                step, count, first = past["step"][key], past["count"][key], past["first"][key]
                expected = self._free(at, name, step)
                drawn = decoded(letters, count, size)
                # The oldest point may begin before there were runs.
                for place, value in enumerate(drawn):
                    want = expected.get(first + place)
                    want = None if want is None else want * size
                    self.findings.same(
                        f"chart of free GPUs, {key}",
                        (at, name, first + place),
                        want,
                        value,
                        size * (HALF_LEVEL + 0.02),
                    )

    def _free(self, at: int, model: str, step: int) -> dict[int, float]:
        """By point: the part of the GPUs of a model that was free; none where nothing was known."""
        free: Counter[int] = Counter()
        every: Counter[int] = Counter()
        known: Counter[int] = Counter()
        for look, seconds in self.reference.counted(0, at):
            if self._pool(look) == model:
                point = look.run // step
                every[point] += max(seconds, 1)
                free[point] += max(seconds, 1) * (look.state == "free")
                known[point] += look.state in KNOWN
        return {point: free[point] / every[point] for point in every if known[point]}

    def _pool(self, look: Look) -> str:
        return look.model if look.slice is None else f"{SLICES[look.slice][0]} {look.model}"

    def _week(self, at: int) -> None:
        """Free GPUs by the hour of the week in the collector's zone, over four weeks of whole hours."""
        past = self.pipeline.block("past")
        until, zone = at // HOUR * HOUR, ZoneInfo(ZONE)
        since = (at - 28 * DAY) // HOUR * HOUR
        free: Counter[Any] = Counter()
        known: Counter[Any] = Counter()
        for look, seconds in self.reference.counted(0, at):
            if since <= look.run < until and look.state in KNOWN:
                there = datetime.fromtimestamp(look.run // HOUR * HOUR, zone)
                key = (self._pool(look), there.weekday() * 24 + there.hour)
                known[key] += max(seconds, 1)
                free[key] += max(seconds, 1) * (look.state == "free")
        for name, size, _, letters in past["models"]:
            for hour, value in enumerate(decoded(letters, 168, size)):
                want = size * free[name, hour] / known[name, hour] if known[name, hour] else None
                self.findings.same("heat map", (at, name, hour), want, value, size * HALF_LEVEL)


def _past_row(past: Any, page: Any, host: str, place: str) -> Any:
    """What the page has of the past of a card, by name; None of one that is cut, whose slices have it."""
    columns = page["columns"]
    where = [one[columns["host"].index("name")] for one in page["hosts"]].index(host)
    cards = [
        str(gpu[columns["gpu"].index("index")]) for gpu in page["hosts"][where][columns["host"].index("gpus")]
    ]
    if place not in cards:
        return None
    return dict(zip(past["columns"]["gpu"], past["gpus"][where][cards.index(place)], strict=True))


def place_of(look: Look) -> str:
    return str(look.index) if look.slice is None else f"{look.index}:{look.slice}"


def decoded(letters: str, count: int, top: float) -> list[float | None]:
    """A series as the page has it: a letter for each point; a number and ~ for a gap at its beginning, then a
    number and * for a letter that is repeated."""
    gap, mark, rest = letters.rpartition("~")
    times, repeats, known = rest.rpartition("*")
    if repeats:
        rest = known[:1] * (int(times) - 1) + known
    text = (" " * int(gap) if mark else "") + rest
    return [
        None if letter == " " else LETTERS.index(letter) / 63 * top for letter in text.ljust(count)[:count]
    ]


def _by_name(users: dict[Any, list[float]]) -> dict[str, list[float]]:
    """Logins that are shown by one name are one user."""
    sums: dict[str, list[float]] = {}
    for (login, _), row in users.items():
        name = SHOWN_NAMES.get(login, login)
        sums[name] = [a + b for a, b in zip(sums.get(name, [0.0] * len(row)), row, strict=True)]
    return sums


def _slice(gpu: str) -> int | None:
    return int(gpu.partition(":")[2]) if ":" in gpu else None


def _largest(name: str) -> str:
    stem, _, unit = name.rpartition("_")
    return f"{stem}_max_{unit}"


def _share(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole else None


def _time(text: str) -> int:
    found = datetime.fromisoformat(text.replace("/", "-"))
    assert found.tzinfo is not None, f"{text} has no zone"
    return int(found.timestamp())


def _duration(seconds: int) -> str:
    """As the docs of the page have it: the unit that matters, rounded down."""
    if seconds < 3600:
        return f"{seconds // 60} min" if seconds >= 60 else f"{seconds} s"
    if seconds < DAY:
        return f"{seconds // HOUR} h"
    days, hours = seconds // DAY, seconds % DAY // HOUR
    return f"{days} d {hours} h" if hours else f"{days} d"


def seconds_of(period: str) -> int:
    return int(period[:-1]) * {"m": 60, "h": HOUR, "d": DAY}[period[-1]]


def wrong(findings: Findings) -> Iterable[str]:
    for kind, examples in findings.examples.items():
        yield f"{kind}: {findings.wrong[kind]} of {findings.checked[kind]}"
        yield from (f"  {example}" for example in examples)
