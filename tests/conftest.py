"""Fixtures for all tests: a real sshd on loopback, and a browser (tests/browser.py)."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests.fast import is_slow
from tests.sandbox import make_wheels
from tests.sshd import GpuHosts

pytest_plugins = ["tests.browser"]

# A shell that starts the tests in the background tells them, and all they start, to pass over Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Speed is not what these tests are about: on a busy machine large examples come slowly.
settings.register_profile(
    "gpumon",
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
settings.load_profile("gpumon")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="accept the output of now as golden")


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pip installs from in a sandbox: made once, for all workers of a run."""
    own = tmp_path_factory.getbasetemp()
    made = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "wheels"
    with made.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            make_wheels(made.with_suffix(".part"))
            made.with_suffix(".part").rename(made)
    return made


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def gpu_hosts() -> Iterator[GpuHosts]:
    """One real sshd that is every host of 127.0.0.0/8; each address has its own stand-in nvidia-smi."""
    # Not below pytest's own directory, which other users (the ones that log in) may not enter.
    with TemporaryDirectory(prefix="gpumon-sshd-") as directory:
        Path(directory).chmod(0o755)
        with GpuHosts(Path(directory)) as hosts:
            yield hosts


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory of its own, with no keys and no agent in it."""
    directory = tmp_path / "home"
    (directory / ".ssh").mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("HOME", str(directory))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.delenv("GPUMON_CONFIG", raising=False)
    return directory


LONGEST_FIRST = (
    "deploy_cron",
    "deploy_ansible",
    "deploy_readme",
    "printed",
    "slurm_real",
    "torture",
    "dask",
    "demo",
    "convert",
    "page_things",
)
"""Files whose tests take or wait longest: begun last, one of them would keep a worker busy when all else is done."""


TOGETHER = {
    "convert",
    "dask",
    "demo",
    "deploy_web",
    "page_states",
    "page_things",
    "printed",
    "prometheus",
    "show_at",
    "slurm_real",
    "sql",
    "ssh_jump",
    "top",
    "wheel",
}
"""Files that put up something large for all of their tests: for one worker each, so that it is put up once."""


class _ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """The marks of xdist do the same, but not with pytest 9.2."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return file if Path(file).stem.removeprefix("test_") in TOGETHER else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return _ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {f"test_{name}": place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))
    for item in items:
        if is_slow(item):
            item.add_marker(pytest.mark.slow)
