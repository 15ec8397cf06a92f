"""The seam: a vendor is a folder and an entry in a table, and nothing else asks for one by its name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from gpumon_static.bounds.vendors import FIRST, VENDORS, vendor_of
from gpumon_static.collect.probe import framing
from gpumon_static.collect.vendors import READERS
from gpumon_static.model import Gpu, Status
from gpumon_static.model.rules import RULES
from tests.builders import host_config
from tests.places import ROOT

CHECKOUT = ROOT
PACKAGE = CHECKOUT / "gpumon_static"
NAMES = {*VENDORS, *(vendor.word for vendor in VENDORS.values()), "intel", "Intel"}
LOOKS = {"startswith", "endswith", "find", "index", "count", "removeprefix", "fullmatch", "match", "search"}


def names_in(node: ast.AST) -> set[str]:
    """Texts and variables that are a vendor's name."""
    texts = {
        part.value
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    }
    variables = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return {text for text in texts | variables if text.lower() in {name.lower() for name in NAMES}}


def decisions(tree: ast.AST) -> Iterator[ast.AST]:
    """Where a value is compared with something."""
    for node in ast.walk(tree):
        called = node.func if isinstance(node, ast.Call) else None
        looks = isinstance(called, ast.Attribute) and called.attr in LOOKS
        if looks or isinstance(node, ast.Compare | ast.MatchValue):
            yield node


def named(source: str) -> list[int]:
    return [getattr(node, "lineno", 0) for node in decisions(ast.parse(source)) if names_in(node)]


def test_nothing_decides_by_the_name_of_a_vendor() -> None:
    folders = [PACKAGE / "collect" / name for name in VENDORS]
    for path in PACKAGE.rglob("*.py"):
        if not any(folder in path.parents for folder in folders):
            assert named(path.read_text()) == [], path


@pytest.mark.parametrize(
    "source",
    [
        "if gpu.vendor == 'amd': pass",
        "x = 1 if 'nvidia' != vendor else 2",
        "if vendor in ('amd', 'nvidia'): pass",
        "while name.startswith('NVIDIA'): pass",
        "match vendor:\n  case 'amd': pass",
        "y = [g for g in gpus if g.vendor is AMD]",
    ],
)
def test_such_a_decision_would_be_seen(source: str) -> None:
    assert named(source)


def test_scripts_and_templates_name_no_vendor_but_in_comments() -> None:
    name = re.compile(rf"\b(?:{'|'.join(NAMES)}|CUDA_|HIP_)\b", re.IGNORECASE)
    files = [*(CHECKOUT / "assets").glob("*.js"), *(CHECKOUT / "templates").rglob("*.j2")]
    assert len(files) > 20
    for path in files:
        code = re.sub(r"^\s*//.*|\{#.*?#\}", "", path.read_text(), flags=re.MULTILINE)
        assert not name.search(code), path


@pytest.mark.parametrize("name", VENDORS)
def test_a_folder_has_all_that_a_vendor_needs(name: str) -> None:
    reader = READERS[name]
    assert reader.section.parent == PACKAGE / "collect" / name
    section = reader.section.read_text()
    assert f"\nask_{name}() {{" in section
    assert re.search(rf'^vendors=".*\b{name}\b.*"$', section, re.MULTILINE)
    for mark in (reader.begins, reader.ends):
        assert f"section {mark.decode().strip()}\n" in section
    assert reader.absent in reader.advice
    assert reader.look
    assert reader.slow
    checks = __import__(f"gpumon_static.collect.{name}.diagnosis", fromlist=["CHECKS"]).CHECKS
    assert checks.keys() <= RULES.keys()
    assert (PACKAGE / "collect" / name / "diagnosis.py").exists()


def test_the_probe_has_each_section_once_and_the_core_names_none() -> None:
    script = framing.script()
    core = (PACKAGE / "collect/probe/probe.sh").read_text()
    for name, reader in READERS.items():
        assert script.count(reader.section.read_text()) == 1
        assert f"ask_{name}" not in core


def test_the_probe_is_asked_only_for_the_vendor_of_the_config() -> None:
    assert b"GPUMON_VENDORS=amd\n" in framing.stdin(host_config("n", vendor="amd"))
    for vendor in (None, "any"):
        assert b"GPUMON_VENDORS=''\n" in framing.stdin(host_config("n", vendor=vendor))


def test_a_vendor_of_another_release_is_read_as_the_first() -> None:
    assert vendor_of("nobody") is FIRST
    assert Gpu(0).vendor == FIRST.name
    assert {reader.absent for reader in READERS.values()} == {Status.NO_NVIDIA_SMI, Status.NO_GPU_TOOL}
