"""The numbers behind names: hosts, models, users, and which GPU is which.

A GPU is known by its UUID, wherever it is plugged in and whatever its host is called; where the driver
reports none, or one that other GPUs have too, by host and index. `crews` are the sets of users that
held a GPU together.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Container
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from gpumon_static.store.history.observed import Observed


K = TypeVar("K")

SHORTEST_UUID = 16


class KnownGpu(NamedTuple):
    id: int
    key: str
    host: int
    position: int
    slice: int | None
    model: int
    first_at: int


class Names:
    """Everything is read once for a run; what is new gets its row at once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._hosts: dict[str, int] = dict(connection.execute("SELECT name, id FROM hosts"))
        models = connection.execute("SELECT name, profile, id FROM models")
        self._models = {(name, profile): number for name, profile, number in models}
        self._users: dict[str, int] = dict(connection.execute("SELECT name, id FROM users"))
        self._crews: dict[str, int] = dict(connection.execute("SELECT members, id FROM crews"))
        self._members = {id_: _ids(members) for members, id_ in self._crews.items()}
        self._crew_of: dict[tuple[str, ...], int] = {}
        known = map(KnownGpu._make, connection.execute("SELECT * FROM gpus"))
        self.gpus = {gpu.key: gpu for gpu in known}
        self.by_id = {gpu.id: gpu for gpu in self.gpus.values()}

    def host(self, name: str) -> int:
        insert = "INSERT INTO hosts (name) VALUES (?)"
        return self._hosts.get(name) or self._add(self._hosts, name, insert, (name,))

    def knows_host(self, name: str) -> bool:
        return name in self._hosts

    def host_name(self, number: int) -> str:
        return next(name for name, id_ in self._hosts.items() if id_ == number)

    def rename_host(self, old: str, new: str) -> None:
        self._hosts[new] = self._hosts.pop(old)
        self._connection.execute("UPDATE hosts SET name = ? WHERE name = ?", (new, old))

    def model(self, name: str, profile: str) -> int:
        key = name, profile
        insert = "INSERT INTO models (name, profile) VALUES (?, ?)"
        return self._models.get(key) or self._add(self._models, key, insert, key)

    def user(self, name: str) -> int:
        return self._add(self._users, name, "INSERT INTO users (name) VALUES (?)", (name,))

    def crew(self, users: tuple[str, ...]) -> int | None:
        if not users:
            return None
        crew = self._crew_of.get(users)
        if crew is None:
            ids = [self.user(user) for user in users]
            members = " ".join(map(str, sorted(ids)))
            crew = self._add(self._crews, members, "INSERT INTO crews (members) VALUES (?)", (members,))
            self._members.setdefault(crew, _ids(members))
            self._crew_of[users] = crew
        return crew

    def members(self, crew: int | None) -> tuple[int, ...]:
        return () if crew is None else self._members[crew]

    def gpu(
        self, host: str, seen: Observed, at: int, taken: set[int], shared: Container[str] = ()
    ) -> KnownGpu:
        """`taken`: those that this run has met already, so that two hosts never share one.

        `shared`: UUIDs that this run saw more than once, which identify nothing.
        """
        key, rows = self._identity(host, seen, shared)
        if key in self.gpus and self.gpus[key].id in taken:
            key = place_key(host, seen.position, seen.slice)
            rows = self._rows(key)
            if rows and rows[0].id in taken:
                return rows[0]
        known = next((row for row in rows if row.id not in taken), None)
        host_id, model = self.host(host), self.model(seen.model, seen.profile)
        if known is None:
            return self.new_gpu(KnownGpu(0, key, host_id, seen.position, seen.slice, model, at))
        if known[1:6] == (key, host_id, seen.position, seen.slice, model):
            return known
        return self._change_gpu(
            known, KnownGpu(known.id, key, host_id, seen.position, seen.slice, model, known.first_at)
        )

    def _identity(self, host: str, seen: Observed, shared: Container[str]) -> tuple[str, list[KnownGpu]]:
        """The key of a GPU, and the rows that may be its row so far, the likeliest first."""
        place = place_key(host, seen.position, seen.slice)
        if not seen.uuid:
            return place, self._rows(place)
        own = shared_key(host, seen.position, seen.slice, seen.uuid)
        if not (seen.uuid in shared or is_masked(seen.uuid) or own in self.gpus):
            return seen.uuid, self._rows(seen.uuid, place)
        here = (self._hosts.get(host), seen.position, seen.slice)
        # The row of the UUID goes on at the place where it was seen last.
        was_here = [row for row in self._rows(seen.uuid) if row[2:5] == here]
        return own, [*self._rows(own), *was_here, *self._rows(place)]

    def _rows(self, *keys: str) -> list[KnownGpu]:
        return [self.gpus[key] for key in keys if key in self.gpus]

    def new_gpu(self, gpu: KnownGpu) -> KnownGpu:
        insert = "INSERT INTO gpus (key, host, position, slice, model, first_at) VALUES (?, ?, ?, ?, ?, ?)"
        number = self._connection.execute(insert, gpu[1:]).lastrowid
        assert number is not None
        return self._keep(gpu._replace(id=number))

    def _change_gpu(self, before: KnownGpu, now: KnownGpu) -> KnownGpu:
        update = "UPDATE gpus SET key = ?, host = ?, position = ?, slice = ?, model = ? WHERE id = ?"
        self._connection.execute(update, (*now[1:6], now.id))
        del self.gpus[before.key]
        return self._keep(now)

    def _keep(self, gpu: KnownGpu) -> KnownGpu:
        self.gpus[gpu.key] = self.by_id[gpu.id] = gpu
        return gpu

    def _add(self, known: dict[K, int], key: K, insert: str, values: tuple[object, ...]) -> int:
        if key not in known:
            number = self._connection.execute(insert, values).lastrowid
            assert number is not None
            known[key] = number
        return known[key]


def shared_key(host: str, position: int, slice_: int | None, uuid: str) -> str:
    """Of a GPU whose UUID others have, too: no UUID has an exclamation mark."""
    return f"{place_key(host, position, slice_)}!{uuid}"


def is_masked(uuid: str) -> bool:
    """Whether a UUID is a stand-in, as of a virtual GPU: one digit all over, or none."""
    digits = re.sub(r"[^0-9A-Za-z]", "", uuid.removeprefix("GPU-").removeprefix("MIG-"))
    return len(uuid) >= SHORTEST_UUID and len(set(digits.lower())) < 2


def place_key(host: str, position: int, slice_: int | None) -> str:
    """A host's name has no slash in it."""
    return f"{host}/{position}" if slice_ is None else f"{host}/{position}/{slice_}"


def _ids(members: str) -> tuple[int, ...]:
    return tuple(map(int, members.split()))
