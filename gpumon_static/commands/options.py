"""What the commands have in common: their options, and the time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpumon_static.times import parse_duration
from gpumon_static.times import utc_now as now

if TYPE_CHECKING:
    from gpumon_static.config.settings import Config

__all__ = ["command", "config_option", "debug_option", "exclusive", "load_config", "moment", "now"]


def _remember_debug(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        context.find_root().meta["debug"] = True


debug_option = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    callback=_remember_debug,
    help="Show the traceback of an error.",
)
config_option = click.option(
    "-c",
    "--config",
    "config_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The config file.  [default: $GPUMON_CONFIG, ./config.ini, then that of the user and of /etc]",
)


def moment(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    """`30d` or a date to seconds since 1970."""
    if value is None:
        return None
    try:
        return int(now().timestamp()) - parse_duration(value)
    except ValueError as error:
        try:
            return int(datetime.fromisoformat(value).astimezone().timestamp())
        except (ValueError, OverflowError):
            raise click.BadParameter(f"{error}, nor a date such as 2025-11-14") from None


def exclusive(**given: bool) -> None:
    """Refuse flags that are given together."""
    named = [f"--{name}" for name, is_given in given.items() if is_given]
    if len(named) > 1:
        raise click.UsageError(f"{' and '.join(named)} exclude each other")


def command(function: Callable[..., Any]) -> click.Command:
    return click.command()(debug_option(function))


def load_config(
    path: Path | None, *, need_keys: bool = False, instead: str = "", tolerate: bool = False
) -> Config:
    """The config that a command works with. `instead`: what it can do without one, for the error."""
    # Half of what --help would cost, which needs none.
    from gpumon_static.config import file

    return file.load(file.find(path, instead), need_keys=need_keys, tolerate=tolerate)
