"""deploy/nginx.conf and deploy/Caddyfile, as they are, in front of a real page."""

from __future__ import annotations

import base64
import gzip
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urljoin

import pytest

from gpumon_static.store import snapshot
from tests.builders import busy_gpu, gpu, reading
from tests.command import gpumon
from tests.places import ROOT
from tests.sandbox import Sandbox
from tests.waiting import wait_until

DEPLOY = ROOT / "deploy"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a machine of its own needs root")

START = {
    "nginx": f"""
        sed '/^# server {{/,/^# }}/s/^# //' {DEPLOY}/nginx.conf > /etc/nginx/conf.d/gpu-monitor.conf
        mkdir -p /var/log/nginx
        nginx -t
        nginx
    """,
    "caddy": f"""
        sed '/^# http:/,/^# }}/s/^# //' {DEPLOY}/Caddyfile > /etc/caddy/Caddyfile
        export HOME=/tmp
        caddy validate --config /etc/caddy/Caddyfile
        caddy start --config /etc/caddy/Caddyfile >/tmp/caddy.log 2>&1 </dev/null
    """,
}

# The lines for people of the lab only, uncommented as an admin does it.
LOCK = {
    "nginx": """
        sed -i 's/# \\(auth_basic\\)/\\1/' /etc/nginx/conf.d/gpu-monitor.conf
        printf 'lab:%s\\n' "$(openssl passwd -6 secret)" > /etc/nginx/gpu-monitor.htpasswd
        nginx -t
        nginx -s reload
    """,
    "caddy": """
        hash=$(caddy hash-password --plaintext secret)
        sed -i -e '/# basicauth/,/# }/s/# //' -e "s|NAME HASH|lab $hash|" /etc/caddy/Caddyfile
        HOME=/tmp caddy reload --config /etc/caddy/Caddyfile
    """,
}


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


class Web:
    """A web server in a sandbox; `get` is curl there."""

    def __init__(self, name: str, sandbox: Sandbox, directory: Path) -> None:
        self.name = name
        self.sandbox = sandbox
        self.directory = directory

    def get(self, url: str, *headers: str) -> Answer:
        head, body = self.directory / "head", self.directory / "body"
        options = [option for header in headers for option in ("-H", header)]
        name, _, path = url.partition("/")
        self.sandbox.run(
            "curl",
            "-sS",
            "--resolve",
            f"{name}:80:127.0.0.1",
            "-D",
            head,
            "-o",
            body,
            *options,
            f"http://{name}/{path}",
        )
        first, *rest = head.read_text().strip().splitlines()
        pairs = (line.split(": ", 1) for line in rest)
        content = body.read_bytes() if body.exists() else b""
        body.unlink(missing_ok=True)
        return Answer(int(first.split()[1]), {k.lower(): v for k, v in pairs}, content)


@pytest.fixture(scope="module", params=START)
def web(request: pytest.FixtureRequest) -> Iterator[Web]:
    with TemporaryDirectory(prefix="gpumon-web-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        (directory / "config.ini").write_text("[common]\nhosts = 'n1'\n")
        snapshot.write(directory / "data/load_data.csv", [reading("n1", [busy_gpu(0), gpu(1)])])
        assert gpumon("render", cwd=directory).returncode == 0
        with Sandbox(directory) as sandbox:
            sandbox.sh(
                f"rm -rf /var/www/gpu-monitor; mkdir -p /var/www; cp -r {directory}/site /var/www/gpu-monitor"
            )
            sandbox.sh("echo half > /var/www/gpu-monitor/.index.html.1-a.tmp")
            sandbox.sh("echo 'gpumon_up 1' > /var/www/gpu-monitor/metrics.prom")
            sandbox.sh(START[request.param])
            yield Web(request.param, sandbox, directory)


PLACES = ["gpu-monitor.lab.example", "www.your-lab.org/gpu-monitor"]
"""The second one is commented out in the files: lines for a server that is there already."""


@pytest.mark.parametrize("place", PLACES)
def test_the_page_is_served_with_headers_that_keep_it_fresh_and_safe(web: Web, place: str) -> None:
    page = (web.directory / "site/index.html").read_bytes()
    plain = web.get(f"{place}/")
    assert (plain.status, plain.body) == (200, page)
    assert plain.headers["content-type"].replace(" ", "").lower() == "text/html;charset=utf-8"
    assert plain.headers["cache-control"] == "no-cache"
    assert plain.headers["x-content-type-options"] == "nosniff"
    assert plain.headers["referrer-policy"] == "no-referrer"
    assert plain.headers["content-security-policy"] == "frame-ancestors 'self'"


@pytest.mark.parametrize("place", PLACES)
def test_a_refresh_of_an_unchanged_page_costs_a_304(web: Web, place: str) -> None:
    for encoding in ("Accept-Encoding: identity", "Accept-Encoding: gzip"):
        first = web.get(f"{place}/", encoding)
        by_tag = web.get(f"{place}/", encoding, f"If-None-Match: {first.headers['etag']}")
        by_time = web.get(f"{place}/", encoding, f"If-Modified-Since: {first.headers['last-modified']}")
        assert (by_tag.status, by_tag.body) == (304, b"")
        assert (by_time.status, by_time.body) == (304, b"")


@pytest.mark.parametrize("place", PLACES)
def test_the_page_comes_packed_as_render_packed_it(web: Web, place: str) -> None:
    packed = web.get(f"{place}/", "Accept-Encoding: gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.body == (web.directory / "site/index.html.gz").read_bytes()
    assert gzip.decompress(packed.body) == (web.directory / "site/index.html").read_bytes()
    assert "accept-encoding" in packed.headers["vary"].lower()


@pytest.mark.parametrize("place", PLACES)
def test_half_written_files_are_not_served_and_metrics_are_text(web: Web, place: str) -> None:
    assert web.get(f"{place}/.index.html.1-a.tmp").status == 404
    assert web.get(f"{place}/nothing-here").status == 404
    kind = web.get(f"{place}/metrics.prom").headers["content-type"]
    assert kind.replace(" ", "").startswith("text/plain;version=0.0.4"), "Prometheus 3 refuses others"


def test_the_path_without_its_slash_is_led_to_the_page(web: Web) -> None:
    """By an address that is right behind a proxy with another name, port or path."""
    answer = web.get("www.your-lab.org/gpu-monitor")
    assert answer.status in (301, 308)
    seen = "https://proxy.example:8443/lab/gpu-monitor"
    assert urljoin(seen, answer.headers["location"]) == f"{seen}/"
    web.sandbox.sh("mkdir -p /var/www/gpu-monitor/reports; echo r > /var/www/gpu-monitor/reports/index.html")
    for place in PLACES:
        inner = web.get(f"{place}/reports")
        assert inner.status in (301, 308)
        assert "://" not in inner.headers["location"]


def test_a_site_on_a_read_only_disk_is_an_error_in_words(web: Web) -> None:
    web.sandbox.sh("mkdir -p /ro && mount -t tmpfs -o ro tmpfs /ro")
    config = web.directory / "read-only.ini"
    config.write_text("[common]\nhosts = 'n1'\n[paths]\nsite = '/ro'\n")
    program = [sys.executable, "-m", "gpumon_static", "render", "-c", str(config)]
    done = web.sandbox.run("sh", "-c", f"cd {ROOT} && {' '.join(program)}", check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("gpumon-static: cannot write /ro/")
    assert done.stderr.endswith(": Read-only file system\n")


RENEW = """
import http.client, threading
from pathlib import Path
from gpumon_static.system.files import write_atomic

done = threading.Event()
bad, count = [], [0]

def page(number):
    return f"<html>{number}" + f" {number}" * 20000 + "</html>"

def read():
    connection = http.client.HTTPConnection("127.0.0.1", 80, timeout=120)
    while not done.is_set():
        connection.request("GET", "/renewed.html", headers={"Host": "gpu-monitor.lab.example"})
        body = connection.getresponse().read().decode()
        number = body[6:].split(" ")[0]
        count[0] += 1
        if body != page(number):
            bad.append(body[:40] + "..." + body[-40:])

target = Path("/var/www/gpu-monitor/renewed.html")
write_atomic(target, page(0))
clients = [threading.Thread(target=read) for _ in range(4)]
[client.start() for client in clients]
for number in range(1000):
    write_atomic(target, page(number))
done.set()
[client.join() for client in clients]
print(len(bad), "bad of", count[0], *bad[:3])
"""


def test_a_page_renewed_a_thousand_times_under_load_is_always_whole(web: Web) -> None:
    script = web.directory / "renew.py"
    script.write_text(RENEW)
    checkout = ROOT
    told = web.sandbox.sh(f"cd {checkout} && {sys.executable} {script}", timeout=300)
    bad, _, _, count, *_ = told.split()
    assert bad == "0", told
    assert int(count) > 100


def test_with_a_password_it_is_for_people_of_the_lab_only(web: Web) -> None:
    """The last test: from here on the server is locked."""
    web.sandbox.sh(LOCK[web.name])
    login = base64.b64encode(b"lab:secret").decode()
    for place in PLACES:
        wait_until(lambda place=place: web.get(f"{place}/").status == 401, "the lock")  # type: ignore[misc]
        # After a reload an old worker of the server may answer one more time.
        wait_until(lambda place=place: web.get(f"{place}/gpus.json").status == 401, "the lock")  # type: ignore[misc]
        assert web.get(f"{place}/", "Authorization: Basic bGFiOndyb25n").status == 401
        opened = web.get(f"{place}/", f"Authorization: Basic {login}")
        assert (opened.status, opened.body) == (200, (web.directory / "site/index.html").read_bytes())
