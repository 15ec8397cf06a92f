"""Whether the clock of a run can be believed: decided once per run, for history and events alike.

A run that is behind the last recorded one is recorded nowhere; load_data.csv and the page have it.
Up to an hour behind, recording resumes when the clock has caught up. If it is more, one of the two is wrong:
the run is doubted. After a boot before NTP, the next run is ahead again. Doubted runs in a row, each later
than the one before and with a host that answered, are believed once they are more than the runs ahead of
them: 3 at least, 12 at most. What lies ahead is then dropped from the history, of which a copy is kept.
`history repair --drop-after` does the same at once. A clock before 2024 is never believed; where it stays
there, events go on all the same, since a host that goes down is news whatever the time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gpumon_static.system.resources import own_command
from gpumon_static.times import duration, utc_text

WAITED_FOR = timedelta(hours=1)
FEWEST_RUNS, MOST_RUNS = 3, 12
EARLIEST_VALID = datetime(2024, 1, 1, tzinfo=UTC)
"""A clock before this is wrong: gpumon-static did not exist. NTP has not set it yet."""


@dataclass(frozen=True, slots=True)
class Belief:
    is_believed: bool
    doubted: tuple[datetime, ...] = ()
    """Runs in a row that may be believed one day; to be kept for the next run."""
    line: str | None = None
    """For stderr."""
    drops_ahead: bool = False
    """What was recorded ahead of this run is wrong."""
    notes_events: bool = False
    """Not believed, and its events count all the same."""
    rewinds_hosts: bool = False
    """The states of hosts were noted ahead of this run, and are to be compared with it."""


def judge(
    recorded: Collection[datetime],
    doubted: Sequence[datetime],
    now: datetime,
    answered: bool,
    noted: datetime | None = None,
) -> Belief:
    """Judge a clock. `recorded`: the last dozen runs. `answered`: any host has; no network means no NTP.

    `noted`: the last run in the events.
    """
    if now < EARLIEST_VALID:
        return _without_a_date(noted, _row(doubted, now, answered), now)
    ahead = [at for at in recorded if at > now]
    if not ahead:
        return Belief(True)
    behind = max(ahead) - now
    if behind <= WAITED_FOR:
        return Belief(
            False, line=f"the clock was put back; recording resumes in {int(behind.total_seconds())} s"
        )
    row = _row(doubted, now, answered)
    needed = min(MOST_RUNS, max(FEWEST_RUNS, len(ahead) + 1))
    if len(row) >= needed:
        return Belief(True, drops_ahead=True)
    message = (
        f"the clock is {duration(behind.total_seconds())} behind the last recorded run: this run is not"
        f" recorded; after {needed} such runs in a row it is believed ({len(row)} so far), or at once with"
        f" `{own_command('history', 'repair', '--drop-after', utc_text(now))}`"
    )
    return Belief(False, tuple(row), message)


def _row(doubted: Sequence[datetime], now: datetime, answered: bool) -> list[datetime]:
    """The doubted runs in a row, with this one."""
    row = [at for at in doubted if at < now] if not doubted or doubted[-1] < now else []
    return [*row, now] if answered else row


def _without_a_date(noted: datetime | None, row: Sequence[datetime], now: datetime) -> Belief:
    """The belief of a clock that was never set. One run before NTP leaves what is known as it is."""
    line = f"the clock is at {utc_text(now)}, which cannot be: this run is not recorded in the history"
    if noted is None or noted < now:
        return Belief(False, line=line, notes_events=True)
    if len(row) >= FEWEST_RUNS:
        return Belief(False, line=line, notes_events=True, rewinds_hosts=True)
    return Belief(False, tuple(row), line)
