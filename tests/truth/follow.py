"""A lab followed from its first run to its last, with checks on the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.truth.checks import Checks
from tests.truth.moments import Moments
from tests.truth.pipeline import Pipeline, asked_at
from tests.truth.reference import Reference
from tests.truth.schedule import HOUR, Lab


def follow(
    lab: Lab,
    folder: Path,
    *,
    looks: int,
    questions: int,
    periods: tuple[str, ...],
    off: tuple[str, ...],
    progress: Callable[[Checks, str], object] = lambda *_: None,
) -> Checks:
    """`looks`: how often the page is made and compared. `questions`: how often the past is asked for, beside the end.

    `off`: periods that are asked for while the collector is off.
    """
    pipeline, reference = Pipeline(lab, folder), Reference(lab)
    checks = Checks(pipeline, reference)
    moments = Moments(checks)
    looked: list[int] = []
    runs = list(lab.runs())
    pages = {len(runs) * number // looks - 1 for number in range(1, looks + 1)}
    asked = {len(runs) * number // (questions + 1) - 1 for number in range(1, questions + 1)}
    for number, (start, following) in enumerate(zip(runs, [*runs[1:], None], strict=True)):
        pipeline.run(start)
        reference.add(start)
        now = asked_at("", start) - 2
        if number in pages:
            pipeline.render(now)
            checks.now(now)
            checks.page(now)
            checks.events()
            moments.now(now)
            looked.append(reference.runs[-1])
            findings = checks.findings
            progress(
                checks,
                f"{number + 1:,} of {len(runs):,} runs: {findings.checked.total():,} checks,"
                f" {findings.wrong.total():,} wrong {dict(findings.wrong) or ''}",
            )
        if number in asked or following is None:
            checks.past(now, *periods)
            for run in looked[-5:] if following is None else ():
                moments.then(now, run)
        if following is None or following - start > 2 * HOUR + lab.interval:
            # The collector is off, and somebody asks.
            checks.past(now + 2 * HOUR, *off)
    checks.findings.same("lines that fetch prints about the history", "", [], pipeline.lines)
    return checks
