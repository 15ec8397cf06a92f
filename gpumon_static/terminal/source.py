"""gpus.json from a web server or a file: with the standard library only, and no more requests than needed.

The address may be that of the page, of its directory or of gpus.json. A server that has nothing new answers
304, and nothing is sent again. Name and password come from the address or from ~/.netrc; they are shown
nowhere.
"""

from __future__ import annotations

import base64
import email.utils
import json
import netrc
import urllib.error
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from gpumon_static import __version__
from gpumon_static.errors import GpumonError, UsageError
from gpumon_static.text import plain
from gpumon_static.times import UTC

FILE = "gpus.json"
ADDRESSES = "an address starts with https:// or http://"
VERSION = 1
SECONDS = 10.0
MOST_BYTES = 64 * 1024 * 1024
WILL_PASS = {408, 425, 429, 500, 502, 503, 504}
"""Statuses of a server that is being restarted, or is overloaded."""


PORTS = {"http": 80, "https": 443}

Origin = tuple[str, str | None, int | None]
"""Scheme, host and port."""


class Unavailable(GpumonError):
    """Not available for now: the next try may succeed."""


class Source:
    def __init__(self, address: str, missing: str = ADDRESSES) -> None:
        """`missing`: what to do where there is no such file."""
        self._missing = missing
        self._url: str | None = None
        self._login: str | None = None
        if "://" in address:
            self._url, self._login = _split(address)
        self._path = None if self._url else _file(Path(address).expanduser())
        self._document: dict[str, Any] | None = None
        self._marks: dict[str, str] = {}
        """Headers to send back, so that the server can answer that nothing is new."""

    def read(self, now: datetime) -> tuple[dict[str, Any], datetime]:
        """The document, and the time as its server has it: a laptop's clock may be off."""
        if self._path:
            try:
                return _parsed(self._path.read_bytes(), str(self._path)), now
            except OSError as error:
                hint = f"; {self._missing}" if isinstance(error, FileNotFoundError) else ""
                raise Unavailable(f"cannot read {self._path}: {error.strerror}{hint}") from error
        return self._ask(now)

    def _ask(self, now: datetime) -> tuple[dict[str, Any], datetime]:
        assert self._url
        opener = urllib.request.build_opener(_SameOrigin(self._login))
        request = urllib.request.Request(self._url, headers=self._headers())  # noqa: S310
        try:
            with opener.open(request, timeout=SECONDS) as answer:
                content = answer.read(MOST_BYTES + 1)
                headers = answer.headers
        except urllib.error.HTTPError as error:
            if error.code == 304 and self._document is not None:
                return self._document, _server_time(error.headers.get("Date"), now)
            kind = Unavailable if error.code in WILL_PASS else GpumonError
            raise kind(_refused(self._url, error.code)) from error
        except (OSError, ValueError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise Unavailable(f"{self._url} cannot be read: {plain(str(reason))}") from error
        self._document = _parsed(content, self._url)
        marks = {"If-None-Match": headers["ETag"], "If-Modified-Since": headers["Last-Modified"]}
        self._marks = {name: value for name, value in marks.items() if value}
        return self._document, _server_time(headers["Date"], now)

    def _headers(self) -> dict[str, str]:
        headers = {"User-Agent": f"gpumon-static/{__version__}", "Accept": "application/json", **self._marks}
        return headers | ({"Authorization": self._login} if self._login else {})


class _SameOrigin(urllib.request.HTTPRedirectHandler):
    """Follow redirects, and send the password to no other server: another port may be another user's."""

    def __init__(self, login: str | None) -> None:
        self._login = login

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> Any:
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        if new is not None and _origin(newurl) not in _trusted(_origin(req.full_url)):
            new.remove_header("Authorization")
        return new


def _origin(url: str) -> Origin:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or PORTS.get(parts.scheme)


def _trusted(origin: Origin) -> tuple[Origin, ...]:
    """The same one; and where everything can be read on the way, the same server without that."""
    scheme, host, port = origin
    return (origin, ("https", host, 443)) if (scheme, port) == ("http", 80) else (origin,)


def _split(address: str) -> tuple[str, str | None]:
    """The URL of gpus.json without its login, and the login as a header."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{plain(address.rpartition('@')[2])} is not an http or https address, nor a file")
    path = parts.path
    if path.endswith(".html"):
        path = path.rpartition("/")[0]
    if not path.endswith(".json"):
        path = f"{path.rstrip('/')}/{FILE}"
    place = parts.netloc.rpartition("@")[2]
    login = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    login = login or _from_netrc(parts.hostname)
    authorization = f"Basic {base64.b64encode(':'.join(login).encode()).decode()}" if login else None
    return urlunsplit((parts.scheme, place, path, parts.query, "")), authorization


def _from_netrc(host: str) -> tuple[str, str] | None:
    try:
        found = netrc.netrc().authenticators(host)
    except (OSError, netrc.NetrcParseError):
        return None
    return (found[0], found[2] or "") if found else None


def _file(path: Path) -> Path:
    if path.is_dir():
        return path / FILE
    return path.with_name(FILE) if path.suffix == ".html" else path


def _parsed(content: bytes, where: str) -> dict[str, Any]:
    try:
        document = json.loads(content)
        version = document["version"]
        complete = isinstance(document["hosts"], list) and isinstance(document["stale_after_s"], int)
    except (ValueError, KeyError, TypeError) as error:
        raise GpumonError(f"{where} is not a gpus.json of gpumon-static") from error
    if version != VERSION or not complete:
        raise GpumonError(
            f"{where} has version {plain(str(version))} of gpus.json; this program knows {VERSION}"
        )
    return dict(document)


def _refused(url: str, code: int) -> str:
    if code in (401, 403):
        return (
            f"{url}: the server requires name and password ({code}): https://NAME@..., or a line in ~/.netrc"
        )
    if code == 404:
        return f"{url} does not exist (404): is this the address of the page?"
    return f"{url}: the server answered {code}"


def _server_time(date: str | None, now: datetime) -> datetime:
    try:
        return email.utils.parsedate_to_datetime(date).astimezone(UTC) if date else now
    except ValueError:
        return now
