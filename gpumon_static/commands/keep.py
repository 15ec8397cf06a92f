"""Add a run to the history and to the events, if its clock can be believed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from gpumon_static.config.settings import Config
from gpumon_static.errors import GpumonError
from gpumon_static.model import HostReading
from gpumon_static.store import clock, events_file
from gpumon_static.store.events import Event
from gpumon_static.store.history import record
from gpumon_static.survey.changes import note_changes
from gpumon_static.survey.sightings import model_name, sightings
from gpumon_static.text import Say


def keep(
    config: Config, readings: Sequence[HostReading], asked: Sequence[HostReading], now: datetime, say: Say
) -> list[Event]:
    """Return the new events. `asked`: the readings of this run. Problems are reported and never end a run."""
    path = events_file.path_in(config.paths.data)
    memory = events_file.load_or_put_aside(path, now, say)
    recorded = {at.astimezone(UTC).replace(microsecond=0) for at in _recorded(config, memory.newest)}
    belief = clock.judge(recorded, memory.doubted, now, any(reading.ok for reading in asked))
    memory.doubted = list(belief.doubted)
    new: list[Event] = []
    if belief.line:
        say(f"clock: {belief.line}")
    if belief.drops_ahead:
        memory.rewind(min(reading.fetched_at for reading in asked) - timedelta(seconds=1))
    if belief.is_believed:
        new = note_changes(memory, asked, config)
        record.record(
            config,
            sightings(readings, config.busy),
            now,
            say,
            drops_ahead=belief.drops_ahead,
            short_model=model_name,
            events=memory.events,
        )
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
