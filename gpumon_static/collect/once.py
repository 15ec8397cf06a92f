"""Make something once that many hosts share: a key, a known_hosts file, a jump host."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Once(Generic[K, V]):
    """The first caller makes it; the others wait and get the same value or error."""

    def __init__(self, make: Callable[[K], V]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._locks: dict[K, threading.Lock] = {}
        self._values: dict[K, V] = {}
        self._errors: dict[K, Exception] = {}

    def __call__(self, key: K) -> V:
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._values and key not in self._errors:
                try:
                    self._values[key] = self._make(key)
                except Exception as error:
                    self._errors[key] = error
        if key in self._errors:
            raise self._errors[key]
        return self._values[key]

    def made(self) -> list[V]:
        return list(self._values.values())
