"""The rules of the house: rooms of a size that one can look over, names that mean one thing, doors one way."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.places import ROOT

PACKAGE = ROOT / "gpumon_static"
FOLDERS = sorted(path.parent for path in PACKAGE.rglob("__init__.py"))
MOST_MODULES = 15
MOST_AT_THE_ROOT = 8


def modules_in(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*.py") if path.name not in ("__init__.py", "__main__.py")]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_folder_can_be_looked_over_and_says_what_it_is_for(folder: Path) -> None:
    assert len(modules_in(folder)) <= (MOST_AT_THE_ROOT if folder == PACKAGE else MOST_MODULES)
    told = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    assert told.count(".") >= (1 if folder == PACKAGE else 2)


def test_a_public_class_has_one_meaning() -> None:
    defined: dict[str, set[str]] = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined[node.name].add(path.relative_to(PACKAGE).as_posix())
    assert {name: files for name, files in defined.items() if len(files) > 1} == {}


BREAKS = {
    "layers": ("survey/state.py", "from gpumon_static.publish.page import cards"),
    "pandas": ("store/snapshot.py", "import pandas"),
    "duckdb": ("terminal/history/answers.py", "import duckdb"),
    "paramiko": ("collect/local.py", "import paramiko"),
    "jinja2": ("publish/exports/feed.py", "import jinja2"),
    "dask": ("collect/engines/processes.py", "import distributed"),
}

IN_LAYERS = {
    "model": ("model/readings.py", "from gpumon_static import text"),
    "frames": ("survey/state.py", "from gpumon_static import frames"),
}


def lint_imports(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lint-imports")
    command = [str(program), "--no-cache", *options]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("contract", [*BREAKS, "model", "frames"])
def test_each_rule_of_the_house_can_fail(tmp_path: Path, contract: str) -> None:
    """A break of each contract, in a copy: the tool names the contract and the line."""
    shutil.copytree(PACKAGE, tmp_path / "gpumon_static", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    file, line = (BREAKS | IN_LAYERS)[contract]
    broken = tmp_path / "gpumon_static" / file
    broken.write_text(broken.read_text().replace("\n\nfrom ", f"\n\n{line}\nfrom ", 1))
    assert line in broken.read_text()
    done = lint_imports(tmp_path, "--contract", "layers" if contract in IN_LAYERS else contract)
    assert done.returncode == 1, done.stdout
    assert "BROKEN" in done.stdout
    assert f"gpumon_static.{file.removesuffix('.py').replace('/', '.')} ->" in done.stdout
