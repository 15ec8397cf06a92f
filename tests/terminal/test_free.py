"""Where to run: the right hosts first, the lines to paste, and with nothing but an address."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.message import Message
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.request import Request

import pytest
from click.testing import CliRunner

from gpumon_static.commands.cli import main
from gpumon_static.config.settings import Config
from gpumon_static.errors import GpumonError
from gpumon_static.model import Disk, Fault, HostReading, Machine
from gpumon_static.publish.exports.gpus_json import document
from gpumon_static.survey.offers import Wanted, is_model, offers
from gpumon_static.survey.survey import build_survey
from gpumon_static.terminal import free, source
from gpumon_static.terminal.source import Source
from tests.builders import NOW, busy_gpu, config, failed, gpu, host_config, reading, slices
from tests.command import PROGRAM, gpumon

ROOMY = Machine(cpu_count=10, load_1m=1.0, ram_total_mib=512_000.0, ram_used_mib=12_000.0)
V100 = {"name": "Tesla V100-SXM2-32GB", "memory_total_mib": 32510.0}


def found(readings: Sequence[HostReading], wanted: Wanted | None = None, setup: Config | None = None) -> Any:
    setup = setup or config(*(r.host for r in readings))
    return offers(document(build_survey(readings, setup, NOW)), wanted or Wanted(), NOW)


def hosts(readings: Sequence[HostReading], wanted: Wanted | None = None) -> list[str]:
    return [offer.host for offer in found(readings, wanted)]


def roomy(host: str, *gpus: Any, **machine: Any) -> HostReading:
    return reading(host, gpus, machine=replace(ROOMY, **machine))


def test_only_the_hosts_and_the_group_that_are_asked_for() -> None:
    lab = [roomy(name, gpu(0)) for name in ("gpu01.lab.example", "gpu02.lab.example", "other")]
    setup = config(host_config("gpu01.lab.example", group="vision"), "gpu02.lab.example", "other")

    def on(**wanted: str) -> list[str]:
        return [offer.host for offer in found(lab, Wanted(**wanted), setup)]  # type: ignore[arg-type]

    assert on(hosts="gpu01") == on(hosts="gpu01.lab.example") == on(group="vision") == ["gpu01.lab.example"]
    assert on(hosts="gpu*") == on(hosts="gpu01, gpu02") == ["gpu01.lab.example", "gpu02.lab.example"]
    assert on(hosts="other", group="vision") == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["--model", "B300"],
            "no host has 1 free B300 GPU now; no GPU there is a B300; there are: A100 80G, V100 32G",
        ),
        (["--host", "nosuch"], "no host is called 'nosuch'"),
        (["--group", "nosuch"], "there is no group 'nosuch'; there are: vision"),
        (
            ["--model", "V100", "--group", "vision"],
            "no host has 1 free V100 GPU now; no GPU there is a V100; there are: A100 80G",
        ),
    ],
)
def test_what_nobody_has_is_a_line_of_its_own(tmp_path: Path, words: list[str], told: str) -> None:
    """A typing error is not "none are free now", and `wait` would wait for ever."""
    lab = [roomy("n1", busy_gpu(0)), roomy("n2", gpu(0, **V100))]
    setup = config(host_config("n1", group="vision"), "n2")
    answer = document(build_survey(lab, setup, NOW)) | {"stale_after_s": 10**9}
    (tmp_path / "gpus.json").write_text(json.dumps(answer))
    done = gpumon("free", "--from", tmp_path, *words)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"gpumon-static: {told}\n")


def test_the_lines_to_paste() -> None:
    lab = [roomy("node9", busy_gpu(0), gpu(1), gpu(2), gpu(3))]
    (offer,) = found(lab, Wanted(2), config(host_config("node9", port=2222)))
    assert str(offer.ssh) == "ssh -p 2222 node9"
    assert offer.environment == "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1,2"
    assert free.lines([offer]) == [
        "node9  GPU 1, 2  (3 of 4 free, A100 80G, 80 GB each, load 10 %)",
        "    ssh -t -p 2222 node9 'env CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1,2 $SHELL -l'",
    ]
    assert free.plain_lines([offer]) == ["node9 1,2"]


def test_the_most_free_host_comes_first() -> None:
    lab = [
        roomy("n1", gpu(0)),
        roomy("n2", gpu(0), gpu(1)),
        roomy("n10", gpu(0), gpu(1)),
        roomy("n3", busy_gpu()),
    ]
    assert hosts(lab) == ["n2", "n10", "n1"]


def test_healthy_hosts_with_enough_ram_and_disk_come_first() -> None:
    full = (Disk("/", 97.0, 100.0),)
    lab = [
        replace(roomy("a-faulty", gpu(0), gpu(1)), warning="infoROM is corrupted"),
        roomy("b-tight", gpu(0), gpu(1), ram_used_mib=510_000.0),
        roomy("c-full", gpu(0), gpu(1), disks=full),
        roomy("d-good", gpu(0)),
    ]
    assert hosts(lab)[0] == "d-good"
    against = {offer.host: offer.tight for offer in found(lab)}
    assert against == {
        "a-faulty": ("infoROM is corrupted",),
        "b-tight": ("only 1.9 GB of RAM free",),
        "c-full": ("/ is 97 % full",),
        "d-good": (),
    }
    assert "    ! infoROM is corrupted" in free.lines(found(lab)[-3:])


def test_the_note_of_a_host_is_printed_with_its_offer() -> None:
    (offer,) = found([roomy("n1", gpu(0))], setup=config(host_config("n1", note="ask first by day")))
    assert "    note: ask first by day" in free.lines([offer])
    assert json.loads(free.as_json([offer]))[0]["note"] == "ask first by day"


def test_memory_that_is_not_known_is_said_to_be_so() -> None:
    (offer,) = found([roomy("n1", gpu(0, memory_used_mib=None))])
    assert "memory not known" in free.lines([offer])[0]
    assert json.loads(free.as_json([offer]))[0]["memory_free_mib"] is None


def test_memory_takes_the_smallest_that_will_do() -> None:
    lab = [roomy("big", gpu(0), gpu(1)), roomy("small", gpu(0, **V100))]
    assert hosts(lab, Wanted(memory_mib=20_000)) == ["small", "big"]
    assert hosts(lab, Wanted(memory_mib=40_000)) == ["big"]
    assert hosts(lab, Wanted(memory_mib=90_000)) == []


def test_several_gpus_are_of_one_model_where_that_is_possible() -> None:
    lab = [roomy("mixed", gpu(0, **V100), gpu(1), gpu(2)), roomy("other", gpu(0, **V100), gpu(1))]
    first, second = found(lab, Wanted(2))
    assert (first.host, first.devices, first.is_mixed) == ("mixed", "1,2", False)
    assert (second.host, second.devices, second.is_mixed) == ("other", "0,1", True)


def test_slices_go_by_their_uuid_and_only_one_at_a_time() -> None:
    lab = [roomy("n1", gpu(0, mig_mode=True, slices=slices(3, 0)))]
    (offer,) = found(lab)
    assert offer.environment == "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=MIG-1"
    assert (offer.fitting, offer.total) == (2, 3)
    assert found(lab, Wanted(2)) == []


@pytest.mark.parametrize(
    "lab",
    [
        [failed("n1")],
        [roomy("n1", busy_gpu(0))],
        [roomy("n1", gpu(0, faults=(Fault("lost"),)))],
        [roomy("n1", gpu(0, faults=(Fault("ecc-errors"),)))],
        [roomy("n1", gpu(0, mig_mode=True))],
        [roomy("n1", gpu(0, utilization=None, memory_used_mib=None, processes_known=False))],
    ],
)
def test_what_is_busy_broken_or_not_known_is_no_offer(lab: list[HostReading]) -> None:
    assert found(lab) == []


def test_a_host_that_was_not_read_for_long_offers_nothing() -> None:
    old = replace(roomy("n1", gpu(0)), fetched_at=NOW - timedelta(hours=3))
    assert hosts([old, roomy("n2", gpu(0))]) == ["n2"]


@pytest.mark.parametrize(
    ("wanted", "name", "is_it"),
    [
        ("A100", "NVIDIA A100-SXM4-80GB", True),
        ("a100", "NVIDIA A100 80GB PCIe", True),
        ("A10", "NVIDIA A100 80GB PCIe", False),
        ("L4", "NVIDIA L40S", False),
        ("rtx4090", "NVIDIA GeForce RTX 4090", True),
        ("090", "NVIDIA GeForce RTX 4090", False),
        ("1g.10gb", "1g.10gb", True),
        (".*", "NVIDIA L40S", False),
        ("X", "NVIDIA A100-SXM4-80GB", False),
        ("A100 80G", "A100 80G", True),
    ],
)
def test_models_are_found_as_people_write_them(wanted: str, name: str, is_it: bool) -> None:
    assert is_model(wanted, [name]) is is_it


def test_a_hostile_page_gets_nothing_into_the_lines_to_paste() -> None:
    told = document(build_survey([roomy("n1", gpu(0)), roomy("n2", gpu(0))], config("n1", "n2"), NOW))
    told["hosts"][0]["name"] = "n1; rm -rf ~"
    told["hosts"][1]["gpus"][0]["model"] = "A100\x1b]0;owned\x07"
    told["hosts"][1]["faults"] = ["\x1b[2J"]
    listed = offers(told, Wanted(), NOW)
    assert [offer.host for offer in listed] == ["n2"]
    assert "\x1b" not in "".join(free.lines(listed))


# As a program


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A directory as render leaves it, with data of this minute."""
    return write(tmp_path / "site", [roomy("n1", gpu(0), gpu(1)), roomy("n2", gpu(0, **V100))])


def write(
    directory: Path, readings: Sequence[HostReading], age: timedelta = timedelta(), refresh: int = 1
) -> Path:
    now = datetime.now(UTC)
    fresh = [replace(r, fetched_at=now - age) for r in readings]
    setup = config(*(r.host for r in readings), refresh=refresh)
    directory.mkdir(exist_ok=True)
    (directory / "gpus.json").write_text(json.dumps(document(build_survey(fresh, setup, now))))
    return directory


def test_free_prints_the_best_hosts(page: Path) -> None:
    done = gpumon("free", "--from", page / "index.html", "--most", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1:] == [
        "    ssh -t n1 'env CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0 $SHELL -l'",
    ]
    done = gpumon("free", "-n", "2", "--memory", "80G", "--model", "A100", "--plain", "--from", page)
    assert done.stdout == "n1 0,1\n"


def test_a_script_that_can_use_one_vendor_only_asks_for_it(tmp_path: Path) -> None:
    """--plain names no vendor: a third word would go into `devices` of `read host devices`."""
    amd = gpu(1, name="AMD Instinct MI300X", vendor="amd", device="0")
    made = document(
        build_survey([reading("both", [gpu(0), amd]), reading("red", [amd])], config("both", "red"), NOW)
    )
    (tmp_path / "gpus.json").write_text(json.dumps(made))
    for vendor, told in ((None, ["both 0", "red 0"]), ("nvidia", ["both 0"]), ("amd", ["both 0", "red 0"])):
        asked = ["--vendor", vendor] if vendor else []
        done = gpumon("free", "--plain", "--old", *asked, "--from", tmp_path)
        assert done.stdout.splitlines() == told
    found = json.loads(gpumon("free", "--json", "--old", "--vendor", "amd", "--from", tmp_path).stdout)
    assert [one["environment"] for one in found] == ["HIP_VISIBLE_DEVICES=0"] * 2
    done = gpumon("free", "-n", "3", "--old", "--vendor", "amd", "--from", tmp_path)
    assert (done.returncode, done.stderr) == (1, "gpumon-static: no host has 3 free AMD GPUs now\n")
    assert gpumon("free", "--vendor", "intel", "--from", tmp_path).returncode == 2
    done = gpumon("free", "--plain", "--when", "--from", tmp_path)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        2,
        "Error: --plain and --when exclude each other",
    )


NO_H100 = "no GPU there is a H100; there are: A100 80G, V100 32G"


def test_free_exits_with_1_when_there_is_none(page: Path) -> None:
    done = gpumon("free", "-n", "2", "--model", "H100", "--memory", "40G", "--from", page)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"gpumon-static: no host has 2 free H100 GPUs with 40 GB now; {NO_H100}\n"


def test_when_without_slurm_names_what_is_missing(page: Path) -> None:
    done = gpumon("free", "-n", "2", "--model", "H100", "--when", "--from", page)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"gpumon-static: no host has 2 free H100 GPUs now; {NO_H100}; by when is not known: that needs [slurm] in the"
        " collector's config (docs/slurm.md)\n"
    )
    known = json.loads((page / "gpus.json").read_text())
    told = free.no_place(known | {"slurm": [{}]}, Wanted(2, model="H100"), NOW, asks_when=True)
    assert str(told).endswith("Slurm reports no job there with a time limit")


def test_free_takes_the_site_of_the_config(
    tmp_path: Path, page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUMON_URL", "/nowhere")
    (tmp_path / "config.ini").write_text("[common]\nhosts = 'n1'\n[paths]\nsite = 'site'\n")
    done = gpumon("free", "--json", "-c", "config.ini", cwd=tmp_path)
    assert [offer["host"] for offer in json.loads(done.stdout)] == ["n1", "n2"]
    assert "/nowhere" in gpumon("free", cwd=tmp_path).stderr


def test_old_data_is_no_offer_unless_it_is_asked_for(tmp_path: Path) -> None:
    old = write(tmp_path / "site", [roomy("n1", gpu(0))], age=timedelta(hours=3))
    done = gpumon("free", "--from", old)
    assert done.returncode == 1
    assert done.stderr == (
        "gpumon-static: the data is 3 h old: fetch seems to have stopped (--old accepts it)\n"
    )
    assert gpumon("free", "--from", old, "--old", "--plain").stdout == "n1 0\n"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "<html>",
        '{"version": 1}',
        '{"version": 2, "hosts": [], "stale_after_s": 1}',
        '{"version": 1, "hosts": [{"status": "ok"}], "stale_after_s": 1, "fetched_at": "2025-11-14T09:12:00Z"}',
    ],
)
def test_what_is_no_gpus_json_is_said_in_a_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "gpus.json").write_text(content)
    with pytest.raises(GpumonError, match=r"gpus\.json") as told:
        free.find(Source(str(tmp_path)), Wanted(), NOW, use_old=False)
    assert "\n" not in str(told.value)


def test_a_wrong_amount_of_memory_is_2() -> None:
    for memory in ("lots", "-3G", "40X", "G"):
        done = CliRunner().invoke(main, ["free", f"--memory={memory}"])
        assert done.exit_code == 2
        assert "such as 40G" in done.output


@pytest.mark.parametrize(
    ("written", "mib"), [("40G", 38147), ("40GiB", 40960), ("40", 38147), ("16000M", 15259), ("0.5T", 476837)]
)
def test_amounts_of_memory(page: Path, written: str, mib: int) -> None:
    done = CliRunner().invoke(main, ["free", "--memory", written, "--model", "X", "--from", str(page)])
    assert isinstance(done.exception, GpumonError)
    assert f"with {mib * 1.048576 / 1000:.0f} GB now" in str(done.exception)


def test_free_imports_nothing_heavy(page: Path) -> None:
    code = (
        f"import sys; from gpumon_static.__main__ import run; sys.argv = ['x', 'free', '--plain', '--from', {str(page)!r}]\n"
        "try: run()\n"
        "except SystemExit as stop: assert stop.code == 0\n"
        "print(sorted({'pandas', 'numpy', 'paramiko', 'cryptography', 'jinja2', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["n1 0", "n2 0", "[]"]


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
