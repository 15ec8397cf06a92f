"""badge.svg and badge-MODEL.svg: how many GPUs are free, as a picture for wikis and READMEs.

    GPUs | 8 free

No user is in it, so every privacy tier has it. A picture cannot know its age: its title has the date, and
data that is stale when it is made is called so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from gpumon_static.model.states import State
from gpumon_static.survey.names import short_model
from gpumon_static.text import natural_key, plain
from gpumon_static.times import age_of

if TYPE_CHECKING:
    from gpumon_static.survey.survey import Survey

NAME = "badge.svg"
MOST_MODELS = 24
"""With a file of their own: those with the most GPUs. A host may make models up."""
SLUG_LETTERS = 40
LETTER_PX, EDGE_PX = 6.8, 7

SVG = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" viewBox="0 0 {width} 20" \
role="img" aria-labelledby="t">
<title id="t">{title}</title>
<style>
text{{font:11px Verdana,"DejaVu Sans",sans-serif;fill:#fff}}
.l{{fill:#4b5359}}.free{{fill:#1f7a43}}.none{{fill:#a5231f}}.stale{{fill:#6b7278}}
@media(prefers-color-scheme:dark){{.l{{fill:#30363b}}.free{{fill:#2f8f56}}.none{{fill:#b8433d}}.stale{{fill:#59626a}}}}
</style>
<rect class="l" width="{width}" height="20" rx="3"/>\
<rect class="{kind}" x="{left}" width="{right}" height="20" rx="3"/>
<text x="7" y="14" textLength="{label_px}">{label}</text>\
<text x="{text_x}" y="14" textLength="{words_px}">{words}</text>
</svg>
"""


def badges(survey: Survey) -> Iterator[tuple[str, str]]:
    """File name and text of each."""
    counts: Counter[str] = Counter()
    free: Counter[str] = Counter()
    for host in survey.hosts:
        for gpu, state in zip(host.gpus, host.states, strict=True):
            model = short_model(gpu.name)
            counts[model] += 1
            free[model] += state is State.FREE
    yield NAME, _badge(survey, "GPUs", free.total(), counts.total())
    made = {NAME}
    for model in sorted(counts, key=lambda model: (-counts[model], natural_key(model)))[:MOST_MODELS]:
        slug = re.sub(r"[^a-z0-9]+", "-", model.lower()[:SLUG_LETTERS]).strip("-")
        if slug and f"badge-{slug}.svg" not in made:
            made.add(f"badge-{slug}.svg")
            yield f"badge-{slug}.svg", _badge(survey, plain(model[:SLUG_LETTERS]), free[model], counts[model])


def _badge(survey: Survey, label: str, free: int, gpus: int) -> str:
    latest = survey.latest
    is_stale = latest is None or age_of(latest, survey.made_at, survey.stale_after_s).is_stale
    words = "no data" if latest is None else "stale" if is_stale else f"{free} free" if free else "none free"
    kind = "stale" if is_stale else "free" if free else "none"
    at = f"at {latest:%Y-%m-%d %H:%M} UTC" if latest else ""
    title = f"{survey.title}: {label}: {free} of {gpus} {'were' if is_stale else 'are'} free {at}".rstrip()
    label_px, words_px = (round(LETTER_PX * len(text)) for text in (label, words))
    left, right = label_px + 2 * EDGE_PX, words_px + 2 * EDGE_PX
    return SVG.format(
        width=left + right,
        left=left,
        right=right,
        kind=kind,
        label_px=label_px,
        words_px=words_px,
        text_x=left + EDGE_PX,
        title=escape(title),
        label=escape(label),
        words=words,
    )
