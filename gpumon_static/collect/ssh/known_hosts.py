"""known_hosts, read once per run and asked once per host.

    node1,10.0.0.1 ssh-ed25519 AAAA...           plain names
    |1|salt=|digest= ssh-rsa AAAA...             a hashed name
    [node9]:2222 ecdsa-sha2-nistp256 AAAA...     another port than 22
    *.lab.example,!old.lab.example ssh-rsa ...   patterns
    @revoked * ssh-rsa AAAA...                   a key that is never accepted
    @cert-authority *.lab ssh-ed25519 AAAA...    an authority whose certificates count

Plain names are looked up. A hashed name can only be found by hashing with each entry's own salt, a pattern by
trying it. So their search starts with the key: of the entries that have this key, does one match this name?
All of them are searched only for a host that is about to be refused.
"""

from __future__ import annotations

import hmac
import os
import threading
from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path


class Verdict(Enum):
    KNOWN = auto()
    UNKNOWN = auto()
    CHANGED = auto()
    OTHER_TYPE = auto()
    """Keys of the host are known, but of other types than the one it presented."""
    REVOKED = auto()
    AUTHORITY_ONLY = auto()
    """Only a certificate authority is known for it, and it presented a plain key."""


@dataclass(frozen=True, slots=True)
class Entry:
    names: tuple[str, ...]
    """In lower case; empty for a hashed name."""
    key_type: str
    key: str
    """The key as in the file, in base64."""
    marker: str | None = None
    salt: bytes = b""
    digest: bytes = b""

    @property
    def is_plain(self) -> bool:
        return not self.salt and not any(sign in name for name in self.names for sign in "!*?")

    def matches(self, name: str) -> bool:
        if self.salt:
            return hmac.digest(self.salt, name.encode(), "sha1") == self.digest
        if any(n[0] == "!" and _matches_pattern(n[1:], name) for n in self.names):
            return False
        return any(_matches_pattern(n, name) for n in self.names)


@dataclass
class KnownHosts:
    path: Path
    all_key_types: set[str] = field(default_factory=set)
    _by_name: dict[str, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    """Those with plain names: a cluster whose hosts were cloned has thousands of them with one key."""
    _others: dict[str, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    """Hashed names and patterns, by key."""
    _about: dict[str, list[Entry]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def load(cls, path: Path, also: Iterable[Path] = ()) -> KnownHosts:
        """A file that does not exist has no hosts. `also`: files of the system, read but never written."""
        known = cls(path)
        for source in (path, *also):
            try:
                content = source.read_text(encoding="utf-8", errors="replace")
            except FileNotFoundError:
                continue
            for entry in parse(content):
                known.add(entry)
        return known

    def add(self, entry: Entry) -> None:
        if entry.is_plain:
            for name in entry.names:
                self._by_name[name].append(entry)
        else:
            self._others[entry.key].append(entry)
        self._about.clear()
        if entry.marker is None:
            self.all_key_types.add(entry.key_type)

    def verdict(self, name: str, port: int, key_type: str, key: str) -> Verdict:
        named = lookup_name(name, port)
        plain = name.lower()
        # As ssh does: a key that is known for the name without a port is good on any port.
        markers = {e.marker for name in (named, plain) for e in self._by_name.get(name, ()) if e.key == key}
        markers |= {e.marker for e in self._others.get(key, ()) if e.matches(named) or e.matches(plain)}
        if "@revoked" in markers:
            return Verdict.REVOKED
        if None in markers:
            return Verdict.KNOWN
        about_it = self._entries_about(named)
        types = {e.key_type for e in about_it if e.marker is None}
        if key_type in types:
            return Verdict.CHANGED
        if types:
            return Verdict.OTHER_TYPE
        authorities = any(e.marker == "@cert-authority" for e in about_it)
        return Verdict.AUTHORITY_ONLY if authorities else Verdict.UNKNOWN

    def key_types(self, name: str, port: int) -> set[str]:
        return {e.key_type for e in self._entries_about(lookup_name(name, port)) if e.marker is None}

    def _entries_about(self, named: str) -> list[Entry]:
        """All that carry this name, which may take a while: each hashed one has to be hashed for it."""
        found = self._about.get(named)
        if found is None:
            message, digest = named.encode(), hmac.digest
            found = [
                *self._by_name.get(named, ()),
                *(
                    e
                    for e in chain.from_iterable(self._others.values())
                    if (digest(e.salt, message, "sha1") == e.digest if e.salt else e.matches(named))
                ),
            ]
            self._about[named] = found
        return found

    def learn(self, name: str, port: int, key_type: str, key: str) -> None:
        """`accept-new`: from here on this host is known. One whole line, in one write."""
        entry = Entry((lookup_name(name, port),), key_type, key)
        line = f"{entry.names[0]} {key_type} {key}\n".encode()
        with self._lock:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(descriptor, line if _ends_with_newline(descriptor) else b"\n" + line)
            finally:
                os.close(descriptor)
            self.add(entry)


def lookup_name(name: str, port: int) -> str:
    return name.lower() if port == 22 else f"[{name.lower()}]:{port}"


def parse(text: str) -> Iterator[Entry]:
    """Lines that cannot be read are skipped, as ssh does."""
    for line in text.splitlines():
        words = line.split()
        marker = words.pop(0) if words and words[0].startswith("@") else None
        if len(words) < 3 or words[0].startswith("#"):
            continue
        names, key_type, key = words[:3]
        if not names.startswith("|"):
            yield Entry(tuple(n for n in names.lower().split(",") if n), key_type, key, marker)
            continue
        try:
            _, version, salt, digest = names.split("|")
            if version == "1":
                yield Entry((), key_type, key, marker, b64decode(salt), b64decode(digest))
        except ValueError:
            continue


def _matches_pattern(pattern: str, name: str) -> bool:
    if "*" not in pattern and "?" not in pattern:
        return pattern == name
    # Only * and ? are special in known_hosts; brackets belong to `[host]:port`.
    return fnmatchcase(name, pattern.replace("[", "[[]"))


def _ends_with_newline(descriptor: int) -> bool:
    size = os.lseek(descriptor, 0, os.SEEK_END)
    if size == 0:
        return True
    os.lseek(descriptor, size - 1, os.SEEK_SET)
    return os.read(descriptor, 1) == b"\n"
