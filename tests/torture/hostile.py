"""A hostile host of every kind beside five good ones: their cards are right, and in time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from tests.command import gpumon
from tests.nvidia_xml import xml
from tests.sshd import GpuHosts
from tests.torture.lab import Result

MIB = 1024 * 1024
GOOD = 5


def _repeat(text: str, size: int = 8 * MIB) -> str:
    """A script that prints the text again and again, up to so many bytes."""
    return f"yes '{text}' | head -c {size}"


def _xml_with(change: Callable[[str], str]) -> str:
    return f"cat <<'END'\n{change(xml('hostile'))}\nEND"


def _tag(name: str, value: str) -> Callable[[str], str]:
    import re

    return lambda text: re.sub(rf"(<{name}>)[^<]*", rf"\g<1>{value}", text)


KINDS: dict[str, str] = {
    "sends nothing": "exit 0",
    "sends garbage": "head -c 200000 /dev/urandom",
    "sends too much": "exec yes",
    "sends too much on stderr": "exec yes >&2",
    "hangs": "sleep 100",
    "sends a byte per second": "while :; do printf x; sleep 1; done",
    "nests without end": _repeat("<a>"),
    "declares without end": _repeat("<!DOCTYPE "),
    "opens process names": f"echo '<nvidia_smi_log>'; {_repeat('<process_name>')}; echo '</nvidia_smi_log>'",
    "declares an entity bomb": "cat <<'END'\n<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a 'aaaaaaaaaa'>"
    + "".join(f"<!ENTITY {chr(98 + n)} '{f'&{chr(97 + n)};' * 10}'>" for n in range(9))
    + "]><nvidia_smi_log><driver_version>&j;</driver_version></nvidia_smi_log>\nEND",
    "has long tags": f"echo '<nvidia_smi_log><gpu>'; {_repeat('<' + 'a' * 4000 + '/>', 4 * MIB)}; echo '</gpu></nvidia_smi_log>'",
    "is 10,000 GPUs": f"echo '<nvidia_smi_log>'; {_repeat('<gpu><uuid>GPU-x</uuid></gpu>', 29 * 10_000)}; echo; echo '</nvidia_smi_log>'",
    "is colder than possible": _xml_with(_tag("gpu_temp", "-300 C")),
    "draws endless power": _xml_with(_tag("power_draw", "9" * 300 + " W")),
    "has endless memory": _xml_with(_tag("total", "9" * 400 + " MiB")),
    "calls itself markup": _xml_with(_tag("product_name", "&lt;script&gt;alert(1)&lt;/script&gt;")),
    "calls itself a formula": _xml_with(_tag("product_name", "=cmd|' /C calc'!A0")),
    "writes from right to left": _xml_with(_tag("product_name", "NVIDIA \u202eA100\u2066")),
    "forges the end": "printf '@@gpumon 1 end\\n@@gpumon begin 1 1\\n'; " + _xml_with(lambda text: text),
    "prints 2,000 lost GPUs": 'for n in $(seq 2000); do echo "Unable to determine the device handle for GPU 0000:'
    '$(printf %02X $((n % 256))):00.$((n % 8)): GPU is lost"; done; ' + _xml_with(lambda text: text),
}


def hostile_hosts(hosts: GpuHosts, directory: Path) -> Result:
    result = Result("hostile hosts beside five good ones")
    directory.mkdir(exist_ok=True)
    good = [hosts.add_xml(xml(f"good{number}")) for number in range(GOOD)]
    bad = {hosts.add(script): kind for kind, script in KINDS.items()}
    more = "deadline = 60\n[site]\ncsv = true\n"
    config = hosts.config(directory, *good, *bad, more=more)
    started = time.monotonic()
    done = gpumon("fetch", "-c", config, timeout=200)
    seconds = time.monotonic() - started
    rendered = gpumon("render", "-c", config)
    if done.returncode or rendered.returncode or seconds > 60 + 30:
        result.note(
            f"fetch exits {done.returncode} after {seconds:.0f} s, render {rendered.returncode}: {rendered.stderr}"
        )
        return result
    found = {host["name"]: host for host in json.loads((directory / "site/gpus.json").read_text())["hosts"]}
    right = all(
        found[name]["status"] == "ok" and [g["uuid"] for g in found[name]["gpus"]] == [f"GPU-good{number}"]
        for number, name in enumerate(good)
    )
    for name, kind in bad.items():
        host = found[name]
        told = None if right else "a good host is wrong"
        if host["status"] == "ok" and len(host["gpus"]) > 1024:
            told = f"{len(host['gpus'])} GPUs"
        if len(host["error"] or "") > 3000 or "Traceback" in (host["error"] or ""):
            told = host["error"][:200]
        result.note(told and f"{kind}: {told}")
    size = (directory / "site/index.html").stat().st_size
    result.note(f"a page of {size} bytes" if size > 4_000_000 else None)
    return result
