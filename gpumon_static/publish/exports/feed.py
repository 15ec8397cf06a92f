"""`feed.xml`: the events as an Atom feed. It changes only when there is something new."""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING

from gpumon_static.survey.news import tell
from gpumon_static.times import utc_text

if TYPE_CHECKING:
    from gpumon_static.store.events import Event, EventMemory

MOST_ENTRIES = 50
BEFORE_ALL = datetime(2000, 1, 1, tzinfo=UTC)


def feed_xml(memory: EventMemory, hosts: Collection[str], title: str, *, with_errors: bool) -> str:
    """Of these hosts. `with_errors`: with the hosts' own errors, which may contain names."""
    shown = [event for event in memory.events if event.is_of_worker or event.host in hosts][-MOST_ENTRIES:]
    feed_id = memory.feed_id or uuid.uuid5(uuid.NAMESPACE_URL, f"gpumon-static {title}")
    since = [kept.host.since for kept in memory.hosts.values()]
    updated = shown[-1].at if shown else max(since, default=BEFORE_ALL)
    entries = "".join(_entry(event, with_errors) for event in reversed(shown))
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        '<feed xmlns="http://www.w3.org/2005/Atom">\n'
        f"  <id>urn:uuid:{feed_id}</id>\n"
        f"  <title>{escape(title)}</title>\n"
        f"  <updated>{utc_text(updated)}</updated>\n"
        f"  <author><name>{escape(title)}</name></author>\n"
        '  <link rel="self" href="feed.xml"/>\n'
        '  <link rel="alternate" type="text/html" href="index.html"/>\n'
        f"{entries}</feed>\n"
    )


def _entry(event: Event, with_error: bool) -> str:
    news = tell(event, with_error=with_error)
    anchor = "health" if event.is_of_worker else "host-" + re.sub(r"[^A-Za-z0-9._-]", "-", event.host)
    return (
        "  <entry>\n"
        f"    <id>urn:uuid:{event.id}</id>\n"
        f"    <title>{escape(news.title)}</title>\n"
        f"    <updated>{utc_text(event.at)}</updated>\n"
        f'    <category term="{escape(event.type)}"/>\n'
        f'    <link rel="alternate" type="text/html" href="index.html#{anchor}"/>\n'
        f'    <content type="text">{escape(news.text)}</content>\n'
        "  </entry>\n"
    )
