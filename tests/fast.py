"""Which tests `make test-fast` leaves out: those that need a browser, a server, a process or a recorded history."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

import pytest

FIXTURES = {"chromium", "gpu_hosts", "site", "wheels"}
"""A browser, sshd, a web server, an environment to install into."""
NAMES = {
    "CliRunner", "DemoCluster", "HistoryLab", "PROGRAM", "PastLab", "Popen", "Sandbox", "TCPServer", "Terminal", "gpumon", "gpumon_with",
    "demo_history", "fetch", "in_terminal", "keep", "kept_lab", "open_engine", "record", "render_only", "subprocess",
}  # fmt: skip
"""What a test or a function of its file calls that starts something, or records runs."""
FOLDERS = (
    "tests/bounds/test_budget.py", "tests/bounds/test_gate_outputs.py", "tests/collect/test_engines.py", "tests/collect/test_growth.py",
    "tests/demo/", "tests/deployment/", "tests/fuzz/", "tests/publish/page/test_split.py", "tests/store/history/",
    "tests/store/test_clock.py", "tests/store/test_private.py", "tests/terminal/test_top.py", "tests/torture/", "tests/truth/",
)  # fmt: skip
"""Many cases each, or processes and runs that the tests themselves do not name."""


def is_slow(item: pytest.Item) -> bool:
    if item.nodeid.startswith(FOLDERS):
        return True
    if not isinstance(item, pytest.Function):
        return False
    if FIXTURES & set(item.fixturenames):
        return True
    info = item._fixtureinfo.name2fixturedefs
    fixtures = [found.func for name in item.fixturenames for found in info.get(name, ())]
    return not NAMES.isdisjoint(_called([item.function, *fixtures]))


def _called(functions: list[Any]) -> Iterator[str]:
    """Names in the code of these functions, and of those of ours that they call."""
    seen: set[CodeType] = set()
    waiting = [(one.__code__, one.__globals__) for one in map(_plain, functions) if one]
    while waiting:
        code, names = waiting.pop()
        if code in seen:
            continue
        seen.add(code)
        yield from code.co_names
        waiting += [(part, names) for part in code.co_consts if isinstance(part, CodeType)]
        called = (_plain(names.get(name)) for name in code.co_names)
        waiting += [
            (one.__code__, one.__globals__) for one in called if one and one.__module__[:6] == "tests."
        ]


def _plain(function: Any) -> FunctionType | None:
    function = (getattr(function, "hypothesis", None) and function.hypothesis.inner_test) or function
    function = getattr(function, "__wrapped__", function)
    return function if isinstance(function, FunctionType) else None
