"""The command line: options to one call per command; no logic.

Heavy imports (pandas, paramiko, jinja2) are inside the commands, so that `--help` answers at once.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import click

from gpumon_static import __version__
from gpumon_static import config as configuration
from gpumon_static.demo import DEFAULT_DIRECTORY, DEFAULT_HOSTS, DEFAULT_PORT, MOST_GPUS, MOST_HOSTS
from gpumon_static.errors import GpumonError

STRICT_EXIT = 3


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


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
    help="The config file.  [default: $GPUMON_CONFIG, else ./config.ini]",
)


def command(function: Callable[..., Any]) -> click.Command:
    return main.command()(debug_option(function))


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gpumon-static")
@debug_option
def main() -> None:
    """A static page of your lab's GPUs.

    Every five minutes, from cron:  gpumon-static fetch && gpumon-static render

    To see it without any GPU:  gpumon-static demo
    """


@command
@config_option
@click.option("--only", metavar="NODESET", help="Ask only these hosts, keep the others' rows.")
@click.option("--strict", is_flag=True, help=f"Exit with {STRICT_EXIT} when any host failed.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing about hosts that failed.")
@click.option("-v", "--verbose", is_flag=True, help="Tell each host's state and time.")
def fetch(config_path: Path | None, only: str | None, strict: bool, quiet: bool, verbose: bool) -> None:
    """Ask each host over SSH and write load_data.csv.

    A host that does not answer becomes a row with its reason and a line on stderr; the exit status
    is 0 all the same, so that `fetch && render` always renders.
    """
    from gpumon_static.fetch import choose
    from gpumon_static.fetch import fetch as run_fetch
    from gpumon_static.progress import FetchReport

    config = configuration.load(configuration.find(config_path), need_keys=True)
    count = len(choose(config.hosts, only)) if only else len(config.hosts)
    with FetchReport(count, quiet=quiet, verbose=verbose) as report:
        readings = run_fetch(config, clock=_now, only=only, on_reading=report.add)
    if strict and not all(reading.ok for reading in readings):
        raise SystemExit(STRICT_EXIT)


@command
@config_option
def render(config_path: Path | None) -> None:
    """Turn load_data.csv into index.html, one self-contained page."""
    from gpumon_static.render import render as run_render

    config = configuration.load(configuration.find(config_path))
    run_render(config, _now())


@command
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(DEFAULT_DIRECTORY),
    show_default=True,
    help="Where its config.ini, data/ and site/ go.",
)
@click.option(
    "--serve",
    "port",
    metavar="[PORT]",
    type=click.IntRange(0, 65535),
    is_flag=False,
    flag_value=DEFAULT_PORT,
    help=f"Serve the page on 127.0.0.1, fresh until Ctrl-C.  [port: {DEFAULT_PORT}, or a free one]",
)
@click.option(
    "--hosts",
    type=click.IntRange(1, MOST_HOSTS),
    default=DEFAULT_HOSTS,
    show_default=True,
    help="How many.",
)
@click.option("--gpus", type=click.IntRange(1, MOST_GPUS), help="GPUs of each host.  [default: from 1 to 8]")
@click.option("--seed", type=int, default=1, show_default=True, help="Same seed and time, same lab.")
def demo(directory: Path, port: int | None, hosts: int, gpus: int | None, seed: int) -> None:
    """Try it all without any GPU: a lab of SSH hosts on this machine.

    Starts the hosts, then runs the same fetch and render as cron would, over real SSH.
    """
    from gpumon_static.demo.lab import DemoSpec
    from gpumon_static.demo.run import demo as run_demo

    run_demo(DemoSpec(seed, hosts, gpus), directory, clock=_now, say=click.echo, port=port)


def run() -> NoReturn:
    """The console script: errors as a line on stderr, and an exit that waits for no thread."""
    _leave(_run())


def _run() -> int:
    context: dict[str, Any] = {}
    try:
        with main.make_context("gpumon-static", sys.argv[1:]) as click_context:
            context = click_context.meta
            main.invoke(click_context)
    except GpumonError as error:
        _say(str(error), context)
        return error.exit_code
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("gpumon-static: interrupted", err=True)
        return 130
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    except Exception as error:
        _say(f"unexpected {type(error).__name__}: {error} (--debug shows where)", context)
        return 1
    return 0


def _say(message: str, context: dict[str, Any]) -> None:
    if context.get("debug"):
        traceback.print_exc()
    click.echo(f"gpumon-static: {message}", err=True)


def _leave(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    if threading.active_count() > 1:
        # A thread may hang on a dead host for ever; all files are written.
        os._exit(code)
    sys.exit(code)
