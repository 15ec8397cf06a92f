"""What the history adds to a page: since when, the last day of each card, who holds without working.

A ribbon is the last 24 hours in slots of a quarter of an hour, drawn by assets/dress.js: tall where the GPU
was busy, half as tall where it was held idle, low where it was free, dotted where its host did not answer,
nothing where there was no run. So it is read without colours as well. past_data.py has the numbers of charts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from gpumon_static.model.states import READ, State
from gpumon_static.publish.page.records import Bar, Card, Holder, IdleRow, Kind, LastCard, LastCut, Since
from gpumon_static.publish.page.words import memory, memory_of, percent, share
from gpumon_static.store.history.last_day import Spans
from gpumon_static.store.history.past import GpuPast, Past
from gpumon_static.store.pseudonyms import pseudonym
from gpumon_static.survey.jobs import since_words
from gpumon_static.survey.names import short_model
from gpumon_static.survey.owners import UNKNOWN, USER_LETTERS
from gpumon_static.survey.privacy import Tier
from gpumon_static.text import clip, count, natural_key
from gpumon_static.times import duration

if TYPE_CHECKING:
    from collections.abc import Mapping

_WORDS: dict[str, str] = {state: state.word for state in READ}
STATE_LETTERS: dict[str, str] = {
    State.BUSY: "b", State.HELD: "h", State.FREE: "f", State.UNKNOWN: "u", State.DOWN: "u",
}  # fmt: skip
"""In a ribbon. Of a host that is down, the state of a GPU is not known."""

Who = Callable[[str], str]


def namer(tier: Tier, key: bytes, shown: Mapping[str, str]) -> Who | None:
    """Logins to what this page calls them; None where it shows no names."""
    if tier is Tier.COUNTS:
        return None

    def who(login: str) -> str:
        if not login:
            return UNKNOWN
        name = pseudonym(login, key) if tier is Tier.PSEUDONYMS else shown.get(login, login)
        return clip(name, USER_LETTERS)

    return who


class CardPast(NamedTuple):
    """What a card has of the past."""

    holder: Holder
    since: Since | None = None
    ribbon: str = ""
    since_s: int | None = None


@dataclass(frozen=True)
class PastView:
    past: Past
    who: Who | None
    idle_after: int

    @cached_property
    def _by_host(self) -> dict[str, dict[str, GpuPast]]:
        hosts: dict[str, dict[str, GpuPast]] = {}
        for (host, index), gpu in self.past.gpus.items():
            hosts.setdefault(host, {})[index] = gpu
        return hosts

    def of_card(self, host: str, index: str, state: State, holder: Holder) -> CardPast:
        """`holder`: without the past; one that is only unused has for how long."""
        gpu = self.past.gpus.get((host, index))
        if gpu is None:
            return CardPast(holder)
        since, ribbon = self._since(state, gpu), self.ribbon(gpu.spans)
        since_s = self.past.now - self._start(gpu) if since else None
        if since and holder.is_unused:
            return CardPast(holder._replace(text=since.text, runtime=""), None, ribbon, since_s)
        return CardPast(holder, since, ribbon, since_s)

    def _since(self, state: State, gpu: GpuPast) -> Since | None:
        """Nothing where the page's data and the history do not agree."""
        if state is State.UNKNOWN or state != gpu.state:
            return None
        start = self._start(gpu)
        if state is State.FREE:
            return Since(f"free for {duration(self.past.now - start)}")
        if state is State.HELD:
            return Since(f"idle {duration(self.past.now - start)}")
        return _clock(start, self.past.now)

    def _start(self, gpu: GpuPast) -> int:
        """Of its state; of one that was handed over while idle, no earlier than its users have it."""
        if gpu.state == State.HELD and gpu.taken_since is not None:
            return max(gpu.since, gpu.taken_since)
        return (gpu.taken_since or gpu.since) if gpu.state == State.BUSY else gpu.since

    def ribbon(self, spans: Spans) -> str:
        """Runs of slots, from the oldest on; a space where there was no run."""
        drawn: list[str] = []
        pen = 0
        for first, last, state, _ in spans:
            if first > pen:
                drawn.append(f" {first - pen}")
            drawn.append(f"{STATE_LETTERS[state]}{last - first}")
            pen = last
        return "".join(drawn)

    def down_for(self, host: str) -> str:
        since = self.past.down_since.get(host)
        return "" if since is None else duration(self.past.now - since)

    def last_cards(self, host: str) -> tuple[LastCard, ...]:
        """The last answer of a host that does not answer now; a card that is cut into slices as those."""
        known = self._by_host.get(host, {})
        cut = {index.partition(":")[0] for index in known if ":" in index}
        return tuple(
            self._last_card(index, known[index])
            for index in sorted(known, key=natural_key)
            if index not in cut
        )

    def last_boxes(self, host: str, cards: Iterable[LastCard]) -> tuple[LastCard | LastCut, ...]:
        """Those cards with slices in that of their GPU."""
        boxes: list[LastCard | LastCut] = []
        for index, together in groupby(cards, key=lambda card: card.index.partition(":")[0]):
            there = tuple(together)
            if there[0].index == index:
                boxes += there
                continue
            newest = max((self._by_host[host][card.index] for card in there), key=lambda gpu: gpu.known_at)
            boxes.append(LastCut(index, short_model(newest.model), self._ago(newest), there))
        return tuple(boxes)

    def _ago(self, gpu: GpuPast) -> str:
        return f"{duration(self.past.now - gpu.known_at)} ago"

    def _last_card(self, index: str, gpu: GpuPast) -> LastCard:
        return LastCard(
            index=index,
            model=f"{gpu.profile} {short_model(gpu.model)}".lstrip(),
            word=f"was {_WORDS.get(gpu.state, State.UNKNOWN.word)}",
            utilization=Bar(share(gpu.utilization, 100), percent(gpu.utilization)),
            memory=Bar(share(gpu.memory, gpu.memory_total), memory_of(gpu.memory, gpu.memory_total)),
            holder=self.people(gpu.users),
            age=self._ago(gpu),
            ribbon=self.ribbon(gpu.spans),
            profile=gpu.profile or "",
        )

    def people(self, users: tuple[str, ...]) -> str:
        if self.who is None:
            return count(len(users), "user") if users else ""
        # Two logins may be shown by one name.
        return ", ".join(dict.fromkeys(map(self.who, users)))

    def idle_rows(self, cards: Iterable[tuple[str, str, Card]]) -> tuple[IdleRow, ...]:
        """Host, its anchor and each of its cards to those held without work for too long, longest first."""
        rows: list[tuple[int, IdleRow]] = []
        for host, anchor, card in cards:
            gpu = self.past.gpus.get((host, card.index))
            if gpu is None or card.kind is not Kind.HELD or gpu.state != State.HELD:
                continue
            idle_s = self.past.now - self._start(gpu)
            if idle_s >= self.idle_after:
                rows.append((idle_s, self._idle_row(host, anchor, card, gpu, idle_s)))
        return tuple(row for _, row in sorted(rows, key=lambda pair: -pair[0]))

    def _idle_row(self, host: str, anchor: str, card: Card, gpu: GpuPast, idle_s: int) -> IdleRow:
        held = str(memory(gpu.memory, gpu.memory_total))
        message = None
        if self.who is not None and any(gpu.users):
            message = (
                f"Hi {self.people(gpu.users)}, your process on {host} GPU {card.index} ({card.model}) holds"
                f" {held} of memory, and the GPU was {self._idle_looks(gpu, idle_s)}. Work between two looks"
                " is not seen. If you no longer need it, could you please stop it, so that others can run"
                " there? Thank you!"
            )
        return IdleRow(
            host=host,
            anchor=f"{anchor}:{card.index.replace(':', '.')}",
            index=card.index,
            model=card.model,
            holder=self.people(gpu.users),
            memory=held,
            idle=duration(idle_s),
            looks=self._idle_looks(gpu, idle_s),
            idle_s=idle_s,
            message=message,
            users=tuple({self.who(user): bool(user) for user in gpu.users}.items()) if self.who else (),
        )

    def _idle_looks(self, gpu: GpuPast, idle_s: int) -> str:
        """What was seen: idle at each of 720 looks since Sun 25 Oct 01:10 CET."""
        since = datetime.fromtimestamp(self.past.now - idle_s, UTC).astimezone()
        number = f"each of {gpu.looks:,} looks" if gpu.looks and gpu.looks > 1 else "each look"
        return f"idle at {number} since {since:%a} {since.day} {since:%b %H:%M %Z}"


@lru_cache(maxsize=4096)
def _clock(at: int, now: int) -> Since:
    """In UTC here; the browser knows the reader's zone."""
    then, today = (datetime.fromtimestamp(moment, UTC) for moment in (at, now))
    return Since(since_words(then, today), f"{then:%Y-%m-%dT%H:%MZ}")
