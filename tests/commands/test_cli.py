"""The command line as people and cron use it: exit status, words, files."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gpumon_static.store import snapshot
from tests.builders import busy_gpu, failed, gpu, reading
from tests.command import PROGRAM, gpumon


def test_help_is_quick_because_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from gpumon_static.__main__ import run; sys.argv = ['gpumon-static', '--help']\n"
        "try: run()\n"
        "except SystemExit as stop: assert stop.code == 0\n"
        "heavy = {'pandas', 'numpy', 'paramiko', 'cryptography', 'jinja2', 'rich'}\n"
        "print(sorted((heavy | {'gpumon_static.config.settings', 'gpumon_static.model'}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "fetch" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_show_needs_neither_pandas_nor_paramiko(tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text("[common]\nhosts = ['n1']\n")
    snapshot.write(tmp_path / "data/load_data.csv", [reading("n1", [gpu()])])
    code = (
        "import sys; from gpumon_static.__main__ import run\n"
        f"sys.argv = ['gpumon-static', 'show', '-c', r'{tmp_path}/config.ini']\n"
        "try: run()\n"
        "except SystemExit as stop: assert stop.code == 0\n"
        "print(sorted({'pandas', 'numpy', 'paramiko', 'cryptography', 'jinja2'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "A100" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_run_with_worker_processes_imports_paramiko_in_these_only(tmp_path: Path) -> None:
    (tmp_path / "ssh_config").write_text("Host 127.9.9.*\n  Port 1\n")
    (tmp_path / "config.ini").write_text(
        "[common]\nhosts = ['127.9.9.[1-2]']\n"
        "[fetch]\nprocesses = 2\nssh_config = 'ssh_config'\nknown_hosts = 'known_hosts'\n"
    )
    (tmp_path / "known_hosts").touch()
    code = (
        "import sys; from gpumon_static.__main__ import run\n"
        f"sys.argv = ['gpumon-static', 'fetch', '-c', r'{tmp_path}/config.ini']\n"
        "try: run()\n"
        "except SystemExit as stop: print('exit', stop.code)\n"
        "print(sorted({'pandas', 'numpy', 'paramiko', 'cryptography', 'jinja2'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("connection refused") == 2
    assert done.stdout.splitlines()[-1] == "[]"


def test_paramiko_comes_without_the_module_that_only_match_exec_needs() -> None:
    code = (
        "import sys, gpumon_static.collect.ssh.reader\n"
        "print('invoke.context' in sys.modules, 'paramiko' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_every_command_has_a_help_text_of_its_own() -> None:
    commands = re.findall(r"^  (\w+) +\S", gpumon("--help").stdout.split("Commands:")[1], re.MULTILINE)
    assert {"fetch", "render", "demo"} <= set(commands)
    for command in commands:
        done = gpumon(command, "--help")
        assert done.returncode == 0
        assert f"gpumon-static {command}" in done.stdout


def test_a_config_error_is_2_lists_everything_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text("[common]\nhost = 'a'\n[fetch]\nworkers = 0\n")
    for command in ("fetch", "render"):
        done = gpumon(command, cwd=tmp_path)
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.splitlines() == [
            "gpumon-static: config.ini: 3 problems",
            "  - common.host: unknown key; the nearest known one is common.hosts",
            "  - common.hosts: missing; it lists the hosts to ask",
            "  - fetch.workers: must be a whole number from 1 to 1000, not 0",
        ]
    assert [p.name for p in tmp_path.iterdir()] == ["config.ini"]


def test_a_missing_config_file_says_how_to_name_one(tmp_path: Path) -> None:
    done = gpumon("fetch", cwd=tmp_path)
    assert done.returncode == 2
    assert "-c PATH or $GPUMON_CONFIG" in done.stderr


def test_a_key_file_that_is_no_key_is_a_config_error(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("not a key\n")
    (tmp_path / "config.ini").write_text("[common]\nhosts = '127.0.0.1:1'\nkey_filename = 'key'\n")
    done = gpumon("fetch", cwd=tmp_path)
    assert done.returncode == 2
    assert "key is not a private key" in done.stderr
    assert not (tmp_path / "data/load_data.csv").exists()


def test_a_wrong_option_is_2(tmp_path: Path) -> None:
    assert gpumon("fetch", "--nonsense", cwd=tmp_path).returncode == 2
    assert gpumon("nonsense").returncode == 2


def test_errors_have_no_traceback_and_debug_shows_it(tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text("[common]\nhosts = 'a'\n")
    plain = gpumon("render", cwd=tmp_path)
    assert (plain.returncode, plain.stderr.count("\n")) == (1, 1)
    assert "run `gpumon-static fetch` first" in plain.stderr
    for arguments in (["render", "--debug"], ["--debug", "render"]):
        assert "Traceback" in gpumon(*arguments, cwd=tmp_path).stderr


def site(tmp_path: Path) -> Path:
    """A directory with a config and a snapshot."""
    (tmp_path / "config.ini").write_text("[common]\nhosts = ['n1', 'n2']\n")
    snapshot.write(tmp_path / "data/load_data.csv", [reading("n1", [busy_gpu(0), gpu(1)]), failed("n2")])
    return tmp_path


def test_render_writes_one_page_that_the_web_server_may_read(tmp_path: Path) -> None:
    done = gpumon("render", cwd=site(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    page = tmp_path / "site/index.html"
    assert "alice" in page.read_text()
    assert page.stat().st_mode & 0o044 == 0o044
    assert [p.name for p in (tmp_path / "site").iterdir() if p.name.startswith(".")] == []


def test_render_finds_its_config_by_the_environment_too(tmp_path: Path) -> None:
    site(tmp_path)
    done = subprocess.run(
        [*PROGRAM, "render"],
        env=os.environ | {"GPUMON_CONFIG": str(tmp_path / "config.ini")},
        cwd="/",
        check=False,
    )
    assert done.returncode == 0
    assert (tmp_path / "site/index.html").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "is empty"), (b"a,b\n1,2\n", "is not a file of gpumon-static"), (None, "no data yet")],
)
def test_a_failing_render_leaves_the_last_page(tmp_path: Path, content: bytes | None, words: str) -> None:
    gpumon("render", cwd=site(tmp_path))
    before = (tmp_path / "site/index.html").read_bytes()
    data = tmp_path / "data/load_data.csv"
    data.unlink()
    if content is not None:
        data.write_bytes(content)
    done = gpumon("render", cwd=tmp_path)
    assert done.returncode == 1
    assert words in done.stderr
    assert (tmp_path / "site/index.html").read_bytes() == before


def test_a_site_that_cannot_be_written_is_an_error_in_words(tmp_path: Path) -> None:
    site(tmp_path)
    (tmp_path / "site").write_text("a file where the directory should be")
    done = gpumon("render", cwd=tmp_path)
    assert done.returncode == 1
    assert "cannot write" in done.stderr
    assert done.stderr.count("\n") == 1


def test_render_killed_at_any_time_leaves_a_whole_page(tmp_path: Path) -> None:
    gpumon("render", cwd=site(tmp_path))
    page = tmp_path / "site/index.html"
    whole = page.read_text()
    assert whole.rstrip().endswith("</html>")
    for delay in (0.05, 0.2, 0.35, 0.5, 0.65, 0.8):
        running = subprocess.Popen([*PROGRAM, "render"], cwd=tmp_path)
        timer = threading.Timer(delay, running.kill)
        timer.start()
        running.wait()
        timer.cancel()
        assert page.read_text().rstrip().endswith("</html>")


def test_on_a_terminal_there_is_a_progress_bar(tmp_path: Path) -> None:
    (tmp_path / "config.ini").write_text("[common]\nhosts = ['127.0.0.1:1', '127.0.0.2:1']\n")
    control, terminal = pty.openpty()
    running = subprocess.Popen(
        [*PROGRAM, "fetch"], cwd=tmp_path, stderr=terminal, env=os.environ | {"TERM": "xterm"}
    )
    os.close(terminal)
    shown = b""
    try:
        while chunk := os.read(control, 4096):
            shown += chunk
    except OSError:
        pass
    os.close(control)
    assert running.wait() == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert "2/2" in text
    assert "2 failed" in text
    assert "127.0.0.1: refused: connection refused" in text
