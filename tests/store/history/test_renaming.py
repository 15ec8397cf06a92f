"""A host that was renamed keeps its past."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.builders import busy_gpu, host_config, process, reading
from tests.history_lab import DAY, HOUR, START, HistoryLab


def busy(host: str) -> object:
    return reading(host, [busy_gpu(0, processes=(process(7, user="ada"),))])


def test_the_past_of_an_old_name_is_that_of_the_new_one(tmp_path: Path) -> None:
    """Over days that are closed, hours and runs: GPU hours, since when, and the sums."""
    lab = HistoryLab(tmp_path, "old", "other")
    lab.every(START, START + DAY + 2 * HOUR, busy("old"), busy("other"), step=HOUR)  # type: ignore[arg-type]
    before = {use.host: use.busy_s for use in lab.gpus(START, START + DAY + 2 * HOUR)}
    since = lab.past(START + DAY + 2 * HOUR).gpus["old", "0"].since
    assert before["old"] == before["other"] > 0
    lab.config = replace(lab.config, hosts=(host_config("new", was="old"), host_config("other")))
    lab.add(START + DAY + 3 * HOUR, busy("new"), busy("other"))  # type: ignore[arg-type]
    (line,) = lab.lines
    assert line.startswith("history: old is new now: ")
    after = {use.host: use.busy_s for use in lab.gpus(START, START + DAY + 2 * HOUR)}
    assert after == {"new": before["old"], "other": before["other"]}
    assert lab.past(START + DAY + 3 * HOUR).gpus["new", "0"].since == since
    # Once: the next run writes none of them again.
    lab.add(START + DAY + 4 * HOUR, busy("new"), busy("other"))  # type: ignore[arg-type]
    assert lab.lines == [line]
