"""What a user gets from each kind of nvidia-smi output."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon_static.collect.nvidia import smi
from gpumon_static.errors import HostError
from gpumon_static.model import Status
from tests.places import CAPTURES, SHARED

ONE_GPU = '<nvidia_smi_log><gpu id="0"><product_name>X</product_name>{}</gpu></nvidia_smi_log>'


def chosen(actual: Any, expected: Any) -> Any:
    """Of `actual`, only what `expected` speaks of."""
    if isinstance(expected, dict):
        return {name: chosen(actual[name], value) for name, value in expected.items()}
    if isinstance(expected, list) and len(expected) == len(actual):
        return [chosen(a, e) for a, e in zip(actual, expected, strict=True)]
    return actual


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*.xml")), ids=lambda p: p.stem)
def test_capture_gives_the_values_written_beside_it(path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text())
    report = json.loads(json.dumps(asdict(smi.parse(path.read_text()))))
    assert chosen(report, expected) == expected


def shared_captures() -> list[Path]:
    return [
        p for d in (SHARED, SHARED / "derived") for p in sorted(d.glob("*")) if p.suffix in (".xml", ".txt")
    ]


@pytest.mark.parametrize("path", shared_captures(), ids=lambda p: p.stem)
def test_real_output_gives_the_expected_values(path: Path) -> None:
    expected = json.loads((path.parent / "expected.json").read_text())[path.name]
    text = path.read_text(errors="replace")
    if "error" in expected:
        with pytest.raises(HostError) as refused:
            smi.parse(text)
        assert refused.value.status is Status.BAD_OUTPUT
        return
    report = smi.parse(text)
    assert (report.driver_version, report.cuda_version) == (
        expected["driver_version"],
        expected["cuda_version"],
    )
    described = [gpu for gpu in report.gpus if gpu.uuid]
    assert [seen(gpu) for gpu in described] == [wanted(gpu) for gpu in expected["gpus"] if gpu["uuid"]]


def test_all_shared_captures_were_read(record_property: Callable[[str, object], None]) -> None:
    """Says how many there were: in the name of the directory's tests, and here."""
    captures = shared_captures()
    read = [path for path in captures if is_read(path)]
    record_property("captures", len(captures))
    print(f"{len(read)} of {len(captures)} shared captures read as nvidia-smi output")
    refused = {path.name for path in captures} - {path.name for path in read}
    assert refused <= {"empty.txt", "truncated.xml"}
    assert not SHARED.exists() or len(read) >= 93


def is_read(path: Path) -> bool:
    try:
        return bool(smi.parse(path.read_text(errors="replace")).gpus)
    except HostError:
        return False


def seen(gpu: Any) -> dict[str, Any]:
    return {
        "id": gpu.bus_id or "",
        "uuid": gpu.uuid,
        "name": gpu.name,
        "utilization": gpu.utilization,
        "memory": (gpu.memory_used_mib, gpu.memory_total_mib),
        "temperature": gpu.temperature_c,
        "fan": gpu.fan_percent,
        "power": (gpu.power_w, gpu.power_limit_w),
        "mig": gpu.mig_mode,
        "listed": gpu.processes_known,
        "slices": [
            (s.index, s.gpu_instance, s.compute_instance, s.memory_used_mib, [p.pid for p in s.processes])
            for s in gpu.slices
        ],
        "processes": sorted((p.pid, p.type or "", p.memory_mib or -1) for p in gpu.all_processes),
    }


def wanted(gpu: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": gpu["id"],
        "uuid": gpu["uuid"],
        "name": gpu["product_name"],
        "utilization": gpu["gpu_util_pct"],
        "memory": (gpu["memory"]["used_mib"], gpu["memory"]["total_mib"]),
        "temperature": gpu["temperature_c"],
        "fan": gpu["fan_speed_pct"],
        "power": (gpu["power_draw_w"], gpu["power_limit_w"]),
        "mig": gpu["mig_mode_current"] == "Enabled",
        "listed": gpu["processes_listed"],
        "slices": [
            (
                s["index"],
                s["gpu_instance_id"],
                s["compute_instance_id"],
                s["memory"]["used_mib"],
                [p["pid"] for p in s["processes"]],
            )
            for s in gpu["mig_devices"]
        ],
        "processes": sorted(
            (p["pid"], p["type"] or "", p["used_memory_mib"] or -1) for p in gpu["processes"]
        ),
    }


@pytest.mark.parametrize(
    ("stdout", "stderr", "exit_status", "status", "words"),
    [
        ("", "", 127, Status.NO_NVIDIA_SMI, "not installed"),
        ("", "", 124, Status.TIMEOUT, "did not answer in time"),
        ("No devices were found\n", "", 6, Status.NO_GPUS, "No devices were found"),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure ...\n\n",
            "",
            9,
            Status.DRIVER,
            "couldn't communicate with the NVIDIA driver",
        ),
        (
            "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.173\n",
            "",
            18,
            Status.DRIVER,
            "version mismatch NVML library version: 580.173",
        ),
        ("", "Failed to initialize NVML: Unknown Error\n", 255, Status.DRIVER, "NVML: Unknown Error"),
        ("", "", 9, Status.DRIVER, "exit status 9"),
        (
            "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot the system\n",
            "",
            15,
            Status.DRIVER,
            "0000:02:00.0: GPU is lost",
        ),
        ("", "", 0, Status.BAD_OUTPUT, "printed nothing"),
        ("hello\n", "", 0, Status.BAD_OUTPUT, "printed no XML (exit status 0): hello"),
        ("<nvidia_smi_log><gpu>", "", 0, Status.BAD_OUTPUT, "cut off"),
        ("<nvidia_smi_log><gpu></nvidia_smi_log>", "", 0, Status.BAD_OUTPUT, "not well-formed"),
        ("<nvidia_smi_log></nvidia_smi_log>", "", 0, Status.NO_GPUS, "lists no GPU"),
        (
            '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><nvidia_smi_log>&b;</nvidia_smi_log>',
            "",
            0,
            Status.BAD_OUTPUT,
            "entities",
        ),
    ],
)
def test_output_without_readings_has_a_status_and_a_reason(
    stdout: str, stderr: str, exit_status: int, status: Status, words: str
) -> None:
    with pytest.raises(HostError) as refused:
        smi.parse(stdout, stderr, exit_status)
    assert refused.value.status is status
    assert words in refused.value.reason
    assert "\n" not in refused.value.reason


def test_a_warning_around_good_data_is_kept_and_the_data_too() -> None:
    text = ONE_GPU.format("") + "\nWARNING: infoROM is corrupted at gpu 0000:0B:00.0\n"
    report = smi.parse(text, exit_status=14)
    assert report.gpus[0].name == "X"
    assert report.warning == "WARNING: infoROM is corrupted at gpu 0000:0B:00.0"


def test_a_process_called_script_does_not_hide_the_host() -> None:
    info = "<process_info><pid>7</pid><type>C</type><process_name>{}</process_name></process_info>"
    for name in ("<script>", "a & b", "x<y", "&lt;script&gt;"):
        report = smi.parse(ONE_GPU.format(f"<processes>{info.format(name)}</processes>"))
        assert [p.pid for p in report.gpus[0].processes] == [7]
    assert report.gpus[0].processes[0].name == "<script>"


INFO = """<process_info>
<pid>{}</pid>
<type>C</type>
<process_name>{}</process_name>
<used_memory>10 MiB</used_memory>
</process_info>
"""
FORGED = [
    "x</process_name></process_info><process_info><pid>1</pid><type>C</type><process_name>y",
    "x</process_name></process_info></processes></gpu><gpu id='9'><uuid>GPU-9</uuid><processes>"
    "<process_info><pid>1</pid><process_name>y",
    "x</process_name></process_info></processes></gpu></nvidia_smi_log>",
    "x</process_name><!-- ",
    "x</process_name><used_memory>99999 MiB</used_memory><process_name>y",
    "x</process_name><![CDATA[",
    "x&foo;&#0;&quot;&",
    "<process_name>",
]


@pytest.mark.parametrize("name", FORGED)
def test_a_process_name_is_one_process_whatever_tags_it_has(name: str) -> None:
    """Where the driver escapes nothing, though the document is as well-formed as with an honest name."""
    listed = INFO.format(7, name) + INFO.format(8, "python")
    report = smi.parse(ONE_GPU.format(f"<processes>\n{listed}</processes>\n"))
    (gpu,) = report.gpus
    assert [(p.pid, p.memory_mib) for p in gpu.processes] == [(7, 10), (8, 10)]
    assert gpu.processes[1].name == "python"


def test_a_name_of_several_lines_adds_no_gpu() -> None:
    one = "<gpu id='{0}'><uuid>GPU-{0}</uuid><processes>\n{1}</processes></gpu>"
    name = (
        "x</process_name>\n</process_info>\n</processes></gpu>\n<gpu id='9'><uuid>GPU-9</uuid><processes>\n"
        "<process_info>\n<process_name>y"
    )
    gpus = one.format(0, "") + one.format(1, INFO.format(7, name))
    text = f"<nvidia_smi_log><attached_gpus>2</attached_gpus>{gpus}</nvidia_smi_log>"
    listed = "".join(f"GPU {n}: X (UUID: GPU-{n})\n" for n in (0, 1))
    report = smi.parse(text, listing=listed)
    assert [gpu.uuid for gpu in report.gpus] == ["GPU-0", "GPU-1"]
    assert report.note == "nvidia-smi counts 2 GPUs and describes 3"


@pytest.mark.parametrize("forged", [0, 1])
def test_a_gpu_that_a_name_describes_once_more_is_unknown_and_there_once(forged: int) -> None:
    """The UUIDs of a host are no secret. Which of the two the driver wrote cannot be known."""
    one = (
        "<gpu id='{0}'><uuid>GPU-{0}</uuid><utilization><gpu_util>97 %</gpu_util></utilization><processes>\n{1}"
        "</processes></gpu>"
    )
    name = (
        f"x</process_name>\n</process_info>\n</processes></gpu>\n<gpu id='{forged}'><uuid>GPU-{forged}</uuid>"
        "<utilization><gpu_util>0 %</gpu_util></utilization><processes>\n<process_info>\n<process_name>y"
    )
    gpus = one.format(0, INFO.format(7, name)) + one.format(1, INFO.format(8, "python"))
    text = f"<nvidia_smi_log><attached_gpus>2</attached_gpus>{gpus}</nvidia_smi_log>"
    listed = "".join(f"GPU {n}: X (UUID: GPU-{n})\n" for n in (0, 1))
    found = smi.parse(text, listing=listed).gpus
    assert [(gpu.index, gpu.uuid, gpu.bus_id) for gpu in found] == [(0, "GPU-0", "0"), (1, "GPU-1", "1")]
    assert [gpu.utilization for gpu in found] == [None if n == forged else 97 for n in (0, 1)]
    assert not found[forged].processes_known
    assert found[1 - forged].processes_known


def test_control_characters_in_a_name_do_not_hide_the_host() -> None:
    report = smi.parse(ONE_GPU.format("").replace("X", "X\x1b[31m\x00"))
    assert report.gpus[0].name == "X\ufffd[31m\ufffd"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("python", "python"),
        ("/usr/bin/python3", "python3"),
        ("./gpu_burn", "gpu_burn"),
        ("/opt/google/chrome/chrome --type=gpu-process --token=1", "chrome"),
        ("python3 train.py --lr 3", "python3"),
        ("python secretproject", "python"),
        ("gmx mdrun -s a.tpr", "gmx"),
        ("/usr/lib/plexmediaserver/Plex Transcoder", "Plex"),
        (r"C:\Program Files\Blender\blender.exe --background", "blender.exe"),
        ("nginx: worker process", "nginx"),
        ("[Not Found]", None),
        ("N/A", None),
        ("-", None),
        (None, None),
    ],
)
def test_only_the_programs_own_name_is_kept(text: str | None, name: str | None) -> None:
    assert smi.own_name(text) == name


GPU_OF = "<nvidia_smi_log>{}</nvidia_smi_log>"


@pytest.mark.parametrize(
    ("inner", "field", "value"),
    [
        ("<fb_memory_usage><used>2 GiB</used></fb_memory_usage>", "memory_used_mib", 2048),
        ("<fb_memory_usage><used>524288 KiB</used></fb_memory_usage>", "memory_used_mib", 512),
        ("<fb_memory_usage><used>1048576 bytes</used></fb_memory_usage>", "memory_used_mib", 1),
        ("<memory_usage><used>10 MB</used></memory_usage>", "memory_used_mib", 10),
        ("<fb_memory_usage><used>17592186044415 MiB</used></fb_memory_usage>", "memory_used_mib", None),
        ("<fb_memory_usage>GPU requires reset</fb_memory_usage>", "memory_used_mib", None),
        ("<power_readings><power_draw>61200 mW</power_draw></power_readings>", "power_w", 61.2),
        ("<power_readings><power_draw>0.7 kW</power_draw></power_readings>", "power_w", 700),
        ("<power_readings>N/A</power_readings>", "power_w", None),
        ("<module_power_readings><power_draw>900 W</power_draw></module_power_readings>", "power_w", None),
        ("<utilization>N/A</utilization>", "utilization", None),
        ("<utilization><gpu_util>N/A</gpu_util><gpu_util>7 %</gpu_util></utilization>", "utilization", 7),
        ("<utilization/><utilization><gpu_util>7 %</gpu_util></utilization>", "utilization", 7),
        ("<utilization><gpu_util>[ 7 % ]</gpu_util></utilization>", "utilization", 7),
        ("<temperature><gpu_temp>-3 C</gpu_temp></temperature>", "temperature_c", -3),
        ("<processes>Insufficient Permissions</processes>", "processes_known", False),
        ("<processes>\n\t</processes>", "processes_known", True),
        ("<mig_mode><current_mig>enabled</current_mig></mig_mode>", "mig_mode", True),
        ("<mig_mode>N/A</mig_mode><mig_devices>None</mig_devices>", "slices", ()),
        ("<pci><pci_bus_id>00000000:0A:00.0</pci_bus_id></pci>", "bus_id", "00000000:0A:00.0"),
    ],
)
def test_other_units_and_blocks_that_are_texts(inner: str, field: str, value: object) -> None:
    report = smi.parse(GPU_OF.format(f"<gpu>{inner}</gpu>"))
    assert getattr(report.gpus[0], field) == value


def test_a_document_in_a_namespace_is_the_same() -> None:
    text = '<s:nvidia_smi_log xmlns:s="urn:x"><s:gpu id="1"><s:product_name>X</s:product_name></s:gpu></s:nvidia_smi_log>'
    assert smi.parse(text).gpus[0].name == "X"
    text = '<nvidia_smi_log xmlns="urn:x"><gpu id="1"><product_name>X</product_name></gpu></nvidia_smi_log>'
    assert smi.parse(text).gpus[0].name == "X"


def test_a_dtd_inside_the_document_is_passed_over() -> None:
    dtd = "<!DOCTYPE nvidia_smi_log [ <!ELEMENT gpu (uuid)> <!ATTLIST gpu id CDATA #REQUIRED> ]>"
    assert smi.parse(f'<?xml version="1.0" ?>{dtd}{ONE_GPU.format("")}').gpus[0].name == "X"


def test_gpus_may_stand_one_level_deeper() -> None:
    assert smi.parse(GPU_OF.format('<gpus><gpu id="1"/><gpu id="2"/></gpus>')).gpus[1].bus_id == "2"


def test_an_unknown_schema_is_read_as_the_newest_with_a_note() -> None:
    head = '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v{}.dtd">'
    new = smi.parse(head.format(99) + ONE_GPU.format(""))
    assert (new.gpus[0].name, new.warning) == ("X", None)
    assert new.note == "nvidia-smi's schema v99 is new here: read as v13"
    assert smi.parse(head.format(13) + ONE_GPU.format("")).note is None


def test_a_large_answer_is_read() -> None:
    clocks = "<supported_graphics_clock>1980 MHz</supported_graphics_clock>" * 5000
    many = "".join(f'<gpu id="{i:08X}:00:00.0"><uuid>GPU-{i}</uuid>{clocks}</gpu>' for i in range(16))
    assert len(smi.parse(GPU_OF.format(many)).gpus) == 16


def test_more_gpus_than_a_machine_can_have_are_not_all_read_and_that_is_told() -> None:
    report = smi.parse(GPU_OF.format('<gpu id="1"/>' * (smi.MOST_GPUS + 1)))
    assert len(report.gpus) == smi.MOST_GPUS
    assert report.note == f"nvidia-smi describes {smi.MOST_GPUS + 1} GPUs: the first {smi.MOST_GPUS} are read"


def test_a_bare_ampersand_in_a_name_does_not_hide_the_host() -> None:
    assert smi.parse(ONE_GPU.format("").replace("X", "A & B")).gpus[0].name == "A & B"


PIECES = [
    "<utilization><gpu_util>7 %</gpu_util></utilization>", "<temperature><gpu_temp>-3 C</gpu_temp></temperature>",
    "<utilization>", "</utilization>", "<fb_memory_usage><used>9</used></fb_memory_usage>", "<!-- -->", "&", "<", "\x00",
    "<mig_devices><mig_device><index>1</index></mig_device><mig_device/><mig_device><index>1</index></mig_device></mig_devices>",
    "<processes><process_info><pid>7</pid><process_name>a\n<b</process_name></process_info><process_info/></processes>",
    "<processes><process_info><pid>-1</pid></process_info></processes>", "<uuid>GPU\n1</uuid>", "<gpu_recovery_action>x\ty</gpu_recovery_action>",
    f"<gpu_power_readings><power_draw>{'9' * 400} W</power_draw></gpu_power_readings>", "<fan_speed>ERR!</fan_speed>",
]  # fmt: skip


@given(st.text())
def test_garbage_gives_a_host_error_and_nothing_else(text: str) -> None:
    for document in (text, f"<nvidia_smi_log>{text}</nvidia_smi_log>", ONE_GPU.format(text)):
        try:
            report = smi.parse(document)
        except HostError as error:
            assert error.status is not Status.OK
            assert is_one_line(error.reason)
        else:
            assert [gpu.index for gpu in report.gpus] == list(range(len(report.gpus)))
            assert all(map(is_one_line, texts_of(asdict(report))))


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_whatever_a_gpu_is_made_of_its_values_are_values(pieces: list[str]) -> None:
    try:
        (gpu,) = smi.parse(ONE_GPU.format("".join(pieces))).gpus
    except HostError as error:
        assert error.status is Status.BAD_OUTPUT
        return
    for value in (gpu.utilization, gpu.memory_used_mib, gpu.temperature_c, gpu.power_w):
        assert value is None or math.isfinite(value)
    assert len({cut.index for cut in gpu.slices}) == len(gpu.slices)
    assert all(process.pid >= 1 for process in gpu.all_processes)
    assert all(map(is_one_line, texts_of(asdict(gpu))))


def texts_of(value: Any) -> Iterator[str]:
    """Every text of a record, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from texts_of(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from texts_of(one)


def is_one_line(text: str) -> bool:
    return 0 < len(text) <= 300 and text == text.strip() and not any(letter < " " for letter in text)


@given(
    st.sampled_from(
        ["N/A", "[N/A]", "Unknown Error", "GPU requires reset", "[Not Supported]", "ERR!", "", "-"]
    )
)
def test_what_nvidia_smi_does_not_know_is_never_zero(word: str) -> None:
    gpu = smi.parse(
        ONE_GPU.format(
            f"<utilization><gpu_util>{word}</gpu_util></utilization><fan_speed>{word}</fan_speed>"
            f"<fb_memory_usage><used>{word}</used><total>{word}</total></fb_memory_usage>"
        )
    ).gpus[0]
    assert (gpu.utilization, gpu.fan_percent, gpu.memory_used_mib, gpu.memory_total_mib) == (None,) * 4


def test_a_host_that_nests_without_end_tells_what_is_within_reach() -> None:
    nested = "<a>" * 20_000 + "</a>" * 20_000
    gpu = f"<gpu><uuid>GPU-1</uuid>{nested}</gpu>"
    report = smi.parse(f"<nvidia_smi_log>{gpu}</nvidia_smi_log>")
    assert [gpu.uuid for gpu in report.gpus] == ["GPU-1"]
