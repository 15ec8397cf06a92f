"""The supply of a period as a report, and the reports of whole months that `render` writes.

Users and groups are those of the main page. A month's report is made once, and again when that changes: it
would show for ever what the page no longer shows.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gpumon_static.config.settings import Config
from gpumon_static.publish.page.past import namer
from gpumon_static.publish.reports.supply import SupplyReport, SupplySection, render_supply
from gpumon_static.store.history.engine import HistoryError
from gpumon_static.store.history.questions import period
from gpumon_static.store.history.reader import Period, Reader, ask
from gpumon_static.store.history.supply import supply
from gpumon_static.survey.privacy import Tier
from gpumon_static.survey.supply import SupplyRow, supply_rows, with_names
from gpumon_static.system.files import read_file
from gpumon_static.terminal.history.reports import for_scripts
from gpumon_static.terminal.history.supply import supply_report
from gpumon_static.times import utc_text

FOLDER = "reports"
DAY = 86400
_SCOPE = re.compile(rb'data-scope="(\w+)"')


@dataclass(frozen=True, slots=True)
class ReportTime:
    """Since when, and for a month until when."""

    since: int
    until: int | None = None


def month_of(time: datetime) -> ReportTime:
    """The UTC month that the time is in."""
    first = time.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following = (first + timedelta(days=31)).replace(day=1)
    return ReportTime(int(first.timestamp()), int(following.timestamp()))


def report_text(
    config: Config, time: ReportTime, now: datetime, form: str | None, key: bytes, *, by_group: bool
) -> str:
    """`form`: csv, json, or None for HTML. `key`: for pseudonyms."""

    def made(reader: Reader) -> str:
        maker = _Maker(config, reader, now, key)
        return (
            maker.html(time, by_group=by_group) if form is None else maker.text(time, form, by_group=by_group)
        )

    return ask(config.history_path, made)


def month_reports(config: Config, now: datetime, key: bytes) -> dict[str, str]:
    """File name to text: that of the last month, and those that are stale. `key`: for pseudonyms."""
    folder = config.paths.site / FOLDER
    stale = {name: time for name, time in _written(folder) if _scope_of(folder / name) != _scope(config)}
    try:
        if not config.history.enabled:
            raise HistoryError("history.enabled is false")
        last = datetime.fromtimestamp(month_of(now).since - 1, UTC)
        name, month = f"{last:%Y-%m}.html", month_of(last)
        is_missing = not (folder / name).exists()
        if not is_missing and not stale:
            return {}

        def reports(reader: Reader) -> dict[str, str]:
            maker = _Maker(config, reader, now, key)
            wanted = stale | ({name: month} if is_missing and maker.is_over(month) else {})
            return {name: maker.html(time, by_group=True) for name, time in wanted.items()}

        made = ask(config.history_path, reports)
    except HistoryError:
        # What it may no longer show goes at once; a history that can be read again fills it.
        made = {name: empty_report(config, now) for name in stale}
    return {f"{FOLDER}/{name}": text for name, text in made.items()}


def report_months(config: Config, made: Iterable[str]) -> list[str]:
    """The months, as 2026-10, whose reports are in the site or among the files that are made now."""
    new = (Path(name) for name in made if name.startswith(f"{FOLDER}/"))
    return sorted(
        {Path(name).stem for name, _ in _written(config.paths.site / FOLDER)} | {p.stem for p in new}
    )


def empty_report(config: Config, now: datetime) -> str:
    nothing = SupplyReport(config.site.title, "", utc_text(now), "UTC", "", ())
    return render_supply(nothing, config.site.templates)


class _Maker:
    def __init__(self, config: Config, reader: Reader, now: datetime, key: bytes) -> None:
        self._config = config
        self._reader = reader
        self._now = now
        self._key = key
        self._page = config.pages[0]

    def is_over(self, month: ReportTime) -> bool:
        """The runs have passed its end, and something is known of it."""
        passed = month.until is not None and (self._reader.newest_run() or 0) >= month.until
        return passed and bool(self._rows(month, by_group=False)[1])

    def text(self, time: ReportTime, form: str, *, by_group: bool) -> str:
        by_group = by_group or bool(self._page.groups)
        asked, rows = self._rows(time, by_group=by_group)
        return for_scripts(supply_report(rows, by_group=by_group), asked, form)

    def html(self, time: ReportTime, *, by_group: bool) -> str:
        sections = []
        # A page of some groups has no sums over all hosts.
        if not self._page.groups:
            asked, rows = self._rows(time, by_group=False)
            sections.append(SupplySection("By model", rows, by_group=False))
        if self._page.groups or (by_group and any(self._config.groups.values())):
            asked, rows = self._rows(time, by_group=True)
            sections.append(SupplySection("By group and model", rows, by_group=True))
        made = SupplyReport(
            title=self._page.title or "",
            period=_words(time, asked),
            made=utc_text(self._now),
            zone=self._now.astimezone().tzname() or "UTC",
            scope=_scope(self._config),
            sections=sections,
        )
        return render_supply(made, self._config.site.templates)

    def _rows(self, time: ReportTime, *, by_group: bool) -> tuple[Period, list[SupplyRow]]:
        now = int(self._now.timestamp())
        asked = period(self._reader, time.since, now if time.until is None else min(now, time.until))
        idle_after = self._config.history.idle_after
        answer = supply(self._reader, asked, by_group=by_group, idle_after=idle_after)
        tier = Tier(self._page.users or self._config.site.users)
        rows = with_names(supply_rows(answer), namer(tier, self._key, self._config.users))
        return answer.asked, [row for row in rows if not self._page.groups or row.group in self._page.groups]


def _words(time: ReportTime, asked: Period) -> str:
    since, until = (datetime.fromtimestamp(at, UTC) for at in (asked.since, asked.until))
    if time.until is not None and asked.until == time.until:
        late = f", from {since.day} {since:%b} on" if asked.since >= time.since + DAY else ""
        return f"{datetime.fromtimestamp(time.since, UTC):%B %Y}{late}"
    return f"{since.day} {since:%b %Y, %H:%M} to {until.day} {until:%b %Y, %H:%M} UTC"


def _scope(config: Config) -> str:
    page = config.pages[0]
    return hashlib.blake2s(repr((page.users, page.groups)).encode(), digest_size=6).hexdigest()


def _written(folder: Path) -> list[tuple[str, ReportTime]]:
    found = []
    for path in sorted(folder.glob("[0-9][0-9][0-9][0-9]-[0-9][0-9].html")):
        try:
            found.append((path.name, month_of(datetime.strptime(path.stem, "%Y-%m").replace(tzinfo=UTC))))
        except ValueError:
            continue
    return found


def _scope_of(path: Path) -> str | None:
    try:
        found = _SCOPE.search(read_file(path, 1000))
    except OSError:
        return None
    return found[1].decode() if found else None
