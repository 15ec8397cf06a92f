"""`gpufree`: commands/gpufree.py and the modules that it imports, as one file that Python runs.

The same bytes each time: the times of the files in it are fixed.
"""

from __future__ import annotations

import io
import zipfile
from functools import cache
from pathlib import Path

NAME = "gpufree"
MODULES = (
    "__init__.py",
    "bounds/__init__.py",
    "bounds/vendors.py",
    "commands/__init__.py",
    "commands/gpufree.py",
    "errors.py",
    "text.py",
    "times.py",
    "survey/__init__.py",
    "survey/offers.py",
    "survey/slurm/__init__.py",
    "survey/slurm/when.py",
    "system/__init__.py",
    "system/command.py",
    "terminal/__init__.py",
    "terminal/amounts.py",
    "terminal/free.py",
    "terminal/source.py",
)
"""None of them imports anything but these and the standard library."""
LEAST_PYTHON = (3, 9)
MAIN = """\
import sys
if sys.version_info < {least}:
    sys.exit("gpufree: needs Python {words} or newer, and this is " + sys.version.split()[0] +
             "; free.txt beside the page has the free GPUs for curl")
from gpumon_static.commands.gpufree import main
sys.exit(main({url!r}))
"""


@cache
def gpufree(url: str) -> bytes:
    """`url`: the address of the page, or an empty text where the config has none."""
    package = Path(__file__).parents[2]
    words = ".".join(map(str, LEAST_PYTHON))
    texts = {"__main__.py": MAIN.format(least=LEAST_PYTHON, words=words, url=url).encode()}
    texts |= {f"gpumon_static/{name}": (package / name).read_bytes() for name in MODULES}
    file = io.BytesIO()
    file.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in texts.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, content)
    return file.getvalue()
