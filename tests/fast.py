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
    "in_terminal", "kept_lab", "render_only", "subprocess",
}  # fmt: skip
"""What a test or a function of its file calls that starts something, or records runs."""
FOLDERS = (
    "tests/deployment/",
    "tests/fuzz/",
    "tests/torture/",
    "tests/truth/",
    "tests/collect/test_growth.py",
)


def is_slow(item: pytest.Item) -> bool:
    if item.nodeid.startswith(FOLDERS):
        return True
    if not isinstance(item, pytest.Function):
        return False
    if FIXTURES & set(item.fixturenames):
        return True
    info = item._fixtureinfo.name2fixturedefs
    fixtures = [found.func for name in item.fixturenames for found in info.get(name, ())]
    names = set(_called([item.function, *fixtures], vars(item.module)))
    return bool(NAMES & names)


def _called(functions: list[Any], module: dict[str, Any]) -> Iterator[str]:
    """Names in the code of these functions, and of those of the same file that they call."""
    seen, waiting = set(), [one.__code__ for one in map(_plain, functions) if one]
    while waiting:
        code = waiting.pop()
        if code in seen:
            continue
        seen.add(code)
        yield from code.co_names
        waiting += [part for part in code.co_consts if isinstance(part, CodeType)]
        called = (_plain(module.get(name)) for name in code.co_names)
        waiting += [one.__code__ for one in called if one and one.__globals__ is module]


def _plain(function: Any) -> FunctionType | None:
    function = (getattr(function, "hypothesis", None) and function.hypothesis.inner_test) or function
    function = getattr(function, "__wrapped__", function)
    return function if isinstance(function, FunctionType) else None
