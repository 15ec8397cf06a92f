"""A user's question in SQL: it sees the views and the files of the history, and changes nothing.

DuckDB could write files from within a SELECT (`WITH x AS (COPY ...)`), and into a folder that may be read. So
a question is asked as part of a larger one, where that is refused, after the configuration was locked.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gpumon_static.errors import GpumonError, UsageError
from gpumon_static.store.history.engine import (
    HERE,
    MEMORY_MB,
    PACKED,
    DamagedFile,
    Engine,
    filled,
    quoted,
    written_beside,
)
from gpumon_static.store.history.event_log import events_table
from gpumon_static.store.history.reader import Period, Reader, ask
from gpumon_static.text import Say

if TYPE_CHECKING:
    import duckdb

T = TypeVar("T")

VIEWS = ("readings", "gpu_runs", "host_runs", "holdings", "jobs", "events")
"""Each may use those before it."""
ALL_TIME = Period(0, 4_000_000_000)
ONLY_READS = (
    "a question only reads: SELECT, FROM, WITH, DESCRIBE, SUMMARIZE or SHOW;"
    " --parquet, --csv and --json write its answer"
)
_TIME = "TIMESTAMP WITH TIME ZONE"
_COMMENT = re.compile(r"^-- ?(.*)\n", re.MULTILINE)


@dataclass(frozen=True)
class Question:
    sql: str
    period: Period = ALL_TIME
    """Only files of this time are opened; what reaches over its ends counts for the part inside."""


@dataclass(frozen=True)
class AnswerColumn:
    name: str
    type: str
    """Of DuckDB."""

    @property
    def is_time(self) -> bool:
        return self.type == _TIME


@dataclass(frozen=True)
class Answer:
    columns: list[AnswerColumn]
    cursor: duckdb.DuckDBPyConnection
    """Its rows. Times have no zone: they are UTC."""


def about(view: str) -> str:
    """What a view is, in the words of its file."""
    text = (HERE / "views" / f"{view}.sql").read_text(encoding="utf-8")
    return " ".join(_COMMENT.findall(text.partition("\nSELECT")[0].partition("\nWITH")[0] + "\n"))


def answer(folder: Path, question: Question, take: Callable[[Answer], T], say: Say | None = None) -> T:
    """Ask, and let `take` make something of the rows. Raises `UsageError` for SQL that is wrong."""

    def asked(engine: Engine, query: str) -> T:
        columns = _columns(engine, query)
        listed = ", ".join(map(_readable, columns))
        return take(Answer(columns, engine.connection.execute(f"SELECT {listed} FROM {query}")))

    return _ask(folder, question, asked, say)


def hours(folder: Path, parts: str, period: Period, take: Callable[[Answer], T]) -> T:
    """GPU hours by these parts, which are SQL of our own, from the sums of days and hours."""

    def asked(reader: Reader) -> T:
        query = f"({filled('questions/hours_by', parts=parts, users=reader.sums('users', period))})"
        return take(Answer(_columns(reader.engine, query), reader.engine.connection.execute(query)))

    return ask(folder, asked)


def write_answer(folder: Path, question: Question, target: Path, say: Say | None = None) -> int:
    """Write the answer to a Parquet file; return how many rows it has."""
    if not target.parent.is_dir():
        raise GpumonError(f"cannot write {target}: {target.parent} is not a directory")
    try:
        with written_beside(target) as temporary:
            copy = f"TO {quoted(temporary)} ({PACKED})"

            def asked(engine: Engine, query: str) -> int:
                _columns(engine, query)
                return int(engine.value(f"COPY (SELECT * FROM {query}) {copy}"))

            return _ask(folder, question, asked, say, temporary)
    except OSError as error:
        raise GpumonError(f"cannot write {target}: {error.strerror}") from error


def _ask(
    folder: Path,
    question: Question,
    asked: Callable[[Engine, str], T],
    say: Say | None,
    writes: Path | None = None,
) -> T:
    import duckdb

    def whole(reader: Reader) -> T:
        make_views(reader, question.period)
        _confine(reader.engine, folder, writes)
        try:
            return asked(reader.engine, _checked(reader.engine, question.sql))
        except duckdb.OutOfMemoryException:
            raise GpumonError(
                f"the question needs more memory than {MEMORY_MB} MB: ask for less time (--since, --until)"
            ) from None
        except _faults_of_users() as error:
            raise UsageError(one_line(error)) from error

    try:
        return ask(folder, whole, say)
    except DamagedFile as error:
        # All files are sound: it was the question, as with a pattern that is not valid.
        if isinstance(error.__cause__, duckdb.InvalidInputException):
            raise UsageError(one_line(error.__cause__)) from error
        raise


def make_views(reader: Reader, period: Period) -> None:
    parts = {
        "rows": f"({reader.rows(period)})",
        "until": str(period.until),
        "gpu_runs": filled("sql/gpu_runs", rows="readings"),
        "events": events_table(reader.engine, reader.folder),
    }
    for view in VIEWS:
        made = filled(f"views/{view}", **parts)
        reader.engine.do(f"CREATE OR REPLACE TEMP VIEW {view} AS {made}")


def _confine(engine: Engine, folder: Path, writes: Path | None) -> None:
    """No file but those of the history can be opened from now on. `writes`: and this one, for the answer."""
    if engine.value("SELECT current_setting('lock_configuration')"):
        return
    folders = ", ".join(quoted(f"{path}/") for path in dict.fromkeys((folder, folder.resolve())))
    files = quoted(writes) if writes else ""
    engine.do(f"SET allowed_directories = [{folders}]; SET allowed_paths = [{files}]")
    engine.do("SET enable_external_access = false; SET lock_configuration = true")


def _checked(engine: Engine, sql: str) -> str:
    """The question as a table. Raises `UsageError` for what is not one question."""
    import duckdb

    statements = engine.connection.extract_statements(sql)
    if len(statements) != 1:
        raise UsageError("no question in it" if not statements else "one question at a time, without `;`")
    (statement,) = statements
    if statement.type != duckdb.StatementType.SELECT:
        raise UsageError(ONLY_READS)
    if statement.named_parameters:
        raise UsageError("a question has no parameters (`?`, `$1`): write the value itself")
    # A comment at its end must not take the bracket with it.
    return f"(\n{_without_end(statement.query)}\n)"


def _without_end(sql: str) -> str:
    """One statement without its semicolon, and comments after that."""
    import duckdb

    text = sql.encode()
    ends = [start for start, _ in duckdb.tokenize(sql) if text[start : start + 1] == b";"]
    return text[: ends[0]].decode() if ends else sql


def _columns(engine: Engine, query: str) -> list[AnswerColumn]:
    """Nothing is read for it but the files' columns."""
    return [AnswerColumn(name, kind) for name, kind, *_ in engine.rows(f"DESCRIBE SELECT * FROM {query}")]


def _readable(column: AnswerColumn) -> str:
    """Times without their zone: DuckDB's module for Python needs another package for them."""
    name = '"' + column.name.replace('"', '""') + '"'
    if column.is_time:
        return f"timezone('UTC', {name}) AS {name}"
    return f"{name}::VARCHAR AS {name}" if "TIME ZONE" in column.type else name


def _faults_of_users() -> tuple[type[Exception], ...]:
    """Errors that only the text of a question causes; damaged files have others."""
    import duckdb

    return (
        duckdb.ParserException,
        duckdb.SyntaxException,
        duckdb.BinderException,
        duckdb.CatalogException,
        duckdb.ConversionException,
        duckdb.OutOfRangeException,
        duckdb.PermissionException,
        duckdb.TypeMismatchException,
        duckdb.NotImplementedException,
    )


def one_line(error: Exception) -> str:
    """What DuckDB has to say, without the copy of the question and its caret."""
    text = " ".join(re.split(r"\n\s*LINE \d+:", str(error))[0].split())
    if "statement must be at the top level" in text:
        return ONLY_READS
    if found := re.match(r'Permission Error: Cannot access (?:file|directory) "(.*)" - ', text):
        return f"cannot open {found[1]}: a question reads the history only"
    return text[:400]
