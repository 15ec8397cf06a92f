"""`squeue -h -t all -o '%A|%U|%u|%T|%N'`: whose each job is, and where it runs.

    77|1001|alice|RUNNING|gpu[1-2]
    78|1002|bob|PENDING|

No column is a text that a user writes, as names, comments and directories in the answer of scontrol are. So a
record of scontrol counts where it begins with a job of this list, of the same owner and on the same nodes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpumon_static.collect.values import lines

MOST_JOBS = 200_000

_LINE = re.compile(r"(\d{1,20})\|(\d{1,10})\|([^|]{0,100})\|([A-Z_]{1,40})\|([^|]*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class JobOwner:
    uid: int
    user: str | None
    state: str
    nodes: str
    """A node set; empty while the job waits."""


def parse(text: str) -> dict[str, JobOwner]:
    found: dict[str, JobOwner] = {}
    for line in lines(text, MOST_JOBS):
        if match := _LINE.fullmatch(line):
            found[match[1]] = JobOwner(int(match[2]), match[3] or None, match[4], match[5])
    return found
