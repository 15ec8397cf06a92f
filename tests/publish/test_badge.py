"""badge.svg: what it shows, that it is valid whatever a host calls its GPUs, and that there are not too many."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from xml.etree import ElementTree as ET

import pytest

from gpumon_static.model import Gpu
from gpumon_static.publish.exports.badge import MOST_MODELS, badges
from gpumon_static.survey.survey import build_survey
from tests.builders import NOW, busy_gpu, config, failed, gpu, reading

SVG = "{http://www.w3.org/2000/svg}"


def made(*gpus: Gpu, late: timedelta = timedelta()) -> dict[str, str]:
    return dict(badges(build_survey([reading("node1", gpus)], config("node1"), NOW + late)))


def texts(svg: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(svg).iter(f"{SVG}text")]


def title(svg: str) -> str:
    return next(ET.fromstring(svg).iter(f"{SVG}title")).text or ""


def test_a_badge_counts_what_is_free_and_has_its_date() -> None:
    found = made(gpu(0), gpu(1), busy_gpu(2))
    assert texts(found["badge.svg"]) == ["GPUs", "2 free"]
    assert "2 of 3 are free at 2025-11-14 " in title(found["badge.svg"])
    (model,) = set(found) - {"badge.svg"}
    assert texts(found[model])[1] == "2 free"


def test_none_free_stale_and_no_data_are_said() -> None:
    assert texts(made(busy_gpu())["badge.svg"]) == ["GPUs", "none free"]
    old = made(gpu(), late=timedelta(days=3))["badge.svg"]
    assert texts(old) == ["GPUs", "stale"]
    assert "1 of 1 were free" in title(old)
    down = dict(badges(build_survey([failed("node1")], config("node1"), NOW)))
    assert set(down) == {"badge.svg"}


def test_light_and_dark_follow_the_reader() -> None:
    assert "@media(prefers-color-scheme:dark)" in made(gpu())["badge.svg"]


@pytest.mark.parametrize(
    "name", ["</title><script>", "../../etc/passwd", "\u202e\x00&<\"'", "x" * 5000, "///", "é ü"]
)
def test_a_hostile_model_is_text_in_a_file_with_a_plain_name(name: str) -> None:
    found = made(replace(gpu(0), name=name))
    for file, svg in found.items():
        assert (
            file == "badge.svg"
            or file.removeprefix("badge-").removesuffix(".svg").replace("-", "a").isalnum()
        )
        assert len(file) < 60
        assert len(svg) < 3000
        assert "script" not in {element.tag.removeprefix(SVG) for element in ET.fromstring(svg).iter()}


def test_a_host_that_makes_models_up_makes_few_files() -> None:
    found = made(*(replace(gpu(number), name=f"Made up {number}") for number in range(200)))
    assert len(found) <= MOST_MODELS + 1
