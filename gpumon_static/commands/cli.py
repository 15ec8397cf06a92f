"""The main commands and the group of all: options to one call per command; no logic."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from gpumon_static import __version__
from gpumon_static.commands import cli_terminal
from gpumon_static.commands.cli_history import history, report
from gpumon_static.commands.cli_sql import sql
from gpumon_static.commands.options import config_option, debug_option, load_config
from gpumon_static.commands.options import now as _now
from gpumon_static.demo import (
    DEFAULT_DAYS,
    DEFAULT_DIRECTORY,
    DEFAULT_HOSTS,
    DEFAULT_PORT,
    MOST_GPUS,
    MOST_HOSTS,
)
from gpumon_static.deployment import PRINTED, UNITS
from gpumon_static.system.resources import own_command

STRICT_EXIT = 3
MOST_OF_FAILURE = 4000
"""Characters of a failure's text."""


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
@click.option("--only", metavar="NODESET", help="Ask only these hosts; keep the rows of the others.")
@click.option("--strict", is_flag=True, help=f"Exit with {STRICT_EXIT} when any host failed.")
@click.option(
    "--changes", is_flag=True, help="Report only hosts that went down or came back since the last run."
)
@click.option("-q", "--quiet", is_flag=True, help="Report nothing about hosts that failed.")
@click.option("-v", "--verbose", is_flag=True, help="Report each host's state and time.")
def fetch(
    config_path: Path | None, only: str | None, strict: bool, changes: bool, quiet: bool, verbose: bool
) -> None:
    """Ask each host over SSH and write load_data.csv.

    A host that does not answer becomes a row with its reason and a line on stderr; the exit status
    is 0 all the same, so that `fetch && render` always renders.
    """
    from gpumon_static.commands.fetch import fetch as run_fetch
    from gpumon_static.commands.progress import FetchReport
    from gpumon_static.config.choose import choose
    from gpumon_static.store import snapshot
    from gpumon_static.store.slurm import slurm_file

    config = load_config(config_path, need_keys=True)
    count = len(choose(config.hosts, only) if only else config.asked(_now())) + len(config.clusters)
    before = snapshot.statuses(config.csv_path) | slurm_file.statuses(config.paths.data) if changes else None
    excused = {host.name for host in config.hosts if host.state_at(_now())}
    with FetchReport(count, quiet=quiet, verbose=verbose, before=before, excused=excused) as report:
        readings = run_fetch(
            config, clock=_now, only=only, on_reading=report.add, say=report.say, warn=report.warn
        )
    if strict and not all(reading.ok or reading.host in excused for reading in readings):
        raise SystemExit(STRICT_EXIT)


@command
@config_option
def render(config_path: Path | None) -> None:
    """Turn load_data.csv into index.html, one self-contained page."""
    from gpumon_static.commands.render import render as run_render

    config = load_config(config_path)
    run_render(config, _now())


@command
@config_option
@click.argument("hosts", nargs=-1, metavar="[HOSTS]...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--all", "in_full", is_flag=True, help="Every host, also where many fail alike.")
def check(config_path: Path | None, hosts: tuple[str, ...], as_json: bool, in_full: bool) -> None:
    """Find out why a host does not answer, and what to do about it.

    Connects to each host (or to HOSTS, which may be node sets) as fetch does, and reports each step: name,
    port, host key, login, shell, GPUs, ps, clock. Checks Slurm, the files, the pages, [notify] and the
    room on the disk too. Run it as the user of cron. Writes nothing, but learns host keys where
    host_keys is "accept-new". Exits with 3 when anything failed.
    """
    from gpumon_static.check.show import run_check
    from gpumon_static.commands.render import render_only
    from gpumon_static.config.choose import choose

    config = load_config(config_path, need_keys=True)
    chosen = choose(config.hosts, ",".join(hosts), "check") if hosts else config.asked(_now())
    try_render = partial(render_only, config, _now())
    look = {"as_json": as_json, "in_full": in_full}
    if not run_check(config, chosen, clock=_now, try_render=try_render, **look).ok:
        raise SystemExit(STRICT_EXIT)


@command
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), default=Path())
@click.option(
    "--hosts", metavar="HOSTS", help="With commas; node sets and groups too: gpu[01-08],node9:2222,@gpu"
)
@click.option("--user", help="SSH user.  [default: you]")
@click.option("--key", metavar="PATH", help="Private key.  [default: the agent's, or those in ~/.ssh]")
@click.option("--site", metavar="DIR", help="Directory of the page.  [default: site, beside the config]")
@click.option("--data", metavar="DIR", help="Directory of the data.  [default: data, beside the config]")
@click.option("--no-check", is_flag=True, help="Do not connect to the hosts.")
@click.option(
    "--print",
    "what",
    type=click.Choice(PRINTED + UNITS),
    metavar="|".join(PRINTED),
    help="Print this file with the paths of the config; write nothing. Also by the name of a unit.",
)
@click.option(
    "-c",
    "--config",
    "config_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --print: the config.  [default: that of DIRECTORY, else usual paths]",
)
@click.option(
    "--run-as", metavar="USER", default="gpumon", show_default=True, help="With --print: who runs the job."
)
@click.option("--server-name", metavar="NAME", help="With --print: the name of the page's web server.")
def init(
    directory: Path,
    hosts: str | None,
    user: str | None,
    key: str | None,
    site: str | None,
    data: str | None,
    no_check: bool,
    what: str | None,
    config_path: Path | None,
    run_as: str,
    server_name: str | None,
) -> None:
    """Write a commented config.ini to DIRECTORY, try it, and print what comes next.

    Asks for what is not given, on a terminal. Never overwrites. Exits with 3 when the check fails.

    Example:  gpumon-static init /srv/gpumon --hosts gpu[01-08] --user gpumon --site /var/www/gpu-monitor

    Example:  gpumon-static init /srv/gpumon --print crontab > /etc/cron.d/gpumon-static
    """
    from gpumon_static.commands.init import Answers, crontab_line, nginx_lines, printed, write_config

    if what:
        click.echo(printed(what, directory, config_path, run_as, server_name), nl=False)
        return
    if hosts is None and not sys.stdin.isatty():
        raise click.UsageError("name the hosts with --hosts")
    if hosts is None:
        hosts = click.prompt("Hosts (separated by commas; gpu[01-08] stands for eight)")
        user = user or click.prompt("SSH user", default="", show_default=False)
        key = key or click.prompt("Private key (empty: agent, ~/.ssh)", default="", show_default=False)
        site = site or click.prompt("Directory of the page", default="site")
    config = write_config(directory, Answers(hosts, user, key, site, data))
    click.echo(f"wrote {config.path}\n")
    good = no_check or _checked(config.path)
    click.echo(f"\nFor `crontab -e`:\n\n{crontab_line(config)}\n\nFor nginx:\n\n{nginx_lines(config)}")
    click.echo("Whole files, for root to put in place:\n")
    for name in PRINTED[:4]:
        click.echo(own_command("init", directory.absolute(), "--print", name))
    if not good:
        raise SystemExit(STRICT_EXIT)


def _checked(config_path: Path) -> bool:
    from gpumon_static.check.show import run_check

    config = load_config(config_path, need_keys=True)
    return run_check(config, config.asked(_now()), clock=_now, as_json=False, in_full=False).ok


@command
def probe() -> None:
    """Print the script that runs on the hosts.

    To install it there for a key that may run nothing else:  gpumon-static init --print authorized_keys
    """
    from gpumon_static.collect.probe import framing as the_probe

    click.echo(the_probe.script(), nl=False)


@command
@config_option
@click.argument("unit", default="gpumon-static.service")
def notify_failure(config_path: Path | None, unit: str) -> None:
    """Run the command of [notify] because UNIT failed.

    For OnFailure= of the systemd unit, and for other schedulers that run a command when a job fails. The text
    of the message is what comes on standard input, such as the last lines of the journal. Works with a config
    that has wrong values, or is not TOML outside of [notify].
    """
    from gpumon_static.notify.failure import notify_of_failure

    config = load_config(config_path, tolerate=True)
    output = "" if sys.stdin.isatty() else sys.stdin.read(MOST_OF_FAILURE)
    notify_of_failure(config, unit, output, _now())


@command
@config_option
@click.option("--test", is_flag=True, required=True, help="Send a message of type `test`.")
def notify(config_path: Path | None, test: bool) -> None:  # noqa: ARG001
    """Try the command of [notify].

    Runs it once as fetch does, from the directory of the config, whatever `notify.events` lists. Run it as
    the user of cron. Exits with 1 where the command fails.
    """
    from gpumon_static.notify.failure import send_test

    config = load_config(config_path)
    send_test(config, _now())
    click.echo(f"sent by {config.notify.command[0] if config.notify.command else ''}, which exited with 0")


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
    help="Number of hosts.",
)
@click.option("--gpus", type=click.IntRange(1, MOST_GPUS), help="GPUs of each host.  [default: from 1 to 8]")
@click.option("--seed", type=int, default=1, show_default=True, help="Same seed and time, same lab.")
@click.option(
    "--history",
    "days",
    type=click.IntRange(0, 365),
    default=DEFAULT_DAYS,
    show_default=True,
    help="Days of history to make up.",
)
def demo(directory: Path, port: int | None, hosts: int, gpus: int | None, seed: int, days: int) -> None:
    """Try it without any GPU: a lab of SSH hosts on this computer.

    Starts the hosts, then runs the same fetch and render as cron would, over real SSH.
    """
    from gpumon_static.commands.fetch import fetch as run_fetch
    from gpumon_static.commands.render import render as run_render
    from gpumon_static.demo.lab import DemoSpec
    from gpumon_static.demo.run import Pipelines
    from gpumon_static.demo.run import demo as run_demo

    spec, pipelines = DemoSpec(seed, hosts, gpus), Pipelines(run_fetch, run_render)
    run_demo(spec, directory, pipelines, clock=_now, say=click.echo, port=port, days=days)


for _command in cli_terminal.COMMANDS:
    main.add_command(_command)


history.add_command(sql)
main.add_command(history)
main.add_command(report)
