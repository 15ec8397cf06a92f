"""Groups of ClusterShell in the list of hosts: `@gpu`, `@slurm:gpu-partition`.

groups.conf and groups.d say where they come from: files, or commands such as sinfo. They are asked each time
that a config is read.
"""

from __future__ import annotations

import re
import threading

from gpumon_static.config.hostlist import MOST_HOSTS, MOST_LETTERS, BadHost
from gpumon_static.text import clip, one_line

SECONDS = 30.0
"""For the command of a group's source; ClusterShell itself waits for ever."""
_GROUP = re.compile(r"@[\w.%+-]+(?::[\w.%+-]+)?")


def expand_group(text: str) -> list[str]:
    """Raises `BadHost` where the group cannot be resolved, or is empty."""
    if not _GROUP.fullmatch(text):
        raise BadHost(f"{clip(repr(text), MOST_LETTERS)} is not a group such as '@gpu' or '@slurm:gpu'")
    found: list[list[str] | BadHost] = []
    thread = threading.Thread(target=lambda: found.append(_resolved(text)), daemon=True)
    thread.start()
    thread.join(SECONDS)
    if not found:
        raise BadHost(f"group {text!r}: its source did not answer within {SECONDS:g} s")
    if isinstance(found[0], BadHost):
        raise found[0]
    return found[0]


def _resolved(text: str) -> list[str] | BadHost:
    from ClusterShell.NodeSet import NodeSet

    try:
        nodes = NodeSet(text)
    except Exception as error:
        # Of ClusterShell, of its files, or of the command of a source.
        reason = one_line(str(error), MOST_LETTERS) or type(error).__name__
        if type(error).__name__ == "GroupResolverSourceError":
            reason = f"no source {reason!r} in groups.conf"
        return BadHost(f"group {text!r} cannot be resolved: {reason}")
    if not nodes:
        return BadHost(f"group {text!r} cannot be resolved: ClusterShell knows no host in it")
    if len(nodes) > MOST_HOSTS:
        return BadHost(f"group {text!r} is {len(nodes)} hosts; {MOST_HOSTS} is the most")
    return [str(node) for node in nodes]
