"""deploy/Containerfile: built with buildah on a base of mmdebstrap, and run by chroot, as the image says.

There is no Docker and no OCI runtime in it: what needs one (health status in `podman ps`, compose) is not tried here.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_until

CHECKOUT = Path(__file__).parents[2]
CONFIG = '[common]\nhosts = ["localhost"]\n[paths]\ndata = "/data"\nsite = "/site"\n'


class Buildah:
    """buildah with a storage of its own, which needs no kernel module."""

    def __init__(self, directory: Path) -> None:
        storage = ["--root", str(directory / "storage"), "--runroot", str(directory / "run")]
        self.command = ["buildah", *storage, "--storage-driver", "vfs"]

    def __call__(self, *arguments: str | Path) -> str:
        # A pipe: what it runs as another user owns its stdin then, and /dev/null would stay that user's.
        command = [*self.command, *map(str, arguments)]
        done = subprocess.run(command, input="", capture_output=True, text=True, check=False, cwd=CHECKOUT)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()


@pytest.fixture(scope="module")
def buildah(base: Path, directory: Path, wheels: Path) -> Buildah:
    run = Buildah(directory)
    empty = run("from", "scratch")
    run("add", "--quiet", empty, base, "/")
    run("commit", "--quiet", empty, "localhost/base")
    run(
        "bud", "--isolation", "chroot", "--file", "deploy/Containerfile", "--tag", "gpumon-static",
        "--build-arg", "BASE=localhost/base", "--build-arg", "PIP_OPTIONS=--no-index --find-links /wheels",
        "--volume", f"{wheels}:/wheels:ro", ".",
    )  # fmt: skip
    return run


@pytest.fixture(scope="module")
def container(buildah: Buildah, directory: Path) -> Iterator[str]:
    """The loop of the image, running."""
    name = buildah("from", "--name", "tried", "localhost/gpumon-static")
    (directory / "config.ini").write_text(CONFIG)
    for volume in ("data", "site"):
        (directory / volume).mkdir()
        os.chown(directory / volume, 10001, 10001)
    running = subprocess.Popen(
        # A process namespace: what runs in the container ends with it.
        ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *buildah.command, "run", "--isolation", "chroot", "--env", "GPUMON_INTERVAL=5",
         *volumes(directory), name, "gpumon-loop"],
        stdin=subprocess.PIPE,
    )  # fmt: skip
    yield name
    running.kill()
    running.wait()


def volumes(directory: Path) -> list[str]:
    mounts = (
        f"{directory}/config.ini:/config/config.ini:ro",
        f"{directory}/data:/data",
        f"{directory}/site:/site",
    )
    return [part for mount in mounts for part in ("--volume", mount)]


def test_the_image_runs_the_loop_as_a_user_without_rights(buildah: Buildah) -> None:
    image = json.loads(buildah("inspect", "--type", "image", "localhost/gpumon-static"))
    config = image["OCIv1"]["config"]
    assert config["User"] == "10001:10001"
    assert config["Cmd"] == ["gpumon-loop"]
    assert set(config["Volumes"]) == {"/data", "/site"}
    fresh = buildah("from", "localhost/gpumon-static")
    modes = buildah("run", "--isolation", "chroot", fresh, "stat", "-c", "%U %a", "/data", "/site")
    # Volumes begin as these: a run has nothing to fix or to report of them.
    assert modes.split("\n") == ["gpumon 700", "gpumon 755"]


def test_the_page_appears_and_the_health_check_knows_its_age(
    buildah: Buildah, container: str, directory: Path
) -> None:
    page = directory / "site/index.html"
    wait_until(page.exists, "the page")
    assert page.stat().st_uid == 10001
    first = page.stat().st_mtime_ns
    wait_until(lambda: page.stat().st_mtime_ns > first, "the next page")
    assert "localhost" in page.read_text()
    inside = ("run", "--isolation", "chroot", *volumes(directory), container)
    buildah(*inside, "gpumon-loop", "health")
    assert buildah(*inside, "id", "-u") == "10001"
