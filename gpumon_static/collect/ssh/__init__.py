"""A host's settings come in, the raw output of the probe goes out, or a `HostError` with the reason.

The only room that imports paramiko: connections, host keys, logins, jump hosts, ssh_config. openssh.py does
the same through the `ssh` program. The output is parsed in `probe/` and by the vendors.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType


def _import_when_used(name: str) -> None:
    """Put a stand-in for a module, which imports it at its first use."""
    if name in sys.modules:
        return
    stand_in = sys.modules[name] = ModuleType(name)

    def value_of(attribute: str) -> object:
        if sys.modules.get(name) is stand_in:
            sys.modules.pop(name, None)
        return getattr(importlib.import_module(name), attribute)

    vars(stand_in)["__getattr__"] = value_of


# paramiko imports it, which is a third of its start, and uses it for `Match exec` only.
_import_when_used("invoke")
