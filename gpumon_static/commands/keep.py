"""Add a run to the history and to the events, if its clock can be believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from gpumon_static.config.settings import Config
from gpumon_static.errors import GpumonError
from gpumon_static.model import HostReading
from gpumon_static.store import clock, events_file
from gpumon_static.store.events import Event, EventMemory
from gpumon_static.store.history import record
from gpumon_static.survey.changes import note_changes
from gpumon_static.survey.names import short_model
from gpumon_static.survey.sightings import sightings
from gpumon_static.survey.workers import note_workers
from gpumon_static.text import Say


def keep(
    config: Config,
    readings: Sequence[HostReading],
    asked: Sequence[HostReading],
    now: datetime,
    say: Say,
    workers: Mapping[str, str] | None = None,
) -> list[Event]:
    """Return the new events. Problems are reported and never end a run.

    `asked`: the readings of this run. `workers`: of Dask, with why one could not be used.
    """
    path = events_file.path_in(config.paths.data)
    memory, can_note = EventMemory(), True
    try:
        memory = events_file.load_or_put_aside(path, now, say)
    except events_file.UnreadableEvents as error:
        # Saving now would let them begin anew, with every host's state forgotten.
        can_note = False
        say(f"events: {error}: the changes of this run are not recorded in them")
    recorded = {at.astimezone(UTC).replace(microsecond=0) for at in _recorded(config, memory.newest)}
    answered = any(reading.ok for reading in asked)
    belief = clock.judge(recorded, memory.doubted, now, answered, memory.newest)
    memory.doubted = list(belief.doubted)
    new: list[Event] = []
    if belief.line:
        say(f"clock: {belief.line}")
    before = min((reading.fetched_at for reading in asked), default=now) - timedelta(seconds=1)
    if belief.drops_ahead:
        memory.rewind(before)
    if belief.rewinds_hosts:
        memory.rewind_hosts(before)
    if belief.is_believed:
        memory.date_hosts(clock.EARLIEST_VALID, before)
    if belief.is_believed or belief.notes_events:
        new = [*note_changes(memory, asked, config), *note_workers(memory, workers or {}, config, now)]
    if belief.is_believed:
        record.record(
            config,
            sightings(readings, config.busy, config.groups),
            now,
            say,
            drops_ahead=belief.drops_ahead,
            events=[event for event in memory.events if event.at >= clock.EARLIEST_VALID],
            short_model=short_model,
        )
    if not can_note:
        return []
    try:
        events_file.save(path, memory)
    except GpumonError as error:
        say(f"events: {error}")
        return []
    return new


def _recorded(config: Config, noted: datetime | None) -> list[datetime]:
    """The last runs that history and events have; either may be missing."""
    runs = record.newest_runs(config, clock.MOST_RUNS)
    return [*runs, noted] if noted else runs
