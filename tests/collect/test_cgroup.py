"""Who is behind a process: every form in which schedulers and containers name a cgroup."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon_static.collect.probe import cgroup
from gpumon_static.collect.probe.cgroup import Belonging

ID = "3f2a90c3e7d5b1a4" * 4
SHORT = "3f2a90c3e7d5"
UID = "4c1e2f80-9d3c-4b5e-8a6f-0123456789ab"
LOW = UID.replace("-", "_")

FORMS = [
    # Slurm: cgroup v1 with the uid, several slurmd on one node, v2.
    ("/slurm/uid_1000/job_12345/step_0/task_0", "slurm:12345", 1000),
    ("/slurm/uid_1000/job_12345/step_batch", "slurm:12345", 1000),
    ("/slurm_node07/uid_70001/job_9/step_extern", "slurm:9", 70001),
    ("/system.slice/slurmstepd.scope/job_123/step_0/user/task_0", "slurm:123", None),
    ("/system.slice/node07_slurmstepd.scope/job_123/step_interactive/user/task_1", "slurm:123", None),
    # A container of any kind inside a job is the job's.
    (f"/slurm/uid_1000/job_7/step_0/docker/{ID}", "slurm:7", 1000),
    # Docker: cgroupfs, systemd, rootless, in a parent of its own, in Docker itself.
    (f"/docker/{ID}", f"docker:{SHORT}", None),
    (f"/system.slice/docker-{ID}.scope", f"docker:{SHORT}", None),
    (
        f"/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{ID}.scope",
        f"docker:{SHORT}",
        1000,
    ),
    (f"/lab/{ID}", f"docker:{SHORT}", None),
    (f"/ecs/0123456789abcdef0123456789abcdef/{ID}", f"docker:{SHORT}", None),
    (f"/docker/{ID}/docker/{'0' * 64}", f"docker:{SHORT}", None),
    (f"/docker/buildkit/{ID}", f"docker:{SHORT}", None),
    # Podman: root, rootless, cgroupfs, and its helper.
    (f"/machine.slice/libpod-{ID}.scope/container", f"podman:{SHORT}", None),
    (
        f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container",
        f"podman:{SHORT}",
        1000,
    ),
    (f"/libpod_parent/libpod-{ID}", f"podman:{SHORT}", None),
    (f"/machine.slice/libpod-conmon-{ID}.scope", f"podman:{SHORT}", None),
    # containerd and CRI-O without Kubernetes.
    (f"/system.slice/nerdctl-{ID}.scope", f"containerd:{SHORT}", None),
    (f"/system.slice/crio-{ID}.scope", f"crio:{SHORT}", None),
    # Kubernetes: cgroupfs with dashes, systemd with underscores, three classes, two runtimes, static pods.
    (f"/kubepods/burstable/pod{UID}/{ID}", f"pod:{UID}", None),
    (f"/kubepods/pod{UID}/{ID}", f"pod:{UID}", None),
    (
        f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{LOW}.slice/cri-containerd-{ID}.scope",
        f"pod:{UID}",
        None,
    ),
    (f"/kubepods.slice/kubepods-pod{LOW}.slice/crio-{ID}.scope", f"pod:{UID}", None),
    (
        f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
        f"kubelet-kubepods-burstable-pod{LOW}.slice/cri-containerd-{ID}.scope",
        f"pod:{UID}",
        None,
    ),
    (
        f"/system.slice/containerd.service/kubepods-burstable-pod{LOW}.slice:cri-containerd:{ID}",
        f"pod:{UID}",
        None,
    ),
    (f"/kubepods/burstable/pod{'ab' * 16}/{ID}", f"pod:{'ab' * 16}", None),
    # A sshd in a container sees the others from inside.
    (f"/../../kubepods/burstable/pod{UID}/{ID}", f"pod:{UID}", None),
    # LXC, old and new, and Proxmox.
    ("/lxc/training/user.slice", "lxc:training", None),
    ("/lxc.payload.training/system.slice/x.service", "lxc:training", None),
    ("/lxc/101/ns/init.scope", "lxc:101", None),
    # People.
    ("/user.slice/user-1000.slice/session-3.scope", None, 1000),
    ("/user.slice/user-70001.slice/user@70001.service/app.slice/run-r1.scope", None, 70001),
    ("/user.slice/user-0.slice/session-1.scope", None, 0),
    # Nobody in particular.
    ("/system.slice/ollama.service", None, None),
    ("/system.slice/docker.service", None, None),
    ("/system.slice/slurmd.service", None, None),
    ("/init.scope", None, None),
    ("/", None, None),
]


@pytest.mark.parametrize(("path", "job", "uid"), FORMS, ids=[form[0][:60] for form in FORMS])
@pytest.mark.parametrize("line", ["77/cgroup:0::{}", "77/cgroup:11:cpu,cpuacct:{}"], ids=["v2", "v1"])
def test_every_form_of_a_cgroup(line: str, path: str, job: str | None, uid: int | None) -> None:
    assert cgroup.parse(line.format(path)) == {77: Belonging(job, uid)}


def test_with_many_groups_the_one_that_tells_counts() -> None:
    text = (
        "5/cgroup:12:pids:/user.slice/user-1000.slice/session-2.scope\n"
        f"5/cgroup:11:devices:/docker/{ID}\n5/cgroup:4:memory:/slurm/uid_1001/job_8/step_0\n"
        "6/cgroup:0::/user.slice/user-1002.slice/session-4.scope\n"
    )
    assert cgroup.parse(text) == {5: Belonging("slurm:8", 1001), 6: Belonging(None, 1002)}


def test_a_name_that_a_user_chose_stays_short() -> None:
    assert cgroup.parse(f"1/cgroup:0::/lxc/{'x' * 500}") == {1: Belonging(f"lxc:{'x' * 64}", None)}


@given(st.text())
def test_any_path_gives_a_short_label_or_none(text: str) -> None:
    whole = f"1/cgroup:0::/{text}\n2/cgroup:0::/lxc/{text}"
    for pid, found in (cgroup.parse(text) | cgroup.parse(whole)).items():
        assert pid >= 0
        assert found.uid is None or 0 <= found.uid < 10**10
        if found.job is not None:
            kind, _, name = found.job.partition(":")
            assert kind in {"slurm", "pod", "podman", "docker", "containerd", "crio", "lxc"}
            assert 0 < len(name) <= 64
            assert not any(letter < " " for letter in name)
    assert 1 in cgroup.parse(whole)


@given(st.integers(1, 2**31), st.integers(0, 2**31))
def test_any_job_of_any_user(job: int, uid: int) -> None:
    text = f"1/cgroup:4:memory:/slurm/uid_{uid}/job_{job}/step_0\n"
    assert cgroup.parse(text) == {1: Belonging(f"slurm:{job}", uid)}


def test_a_group_with_a_carriage_return_is_of_its_own_process_only() -> None:
    forged = "7/cgroup:0::/user.slice/a\r8/cgroup:0::/system.slice/slurmstepd.scope/job_9/step_0"
    found = cgroup.parse(f"{forged}\n8/cgroup:0::/user.slice/user-1000.slice/session-3.scope\r\n")
    assert found[8] == cgroup.Belonging(uid=1000)
    assert 9 not in found
