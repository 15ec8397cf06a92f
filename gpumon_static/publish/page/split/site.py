"""The pages of one entry of `site.pages`: one, or above `site.split` an overview and a page for each part.

Cards of many hosts are made in processes beside this one. They are forked, so that nothing is sent to them,
and each gives back the text of a page and the little of it that the overview needs.
"""

from __future__ import annotations

import codecs
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING

from gpumon_static.errors import GpumonError
from gpumon_static.publish.page.html import PageTemplate
from gpumon_static.publish.page.split.overview import Extract, extract, overview, part_page
from gpumon_static.publish.page.split.parts import Part, parts_of
from gpumon_static.publish.page.view import Whole, page_of
from gpumon_static.system.files import CHUNK, Content

if TYPE_CHECKING:
    from gpumon_static.publish.page.branding import Branding

PAYS_FROM = 4000
"""GPUs; below, a process costs more than it saves."""
STOPPING = (signal.SIGINT, signal.SIGTERM)

_inherited: list[tuple[Whole, PageTemplate, Sequence[Part]]] = []
"""In a process beside: what it makes its pages of."""


def render_site(
    whole: Whole, branding: Branding | None = None, taken: Iterable[str] = ()
) -> dict[str, Content]:
    """File to text; the overview last, since it links to all others. `taken`: files that others make."""
    file = whole.spec.file
    template = PageTemplate(branding)
    parts = parts_of(whole.survey.hosts, whole.config.site.split, file, taken)
    if not parts:
        return {file: template.render(page_of(whole))}
    made = _made(whole, template, parts)
    texts: dict[str, Content] = {
        part.file: _pieces(text) for part, (text, _) in zip(parts, made, strict=True)
    }
    texts[file] = template.render(overview(whole, parts, [found for _, found in made]))
    return texts


def _pieces(text: bytes) -> Iterator[str]:
    """All pages wait for the last one: as strings they would take twice the memory."""
    return codecs.iterdecode((text[at : at + CHUNK] for at in range(0, len(text), CHUNK)), "utf-8")


def _made(whole: Whole, template: PageTemplate, parts: Sequence[Part]) -> list[tuple[bytes, Extract]]:
    cores = len(os.sched_getaffinity(0))
    gpus = sum(len(host.gpus) for part in parts for host in part.hosts)
    if gpus < PAYS_FROM or cores < 2:
        return [_render_part(whole, template, part) for part in parts]
    template.compile()
    # A process for each part: what it inherits becomes its own with the first look at it, and stays.
    # Those of a round are of one size, so that none waits for another.
    by_size = sorted(parts, key=lambda part: sum(len(host.gpus) for host in part.hosts))
    rounds = (by_size[first : first + cores] for first in range(0, len(parts), cores))
    made = {
        part.file: found
        for some in rounds
        for part, found in zip(some, _made_beside(whole, template, some), strict=True)
    }
    return [made[part.file] for part in parts]


def _made_beside(whole: Whole, template: PageTemplate, parts: Sequence[Part]) -> list[tuple[bytes, Extract]]:
    pool = ProcessPoolExecutor(
        len(parts),
        mp_context=multiprocessing.get_context("fork"),
        initializer=_inherit,
        initargs=(whole, template, parts),
    )
    try:
        # All are forked here. A signal waits until each of them has its own answer to it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        try:
            # By number: a part would be sent with all its readings.
            made = pool.map(_render_inherited, range(len(parts)))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return list(made)
    except BrokenProcessPool as error:
        raise GpumonError("a process that makes pages was killed: is there enough memory?") from error
    except BaseException:
        # Interrupted: the pages in work are not waited for, of which a thread of the pool would complain.
        threading.excepthook = lambda _: None
        for process in multiprocessing.active_children():
            process.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _inherit(whole: Whole, template: PageTemplate, parts: Sequence[Part]) -> None:
    # Ctrl-C reaches the whole group; render itself decides what ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
    _inherited.append((whole, template, parts))


def _render_inherited(number: int) -> tuple[bytes, Extract]:
    whole, template, parts = _inherited[-1]
    return _render_part(whole, template, parts[number])


def _render_part(whole: Whole, template: PageTemplate, part: Part) -> tuple[bytes, Extract]:
    page = part_page(whole, part)
    return template.render(page).encode(), extract(page, part)
