"""The users of the demo lab: when they work, and with which programs. All names are invented."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


@dataclass(frozen=True)
class DemoUser:
    login: str
    uid: int
    starts_at: int
    """Hour of the day (UTC) at which this one begins to start jobs, ten hours long."""


class Rhythm(Enum):
    STEADY = auto()
    BURSTS = auto()
    """Now and then a cell of a notebook runs; the memory is held all the time."""
    DAILY = auto()
    """A service: its load follows the day."""


@dataclass(frozen=True)
class Program:
    path: str
    """As nvidia-smi prints it; `{user}` is the owner."""
    memory: tuple[float, float]
    """Least and most, as a share of the GPU's memory."""
    load: tuple[float, float]
    """Percent of utilization while it works."""
    hours: tuple[float, float]
    rhythm: Rhythm = Rhythm.STEADY

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


TRAINING = Program("/home/{user}/miniconda3/envs/torch/bin/python3", (0.45, 0.93), (78, 99), (6, 60))
FINETUNING = Program("/home/{user}/.venv/bin/python", (0.3, 0.75), (45, 88), (2, 14))
DEBUGGING = Program("/home/{user}/.venv/bin/python", (0.05, 0.3), (12, 60), (0.3, 3))
NOTEBOOK = Program("/opt/jupyterhub/bin/jupyter", (0.08, 0.45), (20, 70), (3, 30), Rhythm.BURSTS)
FORGOTTEN = Program("/opt/jupyterhub/bin/jupyter", (0.25, 0.6), (0, 0), (20, 60))
SERVING = Program("VLLM::EngineCore", (0.86, 0.92), (30, 85), (40, 90), Rhythm.DAILY)
GROMACS = Program("/opt/gromacs/bin/gmx", (0.015, 0.05), (72, 94), (8, 50))
NAMD = Program("/opt/namd/namd3", (0.03, 0.09), (80, 97), (8, 40))
BLENDER = Program("/usr/local/blender/blender", (0.2, 0.6), (95, 100), (0.5, 5))


@dataclass(frozen=True)
class Group:
    people: tuple[DemoUser, ...]
    programs: tuple[Program, ...]
    """Programs that these users start; one that is listed more often is started more often."""


GROUPS = {
    "vision": Group(
        (
            DemoUser("mira", 1001, 8),
            DemoUser("jonas", 1002, 7),
            DemoUser("konstantina", 1003, 9),
            DemoUser("tomoko", 1004, 14),
        ),
        (TRAINING, TRAINING, FINETUNING, DEBUGGING, NOTEBOOK),
    ),
    "language": Group(
        (
            DemoUser("pavel", 1011, 9),
            DemoUser("amara", 1012, 8),
            DemoUser("yusuf", 1013, 13),
            DemoUser("ingrid", 1014, 7),
        ),
        (TRAINING, TRAINING, SERVING, FINETUNING, NOTEBOOK),
    ),
    "chemistry": Group(
        (DemoUser("sofia", 1021, 8), DemoUser("dmitri", 1022, 11), DemoUser("weilin", 1023, 7)),
        (GROMACS, GROMACS, NAMD, DEBUGGING),
    ),
    "graphics": Group(
        (DemoUser("lucas", 1031, 10), DemoUser("noor", 1032, 9)),
        (BLENDER, BLENDER, FINETUNING, DEBUGGING),
    ),
    "teaching": Group(
        (
            DemoUser("leah", 1041, 8),
            DemoUser("oscar", 1042, 12),
            DemoUser("nadia", 1043, 9),
            DemoUser("student07", 1044, 10),
        ),
        (NOTEBOOK, NOTEBOOK, DEBUGGING, FINETUNING),
    ),
}
