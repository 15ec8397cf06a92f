"""What one would write instead of `gpumon-static fetch`: `python -m bench.clients WAY JOB.json`.

Each way asks the hosts for the same, parses nothing and prints how many answered.

paramiko           an SSHClient per host; known_hosts is read once
paramiko-load      the same, but each client reads known_hosts, as paramiko's examples do
ssh                the ssh program, which takes a post-quantum key exchange: most of its cost
ssh-curve25519     the ssh program with the key exchange that paramiko takes
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import paramiko

LAST_TAG = b"</nvidia_smi_log>"
LAST_WORD = b" end"
"""Of the probe, whose XML is packed."""


@dataclass(frozen=True)
class Job:
    addresses: list[str]
    port: int
    user: str
    key: str
    known_hosts: str
    workers: int
    probe: str

    @cached_property
    def host_keys(self) -> paramiko.HostKeys:
        import paramiko

        return paramiko.HostKeys(self.known_hosts)

    def by_paramiko(self, address: str) -> bool:
        import paramiko

        client = paramiko.SSHClient()
        name = f"[{address}]:{self.port}"
        for key in (self.host_keys.lookup(name) or {}).values():
            client.get_host_keys().add(name, key.get_name(), key)
        return self._ask(client, address)

    def by_paramiko_load(self, address: str) -> bool:
        import paramiko

        client = paramiko.SSHClient()
        client.load_host_keys(self.known_hosts)
        return self._ask(client, address)

    def _ask(self, client: paramiko.SSHClient, address: str) -> bool:
        client.connect(
            address,
            self.port,
            self.user,
            key_filename=self.key,
            allow_agent=False,
            look_for_keys=False,
            timeout=60,
            banner_timeout=60,
            auth_timeout=60,
        )
        try:
            xml = client.exec_command("nvidia-smi -q -x")[1].read()
            processes = client.exec_command("ps -eo pid,uid,etime,stat,user:32,comm")[1].read()
        finally:
            client.close()
        return LAST_TAG in xml and b"PID" in processes

    def by_ssh_curve25519(self, address: str) -> bool:
        return self.by_ssh(address, "KexAlgorithms=curve25519-sha256")

    def by_ssh(self, address: str, *more: str) -> bool:
        options = ["BatchMode=yes", "StrictHostKeyChecking=yes", "ConnectTimeout=60", "IdentitiesOnly=yes"]
        options += [
            f"UserKnownHostsFile={self.known_hosts}",
            "GlobalKnownHostsFile=none",
            "LogLevel=ERROR",
            *more,
        ]
        command = ["ssh", "-F", "none", "-p", str(self.port), "-i", self.key]
        command += [word for option in options for word in ("-o", option)]
        command += [f"{self.user}@{address}", "sh -s"]
        done = subprocess.run(command, input=self.probe.encode(), stdout=subprocess.PIPE, check=False)
        return done.returncode == 0 and done.stdout.rstrip().endswith(LAST_WORD)


def main(way: str, job_file: str) -> None:
    job = Job(**json.loads(Path(job_file).read_text()))
    ways = {
        "paramiko": job.by_paramiko,
        "paramiko-load": job.by_paramiko_load,
        "ssh": job.by_ssh,
        "ssh-curve25519": job.by_ssh_curve25519,
    }
    if way == "paramiko":
        assert job.host_keys  # read before the threads start
    with ThreadPoolExecutor(job.workers) as pool:
        print(sum(pool.map(ways[way], job.addresses)))


if __name__ == "__main__":
    main(*sys.argv[1:])
