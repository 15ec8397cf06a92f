"""`gpumon-static free` with nothing but an address, and waiting for a place."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.message import Message
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.request import Request

import pytest

from gpumon_static.errors import GpumonError
from gpumon_static.survey.offers import Wanted
from gpumon_static.terminal import free, source
from gpumon_static.terminal.source import Source
from tests.builders import NOW, busy_gpu, gpu
from tests.command import PROGRAM, gpumon
from tests.free_lab import page as page
from tests.free_lab import roomy, write

# Over the web


class Web:
    """A web server with a login, entity tags and a redirect; it remembers what it was asked."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.fails = 0
        self.login: str | None = None
        self.url = ""

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.asked.append((request.path, dict(request.headers)))
        if self.fails:
            self.fails -= 1
            request.send_error(503)
        elif self.login and request.headers.get("Authorization") != self.login:
            request.send_error(401)
        elif request.path == "/gpus.json":
            request.send_response(301)
            request.send_header("Location", "/lab/gpus.json")
            request.end_headers()
        elif request.path == "/lab/gpus.json":
            self._send(request)
        else:
            request.send_error(404)

    def _send(self, request: BaseHTTPRequestHandler) -> None:
        content = (self.directory / "gpus.json").read_bytes()
        tag = f'"{hash(content)}"'
        if request.headers.get("If-None-Match") == tag:
            request.send_response(304)
            request.end_headers()
            return
        request.send_response(200)
        request.send_header("ETag", tag)
        request.end_headers()
        request.wfile.write(content)


@contextmanager
def serving(directory: Path) -> Iterator[Web]:
    web = Web(directory)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            web.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        web.url = f"http://127.0.0.1:{server.server_port}"
        yield web
        server.shutdown()


@pytest.mark.parametrize("address", ["/lab/", "/lab", "/lab/index.html", "/lab/gpus.json", "/"])
def test_the_address_of_the_page_will_do(page: Path, address: str) -> None:
    with serving(page) as web:
        told, _ = Source(web.url + address).read(NOW)
        assert [host["name"] for host in told["hosts"]] == ["n1", "n2"]
        assert web.asked[-1][0] == "/lab/gpus.json"


@pytest.mark.parametrize(
    ("before", "after", "is_sent"),
    [
        ("http://lab", "http://lab/b", True),
        ("http://lab", "http://lab:80/b", True),
        ("http://lab", "https://lab/b", True),
        ("http://lab", "https://lab:8443/b", False),
        ("http://lab:8080", "https://lab/b", False),
        ("https://lab", "https://lab:443/b", True),
        ("https://lab", "http://lab/b", False),
        ("https://lab", "https://lab:8443/b", False),
        ("https://lab", "https://lab.evil/b", False),
    ],
)
def test_the_password_goes_where_it_was_given_for(before: str, after: str, is_sent: bool) -> None:
    asked = Request(before, headers={"Authorization": "x"})
    new = source._SameOrigin("x").redirect_request(asked, None, 302, "", Message(), after)
    assert new.has_header("Authorization") == is_sent


def test_nothing_new_costs_a_304(page: Path) -> None:
    with serving(page) as web:
        source = Source(f"{web.url}/lab/")
        first, _ = source.read(NOW)
        again, there = source.read(NOW)
        assert again == first
        assert web.asked[1][1]["If-None-Match"]
        assert abs((there - datetime.now(UTC)).total_seconds()) < 60


def test_a_login_comes_from_the_address_or_from_netrc(page: Path, home: Path) -> None:
    with serving(page) as web:
        web.login = "Basic bGFiOnMzY3JldA=="
        there = web.url.removeprefix("http://")
        with pytest.raises(GpumonError, match="requires name and password"):
            Source(f"http://{there}/lab/").read(NOW)
        assert Source(f"http://lab:s3cret@{there}/lab/").read(NOW)[0]["version"] == 1
        assert Source(f"http://lab:s3cret@{there}/").read(NOW)[0]["version"] == 1
        (home / ".netrc").write_text("machine 127.0.0.1 login lab password s3cret\n")
        (home / ".netrc").chmod(0o600)
        assert Source(f"http://{there}/lab/").read(NOW)[0]["version"] == 1


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"], ids=["another name", "another port"])
def test_a_password_is_told_to_no_other_server_and_in_no_error(page: Path, home: Path, name: str) -> None:
    with serving(page) as inside, serving(page) as other:
        original = inside.answer

        def elsewhere(request: BaseHTTPRequestHandler) -> None:
            original_path = request.path
            inside.asked.append((original_path, dict(request.headers)))
            request.send_response(302)
            request.send_header("Location", other.url.replace("127.0.0.1", name) + "/lab/gpus.json")
            request.end_headers()

        inside.answer = elsewhere  # type: ignore[method-assign]
        Source(inside.url.replace("//", "//lab:s3cret@") + "/lab/").read(NOW)
        assert "Authorization" in inside.asked[0][1]
        assert "Authorization" not in other.asked[0][1]
        inside.answer = original  # type: ignore[method-assign]
        done = gpumon("free", "--from", inside.url.replace("//", "//lab:s3cret@") + "/nowhere/")
        assert done.returncode == 1
        assert "does not exist (404)" in done.stderr
        assert "s3cret" not in done.stderr


@pytest.mark.parametrize("address", ["ftp://x/", "http://", "http://127.0.0.1:1/"])
def test_an_address_that_does_not_work_is_said_in_a_line(address: str) -> None:
    with pytest.raises(GpumonError) as told:
        Source(address).read(NOW)
    assert "\n" not in str(told.value)


# Waiting


class Pauses:
    """A clock that only goes on while somebody sleeps, and something that happens meanwhile."""

    def __init__(self, *happenings: Any) -> None:
        self.slept: list[float] = []
        self.happenings = list(happenings)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if self.happenings:
            self.happenings.pop(0)()

    def tick(self) -> float:
        return sum(self.slept)


def waited(
    directory: Path | str, pauses: Pauses, timeout: float | None = None, wanted: Wanted | None = None
) -> tuple[list[str], list[str]]:
    said: list[str] = []
    listed = free.wait(
        Source(str(directory)),
        wanted or Wanted(),
        timeout,
        clock=lambda: datetime.now(UTC),
        say=said.append,
        sleep=pauses.sleep,
        tick=pauses.tick,
    )
    return [offer.host for offer in listed], said


def test_wait_returns_when_there_is_a_place_and_asks_as_often_as_the_page(tmp_path: Path) -> None:
    busy = [roomy("n1", busy_gpu(0))]
    site = write(tmp_path / "site", busy, refresh=30)
    pauses = Pauses(lambda: None, lambda: write(site, [roomy("n1", gpu(0))], refresh=30))
    assert waited(site, pauses) == (["n1"], [])
    assert len(pauses.slept) == 2
    assert all(30 <= seconds <= 37.5 for seconds in pauses.slept)
    assert len(set(pauses.slept)) == 2


def test_wait_gives_up_after_its_time(tmp_path: Path) -> None:
    site = write(tmp_path / "site", [roomy("n1", busy_gpu(0))], refresh=60)
    pauses = Pauses()
    with pytest.raises(GpumonError, match="no host had 1 free GPU within 10 min"):
        waited(site, pauses, timeout=600)
    assert sum(pauses.slept) == pytest.approx(600)


def test_wait_outlasts_a_server_that_is_restarted_and_says_so_once(page: Path) -> None:
    with serving(page) as web:
        web.fails = 3
        pauses = Pauses()
        listed, said = waited(f"{web.url}/lab/", pauses)
        assert listed == ["n1", "n2"]
        assert len(said) == 1
        assert "answered 503; still waiting" in said[0]
        assert pauses.slept == sorted(pauses.slept)


@pytest.mark.parametrize(("minutes", "told"), [(125, "2 h old"), (-125, "dated 2 h ahead of the clock")])
def test_wait_outlasts_stale_data(tmp_path: Path, minutes: int, told: str) -> None:
    site = write(tmp_path / "site", [roomy("n1", gpu(0))], age=timedelta(minutes=minutes))
    pauses = Pauses(lambda: write(site, [roomy("n1", gpu(0))]))
    listed, said = waited(site, pauses)
    assert listed == ["n1"]
    assert told in said[0]


def test_wait_does_not_wait_for_a_page_that_does_not_exist(page: Path) -> None:
    with serving(page) as web, pytest.raises(GpumonError, match="404"):
        waited(f"{web.url}/nowhere/", Pauses())


def test_wait_as_a_program(tmp_path: Path) -> None:
    site = write(tmp_path / "site", [roomy("n1", busy_gpu(0))])
    with serving(site) as web:
        running = subprocess.Popen(
            [*PROGRAM, "wait", "--plain", "--timeout", "60s"],
            env=os.environ | {"GPUMON_URL": f"{web.url}/lab/"},
            stdout=subprocess.PIPE,
            text=True,
        )
        while len(web.asked) < 2:
            assert running.poll() is None
            threading.Event().wait(0.05)
        write(site, [roomy("n1", gpu(0))])
        assert running.communicate(timeout=60)[0] == "n1 0\n"
        assert running.returncode == 0
        assert any("If-None-Match" in headers for _, headers in web.asked)
