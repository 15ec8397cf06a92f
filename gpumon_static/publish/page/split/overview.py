"""The first page of a large site: everything that concerns all hosts, and where the cards of each are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING

from gpumon_static.publish.page.records import HostView, IdleRow, Kind, Page, PartRow
from gpumon_static.publish.page.split.overview_data import CompactHost, compact, overview_data
from gpumon_static.publish.page.tabs.history import build_history
from gpumon_static.publish.page.view import (
    Whole,
    assembled,
    attention_of,
    own_attention,
    page_of,
    things_of,
)
from gpumon_static.survey.totals import total

if TYPE_CHECKING:
    from gpumon_static.publish.page.split.parts import Part


@dataclass(frozen=True)
class Extract:
    """What the overview needs of the page of a part."""

    views: tuple[HostView, ...]
    """Without cards and facts."""
    rows: tuple[CompactHost, ...]
    idle: tuple[IdleRow, ...]
    latest: datetime | None


def part_page(whole: Whole, part: Part) -> Page:
    """The usual page, of the hosts of a part. What is asked of all hosts together is left to the overview."""
    survey = replace(whole.survey, hosts=part.hosts, clusters=(), lost_workers=())
    page = page_of(replace(whole, survey=survey, reports=(), is_part=True))
    return replace(
        page,
        tab_title=f"{page.headline.number} {page.headline.text} – {part.name} – {page.title}".lstrip(),
        part=part.name,
        home=whole.spec.file,
    )


def extract(page: Page, part: Part) -> Extract:
    return Extract(
        views=tuple(
            replace(
                view,
                cards=(),
                boxes=(),
                last_cards=(),
                last_boxes=(),
                meters=(),
                machine=(),
                software=(),
                page=part.file,
                kinds=tuple(view.looks),
            )
            for view in page.hosts
        ),
        rows=tuple(map(compact, page.hosts)),
        idle=page.history.idle if page.history else (),
        latest=datetime.fromisoformat(page.data_time.iso) if page.data_time else None,
    )


def overview(whole: Whole, parts: Sequence[Part], extracts: Sequence[Extract]) -> Page:
    survey, history = whole.survey, whole.history
    jobs = survey.jobs
    by_name = {view.full_name: view for one in extracts for view in one.views}
    views = [by_name[host.name] for host in survey.hosts]
    idle = sorted(chain(*(one.idle for one in extracts)), key=lambda row: -row.idle_s)
    shown = (
        build_history(history, views, everything=not whole.spec.groups, idle=idle, write=whole.write)
        if history
        else None
    )
    attention = (*own_attention(survey), *chain(*attention_of(views)))
    page = assembled(whole, views, jobs, shown, attention, things_of(whole, jobs, shown, each=False))
    rows = tuple(_part_row(part, one) for part, one in zip(parts, extracts, strict=True))
    return replace(page, parts=rows, data=_data(whole, parts, extracts))


def _data(whole: Whole, parts: Sequence[Part], extracts: Sequence[Extract]) -> str:
    latest = whole.survey.latest
    placed = {}
    for place, one in enumerate(extracts):
        behind_s = int((latest - one.latest).total_seconds()) if latest and one.latest else 0
        for view, row in zip(one.views, one.rows, strict=True):
            placed[view.full_name] = row, place, behind_s
    ordered = (placed[host.name] for host in whole.survey.hosts)
    return overview_data(ordered, [(part.name, part.file) for part in parts])


def _part_row(part: Part, one: Extract) -> PartRow:
    sums = total(part.hosts)
    down = sum(view.notice is not None and view.notice.kind is Kind.FAILED for view in one.views)
    return PartRow(part.file, part.name, len(part.hosts), down, sums.gpus, sums.free)
