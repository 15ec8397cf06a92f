"""What the probe prints on a host of the lab at a time: nvidia-smi's XML, ps, cgroups; and scontrol's lines."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.truth.schedule import SLICES, SLURM_HOST, USERS, Lab, Stay, Work

MARK = "\n@@gpumon ab12"


def host_answer(lab: Lab, host: str, at: int) -> bytes:
    """Raises `OSError` where the host does not answer."""
    if lab.is_down(host, at):
        raise OSError("no route to host")
    there = lab.there(host, at)
    gone = {uuid for uuid, span in lab.missing if span.has(at)}
    lost = {uuid for uuid, span in lab.lost if span.has(at)}
    listed = [stay for stay in there if stay.card.uuid not in gone]
    described = [stay for stay in listed if stay.card.uuid not in lost]
    around = "".join(
        f"Unable to determine the device handle for GPU{listed.index(stay)}: 0000:{stay.bus:02X}:00.0: Unknown Error\n"
        for stay in listed
        if stay.card.uuid in lost
    )
    works = [work for stay in described for work in _processes(lab, stay, at)]
    sections = {
        "probe": "sent",
        "clock": str(at),
        "smi-stderr": "",
        "smi-list": "".join(_list_lines(lab, stay, listed.index(stay), at) for stay in described),
        "smi": around + _xml(lab, described, at),
        "smi-status": "0",
        "ps": "".join(_ps_line(work, at) for work in works),
        "cgroups": "".join(_cgroup(work) for work in works if work.is_slurm),
    }
    return _framed(sections)


def _framed(sections: dict[str, str]) -> bytes:
    body = "".join(f"{MARK} {name}\n{text}" for name, text in sections.items())
    return f"\n@@gpumon begin 3 ab12\n{body}{MARK} end\n".encode()


def _processes(lab: Lab, stay: Stay, at: int) -> list[Work]:
    places = [*range(len(SLICES))] if lab.is_cut(stay.card.uuid, at) else [None]
    found = [work for place in places for work in lab.at_work(stay.card.uuid, at, place)]
    return [work for work in found if work.has_process(at)]


def _uuid(lab: Lab, stay: Stay, at: int) -> str:
    return (
        "N/A"
        if any(uuid == stay.card.uuid and span.has(at) for uuid, span in lab.nameless)
        else stay.card.uuid
    )


def _list_lines(lab: Lab, stay: Stay, index: int, at: int) -> str:
    text = f"GPU {index}: {stay.card.model.name} (UUID: {_uuid(lab, stay, at)})\n"
    if lab.is_cut(stay.card.uuid, at):
        for number, (profile, _) in enumerate(SLICES):
            text += f"  MIG {profile:<12}Device {number:>2}: (UUID: MIG-{stay.card.uuid[4:-1]}{number})\n"
    return text


def _xml(lab: Lab, stays: list[Stay], at: int) -> str:
    gpus = "".join(_gpu(lab, stay, at) for stay in stays)
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n'
        "<driver_version>550.90.07</driver_version>\n<cuda_version>12.4</cuda_version>\n"
        f"<attached_gpus>{len(stays)}</attached_gpus>\n{gpus}</nvidia_smi_log>\n"
    )


def _gpu(lab: Lab, stay: Stay, at: int) -> str:
    is_cut, model, found = lab.is_cut(stay.card.uuid, at), stay.card.model, lab.measured(stay.card, at)
    works = _processes(lab, stay, at)
    used = 4 + sum(work.memory_mib for work in works)
    slices = "".join(_slice(lab, stay, number, at) for number in range(len(SLICES))) if is_cut else "None"
    mode = "Enabled" if is_cut else "Disabled"
    percent = "N/A" if is_cut else f"{found.percent} %"
    return (
        f'<gpu id="00000000:{stay.bus:02X}:00.0">\n<product_name>{model.name}</product_name>\n'
        f"<mig_mode><current_mig>{mode}</current_mig><pending_mig>{mode}</pending_mig></mig_mode>\n"
        f"<mig_devices>{slices}</mig_devices>\n<uuid>{_uuid(lab, stay, at)}</uuid>\n"
        f"<pci><pci_bus_id>00000000:{stay.bus:02X}:00.0</pci_bus_id></pci>\n<fan_speed>N/A</fan_speed>\n"
        f"<fb_memory_usage><total>{model.total_mib} MiB</total><used>{used} MiB</used></fb_memory_usage>\n"
        f"<utilization><gpu_util>{percent}</gpu_util></utilization>\n"
        f"<temperature><gpu_temp>{found.celsius} C</gpu_temp></temperature>\n"
        f"<gpu_power_readings><power_draw>{found.watts:.2f} W</power_draw>"
        f"<current_power_limit>{model.limit_w:.2f} W</current_power_limit></gpu_power_readings>\n"
        f"<processes>{''.join(map(_process, works))}</processes>\n</gpu>\n"
    )


def _slice(lab: Lab, stay: Stay, number: int, at: int) -> str:
    used = sum(work.memory_mib for work in lab.at_work(stay.card.uuid, at, number)) + 4
    return (
        f"<mig_device><index>{number}</index><gpu_instance_id>{number + 1}</gpu_instance_id>"
        f"<compute_instance_id>0</compute_instance_id><fb_memory_usage><total>{SLICES[number][1]} MiB</total>"
        f"<used>{used} MiB</used></fb_memory_usage></mig_device>\n"
    )


def _process(work: Work) -> str:
    inside = "N/A" if work.slice is None else str(work.slice + 1)
    return (
        f"<process_info><gpu_instance_id>{inside}</gpu_instance_id><compute_instance_id>"
        f"{'N/A' if work.slice is None else 0}</compute_instance_id><pid>{work.pid}</pid><type>C</type>"
        f"<process_name>python3</process_name><used_memory>{work.memory_mib} MiB</used_memory></process_info>\n"
    )


def _ps_line(work: Work, at: int) -> str:
    passed = at - work.time.start - work.process_from
    clock = f"{passed % 86400 // 3600:02}:{passed % 3600 // 60:02}:{passed % 60:02}"
    elapsed = f"{passed // 86400}-{clock}" if passed >= 86400 else clock
    return f"{work.pid:7} {uid(work.user)} {elapsed:>11} Rl   {work.user:<32} python3\n"


def uid(user: str) -> int:
    return 1001 + USERS.index(user)


def _cgroup(work: Work) -> str:
    return f"{work.pid}/cgroup:0::/system.slice/slurmstepd.scope/job_{work.pid}/step_0/user/task_0\n"


def slurm_answer(lab: Lab, at: int) -> bytes:
    """What scontrol and squeue print; Slurm's number of a job is the pid of its process here."""
    if not lab.slurm_answers(at):
        failed = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
        return _framed({"slurm-stderr": failed, "slurm-jobs": "\nstatus 1\n", "slurm-nodes": "\nstatus 1\n"})
    there = lab.there(SLURM_HOST, at)
    jobs = [(index, work) for index, stay in enumerate(there) for work in lab.at_work(stay.card.uuid, at)]
    used = ",".join(str(index) for index, _ in jobs)
    state = "MIXED" if jobs else "IDLE"
    node = (
        f"NodeName={SLURM_HOST} Arch=x86_64 CPUTot=64 CPULoad=1.3 Gres=gpu:h100:8(S:0-1) GresDrain=N/A"
        f" GresUsed=gpu:h100:{len(jobs)}(IDX:{used or 'N/A'}) NodeAddr={SLURM_HOST} NodeHostName={SLURM_HOST}"
        f" Version=23.11.4 OS=Linux 6.1.0 State={state} ThreadsPerCore=2 Partitions=gpu"
    )
    lines = [_job_line(index, work) for index, work in jobs]
    owners = "".join(f"{work.pid}|{uid(work.user)}|{work.user}|RUNNING|{SLURM_HOST}\n" for _, work in jobs)
    answers = {"jobs": "\n".join(lines) or "No jobs in the system", "nodes": node, "owners": owners}
    sections = {"clock": str(at), "slurm-stderr": ""}
    sections |= {f"slurm-{name}": f"{text}\nstatus 0\n" for name, text in answers.items()}
    return _framed(sections | {"slurm-version": "slurm 23.11.4\n"})


def _job_line(index: int, work: Work) -> str:
    start, end = (
        datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        for at in (work.time.start, work.time.end)
    )
    return (
        f"JobId={work.pid} JobName=train UserId={work.user}({uid(work.user)}) GroupId=lab(100) MCS_label=N/A Priority=1 Nice=0"
        f" Account=language QOS=normal JobState=RUNNING Reason=None Dependency=(null) Requeue=1 TimeLimit=1-00:00:00"
        f" StartTime={start} EndTime={end} Deadline=N/A Partition=gpu NodeList={SLURM_HOST} NumNodes=1 NumCPUs=8"
        f" TRES=cpu=8,mem=64G,node=1,gres/gpu=1   Nodes={SLURM_HOST} CPU_IDs=0-7 Mem=0 GRES=gpu:h100:1(IDX:{index})"
        " MinCPUsNode=1 Features=(null) Command=/home/run.sh WorkDir=/home "
    )
