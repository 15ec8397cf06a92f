"""The data directory is the collector's alone: nobody else on the machine reads it, or stops a run."""

from __future__ import annotations

import fcntl
import grp
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gpumon_static.check import surroundings
from gpumon_static.check.findings import Finding
from gpumon_static.config.file import load
from gpumon_static.errors import AlreadyRunning, GpumonError
from gpumon_static.store.lock import only_one
from gpumon_static.store.private import make_private
from tests.command import PROGRAM, gpumon

NOBODY = 65534
NOW = datetime(2025, 1, 1, 12, tzinfo=UTC)
FILES = ["events.json", "fetch.lock", "load_data.csv", "pseudonyms.key", "site-files.json", "slurm.json"]
OF_HISTORY = "history/last.parquet"

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user"),
    pytest.mark.usefixtures("home"),
]


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that others may enter, which pytest's own they may not."""
    with TemporaryDirectory(prefix="gpumon-private-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        set_up(directory)
        yield directory


def set_up(directory: Path, paths: str = "") -> None:
    site = "[site]\nusers = 'pseudonyms'\n[slurm]\nhost = '127.0.0.2:1'\n"
    (directory / "config.ini").write_text(f"[common]\nhosts = ['127.0.0.1:1']\n{site}[paths]\n{paths}")


def run(directory: Path, umask: int = 0o022) -> str:
    """fetch and render; what they said, but for the host that is not there."""
    said = ""
    for name in ("fetch", "render"):
        done = subprocess.run(
            [*PROGRAM, name], cwd=directory, umask=umask, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        said += done.stderr
    return "".join(line for line in said.splitlines(True) if ": refused" not in line)


def modes(data: Path) -> dict[str, int]:
    """By name, but for the history: it has the mode of its folders, which is also that of its files."""
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [data, *data.iterdir()]}
    for path in (data / "history").rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == found["history"] & (0o777 if path.is_dir() else 0o666), path
    return found


def as_nobody(script: str, *groups: int, first: str = "") -> str:
    """A Python script as another user of the machine: what it printed, or the error it ended with. `first`: as root."""
    program = f"""
import os
import duckdb
from pathlib import Path
import duckdb
from gpumon_static.config.file import load
from gpumon_static.store import snapshot
from gpumon_static.store.history.notes import FolderNotes
from gpumon_static.store.history.reader import ask
from gpumon_static.store.private import make_private
from gpumon_static.store.slurm import slurm_file
{first}
os.setgroups({list(groups)})
os.setgid({NOBODY})
os.setuid({NOBODY})
{script}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else done.stderr.splitlines()[-1]


@pytest.mark.parametrize("umask", [0, 0o077])
def test_what_is_made_is_for_the_collector_only(folder: Path, umask: int) -> None:
    assert run(folder, umask) == ""
    assert run(folder, umask) == ""
    assert modes(folder / "data") == {"data": 0o700, "history": 0o700} | dict.fromkeys(FILES, 0o600)


def test_the_site_stays_for_everybody(folder: Path) -> None:
    run(folder)
    assert stat.S_IMODE((folder / "site").stat().st_mode) == 0o755
    assert {stat.S_IMODE(path.stat().st_mode) for path in (folder / "site").iterdir()} == {0o644}
    assert "<h1>" in as_nobody(f"print(Path('{folder}/site/index.html').read_text())")


def test_another_user_can_neither_list_nor_read_nor_lock(folder: Path) -> None:
    run(folder)
    data = folder / "data"
    denied = "PermissionError: [Errno 13] Permission denied: "
    assert as_nobody(f"os.listdir('{data}')") == f"{denied}'{data}'"
    for name in (*FILES, OF_HISTORY):
        assert as_nobody(f"open('{data / name}')") == f"{denied}'{data / name}'"
        # Nor if the directory has to be open, for what else is in it.
        data.chmod(0o755)
        assert as_nobody(f"open('{data / name}')") == f"{denied}'{data / name}'"
        data.chmod(0o700)


def test_another_user_is_told_who_may_read(folder: Path) -> None:
    run(folder)
    data = folder / "data"
    words = "it is for the user who runs fetch, and for the group that paths.data_group names"
    for mode in (0o700, 0o755):
        data.chmod(mode)
        told = as_nobody(f"snapshot.read(Path('{data}/load_data.csv'))")
        assert told == f"gpumon_static.errors.GpumonError: cannot read {data}/load_data.csv: {words}"
        told = as_nobody(f"ask(Path('{data}/history'), lambda reader: reader.newest_run())")
        assert told.endswith(f"HistoryError: cannot open {data}/history: {words}")


def test_the_files_of_the_first_release_are_fixed_and_that_is_said_once(folder: Path) -> None:
    run(folder)
    data = folder / "data"
    for path in data.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (data / "notes.txt").write_text("not ours")
    (data / "notes.txt").chmod(0o644)
    data.chmod(0o755)
    said = run(folder)
    assert said.startswith(
        f"gpumon-static: other users could read or lock {data}, events.json, fetch.lock, history,"
    )
    assert said.endswith("load_data.csv, pseudonyms.key, site-files.json, slurm.json: fixed\n")
    assert modes(data) == {"data": 0o700, "history": 0o700, "notes.txt": 0o644} | dict.fromkeys(FILES, 0o600)
    assert run(folder) == ""


def test_a_history_that_a_restore_put_aside_is_private_too(folder: Path) -> None:
    aside = folder / "data/history.before-20250101T000000"
    aside.mkdir(parents=True)
    (aside / "last.parquet").write_text("")
    aside.chmod(0o755)
    said: list[str] = []
    make_private(load(folder / "config.ini"), said.append)
    assert f"{aside.name}: fixed" in said[0]
    assert [stat.S_IMODE(path.stat().st_mode) for path in (aside, aside / "last.parquet")] == [0o700, 0o600]


def test_what_is_not_ours_is_left_alone_and_check_names_the_command(folder: Path) -> None:
    run(folder)
    data = folder / "data"
    (data / "load_data.csv").chmod(0o604)
    os.chown(data / "load_data.csv", NOBODY, NOBODY)
    data.chmod(0o751)
    os.chown(data, NOBODY, NOBODY)
    said: list[str] = []
    make_private(load(folder / "config.ini"), said.append)
    assert said == []
    found = finding(folder)
    assert found.message == f"other users can read or lock data, load_data.csv in {data}"
    commands = [f"chmod 700 {data}", f"chmod 600 {data}/load_data.csv"]
    assert list(map(str, found.next)) == [f"as root:  {command}" for command in commands]
    for command in commands:
        subprocess.run(command.split(), check=True)
    assert [f.mark for f in findings(folder)] == ["ok"]


def findings(folder: Path) -> list[Finding]:
    config = load(folder / "config.ini")
    found = [f for f in surroundings.look(config, config.hosts, now=NOW) if f.step == "data"]
    return [f for f in found if "and this is a check by root" not in f.message]


def finding(folder: Path) -> Finding:
    _, found = findings(folder)
    return found


def test_a_link_to_another_disk_is_followed_and_its_target_left_as_it_is(folder: Path) -> None:
    (folder / "disk").mkdir()
    (folder / "data").mkdir(mode=0o700)
    (folder / "disk").chmod(0o755)
    (folder / "data/history").symlink_to(folder / "disk")
    assert run(folder) == ""
    assert (folder / "disk/last.parquet").exists()
    assert (folder / "data/history").is_symlink()
    assert stat.S_IMODE((folder / "disk").stat().st_mode) == 0o755


@pytest.mark.parametrize(
    ("paths", "data"),
    [("data = '.'\n", "."), ("data = 'all'\nsite = 'all/site'\n", "all")],
)
def test_a_directory_that_holds_the_site_or_the_config_too_stays_open(
    folder: Path, paths: str, data: str
) -> None:
    set_up(folder, paths)
    assert run(folder) == ""
    assert stat.S_IMODE((folder / data).stat().st_mode) == 0o755
    site = load(folder / "config.ini").paths.site
    assert "<h1>" in as_nobody(f"print(Path('{site}/index.html').read_text())")
    for name in (*FILES, OF_HISTORY):
        assert as_nobody(f"open('{folder / data / name}')").startswith("PermissionError")


def test_what_root_makes_in_the_collectors_directory_is_the_collectors(folder: Path) -> None:
    (folder / "data").mkdir(mode=0o700)
    os.chown(folder / "data", NOBODY, NOBODY)
    run(folder)
    assert {path.stat().st_uid for path in (folder / "data").rglob("*")} == {NOBODY}


# paths.data_group


@pytest.fixture
def group() -> grp.struct_group:
    return grp.getgrnam("www-data")


def test_members_of_the_group_may_read_and_others_may_not(folder: Path, group: grp.struct_group) -> None:
    set_up(folder, "data_group = 'www-data'\n")
    assert run(folder) == ""
    assert run(folder) == ""
    data = folder / "data"
    assert modes(data) == {"data": 0o750, "history": 0o750} | dict.fromkeys(FILES, 0o640)
    assert {path.stat().st_gid for path in [data, *data.rglob("*")]} == {group.gr_gid}
    script = f"""
print(len(snapshot.read(Path("{data}/load_data.csv"))))
print(len(FolderNotes.read(Path("{data}/history")).runs))
print(ask(Path("{data}/history"), lambda reader: len(reader.files)))
print([report.name for report in slurm_file.read(Path("{data}/slurm.json"))])
"""
    assert as_nobody(script, group.gr_gid) == "1\n2\n2\n['Slurm on 127.0.0.2']\n"
    assert as_nobody(f"os.listdir('{data}')").startswith("PermissionError")
    assert as_nobody(f"open('{data}/fetch.lock', 'r+')", group.gr_gid).startswith("PermissionError")
    assert findings(folder)[1:] == []


def test_without_the_group_again_it_is_for_the_owner_only(folder: Path) -> None:
    set_up(folder, "data_group = 'www-data'\n")
    run(folder)
    set_up(folder)
    assert "fixed" in run(folder)
    assert modes(folder / "data") == {"data": 0o700, "history": 0o700} | dict.fromkeys(FILES, 0o600)


def test_a_group_that_is_not_there_is_told_and_nobody_gets_in(folder: Path) -> None:
    set_up(folder, "data_group = 'no-such-group'\n")
    assert "paths.data_group: there is no group 'no-such-group'\n" in run(folder)
    assert modes(folder / "data") == {"data": 0o700, "history": 0o700} | dict.fromkeys(FILES, 0o600)
    found = finding(folder)
    assert (found.mark, [*map(str, found.next)]) == ("failed", ["as root:  groupadd no-such-group"])


def test_a_collector_that_is_no_member_is_told_what_root_has_to_do(
    folder: Path, group: grp.struct_group
) -> None:
    set_up(folder, "data_group = 'www-data'\n")
    data = folder / "data"
    data.mkdir(mode=0o750)
    os.chown(data, NOBODY, NOBODY)
    first, script = f"config = load(Path('{folder}/config.ini'))", "make_private(config, print)"
    command = f"chgrp -R www-data {data} && chmod g+rxs {data}"
    told = as_nobody(script, first=first).splitlines()
    assert told == [
        f"paths.data_group: {data} does not belong to group www-data; then as root: {command}",
        f"other users could read or lock {data}: fixed",
    ]
    assert [*map(str, finding(folder).next)] == [f"as root:  {command}"]
    subprocess.run(command, shell=True, check=True)
    assert as_nobody(script, first=first) == ""
    assert stat.S_IMODE(data.stat().st_mode) == 0o2750
    assert as_nobody(f"Path('{data}/x').write_text('')") == ""
    assert (data / "x").stat().st_gid == group.gr_gid


# The lock


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00garbage",
        b"9" * 5_000_000,
        b"1 2 3\n",
        b"x 2025-11-14\n",
        b"12 2025-11-14T09:00:00\n",
    ],
)
def test_whatever_stands_in_the_lock_it_works(tmp_path: Path, content: bytes) -> None:
    lock = tmp_path / "fetch.lock"
    lock.write_bytes(content)
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(AlreadyRunning, match=r"^another fetch is running") as caught, only_one(lock, NOW):
            pass
    assert len(str(caught.value)) < 100
    with only_one(lock, NOW):
        assert lock.read_text() == f"{os.getpid()} 2025-01-01T12:00:00+00:00\n"


@pytest.mark.parametrize("kind", ["directory", "pipe", "link"])
def test_a_lock_that_is_no_file_is_an_error_in_words(tmp_path: Path, kind: str) -> None:
    lock = tmp_path / "data/fetch.lock"
    lock.parent.mkdir(mode=0o700)
    precious = tmp_path / "precious"
    precious.write_text("not to be emptied")
    if kind == "directory":
        lock.mkdir()
    elif kind == "pipe":
        os.mkfifo(lock)
    else:
        lock.symlink_to(precious)
    with pytest.raises(GpumonError, match=f"the lock {lock} is not a file: remove it"), only_one(lock, NOW):
        pass
    assert precious.read_text() == "not to be emptied"


def test_check_shows_it_to_a_user(folder: Path) -> None:
    run(folder)
    for name in ("last.parquet", "notes.json"):
        (folder / "data/history" / name).chmod(0o644)
    report = json.loads(gpumon("check", "--json", cwd=folder).stdout)
    told = [f["told"] for f in report["surroundings"] if f["mark"] == "warning"]
    assert f"other users can read or lock history in {folder}/data" in told
