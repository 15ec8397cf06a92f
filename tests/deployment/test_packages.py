"""Man pages, the Debian package's own files and the container's loop: what `make packages` tries as a whole."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from gpumon_static.commands.fetch import fetch
from gpumon_static.commands.render import render
from gpumon_static.config import file as config_file
from gpumon_static.store.files import DATA_PATTERNS, SITE
from tests.builders import READ_AT
from tests.places import ROOT
from tools import debian, man_pages
from tools.command_reference import all_commands, option_names, options_of

LOOP = ROOT / "deploy/container-loop.sh"


# Man pages


def test_the_man_pages_are_in_step_with_the_commands() -> None:
    kept = {path.name: path.read_text() for path in (ROOT / "docs/man").iterdir()}
    assert kept == man_pages.pages(), "run `make man`"


def test_every_command_has_a_page_with_all_its_options() -> None:
    pages = man_pages.pages()
    for context in all_commands():
        page = pages.pop(f"{context.command_path.replace(' ', '-')}.1")
        for option in options_of(context):
            for name in option_names(option):
                assert f"\\fB{name.replace('-', chr(92) + '-')}\\fR" in page, name
    assert pages == {}


def test_text_that_roff_would_act_upon_is_escaped() -> None:
    lines = [line for text in man_pages.pages().values() for line in text.splitlines()]
    assert {line.split(" ")[0] for line in lines if line.startswith((".", "'"))} <= {
        ".TH", ".SH", ".B", ".BR", ".PP", ".TP", ".nf", ".fi",
    }  # fmt: skip


# What removing removes


def test_what_render_writes_is_what_a_removal_removes(tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text(
        "[common]\nhosts = '127.0.0.1:1'\n[site]\ncsv = true\nusers = 'pseudonyms'\n[slurm]\nhost = '127.0.0.2:1'\n"
    )
    config = config_file.load(tmp_path / "config.ini")
    fetch(config, clock=lambda: READ_AT)
    render(config, READ_AT)
    kept = {path.name for path in config.paths.data.iterdir()}
    assert {"history", "pseudonyms.key", "slurm.json"} <= kept
    assert {name for name in kept if not any(fnmatch(name, pattern) for pattern in DATA_PATTERNS)} == set()
    written = {path.name.removesuffix(".gz") for path in config.paths.site.iterdir() if path.is_file()}
    assert written
    assert {name for name in written if not any(fnmatch(name, pattern) for pattern in SITE)} == set()


def test_the_playbook_removes_the_same_files() -> None:
    derived = yaml.safe_load((ROOT / "deploy/ansible/vars/derived.yml").read_text())
    assert re.findall(r"'([^']+)'", derived["gpumon_site_files"]) == list(SITE)
    assert derived["gpumon_data_files"] == list(DATA_PATTERNS)


# The Debian package


def test_the_package_has_valid_control_files_and_scripts(tmp_path: Path) -> None:
    """Built with everything but the virtual environment, and looked at with dpkg's own tools."""
    package = debian.build(tmp_path / "root", tmp_path, "0.1.0")
    fields = subprocess.run(
        ["dpkg-deb", "--field", package], capture_output=True, text=True, check=True
    ).stdout
    assert "Package: gpumon-static\nVersion: 0.1.0\n" in fields
    assert re.search(
        r"^Depends: python3 \(>= 3\.\d+\), python3 \(<< 3\.\d+\), adduser$", fields, re.MULTILINE
    )
    listed = subprocess.run(
        ["dpkg-deb", "--contents", package], capture_output=True, text=True, check=True
    ).stdout
    for path in ("./etc/gpumon-static/config.ini", "./lib/systemd/system/gpumon-static.timer",
                 "./lib/systemd/system/gpumon-static-failure.service", "./usr/share/man/man1/gpumon-static-fetch.1.gz",
                 "./usr/bin/gpumon-static -> ../lib/gpumon-static/bin/gpumon-static"):  # fmt: skip
        assert f"{path}\n" in listed
    assert "root/root" in listed
    for script in ("postinst", "prerm", "postrm"):
        text = (tmp_path / "root/DEBIAN" / script).read_text()
        assert re.search(r"@\w+@", text) is None
        subprocess.run(["dash", "-n"], input=text, text=True, check=True)
    assert (tmp_path / "root/DEBIAN/conffiles").read_text() == "/etc/gpumon-static/config.ini\n"


def test_the_config_of_the_package_loads_with_its_paths(tmp_path: Path) -> None:
    text = debian.files()[Path("/etc/gpumon-static/config.ini")]
    assert isinstance(text, str)
    (tmp_path / "config.ini").write_text(text)
    loaded = config_file.load(tmp_path / "config.ini")
    assert loaded.paths.site == Path("/var/www/gpu-monitor")
    assert loaded.paths.data == Path("/var/lib/gpumon-static/data")


# The container's loop


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    (tmp_path / "bin").mkdir()
    stand_in = tmp_path / "bin/gpumon-static"
    stand_in.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/ran\n[ "$1" = fetch ] || touch {tmp_path}/index.html\n'
    )
    stand_in.chmod(0o755)
    running = subprocess.Popen([LOOP], env=environment(tmp_path))
    yield running
    running.kill()
    running.wait()


def environment(directory: Path) -> dict[str, str]:
    return {"PATH": f"{directory}/bin:/usr/bin:/bin", "GPUMON_INTERVAL": "1", "GPUMON_SITE": str(directory)}


def healthy(directory: Path) -> bool:
    done = subprocess.run([LOOP, "health"], env=environment(directory), capture_output=True, check=False)
    return done.returncode == 0


def test_the_loop_renews_the_page_until_it_is_told_to_end(
    loop: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    end = time.monotonic() + 120
    while not (tmp_path / "ran").exists() or (tmp_path / "ran").read_text().count("render\n") < 3:
        assert time.monotonic() < end
        time.sleep(0.1)
    assert (tmp_path / "ran").read_text().startswith("fetch --changes\nrender\nfetch --changes\n")
    loop.send_signal(signal.SIGTERM)
    assert loop.wait(120) == 0


def test_the_health_of_the_container_is_the_age_of_its_page(tmp_path: Path) -> None:
    assert not healthy(tmp_path), "no page yet"
    page = tmp_path / "index.html"
    page.touch()
    assert healthy(tmp_path)
    for seconds, is_healthy in ((-200, False), (200, False), (20, True)):
        at = time.time() + seconds
        os.utime(page, (at, at))
        assert healthy(tmp_path) is is_healthy, seconds


def test_the_compose_file_mounts_secrets_read_only_and_runs_without_rights() -> None:
    compose = yaml.safe_load((ROOT / "deploy/compose.yml").read_text())
    collector = compose["services"]["collector"]
    assert [
        mount for mount in collector["volumes"] if "/config/" in mount and not mount.endswith(":ro")
    ] == []
    assert (collector["read_only"], collector["cap_drop"]) == (True, ["ALL"])
    assert collector["healthcheck"]["test"] == ["CMD", "gpumon-loop", "health"]
    image = (ROOT / "deploy/Containerfile").read_text()
    assert re.findall(r"^USER (.*)$", image, re.MULTILINE) == ["10001:10001"]
    for source in re.findall(r"^COPY (?!--from)(?:--chmod=\d+ )?(.*) \S+$", image, re.MULTILINE):
        assert all((ROOT / name).exists() for name in source.split())
