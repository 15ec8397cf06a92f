"""The commands and their options, as click knows them, to Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from gpumon_static.commands.cli import main

PROGRAM = "gpumon-static"


def commands() -> str:
    return "\n".join(map(_section, all_commands()))


def all_commands() -> Iterator[click.Context]:
    """Each command with its subcommands after it."""
    return _walk(click.Context(main, info_name=PROGRAM, **main.context_settings))


def _walk(context: click.Context) -> Iterator[click.Context]:
    yield context
    if isinstance(context.command, click.Group):
        for name, part in context.command.commands.items():
            yield from _walk(click.Context(part, info_name=name, parent=context))


def option_names(option: click.Option) -> list[str]:
    return [*option.opts, *option.secondary_opts]


def options_of(context: click.Context) -> list[click.Option]:
    # click keeps the help option of the context that asked first, so it is made anew for this one.
    usage = click.Option(context.help_option_names, is_flag=True, help="Show this message and exit.")
    return [part for part in [*context.command.params, usage] if isinstance(part, click.Option)]


def _section(context: click.Context) -> str:
    name, command = context.command_path, context.command
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    parts = [f"## `{name}`", f"    {usage}", *_paragraphs(inspect.cleandoc(command.help or ""))]
    options = options_of(context)
    rows = [f"| {_names(option)} | {_about(option)} |" for option in options]
    return "\n\n".join([*parts, "\n".join(["| option | meaning |", "|---|---|", *rows])]) + "\n"


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("\b\n"):
            yield "\n".join(f"    {line}" for line in paragraph.splitlines()[1:])
        else:
            # Two spaces stand before a command line.
            yield re.sub(r"(?<=:)  (\S.*)", r" `\1`", " ".join(paragraph.split("\n")))


def _names(option: click.Option) -> str:
    """`-n`, `--number INTEGER`"""
    names = option_names(option)
    value = "" if option.is_flag else f" {_value(option)}"
    return ", ".join([*(f"`{name}`" for name in names[:-1]), f"`{names[-1]}{value}`"])


def _value(option: click.Option) -> str:
    if option.metavar:
        # A bar would end the cell of the table.
        return option.metavar.replace("|", " or ")
    if isinstance(option.type, click.Choice):
        return " or ".join(option.type.choices)
    return "PATH" if isinstance(option.type, click.Path) else "NUMBER" if _is_number(option) else "TEXT"


def _is_number(option: click.Option) -> bool:
    return isinstance(option.type, click.types.IntParamType | click.types.FloatParamType)


def _about(option: click.Option) -> str:
    told = re.sub(r"\s+\[(.*)\]$", r" (\1)", option.help or "").replace("|", " or ")
    default = f" (default: {option.default})" if option.show_default else ""
    return f"{told}{default}".strip()
