"""The files of ours in the data directory and the site: each is registered here, once.

private.py (who may read them), `check`, the Debian package and the playbook go by this table; docs/outputs.md
is generated from it. Files within `history/` have their names from history/layout.py.
"""

from __future__ import annotations

from typing import NamedTuple


class DataFile(NamedTuple):
    """A file or folder of the data directory, for its owner and `paths.data_group`; a removal takes it."""

    name: str
    writer: str
    """Who writes it."""
    about: str
    """A line of Markdown."""
    beside: bool = False
    """Others whose names begin with its own belong to it: what was put aside, a lock without `flock`."""
    is_folder: bool = False
    is_replaced: bool = False
    """It is put in place by a rename, which needs the directory only."""

    @property
    def pattern(self) -> str:
        return f"{self.name}*" if self.beside else self.name


HISTORY = "history"

DATA = (
    DataFile("load_data.csv", "fetch", "the last reading of each host", is_replaced=True),
    DataFile(HISTORY, "fetch", "the [history](history.md): every run, in Parquet; a folder", is_folder=True),
    DataFile(
        f"{HISTORY}.before-",
        "history restore",
        "what the history was before a restore; a folder",
        beside=True,
        is_folder=True,
    ),
    DataFile("history.db", "versions before 0.2", "their history, and what is left of it", beside=True),
    DataFile(
        "events.json", "fetch", "the states that the last runs saw, and the events of the feed", beside=True
    ),
    DataFile(
        "slurm.json",
        "fetch",
        "how the question to each [Slurm](slurm.md) ended, and what its jobs wait for",
        is_replaced=True,
    ),
    DataFile("pseudonyms.key", "render", "the key of the pseudonyms, where a page has them", beside=True),
    DataFile(
        "site-files.json",
        "render",
        "what the last render made, to remove it when it is no longer made",
        is_replaced=True,
    ),
    DataFile(
        "fetch.lock",
        "fetch",
        "held while a fetch runs; where the file system has no locks, `fetch.lock.held` is there meanwhile",
        beside=True,
    ),
)
DATA_PATTERNS = tuple(file.pattern for file in DATA)
REPLACED = tuple(file.name for file in DATA if file.is_replaced)

SITE = (
    "index.html", "gpus.json", "gpus.schema.json", "metrics.prom", "free.txt", "feed.xml", "load_data.csv",
    "show.txt", "show.ansi", "gpufree", "badge.svg", "badge-*.svg",
)  # fmt: skip
"""What render may write for everybody beside the pages of `[[site.pages]]`, each with its packed form."""
