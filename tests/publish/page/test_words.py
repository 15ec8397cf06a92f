"""Numbers, durations and times as the page writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from gpumon_static import text, times
from gpumon_static.publish.page import words


def test_n2_comes_before_n10_and_names_before_longer_names() -> None:
    names = ["n10", "n2", "gpu-b", "gpu", "N1", "10.0.0.2", "n10.lab", "9.0.0.1"]
    expected = ["9.0.0.1", "10.0.0.2", "gpu", "gpu-b", "N1", "n2", "n10", "n10.lab"]
    assert sorted(names, key=text.natural_key) == expected


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0, "0 s"),
        (-5, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (3 * 3600 + 1799, "3 h"),
        (86399, "23 h"),
        (86400, "1 d"),
        (2 * 86400 + 4 * 3600, "2 d 4 h"),
        (9 * 86400 + 23 * 3600 + 3599, "9 d 23 h"),
        (123 * 86400 + 5 * 3600, "123 d"),
    ],
)
def test_duration(seconds: float | None, text: str) -> None:
    assert times.duration(seconds) == text


@pytest.mark.parametrize(
    ("mib", "text"),
    [
        (None, "–"),
        (0, "0 GB"),
        (4, "4 MB"),
        (99, "99 MB"),
        (103, "0.1 GB"),
        (1024, "1.0 GB"),
        (9.94 * 1024, "9.9 GB"),
        (9.96 * 1024, "10 GB"),
        (46068, "45 GB"),
        (81920, "80 GB"),
    ],
)
def test_memory(mib: float | None, text: str) -> None:
    assert str(words.memory(mib)) == text


@pytest.mark.parametrize(
    ("used", "total", "text"),
    [
        (None, None, "–"),
        (None, 81920, "– / 80 GB"),
        (4, 81920, "0 / 80 GB"),
        (4, None, "0 / – GB"),
        (410, 8192, "0.4 / 8.0 GB"),
        (72704, 81920, "71 / 80 GB"),
    ],
)
def test_memory_in_use(used: float | None, total: float | None, text: str) -> None:
    assert str(words.memory_of(used, total)) == text


@pytest.mark.parametrize(
    ("part", "whole", "percent"),
    [(None, 100, None), (5, None, None), (5, 0, None), (0, 80, 0), (40, 80, 50), (99, 80, 100), (-3, 80, 0)],
)
def test_a_bar_is_never_emptier_than_empty_or_fuller_than_full(
    part: float | None, whole: float | None, percent: int | None
) -> None:
    assert words.share(part, whole) == percent


def test_a_time_is_written_in_utc_whatever_the_zone_of_the_collector() -> None:
    lab = timezone(timedelta(hours=9), "JST")
    read = datetime(2025, 11, 14, 23, 5, tzinfo=UTC)
    moment = words.moment(read, datetime(2025, 11, 15, 8, 10, tzinfo=lab), 15 * 60)
    assert (moment.text, moment.iso, moment.is_old) == (
        "14 Nov 2025, 23:05 UTC",
        "2025-11-14T23:05:00+00:00",
        False,
    )


@pytest.mark.parametrize(("minutes", "is_old"), [(0, False), (15, False), (16, True), (4320, True)])
def test_a_time_is_old_after_the_limit(minutes: int, is_old: bool) -> None:
    now = datetime(2025, 11, 14, 9, 0, tzinfo=UTC)
    moment = words.moment(now - timedelta(minutes=minutes), now, 15 * 60)
    assert moment.is_old is is_old


def test_long_text_is_cut_with_an_ellipsis() -> None:
    assert text.clip("abcdef", 6) == "abcdef"
    assert text.clip("abcdefg", 6) == "abcde…"
    assert text.clip("abcd efg", 6) == "abcd…"
