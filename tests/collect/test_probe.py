"""The probe, run for real in every shell that a host may have, and its output read back."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon_static.collect import reading
from gpumon_static.collect.probe import framing, machine, ps
from gpumon_static.collect.trace import Trace
from gpumon_static.errors import HostError
from gpumon_static.model import GONE, Disk, Status
from tests.builders import host_config
from tests.waiting import wait_until

NOW = datetime(2025, 1, 1, tzinfo=UTC)
SHELLS = [["dash"], ["bash", "--posix"], ["busybox", "sh"]]

XML = """<nvidia_smi_log><driver_version>550.1</driver_version><gpu id="0"><product_name>X</product_name>
<processes>
<process_info><pid>{mine}</pid><type>C</type><process_name>python</process_name></process_info>
<process_info><pid>{gone}</pid><type>C</type><process_name>ghost</process_name></process_info>
</processes>
<accounted_processes>
<accounted_process_info><pid>1</pid></accounted_process_info>
</accounted_processes></gpu></nvidia_smi_log>"""


def program(directory: Path, name: str, script: str) -> None:
    """A stand-in that is found before the real one."""
    (directory / "bin").mkdir(exist_ok=True)
    (directory / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
    (directory / "bin" / name).chmod(0o755)


def run(shell: list[str], directory: Path, nvidia_smi: str | None, timeout: int = 5, **settings: str) -> str:
    """The probe as sshd would start it, with this stand-in nvidia-smi."""
    programs = directory / "bin"
    programs.mkdir(exist_ok=True)
    if nvidia_smi is not None:
        program(directory, "nvidia-smi", nvidia_smi)
    done = subprocess.run(
        [*shell, "-s"],
        input=f"GPUMON_TIMEOUT={timeout}\n{framing.script()}",
        env={"PATH": f"{programs}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8", **settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


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
    assert time.monotonic() - started < 15
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


def packed_answer(content: bytes) -> bytes:
    return b"@@gpumon begin 1 ab\n\n@@gpumon ab smi-gz\n" + content + b"\n@@gpumon ab end\n"


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


def left_behind(mark: str) -> list[int]:
    """The processes that have this in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and entry.name != str(os.getpid()):
            try:
                if mark.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
def test_nothing_is_left_behind_when_nobody_listens_any_more(shell: list[str], tmp_path: Path) -> None:
    program(tmp_path, "nvidia-smi", f"trap '' TERM\ntouch {tmp_path}/asked\nwhile :; do sleep 0.2; done")
    mark = f"GPUMON_TEST={tmp_path}"
    child = subprocess.Popen(
        [*shell, "-s"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "GPUMON_TEST": str(tmp_path)},
        start_new_session=True,
    )
    assert child.stdin
    assert child.stdout
    child.stdin.write(f"GPUMON_TIMEOUT=50\n{framing.script()}".encode())
    child.stdin.close()
    wait_until((tmp_path / "asked").exists)
    assert len(left_behind(mark)) >= 3
    child.stdout.close()
    wait_until(lambda: not left_behind(mark), seconds=40)  # its own limit is 50
    assert child.wait(10) != 0


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
def test_an_nvidia_smi_that_cannot_be_killed_is_told_all_the_same(shell: list[str], tmp_path: Path) -> None:
    """As one that hangs in the kernel: here `kill -9` does nothing."""
    program(tmp_path, "nvidia-smi", "exec sleep 300")
    immortal = 'kill() { [ "$1" = -9 ] || command kill "$@"; }'
    child = subprocess.Popen(
        [*shell, "-s"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "GPUMON_TEST": str(tmp_path)},
    )
    assert child.stdin
    assert child.stdout
    child.stdin.write(f"GPUMON_TIMEOUT=1\n{immortal}\n{framing.script()}".encode())
    child.stdin.close()
    output = bytearray()
    while not framing.is_complete(output):
        line = child.stdout.readline()
        assert line, "it ended without an answer"
        output += line
    for pid in left_behind(f"GPUMON_TEST={tmp_path}"):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    child.stdout.close()
    child.wait(10)
    with pytest.raises(HostError) as error:
        reading.parse("n", output.decode(), NOW)
    assert error.value.status is Status.TIMEOUT


HANGS = """
import ctypes, os, sys, time
os.setuid(int(sys.argv[1]))
kernel = ctypes.CDLL(None)
kernel.prctl(15, sys.argv[2].encode())
print(flush=True)
# Whoever waits for a child of vfork is in state D.
kernel.vfork() or time.sleep(60)
"""


@contextmanager
def hanging(uid: int, name: str) -> Iterator[None]:
    """A process in the state in which a driver that hangs keeps its callers."""
    child = subprocess.Popen(
        [sys.executable, "-c", HANGS, str(uid), name], stdout=subprocess.PIPE, start_new_session=True
    )
    assert child.stdout
    try:
        child.stdout.readline()
        end = time.monotonic() + 10
        while Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] != "D":
            assert time.monotonic() < end
            time.sleep(0.02)
        yield
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.stdout.close()
        child.wait(10)


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
@pytest.mark.parametrize(
    ("was_late", "name", "is_ours", "asked"),
    [
        ("yes", "nvidia-smi", True, False),
        ("", "nvidia-smi", True, True),
        ("yes", "nvidia-smi.py", True, True),
        # Any user can have a process of this name and in this state.
        ("yes", "nvidia-smi", False, True),
    ],
)
def test_no_nvidia_smi_joins_one_of_ours_that_hangs_in_the_kernel(
    shell: list[str], tmp_path: Path, was_late: str, name: str, is_ours: bool, asked: bool
) -> None:
    # A login of its own: another test may run at the same time.
    ours = 100_000 + os.getpid()
    program(tmp_path, "id", f"echo {ours}")
    with hanging(ours if is_ours else 65534, name):
        output = run(shell, tmp_path, f"touch {tmp_path}/asked", GPUMON_WAS_LATE=was_late)
    assert (tmp_path / "asked").exists() == asked
    if not asked:
        with pytest.raises(HostError, match="one of an earlier run still hangs in the kernel") as error:
            reading.parse("n", output, NOW)
        assert error.value.status is Status.TIMEOUT


NAMES_WITH_TAGS = [
    "a</process_name></process_info></processes></gpu></nvidia_smi_log>",
    "a</processes>",
    "a<accounted_processes>",
    "a<accounted_processes>\n<accounted_processes>",
    "a\n</processes>\n<accounted_processes>",
    "a<gpu id='1'>",
]


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
@pytest.mark.parametrize("name", NAMES_WITH_TAGS)
def test_tags_in_a_process_name_hide_no_other_process(shell: list[str], tmp_path: Path, name: str) -> None:
    """Of a driver that does not escape them."""
    mine = os.getpid()
    (tmp_path / "xml").write_text(XML.format(mine=mine, gone=mine).replace("python", name, 1))
    output = run(shell, tmp_path, f'[ "$1" = -q ] && cat {tmp_path}/xml')
    (gpu,) = reading.parse("n", output, NOW).gpus
    assert {process.pid for process in gpu.processes} == {mine}
    xml = XML.format(mine=1, gone=mine).replace("python", name, 1)
    (tmp_path / "xml").write_text(xml)
    output = run(shell, tmp_path, f'[ "$1" = -q ] && cat {tmp_path}/xml')
    (gpu,) = reading.parse("n", output, NOW).gpus
    assert [(p.pid, p.user is not None) for p in gpu.processes] == [(1, True), (mine, True)]


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
def test_nothing_runs_on_after_the_end(shell: list[str], tmp_path: Path) -> None:
    run(shell, tmp_path, "echo", GPUMON_TEST=str(tmp_path))
    wait_until(lambda: not left_behind(f"GPUMON_TEST={tmp_path}"), seconds=5)


def test_no_nvidia_smi(tmp_path: Path) -> None:
    assert shutil.which("nvidia-smi") is None, "this test wants a machine without a GPU"
    with pytest.raises(HostError) as error:
        reading.parse("n", run(["dash"], tmp_path, None), NOW)
    assert error.value.status is Status.NO_NVIDIA_SMI


def test_exit_status_and_stderr_come_through(tmp_path: Path) -> None:
    output = run(["dash"], tmp_path, "echo 'Failed to initialize NVML: Unknown Error' >&2; exit 255")
    sections = framing.sections(output)
    assert sections["smi-status"].strip() == "255"
    assert sections["smi-stderr"].strip() == "Failed to initialize NVML: Unknown Error"


def test_the_login_shells_own_talk_is_passed_over(tmp_path: Path) -> None:
    output = run(["dash"], tmp_path, "echo hi")
    noisy = f"Welcome!\r\n@@gpumon is a fine tool\n{output}".replace("\n", "\r\n")
    assert framing.sections(noisy)["smi"].strip() == "hi"


def test_a_process_name_cannot_pass_for_a_marker(tmp_path: Path) -> None:
    output = run(["dash"], tmp_path, "echo '@@gpumon end'; echo '@@gpumon 0123456789abcdef ps'")
    assert "0123456789abcdef ps" in framing.sections(output)["smi"]


@pytest.mark.parametrize("forged", ["@@gpumon 1 end", "1 2 3 S bob @@gpumon ab end", "@@gpumon abc end"])
def test_a_process_name_cannot_end_the_answer(forged: str) -> None:
    begun = b"hello\r\n@@gpumon begin 1 ab\n\n@@gpumon ab ps\n"
    so_far = bytearray(begun + forged.encode() + b"\n")
    assert not framing.is_complete(so_far)
    assert framing.is_complete(so_far + b"\n@@gpumon ab end\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it printed nothing"),
        (
            "This account is currently not available.\n",
            "it printed: This account is currently not available.",
        ),
        ("@@gpumon begin 1 ab\n@@gpumon ab smi\n<nvidia", "cut off in section 'smi'"),
        ("@@gpumon begin 1 ab\n", "cut off in section 'begin'"),
    ],
)
def test_an_answer_that_is_none_is_refused_with_what_it_said(text: str, words: str) -> None:
    with pytest.raises(HostError) as error:
        framing.sections(text)
    assert error.value.status is Status.BAD_OUTPUT
    assert words in error.value.reason


@given(
    st.dictionaries(st.sampled_from(["smi", "ps", "load"]), st.text(st.characters(exclude_characters="\r")))
)
def test_sections_come_back_as_they_were(sections: dict[str, str]) -> None:
    body = "".join(f"\n@@gpumon ab12 {name}\n{text}" for name, text in sections.items())
    found = framing.sections(f"@@gpumon begin 1 ab12\n{body}\n@@gpumon ab12 end\n")
    assert {name: found[name] for name in sections} == {name: text + "\n" for name, text in sections.items()}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("00:07", 7), ("03:25", 205), ("01:00:00", 3600), ("2-03:04:05", 183845), ("-", None), ("", None)],
)
def test_elapsed_time_of_every_ps(text: str, seconds: int | None) -> None:
    assert ps.elapsed_seconds(text) == seconds


def test_users_of_every_kind_come_through_whole() -> None:
    lines = [
        f"{pid} 1000 00:01 R    {user:32} {command}"
        for pid, user, command in [
            (1, "a-login-of-32-letters-is-allowed", "python3"),
            (2, "LAB\\user1", "a b  c"),
            (3, "user1@lab.example", "x"),
            (4, "4711", "x"),
            (5, "LAB\\two words", "x"),
        ]
    ]
    entries = ps.parse("\n".join(lines))
    assert [entries[pid].user for pid in range(1, 6)] == [
        "a-login-of-32-letters-is-allowed",
        "LAB\\user1",
        "user1@lab.example",
        "4711",
        "LAB\\two words",
    ]
    assert entries[2].command == "a b c"


@given(st.text())
def test_any_ps_text_gives_entries_by_their_pid(text: str) -> None:
    before = f"1 0 00:01 S    {'root':32} init\n"
    found = ps.parse(before + text)
    assert found[1].user is not None
    assert set(ps.parse(text)) <= set(found)
    assert all(pid >= 0 for pid in found)


def test_an_answer_of_too_many_sections_is_refused() -> None:
    text = "@@gpumon begin 1 ab\n" + "\n@@gpumon ab load\n1" * 101 + "\n@@gpumon ab end\n"
    with pytest.raises(HostError, match="more than 100 sections"):
        framing.sections(text)


def test_a_packed_answer_may_not_be_longer_than_a_plain_one() -> None:
    before = b"x" * (framing.MOST_BYTES // 2) + b"\n"
    with pytest.raises(HostError, match="more than 8 MiB"):
        framing.decoded(before + packed_answer(gzip.compress(b"x" * (framing.MOST_BYTES // 2))))


@given(
    st.lists(
        st.sampled_from([b"@@gpumon begin 1 ab\n", b"\n@@gpumon ab end\n", b"@@gpumon ", b"x", b"\r\n"]),
        max_size=8,
    )
)
def test_an_answer_in_pieces_is_complete_when_the_whole_is(parts: list[bytes]) -> None:
    output, has_arrived = bytearray(), framing.arrived(Trace())
    for byte in b"".join(parts):
        output.append(byte)
        assert has_arrived(output) == framing.is_complete(output)
