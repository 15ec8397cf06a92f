"""The kinds of input, and the n-th case of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.fuzz import oracles, runs, seeds, user_texts
from tests.fuzz.mutate import mutated

CORPUS = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class Kind:
    name: str
    seeds: Callable[[], list[bytes]]
    oracle: Callable[[bytes, Path], None]
    whole: int
    """Cases of `make fuzz`."""
    share: int
    """Cases of the tests."""
    made: Callable[[Random], bytes] | None = None
    """Inputs that keep their form, which makes half of the cases where there are any."""

    def case(self, seed: int, number: int) -> bytes:
        random = Random(f"{self.name} {seed} {number}")
        if self.made and number % 2:
            return self.made(random)
        return mutated(random.choice(self.seeds()), random, self.seeds())

    def corpus(self) -> dict[str, bytes]:
        """By the name of its file."""
        return {file.name: file.read_bytes() for file in sorted((CORPUS / self.name).glob("*"))}


KINDS = {
    kind.name: kind
    for kind in (
        Kind("config", seeds.configs, oracles.config, 20_000, 600, seeds.made_config),
        Kind("answer", seeds.answers_of_hosts, oracles.answer, 100_000, 600),
        Kind("slurm", seeds.answers_of_slurm, oracles.slurm, 50_000, 400),
        Kind("usertext", user_texts.seeds, user_texts.oracle, 50_000, 500, user_texts.made),
        Kind("csv", seeds.csvs, oracles.csv, 20_000, 300),
        Kind("history", seeds.histories, oracles.history, 2_000, 16, seeds.made_history),
        Kind("runs", runs.seeds_, runs.oracle, 600, 5, runs.made),
        Kind("events", seeds.events, oracles.events, 20_000, 300, seeds.made_events),
    )
}


@dataclass(frozen=True)
class Failure:
    kind: str
    case: str
    """A number, or the name of a file of the corpus."""
    message: str
    content: bytes


def tried(kind: Kind, case: str, content: bytes, directory: Path) -> Failure | None:
    try:
        kind.oracle(content, directory)
    except Exception as error:
        return Failure(kind.name, case, f"{type(error).__name__}: {error}"[:500], content)
    return None
