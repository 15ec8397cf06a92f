"""A host on which the account may start no more processes answers, and `check` names the reason."""

from __future__ import annotations

import os
import resource
import subprocess
from datetime import UTC, datetime

import pytest

from gpumon_static.check import examining
from gpumon_static.check.examining import Record
from gpumon_static.collect.probe import framing
from gpumon_static.collect.trace import Step
from tests.builders import host_config

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="the limit holds for no root: it becomes another user"
)
NOW = datetime(2026, 11, 18, 2, tzinfo=UTC)
SOMEBODY = 64123
"""A user that has no other processes."""


def answer(most_processes: int) -> str:
    def limit() -> None:
        os.setgid(SOMEBODY)
        resource.setrlimit(resource.RLIMIT_NPROC, (most_processes, most_processes))
        os.setuid(SOMEBODY)

    done = subprocess.run(
        ["sh", "-s"],
        input=framing.script().encode(),
        capture_output=True,
        preexec_fn=limit,
        env={"PATH": "/usr/bin:/bin", "GPUMON_SENT": "sent"},
        check=False,
        timeout=60,
    )
    return done.stdout.decode()


@pytest.mark.parametrize(
    ("most", "words"), [(2, "could not start a process"), (50, "reports users and run times")]
)
def test_a_host_without_room_for_a_process_is_not_one_without_ps(most: int, words: str) -> None:
    record = Record(lambda: NOW)
    sections = framing.sections(answer(most))
    examining._look_at_ps(host_config("gpu01"), sections, record)
    found = record.findings[Step.PS]
    assert words in found.message
    assert [str(hint.command) for hint in found.next if hint.command] == (
        ["sh -c 'ulimit -a; free -m'"] if most == 2 else []
    )
