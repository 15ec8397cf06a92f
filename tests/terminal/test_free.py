"""Where to run: the right hosts first, the lines to paste, and with nothing but an address."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpumon_static.commands.cli import main
from gpumon_static.errors import GpumonError
from gpumon_static.model import Disk, Fault, HostReading
from gpumon_static.publish.exports.gpus_json import document
from gpumon_static.survey.offers import Wanted, is_model, offers
from gpumon_static.survey.survey import build_survey
from gpumon_static.terminal import free
from gpumon_static.terminal.source import Source
from tests.builders import NOW, busy_gpu, config, failed, gpu, host_config, reading, slices
from tests.command import gpumon
from tests.free_lab import V100, found, hosts, roomy, write
from tests.free_lab import page as page


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
