"""DuckDB: a connection with bounded memory, SQL from files, and its errors as ours.

Everything is in memory but what it spills, which goes to `data/history/.spill`, never to /tmp.
"""

from __future__ import annotations

import os
import re
import resource
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpumon_static.errors import ON_STOP, GpumonError
from gpumon_static.system.files import (
    NOT_FOR_OTHERS,
    make_directory,
    open_private,
    share_as_directory,
    sync_directory,
)
from gpumon_static.text import one_line

if TYPE_CHECKING:
    import duckdb

HERE = Path(__file__).parent
MEMORY_MB = 400
THREADS = 2
ADDRESS_SPACE = 1 << 30
"""Bytes that DuckDB reserves, most of which it never uses. With less it may end the whole process."""
SPILL = ".spill"
PACKED = "FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false"
QUICK = "FORMAT parquet, COMPRESSION snappy, USE_TMP_FILE false"
"""Of a run, which is packed again within two hours."""

Row = tuple[Any, ...]


class HistoryError(GpumonError):
    """Why the history could not be written or read. A run goes on without it."""


class DamagedFile(HistoryError):
    """A file was read, and its content is wrong."""


class Engine:
    """A connection for one piece of work."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection

    def rows(self, sql: str, given: Mapping[str, Any] | None = None) -> list[Row]:
        with _stoppable():
            return self.connection.execute(sql, given or None).fetchall()

    def row(self, sql: str, given: Mapping[str, Any] | None = None) -> Row:
        return self.rows(sql, given)[0]

    def value(self, sql: str, given: Mapping[str, Any] | None = None) -> Any:
        return self.row(sql, given)[0]

    def do(self, sql: str, given: Mapping[str, Any] | None = None) -> None:
        with _stoppable():
            self.connection.execute(sql, given or None)

    def write(
        self, query: str, path: Path, options: str = PACKED, notes: Mapping[str, str] | None = None
    ) -> None:
        """The rows of a query to a Parquet file, in one step; `notes` go into the file's metadata."""
        metadata = ", ".join(f"{name}: {quoted(text)}" for name, text in (notes or {}).items())
        kept = f", KV_METADATA {{{metadata}}}" if metadata else ""
        with written_beside(path) as temporary:
            self.pack(query, temporary, options + kept)

    def pack(self, query: str, path: Path, options: str = PACKED) -> None:
        """The same into a file that is there."""
        self.do(f"COPY ({query}) TO {quoted(path)} ({options})")


@contextmanager
def _stoppable() -> Iterator[None]:
    """A signal is one again: DuckDB makes an error of its own of whatever its handler raised."""
    try:
        yield
    except Exception as error:
        if str(error) in ("Query interrupted", "INTERRUPT Error: Interrupted!"):
            raise KeyboardInterrupt from error
        raise


@contextmanager
def open_engine(folder: Path, threads: int = THREADS) -> Iterator[Engine]:
    _check_address_space()
    import duckdb

    limits = {"memory_limit": f"{MEMORY_MB}MB", "temp_directory": str(folder / SPILL)}
    with errors_of(folder):
        # The first run of all may be one that spills.
        _make_folder(folder)
        connection = duckdb.connect(config={**limits, "threads": threads})
        # Without it DuckDB waits for its threads, which go on with the question.
        interrupt = connection.interrupt
        ON_STOP.append(interrupt)
        try:
            # Times are shown and cut in UTC, whatever the machine's zone is.
            connection.execute(f"SET TimeZone = 'UTC'; SET enable_progress_bar = false; {sql('sql/macros')}")
            yield Engine(connection)
        finally:
            ON_STOP.remove(interrupt)
            connection.close()


def _check_address_space() -> None:
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY:
        return
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    if most - in_use < ADDRESS_SPACE:
        needed = (in_use + ADDRESS_SPACE) // 1024
        raise HistoryError(
            f"the limit of memory is {most // 1024} kB (ulimit -v); the history needs {needed} kB"
        )


@contextmanager
def errors_of(folder: Path) -> Iterator[None]:
    """DuckDB's errors and the system's as one clear line."""
    import duckdb

    try:
        with _stoppable():
            yield
    except duckdb.Error as error:
        raise as_history_error(error, folder) from error
    except PermissionError as error:
        raise HistoryError(f"cannot open {error.filename or folder}: {NOT_FOR_OTHERS}") from error
    except OSError as error:
        raise HistoryError(f"cannot use {error.filename or folder}: {error.strerror or error}") from error


def as_history_error(error: Exception, folder: Path) -> HistoryError:
    # DuckDB quotes what it found, whatever is in the file.
    text = "".join(letter if letter.isprintable() else "?" for letter in " ".join(str(error).split()))
    if "No space left on device" in text:
        return HistoryError(f"cannot write {folder}: the disk is full")
    if "Permission denied" in text:
        return HistoryError(f"cannot open {folder}: {NOT_FOR_OTHERS}")
    if text.startswith("Out of Memory"):
        return HistoryError(f"cannot use {folder}: not enough memory")
    if "Input/output error" in text or "Too many open files" in text or "No such file" in text:
        return HistoryError(f"cannot read {folder}: {text[:300]}")
    return DamagedFile(f"{folder}: {text[:300]}")


@contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """A private file beside its target, which is flushed to the disk and renamed at the end."""
    with temporary_beside(path) as temporary:
        # DuckDB opens the file that is there, which keeps its mode.
        handle = os.open(temporary, os.O_WRONLY | os.O_CLOEXEC)
        try:
            yield temporary
            os.fsync(handle)
        finally:
            os.close(handle)
        temporary.replace(path)
        sync_directory(path.parent)


@contextmanager
def temporary_beside(path: Path) -> Iterator[Path]:
    """A new private file, which is removed at the end unless it was renamed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        _make_folder(path.parent)
        handle = open_private(temporary, os.O_WRONLY | os.O_EXCL)
        try:
            share_as_directory(handle, temporary)
        finally:
            os.close(handle)
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _make_folder(folder: Path) -> None:
    """One after the other: mkdir makes the folders around it for everybody."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    make_directory(folder, private=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        share_as_directory(handle, folder)
    finally:
        os.close(handle)


@cache
def sql(name: str) -> str:
    """The text of `sql/NAME.sql` or `questions/NAME.sql`, without its comments."""
    text = (HERE / f"{name}.sql").read_text(encoding="utf-8")
    return re.sub(r"^\s*--.*\n", "", text, flags=re.MULTILINE).strip().rstrip(";")


def filled(name: str, **parts: str) -> str:
    """The SQL of that name, with `{part}` replaced: names of tables and of columns, which are ours."""
    text = sql(name)
    for part, value in parts.items():
        text = text.replace(f"{{{part}}}", value)
    return text


def clean_name(text: str | None) -> str:
    """A name out of a file, which may hold what no run has written."""
    return one_line(text) or ""


def quoted(text: object) -> str:
    return "'" + str(text).replace("'", "''") + "'"


def parquet(paths: Iterable[Path], *, by_name: bool = True) -> str:
    """A table of these files. Older ones may lack a column."""
    listed = ", ".join(quoted(path) for path in paths)
    return f"read_parquet([{listed}]{', union_by_name = true' if by_name else ''})"
