"""What one would write instead of `gpumon-static fetch`: `python -m bench.clients WAY JOB.json`.

Each way asks the hosts for the same, parses nothing and prints how many answered.

paramiko           an SSHClient per host; known_hosts is read once
paramiko-load      the same, but each client reads known_hosts, as paramiko's examples do
asyncssh           asyncssh on one event loop, with its own key exchange, as gpustat-web asks
asyncssh-curve25519  the same, with the key exchange that paramiko takes
ancestor           one host after the other; a connection for nvidia-smi, and one for each PID's owner
ssh                the ssh program, which takes a post-quantum key exchange: most of its cost
ssh-curve25519     the ssh program with the key exchange that paramiko takes
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import paramiko

SMI, PS = "nvidia-smi -q -x", "ps -eo pid,uid,etime,stat,user:32,comm"
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
        self._connect(client, address)
        try:
            xml = client.exec_command(SMI)[1].read()
            processes = client.exec_command(PS)[1].read()
        finally:
            client.close()
        return LAST_TAG in xml and b"PID" in processes

    def _connect(self, client: paramiko.SSHClient, address: str) -> None:
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

    def by_ancestor(self, address: str) -> bool:
        xml = self._connected(address, SMI)
        pids = re.findall(rb"<pid>(\d+)</pid>", xml)
        owners = [self._connected(address, f"ps -o user= -p {pid.decode()}") for pid in pids]
        return LAST_TAG in xml and len(owners) == len(pids)

    def _connected(self, address: str, command: str) -> bytes:
        import paramiko

        client = paramiko.SSHClient()
        client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
        self._connect(client, address)
        try:
            return client.exec_command(command)[1].read()
        finally:
            client.close()

    async def by_asyncssh(self, address: str, known_hosts: object, **more: object) -> bool:
        import asyncssh

        async with asyncssh.connect(
            address,
            self.port,
            username=self.user,
            client_keys=[self.key],
            known_hosts=known_hosts,
            agent_path=None,
            config=None,
            **more,
        ) as connection:
            xml = await connection.run(SMI, encoding=None)
            processes = await connection.run(PS, encoding=None)
        return LAST_TAG in (xml.stdout or b"") and b"PID" in (processes.stdout or b"")

    async def all_by_asyncssh(self, **more: object) -> int:
        import asyncssh

        places, known_hosts = asyncio.Semaphore(self.workers), asyncssh.read_known_hosts(self.known_hosts)

        async def ask(address: str) -> bool:
            async with places:
                return await self.by_asyncssh(address, known_hosts, **more)

        return sum(await asyncio.gather(*map(ask, self.addresses)))

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
        "ancestor": job.by_ancestor,
        "ssh": job.by_ssh,
        "ssh-curve25519": job.by_ssh_curve25519,
    }
    if way.startswith("asyncssh"):
        more = {"kex_algs": "curve25519-sha256"} if way.endswith("curve25519") else {}
        print(asyncio.run(job.all_by_asyncssh(**more)))
        return
    if way == "paramiko":
        assert job.host_keys  # read before the threads start
    with ThreadPoolExecutor(1 if way == "ancestor" else job.workers) as pool:
        print(sum(pool.map(ways[way], job.addresses)))


if __name__ == "__main__":
    main(*sys.argv[1:])
