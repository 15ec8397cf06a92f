"""The wheel, in an empty virtual environment, far from the checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpumon_static.store import snapshot
from tests.builders import busy_gpu, reading
from tests.places import ROOT

CHECKOUT = ROOT


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin directory of a fresh environment that has the wheel and what it depends on."""
    directory = tmp_path_factory.mktemp("wheel")
    build = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(directory),
        str(CHECKOUT),
    ]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = directory.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", directory / "venv"], check=True)
    programs = directory / "venv/bin"
    subprocess.run([programs / "pip", "install", "--quiet", wheel], check=True, capture_output=True)
    return programs


def test_an_installed_wheel_renders_a_page(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text("[common]\nhosts = 'n1'\n")
    snapshot.write(tmp_path / "data/load_data.csv", [reading("n1", [busy_gpu()])])
    done = subprocess.run(
        [installed / "gpumon-static", "render"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "site/index.html").read_text()
    assert "n1" in page
    assert "<style>" in page


def test_an_installed_wheel_runs_the_demo(installed: Path, tmp_path: Path) -> None:
    arguments = ["demo", "--dir", str(tmp_path / "demo"), "--hosts", "3"]
    done = subprocess.run(
        [installed / "gpumon-static", *arguments], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "demo/site/index.html").exists()


def test_an_installed_wheel_prints_the_files_of_a_deployment_and_has_man_pages(
    installed: Path, tmp_path: Path
) -> None:
    printed = [
        subprocess.run(
            [installed / "gpumon-static", "init", "--print", what],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        for what in ("systemd", "ansible-vars")
    ]
    assert [(done.returncode, done.stderr) for done in printed] == [(0, ""), (0, "")]
    assert f"\nExecStart={installed}/gpumon-static fetch --changes\n" in printed[0].stdout
    assert f"\ngpumon_venv: {installed.parent}\n" in printed[1].stdout
    assert (installed.parent / "share/man/man1/gpumon-static-fetch.1").exists()
