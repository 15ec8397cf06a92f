"""A host that sends what is hard to read costs work in proportion to what it sends, and no more memory."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from gpumon_static.collect import reading, values
from gpumon_static.collect.amd import read as amd
from gpumon_static.collect.nvidia import lost, mig, smi
from gpumon_static.collect.nvidia.document import MOST_MARKS
from gpumon_static.collect.probe import cgroup, framing, machine, ps
from gpumon_static.collect.slurm import answer as slurm_answer
from gpumon_static.collect.slurm.jobs import JobLines
from gpumon_static.collect.slurm.nodes import parse_node
from gpumon_static.collect.slurm.values import NodeLists
from gpumon_static.collect.ssh import openssh
from gpumon_static.collect.trace import NO_TRACE, Trace
from gpumon_static.errors import HostError
from gpumon_static.model import Status
from tests.builders import host_config
from tests.growth import Shape, costs_too_much, near_misses, numbered, repeated
from tests.slurm_texts import answer as slurm_text

NOW = datetime(2025, 1, 1, tzinfo=UTC)
KIB, MIB = 1024, 1024**2
SIZES = (KIB // 4, 2 * KIB, 16 * KIB)
LARGE = (128 * KIB, MIB, 8 * MIB)
ID = "3f2a90c3e7d5b1a4" * 4


def sections(name: str, text: str) -> str:
    return f"@@gpumon begin 1 ab\n\n@@gpumon ab smi\n{GPU}\n@@gpumon ab {name}\n{text}\n@@gpumon ab end\n"


def log(inner: str) -> str:
    return f"<nvidia_smi_log>{inner}</nvidia_smi_log>"


GPU = log("<gpu><uuid>GPU-1</uuid></gpu>")
PROCESS = "<process_info><pid>7</pid><process_name>a b</process_name></process_info>"
PROLOG = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n'
LOST = "Unable to determine the device handle for GPU3: 0000:5F:00.0: Unknown Error\n"
DF = "0 /dev/nvme0n1p2 479079112 61234148 393432936 14% /\n"
PS = f"1234 1000 2-03:25:11 Rl {'alice':<32} python3\n"
SLURM = "1234/cgroup:4:memory:/slurm/uid_1000/job_123/step_0\n"
POD = "1234/cgroup:0::/kubepods.slice/pod4c1e2f80-9d3c-4b5e-8a6f-0123456789ab.slice\n"

AMD = (
    "drm/card1/device/vendor:0x1002\ndrm/card1/device/uevent:PCI_SLOT_NAME=0000:05:00.0\n"
    "kfd/kfd/topology/nodes/1/gpu_id:7\nkfd/kfd/topology/nodes/1/properties:location_id 1280\n"
    "kfd/kfd/proc/4242/vram_7:68719476736\ndrm/card1/device/ras/umc_err_count:ue: 3\n"
)
OWNED = "JobId=1 JobName=a UserId=b(1) GroupId=c MCS_label=d "

READERS: dict[str, tuple[Callable[[str], object], tuple[str, ...]]] = {
    "framing.decoded": (
        lambda text: framing.decoded(text.encode()),
        ("@@gpumon begin 1 ab\n\n@@gpumon ab smi-gz\nx\n@@gpumon ab end\n",),
    ),
    "framing.sections": (framing.sections, ("@@gpumon begin 1 ab\n\n@@gpumon ab smi\nx\n@@gpumon ab end\n",)),
    "the document": (
        smi.parse,
        (
            PROLOG
            + "<nvidia_smi_log><gpu id='1'></gpu></nvidia_smi_log>\nWARNING: infoROM is corrupted at gpu 0:0",
        ),
    ),
    "a process name": (
        smi.parse,
        (log(f"<gpu><processes>{PROCESS}</processes></gpu>&amp; & </nvidia_smi_log>"),),
    ),
    "inside the document": (
        lambda text: smi.parse(log(f"<gpu>{text}</gpu>")),
        ("<utilization><gpu_util a='1'>7 %</gpu_util></utilization>", "<!-- c --><![CDATA[ x ]]><?p i?>&lt;"),
    ),
    "around the document": (lambda text: smi.parse(GPU, text), (LOST, "infoROM is corrupted at gpu 0:1.0\n")),
    "lost.find": (lost.find, (LOST,)),
    "mig.parse_list": (
        mig.parse_list,
        ("GPU 0: A (UUID: GPU-2f)\n  MIG 1g.10gb     Device  0: (UUID: MIG-9d)\n",),
    ),
    "no document": (lambda text: smi.parse(text, text), ("No devices were found: GPU is lost",)),
    "amd": (
        lambda text: amd({"amd": text}),
        ("drm/card1/device/vendor:0x1002\n", "kfd/kfd/proc/42/vram_7:1\n"),
    ),
    "ps": (lambda text: ps.table({"ps": text, "with-arguments": ""}), (PS,)),
    "names": (lambda text: ps.table({"names": text}), ("alice:x:1000:1000:Alice:/home/alice:/bin/bash\n",)),
    "hidden": (lambda text: ps.table({"hidden": text}), (f"7 1000 - - {'ada':<32}\n",)),
    "cgroup": (cgroup.parse, (SLURM, POD, f"7/cgroup:0::/a/docker-{ID}.scope\n", "7/cgroup:0::/lxc/a/b\n")),
    "disks": (machine.parse_disks, (DF,)),
    "memory": (lambda text: machine.parse({"memory": text}), ("MemTotal:  528280608 kB\n",)),
    "load": (lambda text: machine.parse({"load": text}), ("12.10 11.87 11.50 13/2210 4242\n",)),
    "cpu": (lambda text: machine.parse({"cpu": text}), ("1 2 3 4 5 6 7 8\n2 3 4 5 6 7 8 9\n",)),
    "uptime": (lambda text: machine.parse({"uptime": text, "cpus": text}), ("350735.47\n",)),
    "a Slurm job": (lambda text: JobLines(NodeLists(9)).add(text), (OWNED + "JobState=RUNNING ",)),
    "the GPUs of a Slurm job": (
        lambda text: JobLines(NodeLists(9)).add(f"{OWNED}JobState=RUNNING{text}"),
        (" Nodes=n[1-2],m CPU_IDs=0 Mem=0 GRES=gpu:a:2(IDX:0-1),gpu(IDX:2) MinCPUsNode=1",),
    ),
    "a Slurm job that waits": (
        lambda text: JobLines(NodeLists(9)).add(text),
        (
            "JobId=1 ArrayJobId=1 ArrayTaskId=1-3,7%2 "
            + OWNED[8:]
            + "JobState=PENDING TresPerNode=gres:gpu:a:2",
        ),
    ),
    "a Slurm node": (
        parse_node,
        ("NodeName=n Gres=gpu:a:2(S:0) GresUsed=gpu:a:1(IDX:0) State=IDLE+DRAIN Reason=x [root@2025]",),
    ),
    "values": (
        lambda text: [read(text) for read in (values.known, values.number, values.mib, values.watts)],
        ("[ -97.5 MiB ]", "N/A"),
    ),
    "a name": (smi.own_name, (r"C:\Program Files\a.exe --x", "/usr/bin/python3 train.py")),
    "ssh -v": (
        lambda text: openssh._trace_output(text, NO_TRACE),
        (
            "debug1: Connecting to node9 [10.0.0.9] port 22.\n",
            "debug1: Server host key: ssh-ed25519 SHA256:x\n",
            'Authenticated to node9 ([10.0.0.9]:22) using "publickey".\n',
        ),
    ),
    "ssh's failure": (
        lambda text: openssh.failure(host_config("n"), text),
        ("IDENTIFICATION HAS CHANGED host key verification failed ssh-keygen -f x\n",),
    ),
}
CASES = [(name, seed) for name, (_, seeds) in READERS.items() for seed in seeds]


@pytest.mark.parametrize(("name", "seed"), CASES, ids=[f"{name}-{seed[:24]!r}" for name, seed in CASES])
def test_near_misses_cost_work_in_proportion(name: str, seed: str) -> None:
    read = READERS[name][0]
    for shape, make in near_misses(seed):
        assert costs_too_much(read, make, *SIZES) is None, shape


# Whole answers, up to the most that a host can send.

MANY_GPUS = numbered(
    '<gpu id="0000:{0:02X}:00.0"><uuid>GPU-{0}</uuid></gpu>', "<nvidia_smi_log>", "</nvidia_smi_log>"
)
IN_SMI: dict[str, Shape] = {
    "DOCTYPE again and again": repeated("<!DOCTYPE ", "", GPU),
    "process names without end": repeated("<process_name>", "<nvidia_smi_log>", "</nvidia_smi_log>"),
    "tags side by side": repeated("<a/>", "<nvidia_smi_log>", "</nvidia_smi_log>"),
    "tags in tags": lambda size: log("<a>" * (size // 7) + "</a>" * (size // 7)),
    "tags that are never closed": repeated("<a>", "<nvidia_smi_log>", "</nvidia_smi_log>"),
    "a tag without end": repeated("a", "<nvidia_smi_log><gpu><", "/></gpu></nvidia_smi_log>"),
    "a text without end": repeated("a ", "<nvidia_smi_log><gpu><uuid>", "</uuid></gpu></nvidia_smi_log>"),
    "a name without end": repeated(
        "a ", "<nvidia_smi_log><gpu><processes><process_info><pid>7</pid><process_name>",
        "</process_name></process_info></processes></gpu></nvidia_smi_log>",
    ),
    "a comment without end": repeated("a", "<nvidia_smi_log><!--", "--><gpu/></nvidia_smi_log>"),
    "an attribute without end": repeated("a", "<nvidia_smi_log><gpu id='", "'/></nvidia_smi_log>"),
    "attributes": numbered(" a{0}=''", "<nvidia_smi_log><gpu", "/></nvidia_smi_log>"),
    "ampersands": repeated("&", "<nvidia_smi_log><gpu>", "</gpu></nvidia_smi_log>"),
    "characters": repeated("&#38;", "<nvidia_smi_log><gpu>", "</gpu></nvidia_smi_log>"),
    "namespaces": numbered("<a xmlns='urn:{0}'/>", "<nvidia_smi_log>", "</nvidia_smi_log>"),
    "a namespace without end": lambda size: log(f"<g xmlns='{'u' * (size // 2)}'>{'<a/>' * (size // 8)}</g>"),
    "one block again and again": repeated("<utilization><x/></utilization>", "<nvidia_smi_log><gpu>", "</gpu></nvidia_smi_log>"),
    "GPUs": MANY_GPUS,
    "GPUs in GPUs": lambda size: log(f"<x>{'<gpu>' * (size // 11)}{'</gpu>' * (size // 11)}</x>"),
    "slices": numbered(
        "<mig_device><index>{0}</index></mig_device>", "<nvidia_smi_log><gpu><mig_devices>",
        "</mig_devices></gpu></nvidia_smi_log>",
    ),
    "processes": numbered(
        "<process_info><pid>{0}</pid></process_info>", "<nvidia_smi_log><gpu><processes>",
        "</processes></gpu></nvidia_smi_log>",
    ),
    "documents": repeated(GPU),
    "lost GPUs": numbered(
        "Unable to determine the device handle for GPU 0000:{0:08X}:00.0: Unknown Error\n".replace("0000:{0:08X}", "{0:08X}:00"),
        GPU,
    ),
    "corrupt infoROMs": numbered("infoROM is corrupted at gpu {0:04X}:00:00.0\n", GPU),
    "warnings": repeated("warning\n", GPU),
    "one warning": repeated("warning ", GPU),
}  # fmt: skip
IN_SECTIONS: dict[str, tuple[str, Shape]] = {
    "listed GPUs": ("smi-list", numbered("GPU {0}: X (UUID: GPU-{0})\n")),
    "listed slices": (
        "smi-list",
        numbered("  MIG 1g.10gb Device {0}: (UUID: MIG-{0})\n", "GPU 0: X (UUID: GPU-1)\n"),
    ),
    "ps": ("ps", numbered(f"{{0}} 1000 01:00 R    {'ada':<32} python\n")),
    "hidden": ("hidden", numbered(f"{{0}} {{0}} - - {'ada':<32}\n")),
    "names": ("names", numbered("a{0}:x:{0}:1::/:/bin/sh\n")),
    "fields": ("names", repeated(":")),
    "cgroups": ("cgroups", numbered("{0}/cgroup:0::/slurm/uid_1/job_{0}/step_0\n")),
    "one cgroup": ("cgroups", repeated("/slurm/job_", "7/cgroup:0::")),
    "groups of one process": ("cgroups", numbered("7/cgroup:0::/docker/{0}\n")),
    "memory": ("memory", numbered("Mem{0}: 1 kB\n")),
    "load": ("load", repeated("1 ")),
    "cpu": ("cpu", repeated("1 ")),
    "cpu lines": ("cpu", repeated("1 2 3 4\n")),
    "disks": ("disks", numbered("0 /dev/sda{0} 2048 1024 1024 50% /{0}\n")),
    "one disk": ("disks", repeated("1 ", "0 ")),
    "blanks in a mount": ("disks", repeated(" ", "0 /dev/sda1 2048 1024 1024 50% /", "x")),
    "an endless mount": ("disks", repeated(" a", "0 /dev/sda1 2048 1024 1024 50% /")),
    "nodes": ("amd", numbered("kfd/kfd/topology/nodes/{0}/gpu_id:7\n", AMD)),
    "processes": ("amd", numbered("kfd/kfd/proc/{0}/vram_7:1\n", AMD)),
    "other files": ("amd", numbered("drm/card1/device/x{0}:1\n", AMD)),
    "lines": ("ps", repeated("\n")),
    "short lines": ("ps", repeated("ab\n")),
    "sections": ("load", repeated("1\n@@gpumon ab load\n")),
    "sections of a long name": ("load", repeated("a", "\n@@gpumon ab ")),
    "begins": ("load", repeated("@@gpumon begin 1 cd\n")),
}
ANSWERS: dict[str, Shape] = {
    **{name: (lambda size, shape=shape: sections("smi", shape(size))) for name, shape in IN_SMI.items()},  # type: ignore[misc]
    **{
        f"{name} in {section}": (lambda size, section=section, shape=shape: sections(section, shape(size)))  # type: ignore[misc]
        for name, (section, shape) in IN_SECTIONS.items()
    },
    "no probe": repeated("hello "),
    "no begin": repeated("@@gpumon begin 1"),
    "an endless token": repeated("a", "@@gpumon begin 1 "),
    "packed sections of others": numbered("\n@@gpumon {0:x} smi-gz\n", "@@gpumon begin 1 ab\n"),
    "packed sections": repeated("\n@@gpumon ab smi-gz\n", "@@gpumon begin 1 ab\n"),
}


def read_answer(text: str) -> object:
    return reading.parse("n", framing.decoded(text.encode()), NOW)


@pytest.mark.parametrize("name", ANSWERS)
def test_a_large_answer_costs_work_in_proportion(name: str) -> None:
    assert costs_too_much(read_answer, ANSWERS[name], *LARGE) is None


GROUP = "Nodes={0} CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:0) MinCPUsNode=1\n"
SLURM_JOBS: dict[str, Shape] = {
    "jobs": numbered("JobId={0} " + OWNED[8:] + "JobState=RUNNING   " + GROUP.format("n1")),
    "jobs on many nodes": numbered(
        "JobId={0} " + OWNED[8:] + "JobState=RUNNING   " + GROUP.format("n[{0}-9999]")
    ),
    "pending jobs": numbered("JobId={0} " + OWNED[8:] + "JobState=PENDING TRES=gres/gpu:k{0}=1\n"),
    "a name without end": repeated("a ", "JobId=1 JobName=", OWNED[17:]),
    "owners without end": repeated(" UserId=b GroupId=c", "JobId=1 JobName="),
    "owners": repeated(" UserId=b GroupId=c MCS_label=d", "JobId=1 JobName="),
    "groups of nodes": repeated("   Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:0)", OWNED + "JobState=RUNNING"),
    "keys": repeated(" JobState=RUNNING", OWNED),
    "GPUs": repeated("gpu:1(IDX:0),", OWNED + "JobState=RUNNING   Nodes=n1 CPU_IDs=0 Mem=0 GRES="),
    "numbers": repeated("0-9,", OWNED + "JobState=RUNNING   Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu(IDX:"),
    "a list of nodes": repeated(
        "n1,", OWNED + "JobState=RUNNING   Nodes=", " CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:0)"
    ),
    "short lines": repeated("ab\n"),
}


@pytest.mark.parametrize("name", SLURM_JOBS)
def test_a_large_answer_of_slurm_costs_work_in_proportion(name: str) -> None:
    node = "NodeName=n Gres=gpu:a:2 GresUsed=gpu:a:1(IDX:0) State=IDLE \n"

    def read(text: str) -> object:
        return slurm_answer.parse("n", slurm_text(text, node), NOW)

    assert costs_too_much(read, SLURM_JOBS[name], 16 * KIB, 128 * KIB, MIB) is None


@pytest.mark.parametrize(
    "line", ["\n@@gpumon ab end\n", "@@gpumon begin 1 ab\n", "a", "\n", " smi-stderr\n", "@@gpumon begin 1 "]
)
@pytest.mark.parametrize("head", ["", "@@gpumon begin 1 cd\n"])
def test_an_answer_in_small_pieces_costs_work_in_proportion(line: str, head: str) -> None:
    def receive(text: str) -> None:
        output, has_arrived = bytearray(head.encode()), framing.arrived(Trace())
        for start in range(0, len(text), len(line)):
            output += text[start : start + len(line)].encode()
            has_arrived(output)

    assert costs_too_much(receive, repeated(line), 4 * KIB, 32 * KIB, 256 * KIB) is None


# Memory.

MOST_MEMORY = 24 * framing.MOST_BYTES


HEAVY = [
    "a name without end", "a text without end", "a comment without end", "processes", "lost GPUs", "one warning",
    "short lines in ps", "ps in ps", "load in load", "cpu in cpu", "fields in names", "memory in memory",
    "one disk in disks", "sections in load", "packed sections", "processes in amd",
]  # fmt: skip


@pytest.mark.parametrize("name", HEAVY)
def test_a_large_answer_occupies_a_small_multiple_of_the_most(name: str) -> None:
    assert most_memory(ANSWERS[name](framing.MOST_BYTES - KIB)) < MOST_MEMORY


@pytest.mark.parametrize("letter", ["", "\U0001f600"], ids=["ASCII", "four bytes a letter"])
@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("tags side by side", 4 * MOST_MARKS),
        ("tags that are never closed", 3 * MOST_MARKS),
        ("tags in tags", 7 * MOST_MARKS // 2),
        ("one block again and again", 31 * MOST_MARKS // 3),
        ("ampersands", MOST_MARKS),
        ("GPUs in GPUs", 11 * MOST_MARKS // 2),
    ],
)
def test_as_many_tags_as_are_read_occupy_no_more(name: str, size: int, letter: str) -> None:
    """Packed: a few bytes on the wire."""
    xml = IN_SMI[name](size - 8 * KIB) + letter
    assert max(xml.count("<"), xml.count("&")) > MOST_MARKS * 0.9
    assert most_memory(packed(xml)) < MOST_MEMORY


def packed(xml: str) -> bytes:
    content = gzip.compress(xml.encode())
    return b"@@gpumon begin 1 ab\n\n@@gpumon ab smi-gz\n" + content + b"\n@@gpumon ab end\n"


def test_many_tags_below_long_ones_occupy_no_more() -> None:
    """A path for each, with all the tags above it, would be a gigabyte."""
    names = [f"{'t' * 10_000}{depth}" for depth in range(5)]
    opened, closed = "".join(f"<{name}>" for name in names), "".join(f"</{name}>" for name in reversed(names))
    many = "".join(f"<a{number}/>" for number in range(20_000))
    answer = packed(log(f"<gpu>{opened}{many}{closed}</gpu>"))
    assert len(answer) < 64 * KIB
    assert most_memory(answer) < MOST_MEMORY


def test_an_answer_that_is_too_large_is_refused_with_a_line() -> None:
    for name in ("tags side by side", "ampersands", "a tag without end", "sections in load"):
        with pytest.raises(HostError, match="too large|more than") as refused:
            read_answer(ANSWERS[name](2 * MIB))
        assert refused.value.status is Status.BAD_OUTPUT
        assert len(refused.value.reason) < 200


def most_memory(answer: str | bytes) -> int:
    """Bytes at the peak, beside the answer itself."""
    output = answer.encode() if isinstance(answer, str) else answer
    tracemalloc.start()
    try:
        with suppress(HostError):
            reading.parse("n", framing.decoded(output), NOW)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
