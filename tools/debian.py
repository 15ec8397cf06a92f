"""Build a Debian package with plain dpkg-deb: `python -m tools.debian DIRECTORY [VERSION]`.

The program and all it depends on are a virtual environment in /usr/lib/gpumon-static, for the Python of this
Debian release. Account, directories and timer are those of docs/deploy.md; the timer is not started, since
the config names no real hosts yet.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from gpumon_static import __version__
from gpumon_static.commands.init import Answers, config_text
from gpumon_static.deployment import UNITS
from gpumon_static.deployment.files import text_of
from gpumon_static.deployment.installation import Installation
from gpumon_static.store.files import DATA_PATTERNS, SITE
from tools import man_pages

CHECKOUT = Path(__file__).parents[1]
PYTHON = "/usr/bin/python3"
VENV = Path("/usr/lib/gpumon-static")
INSTALLED = Installation(program=Path("/usr/bin/gpumon-static"))
EXAMPLES = {
    "crontab": "crontab",
    "nginx": "nginx.conf",
    "caddy": "Caddyfile",
    "authorized_keys": "authorized_keys",
}


def main() -> None:
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as name:
        root = Path(name) / "root"
        write_venv(root)
        print(build(root, directory, sys.argv[2] if len(sys.argv) > 2 else __version__))


def build(root: Path, directory: Path, version: str) -> Path:
    """The package of a tree that has the virtual environment."""
    architecture = _output("dpkg", "--print-architecture")
    for path, text in (files() | control_files(version, architecture, python_minor())).items():
        target = root / path.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else text.encode())
        is_script = path.parent.name == "DEBIAN" and path.name in ("postinst", "prerm", "postrm")
        target.chmod(0o755 if is_script else 0o644)
    program = root / "usr/bin/gpumon-static"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.unlink(missing_ok=True)
    program.symlink_to("../lib/gpumon-static/bin/gpumon-static")
    package = directory / f"gpumon-static_{version}_{architecture}.deb"
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", root, package],
        check=True,
        capture_output=True,
    )
    return package


def write_venv(root: Path) -> None:
    """The virtual environment as it will be: nothing in it names the directory in which it was made."""
    venv = root / VENV.relative_to("/")
    subprocess.run([PYTHON, "-m", "venv", venv], check=True)
    pip = [str(venv / "bin/python3"), "-m", "pip"]
    subprocess.run([*pip, "install", "--quiet", "--no-compile", str(CHECKOUT)], check=True)
    subprocess.run([*pip, "uninstall", "--quiet", "--yes", "setuptools", "pip"], check=True)
    shutil.rmtree(venv / "share", ignore_errors=True)
    for path in (venv / "bin").iterdir():
        if path.name.lower().startswith("activate"):
            path.unlink()
    for path in [venv / "pyvenv.cfg", *(venv / "bin").iterdir()]:
        if not path.is_symlink():
            path.write_bytes(path.read_bytes().replace(str(root).encode(), b""))
    compile_all = [PYTHON, "-m", "compileall", "-q", "-s", str(root), "-p", "/", str(venv / "lib")]
    subprocess.run(compile_all, check=True)


def files() -> dict[Path, str | bytes]:
    """Everything but the virtual environment and the files of dpkg."""
    documents = Path("/usr/share/doc/gpumon-static")
    answers = Answers(
        "gpu01.lab.example", user=INSTALLED.account, site=str(INSTALLED.site), data=str(INSTALLED.data)
    )
    found: dict[Path, str | bytes] = {
        INSTALLED.config: config_text(answers),
        documents / "copyright": (CHECKOUT / "LICENSE").read_text(),
        documents / "changelog.gz": gzip.compress((CHECKOUT / "CHANGELOG.md").read_bytes(), mtime=0),
    }
    found |= {Path("/lib/systemd/system") / unit: text_of(unit, INSTALLED) for unit in UNITS}
    found |= {documents / "examples" / name: text_of(what, INSTALLED) for what, name in EXAMPLES.items()}
    manual = Path("/usr/share/man/man1")
    return found | {
        manual / f"{name}.gz": gzip.compress(text.encode(), mtime=0)
        for name, text in man_pages.pages().items()
    }


def control_files(version: str, architecture: str, minor: int) -> dict[Path, str]:
    texts = {
        "control": CONTROL.format(version=version, architecture=architecture, minor=minor, next=minor + 1),
        "conffiles": f"{INSTALLED.config}\n",
        "postinst": POSTINST,
        "prerm": PRERM,
        "postrm": POSTRM,
    }
    values = {
        "account": INSTALLED.account,
        "home": INSTALLED.home,
        "site": INSTALLED.site,
        "venv": VENV,
        "data_files": " ".join(DATA_PATTERNS),
        "site_files": " ".join(f"{name} {name}.gz" for name in SITE),
    }
    for name, value in values.items():
        texts = {file: text.replace(f"@{name}@", str(value)) for file, text in texts.items()}
    return {Path("/DEBIAN") / name: text for name, text in texts.items()}


def python_minor() -> int:
    return int(_output(PYTHON, "-c", "import sys; print(sys.version_info.minor)"))


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


CONTROL = """\
Package: gpumon-static
Version: {version}
Architecture: {architecture}
Maintainer: gpumon-static maintainers <root@localhost>
Section: net
Priority: optional
Depends: python3 (>= 3.{minor}), python3 (<< 3.{next}), adduser
Recommends: openssh-client
Suggests: nginx | caddy
Description: static page of a lab's GPUs, read over SSH
 Every five minutes it reads each GPU host over SSH and writes one
 self-contained page with green and red GPU cards: what is free, who holds
 what, and what is broken. Any web server can serve it.
"""

POSTINST = """\
#!/bin/sh
set -e
if [ "$1" = configure ]; then
  if ! getent passwd @account@ >/dev/null; then
    adduser --quiet --system --group --home @home@ --shell /bin/sh @account@
  fi
  install -d -o @account@ -g @account@ @site@
  if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    # After an upgrade: the timer goes by its new schedule. Where it does not run, it is not started.
    systemctl try-restart gpumon-static.timer
  fi
  if [ -z "$2" ]; then
    echo "gpumon-static: name your hosts in /etc/gpumon-static/config.ini, then:"
    echo "  su @account@ -c 'gpumon-static check -c /etc/gpumon-static/config.ini'"
    echo "  systemctl enable --now gpumon-static.timer"
  fi
fi
"""

PRERM = """\
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  systemctl disable --quiet --now gpumon-static.timer || true
  systemctl stop gpumon-static.service || true
fi
find @venv@ -name __pycache__ -prune -exec rm -rf '{}' +
"""

# Purged are the files that the program made, by their names; a key that somebody put there, or a page, stays.
POSTRM = """\
#!/bin/sh
set -e
if [ "$1" = purge ]; then
  (cd @home@/data 2>/dev/null && rm -rf @data_files@) || true
  (cd @site@ 2>/dev/null && rm -f @site_files@ reports/[0-9][0-9][0-9][0-9]-[0-9][0-9].html*) || true
  for directory in @site@/reports @site@ @home@/data @home@; do
    rmdir --ignore-fail-on-non-empty "$directory" 2>/dev/null || true
  done
  if [ -d @home@ ]; then
    echo "gpumon-static: @home@ and its account stay: there are files in it"
  elif command -v deluser >/dev/null; then
    deluser --quiet --system @account@ || true
  fi
fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
"""

if __name__ == "__main__":
    main()
