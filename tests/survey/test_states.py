"""A state has one name in files, one word for readers and one mark, and what is offered is decided once."""

from __future__ import annotations

import json
from typing import Any

from gpumon_static.model import Allocated, Allocation, Fault, HostReading, MigDevice
from gpumon_static.publish.exports.files import free_txt
from gpumon_static.publish.exports.gpus_json import document
from gpumon_static.publish.exports.metrics import metrics_prom
from gpumon_static.publish.page.data import page_data
from gpumon_static.publish.page.view import build_page
from gpumon_static.survey.offers import offered_places
from gpumon_static.survey.survey import Survey, build_survey
from tests.builders import NOW, busy_gpu, config, gpu, reading

ECC = (Fault("ecc-errors", "5 in DRAM"),)
UUID = "MIG-11111111-2222-3333-4444-555555555555"
LAB = reading(
    "a",
    [
        gpu(0),
        gpu(1, faults=ECC),
        busy_gpu(2),
        gpu(3, allocation=Allocation(Allocated.YES, "7", user="alice")),
        gpu(4, mig_mode=True, slices=(MigDevice(0, 7, 0, UUID), MigDevice(1, 8, 0, None))),
    ],
)


def survey_of(*readings: HostReading) -> Survey:
    return build_survey(readings, config(*(r.host for r in readings)), NOW)


def gpus(made: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = made["hosts"][0]["gpus"]
    return found


def test_gpus_json_has_what_is_offered_as_free_txt_has_it() -> None:
    survey = survey_of(LAB)
    found = gpus(json.loads(json.dumps(document(survey))))
    assert [one["is_offered"] for one in found] == [True, False, False, False, False]
    assert [one["is_usable"] for one in found] == [True, True, False, False, False]
    assert [cut["is_offered"] for cut in found[4]["slices"]] == [True, False], (
        "what has no UUID is not chosen"
    )
    assert [line.split()[1] for line in free_txt(survey).splitlines()] == ["0", UUID]


def test_free_and_gpufree_take_what_the_file_says_and_work_it_out_for_an_older_file() -> None:
    found = gpus(document(survey_of(LAB)))
    offered = [place.index for place in offered_places(found) if place.is_offered]
    assert offered == ["0", "4:0"]
    for one in found:
        for part in (one, *one["slices"]):
            del part["is_offered"]
    assert [place.index for place in offered_places(found) if place.is_offered] == offered


def test_a_gpu_that_is_not_offered_is_taken_by_nobody_although_it_is_usable() -> None:
    (one,) = gpus(document(survey_of(reading("a", [gpu()]))))
    assert [place.is_offered for place in offered_places([one])] == [True]
    assert [place.is_offered for place in offered_places([one | {"is_offered": False}])] == [False]


def test_an_allocated_gpu_is_held_in_files_and_called_allocated_on_the_page() -> None:
    survey = survey_of(LAB)
    assert gpus(document(survey))[3]["state"] == "held"
    assert 'gpumon_gpu_state{host="a",gpu="3",model="A100 80G",state="held"} 1' in "".join(
        metrics_prom(survey)
    )
    page = build_page([LAB], config("a"), NOW)
    assert [(card.kind, card.word) for card in page.hosts[0].cards][2:4] == [
        ("busy", "busy"),
        ("held", "allocated"),
    ]


def test_the_page_gives_the_browser_its_states() -> None:
    data = json.loads(page_data(build_page([LAB], config("a"), NOW)))
    columns = data["columns"]
    rows = data["hosts"][0][columns["host"].index("gpus")]
    assert [data["states"][row[columns["gpu"].index("kind")]] for row in rows] == [
        ["free", "free", 0],
        ["free", "free", 0],
        ["busy", "busy", 1],
        ["held", "allocated", 1],
        ["free", "free", 0],
        ["free", "free", 0],
    ]
