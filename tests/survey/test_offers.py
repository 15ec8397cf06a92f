"""Where can I run? One rule for page, terminal and free.txt: cases that all of them must pass.

`offers.json` has labs, questions and answers. Those under "by hand" say what the rule is. The others are made from
the rule in survey/offers.py, by chance that repeats itself, and hold the page's JavaScript to it; after a change
of the rule `pytest tests/survey/test_offers.py --update-golden` makes them anew.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpumon_static.config.settings import Config
from gpumon_static.model import HostReading
from gpumon_static.publish.exports.files import free_txt
from gpumon_static.publish.exports.gpus_json import document
from gpumon_static.publish.page.data import page_data
from gpumon_static.publish.page.records import Page
from gpumon_static.publish.page.split.overview import extract, overview, part_page
from gpumon_static.publish.page.split.parts import Part
from gpumon_static.publish.page.view import build_page, make_ready
from gpumon_static.survey.offers import Offer, Wanted, offers
from gpumon_static.survey.survey import build_survey
from gpumon_static.text import GB_IN_MIB
from tests.browser import OpenPage
from tests.builders import NOW
from tests.labs import lab, page_of
from tests.offers_lab import FILE, MODELS, load, readings_of

STATES = ("free", "free", "free", "busy", "sick", "notice", "unknown memory", "half")
ASKED = (
    *[""] * 4,
    "",
    "",
    "",
    "A100",
    "a100 80g",
    "A100 80G",
    "A10",
    "rtx6000",
    "RTX 6000",
    "L4",
    "MI300X",
    "sxm4",
    "1g.10gb",
    "1g",
    "-",
)

Question = dict[str, Any]


# Answers as the file has them: "node1 0,1 | note | what speaks against it"


def wanted_of(question: Question) -> Wanted:
    return Wanted(question.get("n", 1), question.get("gb", 0) * GB_IN_MIB, question.get("model") or None)


def answers(hosts: dict[str, Any], questions: list[Question]) -> list[list[str]]:
    read, setup = readings_of(hosts)
    told = json.loads(json.dumps(document(build_survey(read, setup, NOW))))
    return [[_line(offer) for offer in offers(told, wanted_of(question), NOW)] for question in questions]


def _line(offer: Offer) -> str:
    return " | ".join([f"{offer.host} {offer.devices}", *([offer.note] if offer.note else []), *offer.tight])


ON_THE_PAGE = """labs => labs.map(({ data, stale, age, questions }) => {
  const hosts = gpumon.readHosts(JSON.parse(data));
  return questions.map(({ n = 1, gb = 0, model = "" }) => {
    const { able } = gpumon.offers.offers(hosts, { n, gb, model },
      (host) => !gpumon.age(age + host.behind, stale).isStale);
    return able.map(({ host, gpus, tight }) =>
      [`${host.name} ${gpus.map((gpu) => gpu.device).join(",")}`, ...(host.note ? [host.note] : []), ...tight].join(" | "));
  });
})"""


def overview_of(read: list[HostReading], setup: Config) -> Page:
    """The page that these hosts would have, were they many; each of them is a part of the site."""
    whole = make_ready(build_survey(read, setup, NOW), setup)
    parts = [Part(host.name, f"{host.name}.html", (host,)) for host in whole.survey.hosts]
    return overview(whole, parts, [extract(part_page(whole, part), part) for part in parts])


def page_answers(
    open_page: OpenPage,
    labs: list[dict[str, Any]],
    build: Callable[[list[HostReading], Config], Page] = lambda read, setup: build_page(read, setup, NOW),
) -> list[list[list[str]]]:
    """All in one page, by the functions that its picker uses."""
    asked = []
    for one in labs:
        read, setup = readings_of(one["hosts"])
        page = build(read, setup)
        latest = build_survey(read, setup, NOW).latest
        age = (NOW - latest).total_seconds() if latest else 0
        asked.append(
            {
                "data": page.data or page_data(page),
                "stale": page.stale_after_s,
                "age": age,
                "questions": [case["question"] for case in one["cases"]],
            }
        )
    opened = open_page(page_of(lab()))
    found: list[list[list[str]]] = opened.page.evaluate(ON_THE_PAGE, asked)
    assert opened.problems == []
    return found


# The generated ones


def generated() -> Iterator[dict[str, Any]]:
    chance = random.Random(15)
    for _ in range(30):
        pool = chance.sample(sorted(MODELS), 3)
        hosts = {f"n{number}": _some_host(chance, pool) for number in range(1, chance.randint(5, 8))}
        questions = [_some_question(chance) for _ in range(20)]
        cases = [
            {"question": question, "answer": answer}
            for question, answer in zip(questions, answers(hosts, questions), strict=True)
        ]
        yield {"hosts": hosts, "cases": cases}


def _some_host(chance: random.Random, pool: list[str]) -> dict[str, Any]:
    if chance.random() < 0.05:
        return {"failed": True}
    likely = (
        ("note", 0.2, "ask first by day"),
        ("port", 0.1, 2222),
        ("expects", 0.1, 9),
        ("minutes_old", 0.15, chance.choice([3, 10, 11, 12, 4000])),
        ("disks", 0.3, {"/": chance.choice([500.0, 951.0]), "/data": chance.choice([10.0, 999.0])}),
        ("ram", 0.7, chance.choice([1500, 8000, 20_000, 70_000, 400_000])),
    )
    host: dict[str, Any] = {key: some for key, share, some in likely if chance.random() < share}
    if chance.random() < 0.6:
        host |= {"cpus": chance.choice([8, 64]), "load": chance.choice([0.0, 1.0, 3.3, 60.0])}
    models = chance.sample(pool, 2)
    host["gpus"] = [_some_gpu(chance, models) for _ in range(chance.randint(1, 5))]
    return host


def _some_gpu(chance: random.Random, models: list[str]) -> str:
    if chance.random() < 0.15:
        return f"A100: slices {chance.choice(['ff', 'fx', 'xx', '-f'])}"
    model = chance.choice(models)
    return f"{model}: {chance.choice(STATES) if model != '?' else 'free'}"


def _some_question(chance: random.Random) -> Question:
    question: Question = {"n": chance.choice([1, 1, 1, 1, 2, 2, 3])}
    if gb := chance.choice([0, 0, 0, 8, 10, 20, 23, 24, 40, 48, 79.5]):
        question["gb"] = gb
    if model := chance.choice(ASKED):
        question["model"] = model
    return question


def _written(by_hand: list[dict[str, Any]], made: list[dict[str, Any]]) -> str:
    """A line per host and per case, so that a change of the rule is read as lines."""

    def one(entry: dict[str, Any]) -> str:
        title = f'"title": {json.dumps(entry["title"])},\n' if "title" in entry else ""
        hosts = ",\n".join(
            f"  {json.dumps(name)}: {json.dumps(host)}" for name, host in entry["hosts"].items()
        )
        cases = ",\n".join(f"  {json.dumps(case)}" for case in entry["cases"])
        return f'{{{title}"hosts": {{\n{hosts}}},\n "cases": [\n{cases}]}}'

    parts = [
        f'"{name}": [\n' + ",\n".join(map(one, labs)) + "]"
        for name, labs in (("by hand", by_hand), ("generated", made))
    ]
    return "{" + ",\n".join(parts) + "}\n"


# Tests


def test_the_rule_is_what_the_cases_by_hand_say() -> None:
    for one in load()["by hand"]:
        questions = [case["question"] for case in one["cases"]]
        assert answers(one["hosts"], questions) == [case["answer"] for case in one["cases"]], one["title"]


def test_the_generated_cases_are_those_of_the_rule(update_golden: bool) -> None:
    made = list(generated())
    if update_golden:
        FILE.write_text(_written(load()["by hand"], made), encoding="utf-8")
    kept = load()["generated"]
    assert made == kept
    found = [case["answer"] for one in kept for case in one["cases"]]
    assert len(found) >= 500
    assert sum(len(answer) > 1 for answer in found) > 100, "the order is tried too"


@pytest.mark.parametrize("is_large", [False, True])
def test_the_page_answers_every_case_as_the_terminal_does(open_page: OpenPage, is_large: bool) -> None:
    """So does the overview of a large site, which knows little of GPUs that are not offered."""
    labs = [one for kind in load().values() for one in kind]
    found = page_answers(open_page, labs, overview_of) if is_large else page_answers(open_page, labs)
    for one, listed in zip(labs, found, strict=True):
        for case, answer in zip(one["cases"], listed, strict=True):
            assert answer == case["answer"], (one["hosts"], case["question"])


def test_free_txt_lists_just_what_is_an_answer_to_one_gpu() -> None:
    for one in (one for kind in load().values() for one in kind):
        read, setup = readings_of(one["hosts"])
        survey = build_survey(read, setup, NOW)
        listed = [tuple(line.split()[:2]) for line in free_txt(survey).splitlines()]
        told = document(survey)
        assert {host for host, _ in listed} == {offer.host for offer in offers(told, Wanted(), NOW)}
        for offer in offers(told, Wanted(), NOW):
            mine = [device for host, device in listed if host == offer.host]
            # An offer is of one vendor; the numbers of the other one are from 10 on.
            assert len(mine) == offer.fitting or len({len(device) for device in mine}) > 1
            assert (offer.host, offer.devices) in listed


@pytest.mark.parametrize("days", [0, 3])
def test_free_txt_made_of_stale_data_is_empty(days: int) -> None:
    read, setup = readings_of({"n1": {"gpus": ["A100: free"]}})
    survey = replace(build_survey(read, setup, NOW), made_at=NOW + timedelta(days=days))
    assert free_txt(survey) == ("" if days else "n1 0 81916 A100-80G\n")
