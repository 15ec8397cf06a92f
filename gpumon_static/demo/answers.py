"""A reading to everything that the programs and /proc of its host contain, as files by name.

nvidia-smi.xml   nvidia-smi -q -x          proc/loadavg   0.52 0.58 0.59 2/880 4242
nvidia-smi.list  nvidia-smi -L             proc/stat      cpu0 ...
failure          what nvidia-smi prints instead, where the driver is broken
ps               1234  1001   03:25:11 Rl   mira     python3
df               df -kP                    cpu-step       how far the CPU's counters go on, each time
sys/class/...    what AMD's driver writes: sysfs.py
"""

from __future__ import annotations

from gpumon_static.demo import slurm, sysfs, workload, xml
from gpumon_static.demo.lab import DemoHost
from gpumon_static.model import GONE, HostReading, Machine, Process, Status

STAND_INS = {
    "nvidia-smi": """\
#!/bin/sh
# A stand-in of the demo cluster. exec: one process, not two.
[ -f "$DEMO_ANSWERS/failure" ] && { cat "$DEMO_ANSWERS/failure"; exit 9; }
case $1 in
  -L) exec cat "$DEMO_ANSWERS/nvidia-smi.list" ;;
  *) exec cat "$DEMO_ANSWERS/nvidia-smi.xml" ;;
esac
""",
    "ps": """\
#!/bin/sh
# A stand-in of the demo cluster: the asking shell, first in the list of PIDs, and those nvidia-smi names.
for pids; do :; done
printf '%7d  1000       00:00 Ss   %-32s sh\\n' "${pids%%,*}" monitor
# The time between the probe's two readings of the CPU passes here.
read -r _ user nice system idle rest <"$DEMO_ANSWERS/proc/stat"
read -r busy rested cores <"$DEMO_ANSWERS/cpu-step"
line="cpu $((user + busy)) $nice $system $((idle + rested)) $rest"
while [ $((cores -= 1)) -ge 0 ]; do
  line="$line
cpu$cores 4705 150 1120 16250856 2620 0 180 0 0 0"
done
echo "$line" >"$DEMO_ANSWERS/proc/stat"
exec cat "$DEMO_ANSWERS/ps"
""",
    "scontrol": f"""\
#!/bin/sh
# A stand-in of the demo cluster, for the host that is asked for Slurm.
case $* in
  *job) exec cat "$DEMO_ANSWERS/scontrol.jobs" ;;
  *node) exec cat "$DEMO_ANSWERS/scontrol.nodes" ;;
  *) echo "{slurm.VERSION}" ;;
esac
""",
    "squeue": """\
#!/bin/sh
exec cat "$DEMO_ANSWERS/squeue"
""",
    "df": """\
#!/bin/sh
exec cat "$DEMO_ANSWERS/df"
""",
}


DEVICES = {"nvme0n1p2": 0, "md0": 1}
"""In the order of a host's disks, and whether they spin."""


def files(host: DemoHost, reading: HostReading) -> dict[str, str]:
    processes = [process for gpu in reading.gpus for process in gpu.all_processes]
    failure = {"failure": f"\n{workload.DRIVER_FAILURE}\n\n"} if host.fate is Status.DRIVER else {}
    return {
        **GPU_FILES[host.gpus[0].model.vendor](host, reading),
        "ps": "".join(ps_line(process) for process in processes if process.state != GONE),
        "df": df(reading.machine),
        "cpu-step": _cpu_step(reading.machine),
        **{f"sys/class/block/{device}/queue/rotational": f"{spins}\n" for device, spins in DEVICES.items()},
        **{f"proc/{name}": text for name, text in _proc(reading.machine).items()},
        **{f"proc/{p.pid}/cgroup": _cgroup(p.job) for p in processes if p.job},
        **failure,
    }


def _nvidia_files(host: DemoHost, reading: HostReading) -> dict[str, str]:
    return {"nvidia-smi.xml": xml.render(host, reading), "nvidia-smi.list": smi_list(reading)}


GPU_FILES = {"nvidia": _nvidia_files, "amd": sysfs.files}


def df(machine: Machine) -> str:
    lines = ["Filesystem 1024-blocks Used Available Capacity Mounted on"]
    for device, disk in zip(DEVICES, machine.disks, strict=True):
        total, used = (round((mib or 0) * 1024) for mib in (disk.total_mib, disk.used_mib))
        lines.append(f"/dev/{device} {total} {used} {total - used} {100 * used // total}% {disk.mount}")
    return "\n".join([*lines, ""])


def _cpu_step(machine: Machine) -> str:
    ticks = workload.CPU_TICKS * (machine.cpu_count or 0)
    busy = round(ticks * (machine.cpu_utilization or 0) / 100)
    return f"{busy} {ticks - busy} {machine.cpu_count}\n"


def _cgroup(job: str) -> str:
    return f"0::/system.slice/slurmstepd.scope/job_{job.removeprefix('slurm:')}/step_0/user/task_0\n"


def smi_list(reading: HostReading) -> str:
    lines = []
    for gpu in reading.gpus:
        lines.append(f"GPU {gpu.index}: {gpu.name} (UUID: {gpu.uuid})\n")
        lines += [f"  MIG {mig.profile:<12}Device {mig.index:>2}: (UUID: {mig.uuid})\n" for mig in gpu.slices]
    return "".join(lines)


def ps_line(process: Process) -> str:
    # The kernel keeps 15 characters of a command's name.
    command = (process.name or "")[:15]
    elapsed = elapsed_time(process.elapsed_s or 0)
    return (
        f"{process.pid:>7} {process.uid:>5} {elapsed:>11} {process.state:<4} {process.user:<32} {command}\n"
    )


def elapsed_time(seconds: int) -> str:
    """As ps prints it: `[[days-]hours:]minutes:seconds`."""
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    short = f"{minute:02}:{second:02}"
    if not hours:
        return short
    return f"{days}-{hour:02}:{short}" if days else f"{hour:02}:{short}"


def _proc(machine: Machine) -> dict[str, str]:
    total = int(machine.ram_total_mib or 0) * 1024
    available = total - int(machine.ram_used_mib or 0) * 1024
    loads = (machine.load_1m, machine.load_5m, machine.load_15m)
    cpus = "".join(
        f"cpu{number} 4705 150 1120 16250856 2620 0 180 0 0 0\n" for number in range(machine.cpu_count or 0)
    )
    swap = int(machine.swap_total_mib or 0) * 1024
    memory = {"MemTotal": total, "MemFree": available // 2, "MemAvailable": available}
    memory |= {"SwapTotal": swap, "SwapFree": swap - int(machine.swap_used_mib or 0) * 1024}
    return {
        "1/stat": "1 (systemd) S 0\n",
        "uptime": f"{machine.uptime_s}.25 1.00\n",
        "loadavg": " ".join(f"{load:.2f}" for load in loads) + " 2/880 4242\n",
        "stat": f"cpu  37640 1200 8960 130006848 20960 0 1440 0 0 0\n{cpus}",
        "meminfo": "".join(f"{name + ':':<15} {kib:>9} kB\n" for name, kib in memory.items()),
    }
