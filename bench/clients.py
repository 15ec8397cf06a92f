"""What one would write instead of `gpumon-static fetch`: `python -m bench.clients paramiko|ssh JOB.json`.

Both ask each host for the same and parse nothing. They print how many hosts answered.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

LAST_TAG = b"</nvidia_smi_log>"


@dataclass(frozen=True)
class Job:
    addresses: list[str]
    port: int
    user: str
    key: str
    known_hosts: str
    workers: int
    probe: str

    def by_paramiko(self, address: str) -> bool:
        import paramiko

        client = paramiko.SSHClient()
        client.load_host_keys(self.known_hosts)
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

    def by_ssh(self, address: str) -> bool:
        options = ["BatchMode=yes", "StrictHostKeyChecking=yes", "ConnectTimeout=60", "IdentitiesOnly=yes"]
        options += [f"UserKnownHostsFile={self.known_hosts}", "GlobalKnownHostsFile=none", "LogLevel=ERROR"]
        command = ["ssh", "-F", "none", "-p", str(self.port), "-i", self.key]
        command += [word for option in options for word in ("-o", option)]
        command += [f"{self.user}@{address}", "sh -s"]
        done = subprocess.run(command, input=self.probe.encode(), stdout=subprocess.PIPE, check=False)
        return done.returncode == 0 and LAST_TAG in done.stdout


def main(way: str, job_file: str) -> None:
    job = Job(**json.loads(Path(job_file).read_text()))
    ask = {"paramiko": job.by_paramiko, "ssh": job.by_ssh}[way]
    with ThreadPoolExecutor(job.workers) as pool:
        print(sum(pool.map(ask, job.addresses)))


if __name__ == "__main__":
    main(*sys.argv[1:])
