"""`gpumon-static free` and `wait`: where to run, now or as soon as there is a place."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from gpumon_static.errors import GpumonError
from gpumon_static.survey.offers import Offer, Wanted, is_fresh, matcher, offered_places, offers
from gpumon_static.survey.slurm.when import Estimate, estimates
from gpumon_static.terminal.source import Source, Unavailable
from gpumon_static.text import Say, in_gb, plain
from gpumon_static.times import Clock, age_of, duration, parse_utc, utc_text

USUAL_PAUSE = 60.0
"""Seconds between two requests where the page does not set how often it may be asked."""
LONGEST_PAUSE = 600.0
MOST_MODELS = 20
NO_SLURM = "by when is not known: that needs [slurm] in the collector's config (docs/slurm.md)"
NO_END = "by when is not known: Slurm reports no job there with a time limit"

Sleep = Callable[[float], None]


def find(
    source: Source, wanted: Wanted, now: datetime, *, use_old: bool
) -> tuple[list[Offer], dict[str, Any]]:
    """The offers, and their gpus.json without its stale hosts. Raises `Unavailable` for stale data."""
    document, there = source.read(now)
    try:
        _check_names(document, wanted)
        if use_old:
            return offers(document, wanted, None), document
        if problem := _stale(document, there):
            raise Unavailable(problem)
        found = offers(document, wanted, there)
        fresh = [host for host in document["hosts"] if host["fetched_at"] and is_fresh(host, document, there)]
        return found, document | {"hosts": fresh}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise GpumonError("this gpus.json is damaged, or not one of gpumon-static") from error


def _check_names(document: dict[str, Any], wanted: Wanted) -> None:
    """Raise where there is no such host or group: a typing error, and no reason to wait."""
    hosts = document["hosts"]
    groups = sorted({plain(host["group"]) for host in hosts if host.get("group")})
    if wanted.group is not None and wanted.group not in groups:
        raise GpumonError(f"there is no group {wanted.group!r}; there are: {', '.join(groups) or 'none'}")
    if not any(map(wanted.is_on, hosts)) and wanted.hosts:
        raise GpumonError(f"no host is called {wanted.hosts!r}")


def _no_such_model(document: dict[str, Any], wanted: Wanted) -> str:
    """What there is instead, where no GPU that answers is of the model; empty where one is."""
    on = (host for host in document["hosts"] if wanted.is_on(host))
    places = [place for host in on for place in offered_places(host["gpus"])]
    if not wanted.model or any(map(matcher(wanted, (place.model for place in places)), places)):
        return ""
    models = ", ".join(sorted({place.model for place in places})[:MOST_MODELS]) or "none"
    return f"no GPU there is a {plain(wanted.model)}; there are: {models}"


def answer(
    source: Source, wanted: Wanted, now: datetime, *, most: int, form: str | None, use_old: bool, when: bool
) -> str:
    """What `free` prints; raises `GpumonError` where there is no place. `when`: by when, not where."""
    found, document = find(source, wanted, now, use_old=use_old)
    if found and not when:
        return text(found[:most], form)
    expected = look_ahead(document, wanted, now)[:most] if when else []
    if not expected:
        raise no_place(document, wanted, now, asks_when=when)
    return when_json(expected) if form == "json" else "\n".join(when_lines(expected, now))


def _stale(document: dict[str, Any], now: datetime) -> str:
    """Why nothing of it can be offered; empty where it can."""
    fetched = document.get("fetched_at")
    if not fetched:
        return "there is no data yet: no host has been asked"
    age = age_of(parse_utc(fetched), now, document["stale_after_s"])
    if age.is_ahead:
        return f"the data is {age.words}: the collector's clock is or was wrong (--old accepts it)"
    if age.is_stale:
        return f"the data is {duration(age.seconds)} old: fetch seems to have stopped (--old accepts it)"
    return ""


def wait(
    source: Source,
    wanted: Wanted,
    timeout: float | None,
    *,
    clock: Clock,
    say: Say,
    sleep: Sleep = time.sleep,
    tick: Callable[[], float] = time.monotonic,
) -> list[Offer]:
    """Look again as often as the page does, and a little later, so that not all ask at once."""
    end = tick() + timeout if timeout else None
    failures, printed, pause, expected = 0, "", USUAL_PAUSE, ""
    while True:
        try:
            found, document = find(source, wanted, clock(), use_old=False)
            if found:
                return found
            pause, failures = float(document.get("refresh_s") or USUAL_PAUSE), 0
            problem = _no_such_model(document, wanted)
            estimate = _estimate(document, wanted, clock())
            if estimate and estimate != expected:
                say(f"expected: {estimate}")
            expected = estimate
        except Unavailable as error:
            failures, problem = failures + 1, str(error)
        if problem and problem != printed:
            say(f"{problem}; still waiting")
        printed = problem
        seconds = min(LONGEST_PAUSE, pause * 2.0 ** min(failures, 10)) if failures else pause
        seconds *= random.uniform(1.0, 1.25)  # noqa: S311
        left = end - tick() if end is not None else seconds
        if left <= 0:
            raise GpumonError(f"no host had {wanted} within {duration(timeout)}")
        sleep(min(seconds, left))


def text(found: Sequence[Offer], form: str | None) -> str:
    """The offers as they are printed. `form`: json, plain, or None for people."""
    if form == "json":
        return as_json(found)
    return "\n".join(plain_lines(found) if form == "plain" else lines(found))


def no_place(
    document: dict[str, Any], wanted: Wanted, now: datetime, *, asks_when: bool = False
) -> GpumonError:
    """That there is none now, and by when there will be one, where that is known.

    `asks_when`: why it is not known, too.
    """
    estimate = _estimate(document, wanted, now)
    if asks_when and not estimate:
        estimate = NO_END if document.get("slurm") else NO_SLURM
    reasons = filter(None, (f"no host has {wanted} now", _no_such_model(document, wanted), estimate))
    return GpumonError("; ".join(reasons))


def _estimate(document: dict[str, Any], wanted: Wanted, now: datetime) -> str:
    """The earliest place in words; empty where no end of a job is known."""
    found = look_ahead(document, wanted, now)
    return found[0].words(now) if found else ""


def lines(found: Sequence[Offer]) -> list[str]:
    """Text for users: the host and why, then the line to paste."""
    lines = []
    for offer in found:
        models = "several models" if offer.is_mixed else offer.places[0].model
        least = _least(offer)
        indexes = ", ".join(place.index for place in offer.places)
        memory = f"{in_gb(*least):.0f} GB each" if least else "memory not known"
        parts = [f"{offer.fitting} of {offer.total} free", models, memory]
        if offer.load_per_cpu is not None:
            parts.append(f"load {100 * offer.load_per_cpu:.0f} %")
        lines.append(f"{offer.host}  GPU {indexes}  ({', '.join(parts)})")
        lines += [f"    note: {offer.note}"] if offer.note else []
        lines += [f"    ! {reason}" for reason in offer.tight]
        if offer.slurm:
            lines += [f"    srun {offer.slurm} --pty bash", f"    #SBATCH {offer.slurm}", ""]
        else:
            lines += [f"    {offer.command}", ""]
    return lines[:-1]


def when_lines(found: Sequence[Estimate], now: datetime) -> list[str]:
    return [estimate.words(now) for estimate in found]


def when_json(found: Sequence[Estimate]) -> str:
    return json.dumps(
        [
            {
                "host": one.host,
                "by": utc_text(one.at) if one.at else None,
                "gpus": one.count,
                "models": list(one.models),
                "users": list(one.users),
            }
            for one in found
        ],
        ensure_ascii=False,
        indent=2,
    )


def look_ahead(document: dict[str, Any], wanted: Wanted, now: datetime) -> list[Estimate]:
    try:
        return estimates(document, wanted, now)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise GpumonError("this gpus.json is damaged, or not one of gpumon-static") from error


def _least(offer: Offer) -> tuple[int, int | None] | None:
    """Free on each of the GPUs, with the size of that card; None where one does not report it."""
    known = [(place.free_mib, place.total_mib) for place in offer.places if place.free_mib is not None]
    return min(known, key=lambda pair: pair[0]) if len(known) == len(offer.places) else None


def plain_lines(found: Sequence[Offer]) -> list[str]:
    """For `read host devices`: the host and what CUDA_VISIBLE_DEVICES, or HIP_VISIBLE_DEVICES, takes."""
    return [f"{offer.host} {offer.devices}" for offer in found]


def as_json(found: Sequence[Offer]) -> str:
    return json.dumps(
        [
            {
                "host": offer.host,
                "ssh": str(offer.ssh),
                "devices": [place.device for place in offer.places],
                "environment": offer.environment,
                "command": str(offer.command),
                "slurm": str(offer.slurm) if offer.slurm else None,
                "models": list(dict.fromkeys(place.model for place in offer.places)),
                "memory_free_mib": least[0] if (least := _least(offer)) else None,
                "fitting": offer.fitting,
                "against": list(offer.tight),
                "note": offer.note,
            }
            for offer in found
        ],
        ensure_ascii=False,
        indent=2,
    )
