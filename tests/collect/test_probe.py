"""The probe, run for real in every shell that a host may have, and its output read back."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon_static.collect import reading
from gpumon_static.collect.probe import framing, machine, ps
from gpumon_static.errors import HostError
from gpumon_static.model import GONE, Disk, Status
from tests.builders import host_config
from tests.probe_lab import NOW, SHELLS, XML, packed_answer, program, run


def a_pid_that_is_gone() -> int:
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
def test_readings_come_through_in_every_shell(shell: list[str], tmp_path: Path) -> None:
    gone = a_pid_that_is_gone()
    (tmp_path / "xml").write_text(XML.format(mine=os.getpid(), gone=gone))
    output = run(shell, tmp_path, f"[ \"$*\" = '-q -x' ] && cat {tmp_path}/xml")
    found = reading.parse("n", output, NOW)
    mine, ghost = found.gpus[0].processes
    owner = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    assert (mine.pid, mine.user, mine.uid) == (os.getpid(), owner, os.getuid())
    assert mine.elapsed_s is not None
    assert 0 <= mine.elapsed_s < 24 * 3600
    assert (ghost.pid, ghost.user, ghost.state) == (gone, None, GONE)
    assert found.machine.cpu_count == os.cpu_count()
    assert found.machine.load_1m is not None
    assert found.machine.ram_total_mib is not None
    assert found.machine.ram_total_mib > found.machine.ram_used_mib > 0  # type: ignore[operator]
    assert found.machine.cpu_utilization is not None
    assert 0 <= found.machine.cpu_utilization <= 100
    up = float(Path("/proc/uptime").read_text().split()[0])
    assert up - 60 < (found.machine.uptime_s or 0) <= up
    (root,) = found.machine.disks
    size = shutil.disk_usage("/")
    assert root.mount == "/"
    assert root.total_mib == pytest.approx(size.total / 2**20, rel=0.01)
    assert root.used_mib == pytest.approx(size.used / 2**20, rel=0.05)


def test_a_host_without_procps_is_read_from_proc(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ps").write_text("#!/bin/sh\necho 'ps: unrecognized option: p' >&2; exit 1\n")
    (tmp_path / "bin" / "ps").chmod(0o755)
    gone = a_pid_that_is_gone()
    (tmp_path / "xml").write_text(XML.format(mine=os.getpid(), gone=gone))
    mine, ghost = reading.parse("n", run(["dash"], tmp_path, f"cat {tmp_path}/xml"), NOW).gpus[0].processes
    owner = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    assert (mine.uid, mine.user, mine.elapsed_s) == (os.getuid(), owner, None)
    assert ghost.state == GONE


def test_only_the_processes_that_nvidia_smi_names_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "xml").write_text(XML.format(mine=os.getpid(), gone=a_pid_that_is_gone()))
    listed = ps.parse(framing.sections(run(["dash"], tmp_path, f"cat {tmp_path}/xml"))["ps"])
    assert os.getpid() in listed
    assert 1 not in listed, "PID 1 is only in the list of accounted processes"
    assert len(listed) == 2, "the process and the probe's own shell"


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
def test_a_hung_nvidia_smi_is_given_up(shell: list[str], tmp_path: Path) -> None:
    started = time.monotonic()
    output = run(shell, tmp_path, "trap '' TERM; while :; do sleep 0.2; done", timeout=1)
    assert time.monotonic() - started < 120
    with pytest.raises(HostError) as error:
        reading.parse("n", output, NOW)
    assert error.value.status is Status.TIMEOUT


CONTAINER = "3f2a90c3e7d5b1a4" * 4


def proc_of(directory: Path, cgroups: dict[int, str]) -> str:
    """A /proc in which processes have these cgroups."""
    proc = directory / "proc"
    for pid, text in {1: "0::/init.scope\n", **cgroups}.items():
        (proc / str(pid)).mkdir(parents=True)
        (proc / str(pid) / "cgroup").write_text(text)
    (proc / "1" / "stat").write_text("1 (init) S 0\n")
    for name in ("stat", "loadavg", "meminfo", "uptime"):
        (proc / name).write_text(Path("/proc", name).read_text())
    return str(proc)


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
def test_jobs_and_people_are_found_behind_containers(shell: list[str], tmp_path: Path) -> None:
    me, gone = os.getpid(), a_pid_that_is_gone()
    (tmp_path / "xml").write_text(XML.format(mine=me, gone=gone))
    login = f"/user.slice/user-70001.slice/user@70001.service/user.slice/libpod-{CONTAINER}.scope"
    proc = proc_of(tmp_path, {me: f"0::{login}/container\n"})
    program(
        tmp_path,
        "ps",
        "for pids; do :; done; printf '%s\\n' \"$$ 0 00:01 S    root                             sh\"; "
        f"printf '{me} 0 01:00 R    %-32s python\\n' root",
    )
    program(
        tmp_path,
        "getent",
        '[ "$*" = "passwd 70001" ] && echo \'LAB\\\\ada:x:70001:70001::/home/ada:/bin/sh\'',
    )
    output = run(shell, tmp_path, f"cat {tmp_path}/xml", GPUMON_PROC=proc)
    mine, ghost = reading.parse("n", output, NOW).gpus[0].processes
    assert (mine.job, mine.user, mine.uid) == ("podman:3f2a90c3e7d5", "LAB\\ada", 70001)
    assert (ghost.state, ghost.job) == (GONE, None)


def test_no_name_is_asked_for_where_ps_knows_it(tmp_path: Path) -> None:
    me = os.getpid()
    (tmp_path / "xml").write_text(XML.format(mine=me, gone=a_pid_that_is_gone()))
    proc = proc_of(tmp_path, {me: f"0::/user.slice/user-{os.getuid()}.slice/session-1.scope\n"})
    program(tmp_path, "getent", f"echo called >{tmp_path}/called")
    output = run(["dash"], tmp_path, f"cat {tmp_path}/xml", GPUMON_PROC=proc)
    assert "names" not in framing.sections(output)
    assert not (tmp_path / "called").exists()


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
def test_a_name_of_more_than_32_letters_comes_through_whole(shell: list[str], tmp_path: Path) -> None:
    long_name = "a-person-with-a-very-long-name@students.lab.example"
    (tmp_path / "xml").write_text(XML.format(mine=77, gone=78))
    program(
        tmp_path,
        "ps",
        f"printf '%s 0 00:01 S    %-32s sh\\n' $$ root; printf '77 5001 01:00 R    {long_name[:31]}+ python\\n'; "
        "printf '78 5002 01:00 R    %-32s python\\n' 5002",
    )
    program(tmp_path, "getent", f"[ \"$*\" = 'passwd 5001 5002' ] && echo '{long_name}:x:5001:1::/:/bin/sh'")
    one, other = reading.parse("n", run(shell, tmp_path, f"cat {tmp_path}/xml"), NOW).gpus[0].processes
    assert (one.user, one.uid) == (long_name, 5001)
    assert (other.user, other.uid) == ("5002", 5002)


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
def test_with_hidepid_what_is_hidden_is_unknown_and_not_gone(shell: list[str], tmp_path: Path) -> None:
    (tmp_path / "xml").write_text(XML.format(mine=os.getpid(), gone=a_pid_that_is_gone()))
    proc = proc_of(tmp_path, {})
    shutil.rmtree(Path(proc, "1"))
    output = run(shell, tmp_path, f"cat {tmp_path}/xml", GPUMON_PROC=proc)
    mine, hidden = reading.parse("n", output, NOW).gpus[0].processes
    assert (mine.uid, hidden.state, hidden.user) == (os.getuid(), None, None)


@pytest.mark.skipif(os.geteuid() != 0, reason="to mount a /proc of its own needs root")
@pytest.mark.parametrize(("hidepid", "owner"), [("1", "root"), ("2", None)])
def test_a_real_hidepid(tmp_path: Path, hidepid: str, owner: str | None) -> None:
    with TemporaryDirectory(prefix="gpumon-hidepid-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        gone = a_pid_that_is_gone()
        (directory / "xml").write_text(XML.format(mine=os.getpid(), gone=gone))
        program(directory, "nvidia-smi", f"cat {name}/xml")
        (directory / "probe").write_text(framing.script())
        nobody = (
            f"setpriv --reuid=65534 --regid=65534 --clear-groups env PATH={name}/bin:$PATH sh {name}/probe"
        )
        command = [
            "unshare",
            "-m",
            "sh",
            "-c",
            f"mount -t proc -o hidepid={hidepid} proc /proc && exec {nobody}",
        ]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    mine, ghost = reading.parse("n", output, NOW).gpus[0].processes
    assert (mine.user, mine.state) == (owner, None)
    assert ghost.state == (GONE if hidepid == "1" else None), "with 1 it is to be seen who is there"


LISTING = "GPU 0: X (UUID: GPU-a)\n  MIG 1g.10gb     Device  0: (UUID: MIG-b)\n"
MIG_XML = """<nvidia_smi_log><attached_gpus>1</attached_gpus><gpu id="0"><uuid>GPU-a</uuid>
<mig_mode>
<current_mig>Enabled</current_mig>
</mig_mode><mig_devices><mig_device><index>0</index></mig_device></mig_devices><processes></processes></gpu></nvidia_smi_log>"""


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
def test_slices_are_listed_where_mig_is_on(shell: list[str], tmp_path: Path) -> None:
    (tmp_path / "xml").write_text(MIG_XML)
    script = f"echo \"$@\" >>{tmp_path}/calls\n[ $1 = -L ] && printf '{LISTING}' || cat {tmp_path}/xml"
    (found,) = reading.parse("n", run(shell, tmp_path, script), NOW).gpus
    assert [(s.profile, s.uuid) for s in found.slices] == [("1g.10gb", "MIG-b")]
    assert (tmp_path / "calls").read_text() == "-q -x\n-L\n"


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (MIG_XML.replace("Enabled", "Disabled"), "-q -x\n"),
        (MIG_XML.replace("Enabled", "N/A").replace("<attached_gpus>1", "<attached_gpus>2"), "-q -x\n-L\n"),
        (f"Unable to determine the device handle for GPU0000:02:00.0: Unknown Error\n{XML}", "-q -x\n-L\n"),
        (XML, "-q -x\n"),
    ],
    ids=["mig off", "one is missing", "one is lost", "all there"],
)
def test_the_list_is_asked_for_only_where_it_tells_more(tmp_path: Path, text: str, calls: str) -> None:
    (tmp_path / "xml").write_text(text.format(mine=1, gone=2) if text.endswith(XML) else text)
    run(["dash"], tmp_path, f'echo "$@" >>{tmp_path}/calls; cat {tmp_path}/xml')
    assert (tmp_path / "calls").read_text() == calls


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
def test_what_nobody_asks_for_is_not_sent(shell: list[str], tmp_path: Path) -> None:
    old = "<accounted_process_info>\n<pid>1</pid>\n</accounted_process_info>\n" * 4000
    clock = "\t\t<supported_graphics_clock>1980 MHz</supported_graphics_clock>\n" * 500
    text = XML.format(mine=os.getpid(), gone=2).replace(
        "<accounted_processes>\n", f"{clock}<accounted_processes>\n{old}"
    )
    (tmp_path / "xml").write_text(text)
    output = run(shell, tmp_path, f"cat {tmp_path}/xml")
    assert len(text) > 200_000
    assert len(output) < 2_500
    assert len(reading.parse("n", output, NOW).gpus[0].processes) == 2


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
def test_the_xml_comes_packed_and_is_the_same(shell: list[str], tmp_path: Path) -> None:
    (tmp_path / "xml").write_text(XML.format(mine=os.getpid(), gone=a_pid_that_is_gone()))
    program(tmp_path, "nvidia-smi", f"cat {tmp_path}/xml")
    answers = {}
    for setting in ("", "yes"):
        environment = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "GPUMON_GZIP": setting}
        script = framing.script().encode()
        done = subprocess.run([*shell, "-s"], input=script, env=environment, capture_output=True, check=True)
        answers[setting] = done.stdout
    assert (b" smi-gz\n" in answers[""], b" smi-gz\n" in answers["yes"]) == (False, True)
    assert b"product_name" not in answers["yes"]
    plain, packed = (framing.sections(framing.decoded(answer)) for answer in answers.values())
    assert packed["smi"].strip() == plain["smi"].strip()
    assert os.getpid() in ps.parse(packed["ps"]), "the PIDs are found all the same"


@given(st.binary())
def test_any_content_comes_back_from_a_packed_answer(content: bytes) -> None:
    found = framing.sections(framing.decoded(packed_answer(gzip.compress(content))))
    assert found["smi"] == framing.decoded(content) + "\n" or b"@@gpumon" in content


@given(st.binary())
def test_a_damaged_packed_answer_is_refused_or_kept_as_it_is(content: bytes) -> None:
    try:
        found = framing.decoded(packed_answer(content))
    except HostError as error:
        assert error.status is Status.BAD_OUTPUT
        assert "damaged" in error.reason
    else:
        assert found.startswith("@@gpumon begin 1 ab\n")
        assert found.endswith("\n@@gpumon ab end\n")


def test_an_answer_that_unpacks_to_too_much_is_refused() -> None:
    bomb = gzip.compress(b"x" * (framing.MOST_BYTES + 1))
    assert len(bomb) < 20_000
    with pytest.raises(HostError, match="more than 8 MiB"):
        framing.decoded(packed_answer(bomb))


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
def test_command_lines_are_sent_only_where_they_are_asked_for(shell: list[str], tmp_path: Path) -> None:
    secret = "--token=" + "s3cret" * 60
    child = subprocess.Popen(["sh", "-c", "sleep 60 # " + secret])
    try:
        (tmp_path / "xml").write_text(XML.format(mine=child.pid, gone=a_pid_that_is_gone()))
        quiet = run(shell, tmp_path, f"cat {tmp_path}/xml")
        told = run(shell, tmp_path, f"cat {tmp_path}/xml", GPUMON_COMMAND_LINES="yes")
    finally:
        child.kill()
        child.wait()
    assert "s3cret" not in quiet
    assert reading.parse("n", quiet, NOW).gpus[0].processes[0].command_line is None
    process = reading.parse("n", told, NOW).gpus[0].processes[0]
    assert (process.command_line or "").startswith("sh -c sleep 60 # --token=s3cret")
    assert len(process.command_line or "") <= 200
    assert process.uid == os.getuid()


DF = """Filesystem     1024-blocks     Used Available Capacity Mounted on
/dev/sdz1            10240     5120      5120      50% /
/dev/mapper/vg-data  20480    20480         0     100% /my data
nas:/lab             40960     4096     36864      10% /nfs"""


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
def test_disks_with_what_they_hold_and_whether_they_spin(shell: list[str], tmp_path: Path) -> None:
    queue = tmp_path / "devices" / "sdz" / "queue"
    queue.mkdir(parents=True)
    (queue / "rotational").write_text("1\n")
    (tmp_path / "devices" / "sdz" / "sdz1").mkdir()
    blocks = tmp_path / "sys" / "class" / "block"
    blocks.mkdir(parents=True)
    (blocks / "sdz1").symlink_to(tmp_path / "devices" / "sdz" / "sdz1")
    mapped = tmp_path / "sys" / "block" / "dm-3"
    for directory in ("queue", "dm"):
        (mapped / directory).mkdir(parents=True)
    (mapped / "queue" / "rotational").write_text("0\n")
    (mapped / "dm" / "name").write_text("vg-data\n")
    (blocks / "dm-3").symlink_to(mapped)
    program(tmp_path, "df", f"printf '%s\\n' \"$@\" >{tmp_path}/asked; cat <<'E'\n{DF}\nE")
    output = run(shell, tmp_path, "echo", GPUMON_DISKS="/\n/my data\n/nfs", GPUMON_SYS=str(tmp_path / "sys"))
    assert machine.parse_disks(framing.sections(output)["disks"]) == (
        Disk("/", 5.0, 10.0, True),
        Disk("/my data", 20.0, 20.0, False),
        Disk("/nfs", 4.0, 40.0, None),
    )
    assert (tmp_path / "asked").read_text() == "-kP\n/\n/my data\n/nfs\n"


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
def test_a_disk_behind_a_dead_server_costs_a_moment_and_only_itself(shell: list[str], tmp_path: Path) -> None:
    program(tmp_path, "df", '[ "$*" = "-kP /" ] && exec /bin/df -kP /\nexec sleep 60')
    started = time.monotonic()
    output = run(shell, tmp_path, "echo", timeout=1, GPUMON_DISKS="/\n/nfs")
    assert 0.9 < time.monotonic() - started < 30
    assert [disk.mount for disk in machine.parse_disks(framing.sections(output)["disks"])] == ["/"]


def test_settings_cannot_run_anything_on_the_host(tmp_path: Path) -> None:
    evil = f"/'; touch {tmp_path}/evil; echo '"
    host = host_config("n", disks=("/", evil, f"/$(touch {tmp_path}/evil)"), command_timeout=3.0)
    script = framing.stdin(host).replace(b"\nmain </dev/null", b'\nprintf "%s" "$GPUMON_DISKS"; exit')
    done = subprocess.run(["sh", "-s"], input=script, capture_output=True, check=True)
    assert done.stdout.decode().split("\n") == list(host.disks)
    assert not (tmp_path / "evil").exists()
    assert done.stderr == b""
