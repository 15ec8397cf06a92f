"""Another history's numbers for hosts, models, users and GPUs to ours: what we do not know yet is added."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from gpumon_static.store.history.names import KnownGpu, Names, is_masked, shared_key


class MergedNames:
    def __init__(self, connection: sqlite3.Connection, source: sqlite3.Connection) -> None:
        self._connection = connection
        self._source = source
        self._ours = Names(connection)
        users = dict(source.execute("SELECT id, name FROM users"))
        self._hosts: dict[int, str] = dict(source.execute("SELECT id, name FROM hosts"))
        self._numbers: dict[str, dict[int, int]] = {
            "host": {number: self._ours.host(name) for number, name in self._hosts.items()},
            "model": {
                number: self._ours.model(name, profile)
                for number, name, profile in source.execute("SELECT id, name, profile FROM models")
            },
            "user": {number: self._ours.user(name) for number, name in users.items()},
            "crew": {
                number: self._ours.crew(tuple(users[int(member)] for member in members.split())) or 0
                for number, members in source.execute("SELECT id, members FROM crews")
            },
            "host_group": self._groups(),
        }
        self._numbers["known_crew"] = self._numbers["crew"]
        theirs = map(KnownGpu._make, source.execute("SELECT * FROM gpus"))
        self._gpus = {gpu.id: self._mapped_gpu(gpu) for gpu in theirs}
        self._numbers["gpu"] = {number: gpu.id for number, gpu in self._gpus.items()}
        self._supply_models = self._map_supply_models()

    def mapped(
        self, table: str, columns: Sequence[str], rows: Iterable[Sequence[int]]
    ) -> Iterator[list[int]]:
        """Rows of their table, with our numbers."""
        numbers = self._numbers
        if table.startswith("supply_"):
            numbers = numbers | {"model": self._supply_models}
        places = [(place, numbers[column]) for place, column in enumerate(columns) if column in numbers]
        for row in rows:
            mapped = list(row)
            for place, known in places:
                if mapped[place] is not None:
                    mapped[place] = known[mapped[place]]
            yield mapped

    def move_gpus(self, gpus: set[int]) -> None:
        """To the host and index where they saw them: later than we did."""
        update = "UPDATE gpus SET host = ?, position = ?, slice = ?, model = ? WHERE id = ?"
        moved = [(g.host, g.position, g.slice, g.model, g.id) for g in self._gpus.values() if g.id in gpus]
        self._connection.executemany(update, moved)
        firsts = [(gpu.first_at, gpu.id) for gpu in self._gpus.values()]
        self._connection.executemany("UPDATE gpus SET first_at = min(first_at, ?) WHERE id = ?", firsts)

    def merge_hosts(self) -> None:
        """When each host answered last, and since when it is down, as the later of the two has it."""
        for number, answered, down in self._source.execute("SELECT id, answered_at, down_since FROM hosts"):
            self._connection.execute(
                "UPDATE hosts SET down_since = :down, answered_at = :answered WHERE id = :host"
                " AND coalesce(:answered, 0) > coalesce(answered_at, 0)",
                {"down": down, "answered": answered, "host": self._numbers["host"][number]},
            )

    def _mapped_gpu(self, gpu: KnownGpu) -> KnownGpu:
        """Ours with the same key. A masked UUID on another host is another GPU."""
        host = self._hosts[gpu.host]
        numbers = self._numbers
        here = gpu._replace(host=numbers["host"][gpu.host], model=numbers["model"][gpu.model])
        known = self._ours.gpus.get(gpu.key)
        if known and is_masked(gpu.key) and known.host != here.host:
            here = here._replace(key=shared_key(host, gpu.position, gpu.slice, gpu.key))
            known = self._ours.gpus.get(here.key)
        return here._replace(id=known.id if known else self._ours.new_gpu(here).id)

    def _groups(self) -> dict[int, int]:
        """By name; 0, all hosts, is 0 everywhere."""
        found = {0: 0}
        for number, name in self._source.execute("SELECT id, name FROM host_groups"):
            self._connection.execute("INSERT OR IGNORE INTO host_groups (name) VALUES (?)", (name,))
            ours = self._connection.execute("SELECT id FROM host_groups WHERE name = ?", (name,))
            (found[number],) = ours.fetchone()
        return found

    def _map_supply_models(self) -> dict[int, int]:
        """What people call the same is counted under one model, which may be another one with us."""
        counted = dict(self._connection.execute("SELECT name, counted_as FROM supply_models"))
        found = dict(self._numbers["model"])
        for model, name, first in self._source.execute("SELECT model, name, counted_as FROM supply_models"):
            ours = counted.setdefault(name, self._numbers["model"][first])
            self._connection.execute(
                "INSERT OR IGNORE INTO supply_models VALUES (?, ?, ?)",
                (self._numbers["model"][model], name, ours),
            )
            found[model] = ours
        return found
