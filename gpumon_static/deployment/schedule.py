"""The seconds between two runs as cron and as a systemd timer write them."""

from __future__ import annotations

from gpumon_static.errors import UsageError

MINUTE, HOUR, DAY = 60, 3600, 86400


def cron_schedule(seconds: int) -> str:
    """`*/5 * * * *`; cron begins anew each hour and each day, so that not every interval can be written."""
    minutes, hours = seconds // MINUTE, seconds // HOUR
    if seconds == MINUTE:
        return "* * * * *"
    if seconds % MINUTE == 0 and minutes < 60 and 60 % minutes == 0:
        return f"*/{minutes} * * * *"
    if seconds % HOUR == 0 and 24 % hours == 0:
        return "0 * * * *" if hours == 1 else "0 0 * * *" if hours == 24 else f"0 */{hours} * * *"
    raise UsageError(
        f"cron cannot run a job every {words(seconds)}; set site.interval to a number of minutes that"
        " divides an hour, or use the systemd timer"
    )


def timer_lines(seconds: int) -> str:
    """The lines of `[Timer]`: by the clock where the interval divides an hour or a day."""
    if seconds % HOUR == 0 and DAY % seconds == 0:
        return f"OnCalendar=*-*-* 00{f'/{seconds // HOUR}' if seconds < DAY else ''}:00:00"
    if seconds % MINUTE == 0 and HOUR % seconds == 0:
        return f"OnCalendar=*:0/{seconds // MINUTE}"
    return f"OnActiveSec=5s\nOnUnitActiveSec={seconds}s"


def words(seconds: int) -> str:
    """`5 minutes`"""
    unit, name = next(
        (unit, name)
        for unit, name in ((HOUR, "hour"), (MINUTE, "minute"), (1, "second"))
        if seconds % unit == 0
    )
    count = seconds // unit
    return name if count == 1 else f"{count} {name}s"
