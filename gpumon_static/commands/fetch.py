"""`gpumon-static fetch`: ask the hosts, keep the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from gpumon_static.bounds.run import within_budget
from gpumon_static.collect.lab import ask_lab
from gpumon_static.commands.keep import keep
from gpumon_static.config.budget import budget_warning
from gpumon_static.config.choose import choose
from gpumon_static.config.settings import Config, HostConfig
from gpumon_static.model import HostReading, Status
from gpumon_static.notify.run import notify
from gpumon_static.store import lock, snapshot
from gpumon_static.store.private import make_private, other_owner
from gpumon_static.store.slurm import slurm_file
from gpumon_static.survey.survey import stale_after_s
from gpumon_static.text import Say, count
from gpumon_static.times import Clock, age_of


def fetch(
    config: Config,
    *,
    clock: Clock,
    only: str | None = None,
    on_reading: Callable[[HostReading], None] = lambda _: None,
    say: Say = lambda _: None,
    warn: Say | None = None,
) -> list[HostReading]:
    """Ask the hosts and keep the answers. Returns the readings of those asked; the file has all.

    `warn`: takes what is wrong with the history and the events, in the place of `say`.
    """
    hosts = choose(config.hosts, only) if only else config.asked(clock())
    if owner := other_owner(config):
        say(f"root is at work in {config.paths.data}, which belongs to {owner}: its files stay {owner}'s")
    if config.history.note and not config.history_path.exists():
        # The first fetch after an update from 0.1; `check` reports it at any time.
        say(config.history.note)
    make_private(config, say)
    with lock.only_one(config.paths.data / "fetch.lock", clock(), say):
        if not config.csv_path.exists() and (too_long := budget_warning(config, hosts)):
            # Once, not by mail every five minutes; `check` reports it at any time.
            say(too_long)
        others = _readings_of_others(config, hosts, clock(), say) if only else {}
        last = snapshot.statuses(config.csv_path)
        late = [name for name, status in last.items() if status == Status.TIMEOUT]
        nodes = snapshot.slurm_nodes(config.csv_path) if config.clusters else {}
        lab = ask_lab(
            config,
            in_turn(hosts, last),
            clock,
            on_reading=on_reading,
            say=say,
            last_nodes=nodes,
            late=late,
        )
        known = others | {r.host: r for r in lab.hosts}
        cut = within_budget([known[host.name] for host in config.hosts if host.name in known])
        if cut.line:
            say(cut.line)
        kept, by_name = cut.readings, {r.host: r for r in cut.readings}
        readings = [by_name[host.name] for host in hosts]
        snapshot.write(config.csv_path, kept)
        slurm_file.write(slurm_file.path_in(config.paths.data), lab.slurm)
        events = keep(config, kept, readings, clock(), warn or say, lab.workers)
        make_private(config, say)
    # The lock is free again: a slow command must not block the next run.
    notify(events, config, say)
    return readings


def in_turn(hosts: Sequence[HostConfig], last: Mapping[str, str]) -> tuple[HostConfig, ...]:
    """The hosts, those that failed last time at the end: a rack that is down does not delay the others."""
    return tuple(sorted(hosts, key=lambda host: last.get(host.name, Status.OK) != Status.OK))


def _readings_of_others(
    config: Config, asked: Sequence[HostConfig], now: datetime, say: Say
) -> dict[str, HostReading]:
    """Without those that are dated ahead of the clock: they would look fresh when it has caught up."""
    if not config.csv_path.exists():
        return {}
    mine = {host.name for host in asked}
    others = {r.host: r for r in snapshot.read(config.csv_path) if r.host not in mine}
    limit_s = stale_after_s(config.site.interval)
    kept = {name: r for name, r in others.items() if not age_of(r.fetched_at, now, limit_s).is_ahead}
    if ahead := len(others) - len(kept):
        message = f"dropped {count(ahead, 'reading')} dated ahead of the clock"
        say(f"load_data.csv: {message}; a whole fetch asks again")
    return kept
