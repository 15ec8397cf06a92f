"""Files that are never seen half written."""

from __future__ import annotations

import errno
import gzip
import os
import stat
import threading
import time
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path

import pytest

from gpumon_static.errors import GpumonError
from gpumon_static.store.lock import only_one
from gpumon_static.system.files import write_atomic, write_for_web


def test_a_reader_sees_the_old_or_the_new_text_and_nothing_between(tmp_path: Path) -> None:
    path = tmp_path / "page"
    texts = {letter * 300_000 for letter in "ab"}
    write_atomic(path, min(texts))
    seen: set[str] = set()
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            seen.add(path.read_text())

    reader = threading.Thread(target=read)
    reader.start()
    give_up = time.monotonic() + 120
    for number, text in enumerate(cycle(sorted(texts))):
        write_atomic(path, text)
        if number >= 40 and (seen >= texts or time.monotonic() > give_up):
            break
    stop.set()
    reader.join()
    assert seen == texts


def test_a_failed_write_leaves_the_old_text_and_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "page"
    write_atomic(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomic(path, "new \ud800")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["page"]


def test_what_a_killed_run_left_is_cleared_away_later(tmp_path: Path) -> None:
    old, new, other = tmp_path / ".page.x.tmp", tmp_path / ".page.y.tmp", tmp_path / ".else.x.tmp"
    for file in (old, new, other):
        file.write_text("half")
    for file in (old, other):
        os.utime(file, (time.time() - 7200, time.time() - 7200))
    write_atomic(tmp_path / "page", "x")
    assert not old.exists()
    assert new.exists(), "another run may still be writing it"
    assert other.exists(), "it is not ours"


def test_the_mode_follows_the_umask_and_then_stays(tmp_path: Path) -> None:
    path = tmp_path / "page"
    before = os.umask(0o027)
    try:
        write_atomic(path, "x")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        write_atomic(path, "y")
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
    finally:
        os.umask(before)


def test_a_new_directory_is_not_for_everybody_to_write_to(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_atomic(tmp_path / "data/file", "x")
        with only_one(tmp_path / "locks/fetch.lock", datetime(2025, 1, 1, tzinfo=UTC)):
            pass
    finally:
        os.umask(before)
    for name, mode in (("data", 0o755), ("locks", 0o700)):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode


def test_directories_are_made_and_a_symlinked_one_is_followed(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a/b/page", "x")
    (tmp_path / "link").symlink_to(tmp_path / "a/b")
    write_atomic(tmp_path / "link/page", "y")
    assert (tmp_path / "a/b/page").read_text() == "y"


def test_a_rename_that_fails_leaves_no_page_with_a_packed_one_of_another_render(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = [tmp_path / name for name in ("one", "two", "three")]
    write_for_web(dict.fromkeys(pages, "old"))
    replace = Path.replace

    def failing(self: Path, target: Path) -> Path:
        if target == pages[1]:
            raise OSError(errno.EIO, "Input/output error")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    words = f"cannot write {pages[1]}: Input/output error; 3 of 6 files were replaced before it"
    with pytest.raises(GpumonError, match=words):
        write_for_web(dict.fromkeys(pages, "new"))
    assert [page.read_text() for page in pages] == ["new", "old", "old"]
    packed = [page.with_name(f"{page.name}.gz") for page in pages]
    assert [gzip.decompress(p.read_bytes()) if p.exists() else None for p in packed] == [b"new", None, b"old"]
    assert len(list(tmp_path.iterdir())) == 5, "nothing temporary is left"


def test_what_cannot_be_written_is_told_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GpumonError, match=f"cannot write {tmp_path}/file/page"):
        write_atomic(tmp_path / "file/page", "x")
