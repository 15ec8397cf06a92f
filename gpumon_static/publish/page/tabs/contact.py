"""How to write to a user: the address of `[site] contact`, with a subject and a text where it is a mail."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import quote

LOGIN = re.compile(r"\w[\w.+-]{0,63}")
"""A login that can be a part of an address. Hosts report logins: others could name a second recipient."""
MOST_BODY = 1500
"""Mail programs take addresses of about 2,000 letters."""

Writer = Callable[[str, str, str], str]
"""Shown name, subject and text to an address; empty where there is none."""


def writer(contact: str | None, logins: Mapping[str, str]) -> Writer:
    """`logins`: of shown names, as survey/shown_names.py has them."""

    def write(name: str, subject: str = "", text: str = "") -> str:
        login = logins.get(name, name).split(" ")[0]
        return contact_link(contact, login, subject, text) if contact else ""

    return write


def contact_link(contact: str, login: str, subject: str = "", text: str = "") -> str:
    """`contact`: as config/checks.py allows it."""
    if not LOGIN.fullmatch(login):
        return ""
    link = contact.replace("{login}", quote(login, safe="", errors="replace"))
    if not link.startswith("mailto:") or not subject:
        return link
    fields = f"subject={quote(subject, safe='')}&body={quote(text[:MOST_BODY], safe='', errors='replace')}"
    return f"{link}{'&' if '?' in link else '?'}{fields}"
