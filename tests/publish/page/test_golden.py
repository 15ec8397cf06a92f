"""The HTML of a fixed lab, word by word, without what is inlined. `pytest --update-golden` accepts a change."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpumon_static.publish.page.html import render_page
from tests.builders import busy_gpu, gpu, reading
from tests.labs import lab, page_of
from tests.past_lab import PastLab, held_gpu
from tests.places import TESTS

GOLDEN = TESTS / "golden"
CASES = {
    "names": lambda: page_of(lab(), footer="Help: https://wiki.example/gpu"),
    "pseudonyms": lambda: page_of(lab(), users="pseudonyms", key=b"a fixed key"),
    "counts": lambda: page_of(lab(), users="counts"),
    "no-data": lambda: page_of([]),
}


def body(html: str) -> str:
    """Without CSS, scripts and their hashes, which have tests of their own, and the version."""
    text = re.sub(r"<(style|script)>.*?</\1>", r"<\1>…</\1>", html, flags=re.DOTALL)
    text = re.sub(r"sha256-[A-Za-z0-9+/=]+", "sha256-…", text)
    text = re.sub(r'data-(build|digest)="[^"]*"', r'data-\1="…"', text)
    return re.sub(r"(by gpumon-static) [\w.]+", r"\1 …", text)


def test_the_page_with_a_history_is_as_it_was(tmp_path: Path, update_golden: bool) -> None:
    """Since when, ribbons, idle holders, GPU hours, supply, and the numbers of every chart."""
    past = PastLab(tmp_path)
    both = reading("node1", [busy_gpu(0), held_gpu(1, "bob"), gpu(2)])
    for minute in range(0, 241, 15):
        past.run(minute, both)
    path = GOLDEN / "history.html"
    text = body(render_page(past.page(240, both)))
    if update_golden:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CASES)
def test_the_page_is_as_it_was(name: str, update_golden: bool) -> None:
    path = GOLDEN / f"{name}.html"
    text = body(CASES[name]())
    if update_golden:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
