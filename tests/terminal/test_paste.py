"""The lines that a user copies, pasted into real shells: programs that are started next see the GPUs, and no others."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import time
from pathlib import Path

import pytest

from gpumon_static.publish.exports.gpus_json import document
from gpumon_static.survey.offers import Offer, Wanted, offers
from gpumon_static.survey.survey import build_survey
from gpumon_static.terminal import free
from tests.browser import OpenPage
from tests.builders import NOW, busy_gpu, config, gpu, host_config, reading
from tests.labs import page_of

SHELLS = ["bash", "zsh", "fish", "tcsh"]
LAB = [reading("node9", [busy_gpu(0), gpu(1), gpu(2)])]
HOST = host_config("node9", port=2222)
SSHD = """#!/bin/sh
# As sshd does it: the last word goes to the login shell of the user.
printf '%s\\n' "$*" > "$HOME/ssh"
for word; do :; done
exec "$SHELL" -c "$word"
"""


def offer() -> Offer:
    (found,) = offers(document(build_survey(LAB, config(HOST), NOW)), Wanted(2), NOW)
    return found


def pasted(shell: str, line: str, home: Path) -> str:
    """What a program sees that is started after the line was pasted and entered."""
    path = shutil.which(shell)
    assert path, f"{shell} is not installed"
    home.joinpath(".zshrc").touch()
    # Else fish reads all man pages in the background, on and on after the test.
    home.joinpath(".local/share/fish/generated_completions").mkdir(parents=True)
    ssh = home / "ssh-stub" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(SSHD)
    ssh.chmod(0o755)
    seen = home / "seen"
    pid, terminal = pty.fork()
    if pid == 0:
        environment = {
            "HOME": str(home),
            "SHELL": path,
            "TERM": "dumb",
            "PATH": f"{ssh.parent}:/usr/bin:/bin",
        }
        os.chdir(home)
        os.execve(path, [shell], environment)
    try:
        os.set_blocking(terminal, False)
        os.write(terminal, f"{line}\r".encode())
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            time.sleep(0.3)
            _drain(terminal)
            if seen.exists() and (text := seen.read_text().strip()):
                return text
            os.write(terminal, f"printenv CUDA_VISIBLE_DEVICES > {seen}\r".encode())
        return ""
    finally:
        os.kill(pid, signal.SIGKILL)
        os.close(terminal)
        os.waitpid(pid, 0)


def _drain(terminal: int) -> None:
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        return


@pytest.mark.parametrize("shell", SHELLS)
def test_the_line_from_elsewhere_leads_to_the_gpus(shell: str, tmp_path: Path) -> None:
    assert pasted(shell, str(offer().command), tmp_path) == "1,2"
    assert tmp_path.joinpath("ssh").read_text().startswith("-t -p 2222 node9 env ")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_line_for_whoever_is_there_already(shell: str, tmp_path: Path) -> None:
    assert pasted(shell, str(offer().shell), tmp_path) == "1,2"


def test_page_and_terminal_copy_the_same_lines(open_page: OpenPage) -> None:
    page = open_page(f"{page_of(LAB, hosts=(HOST,))}").page
    page.goto(f"{page.url}?n=2")
    copied = page.locator("#answers [data-copy]").evaluate_all("all => all.map(one => one.dataset.copy)")
    assert copied == [str(offer().command), str(offer().shell)]
    assert free.lines([offer()])[1:] == [f"    {offer().command}"]
