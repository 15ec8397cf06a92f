"""Slurm in config.ini, and groups of ClusterShell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpumon_static.errors import ConfigError
from tests.command import gpumon
from tests.slurm_answers import SETUP, configured

# The config


def test_slurm_is_asked_with_the_settings_of_its_host(tmp_path: Path) -> None:
    text = '[common]\nhosts = ["gpu1"]\nuser = "mon"\n[slurm]\nhost = "ada@login1:2200"\n[hosts.login1]\ncommand_timeout = 7\n'
    (cluster,) = configured(tmp_path, text).clusters
    asked = cluster.asked
    assert (asked.name, asked.alias, asked.address) == ("Slurm on login1", "login1", "login1")
    assert (asked.user, asked.port, asked.command_timeout, asked.asks_slurm) == ("ada", 2200, 7, True)


def test_a_host_of_the_lab_is_asked_for_its_slurm_apart_from_its_gpus(tmp_path: Path) -> None:
    config = configured(tmp_path, SETUP + '[slurm]\nhost = "gpu2"\n[hosts.gpu2]\naddress = "10.0.0.2"\n')
    asked = config.clusters[0].asked
    assert (asked.alias, asked.address, asked.asks_slurm) == ("gpu2", "10.0.0.2", True)
    assert [host.asks_slurm for host in config.hosts] == [False, False, False]


def test_localhost_is_asked_without_ssh(tmp_path: Path) -> None:
    assert (
        configured(tmp_path, SETUP + '[slurm]\nhost = "localhost"\n').clusters[0].asked.transport == "local"
    )


def test_several_clusters_each_with_its_hosts(tmp_path: Path) -> None:
    config = configured(
        tmp_path, SETUP + '[[slurm]]\nhost = "a"\nhosts = "gpu2"\n[[slurm]]\nhost = "b"\nhosts = ["desk"]\n'
    )
    assert [(c.asked.alias, *c.hosts) for c in config.clusters] == [("a", "gpu2"), ("b", "desk")]


def test_how_programs_are_started_is_the_sites_or_the_hosts(tmp_path: Path) -> None:
    config = configured(tmp_path, SETUP + '[site]\nrun = "slurm"\n[hosts.desk]\nrun = "ssh"\n')
    assert [host.run for host in config.hosts] == ["slurm", "slurm", "ssh"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[slurm]\n", "slurm.host: missing; it is the host that has scontrol"),
        ('[slurm]\nhost = "a,b"\n', "slurm.host: 'a,b' is not a host name"),
        ('[slurm]\nhost = "n[1-2]"\n', "slurm.host: must be one host, not 'n[1-2]'"),
        ('[slurm]\nhots = "a"\n', "slurm.hots: unknown key; the nearest known one is slurm.host"),
        ('[slurm]\nhost = "a"\nhosts = "gpu7"\n', "slurm.hosts: gpu7 is not in common.hosts"),
        ('[slurm]\nhost = "a"\norder = [0, 0]\n', "slurm.order: must be a list of different GPU indexes"),
        (
            '[[slurm]]\nhost = "a"\n[[slurm]]\nhost = "b"\nhosts = "desk"\n',
            "slurm 1.hosts: missing; with several [[slurm]], each lists the hosts it manages",
        ),
        (
            '[[slurm]]\nhost = "a"\nhosts = "desk"\n[[slurm]]\nhost = "b"\nhosts = "desk"\n',
            "slurm.hosts: desk is managed by Slurm on a already",
        ),
        (
            '[[slurm]]\nhost = "a"\nhosts = "desk"\n[[slurm]]\nhost = "a"\nhosts = "gpu2"\n',
            "slurm.host: a is asked twice",
        ),
        ('slurm = "a"\n', "slurm: must be a section, [slurm], not a value"),
        ('[site]\nrun = "pbs"\n', "site.run: must be 'ssh' or 'slurm', not 'pbs'"),
    ],
)
def test_what_is_wrong_with_the_section_is_named(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        configured(tmp_path, text + SETUP if text.startswith("slurm =") else SETUP + text)
    assert any(line.startswith(problem) for line in raised.value.problems), raised.value.problems


def test_a_host_that_is_no_name_is_one_problem(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        configured(tmp_path, SETUP + "[slurm]\nhost = 3\n")
    assert len(error.value.problems) == 1


# Groups of ClusterShell


def groups(directory: Path) -> dict[str, str]:
    """A groups.conf with a file of groups, and a source that is a command, as the one for Slurm is."""
    (directory / "groups.d").mkdir(parents=True)
    (directory / "groups.conf").write_text(
        f"[Main]\ndefault: lab\nautodir: {directory}/groups.d\n"
        '[slurm]\nmap: [ "$GROUP" = gpu-partition ] && echo "gpu[1-3]"\nall: echo gpu[1-3]\nlist: echo gpu-partition\n'
    )
    (directory / "groups.d" / "lab.yaml").write_text("lab:\n  gpu: 'node[01-02].lab'\n  big: 'n[1-30000]'\n")
    return {"CLUSTERSHELL_CFGDIR": str(directory)}


def test_groups_are_hosts_and_one_that_cannot_be_resolved_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in groups(tmp_path / "clustershell").items():
        monkeypatch.setenv(name, value)
    config = tmp_path / "config.ini"

    def told(hosts: str) -> str:
        config.write_text(f"[common]\nhosts = {hosts}\n")
        return gpumon("show", "-c", config).stderr

    config.write_text('[common]\nhosts = ["@gpu", "@slurm:gpu-partition"]\n[hosts.gpu2]\nslurm = "g2"\n')
    shown = gpumon("check", "--json", "-c", config).stdout
    named = [host["host"] for host in json.loads(shown)["hosts"]]
    assert named == ["node01.lab", "node02.lab", "gpu1", "gpu2", "gpu3"]
    assert "common.hosts: group '@nope' cannot be resolved: ClusterShell knows no host in it" in told(
        '["@nope"]'
    )
    assert "common.hosts: group '@slurm:nope' cannot be resolved" in told('["@slurm:nope"]')
    assert "common.hosts: group '@other:gpu' cannot be resolved: no source 'other'" in told('["@other:gpu"]')
    assert "common.hosts: group '@big' is 30000 hosts; 20000 is the most" in told('["@big"]')
    assert "common.hosts: '@a b' is not a group such as '@gpu' or '@slurm:gpu'" in told('["@a b"]')
    made = gpumon("init", tmp_path / "new", "--hosts", "@gpu", "--no-check")
    assert made.returncode == 0, made.stderr
    assert 'hosts = ["@gpu"]' in (tmp_path / "new" / "config.ini").read_text()
