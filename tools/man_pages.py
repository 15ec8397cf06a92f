"""Write a man page for each command, as click knows it: `python -m tools.man_pages DIRECTORY`.

`gpumon-static.1`, `gpumon-static-fetch.1`, `gpumon-static-history-export.1` ... They are kept in docs/man/,
and are in share/man/man1 of the wheel and of the Debian package. No page has a date: the same code gives the
same bytes.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from gpumon_static import __version__
from tools.command_reference import all_commands, option_names, options_of


def main() -> None:
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (directory / name).write_text(text, encoding="utf-8")


def pages() -> dict[str, str]:
    """File name to text."""
    return {f"{_page_name(context)}.1": _page(context) for context in all_commands()}


def _page_name(context: click.Context) -> str:
    return context.command_path.replace(" ", "-")


def _page(context: click.Context) -> str:
    first, *rest = _paragraphs(context)
    return "\n".join(
        [
            f'.TH "{_page_name(context).upper()}" 1 "" "gpumon-static {__version__}" "gpumon-static"',
            ".SH NAME",
            f"{_escaped(_page_name(context))} \\- {_escaped(first.rstrip('.'))}",
            ".SH SYNOPSIS",
            _synopsis(context),
            ".SH DESCRIPTION",
            *_body([first, *rest]),
            ".SH OPTIONS",
            *(line for option in options_of(context) for line in _option(option)),
            *_commands(context),
            ".SH SEE ALSO",
            _see_also(context),
            "",
        ]
    )


def _paragraphs(context: click.Context) -> list[str]:
    return inspect.cleandoc(context.command.help or "").split("\n\n")


def _synopsis(context: click.Context) -> str:
    pieces = context.command.collect_usage_pieces(context)
    return f".B {_escaped(context.command_path)}\n{_escaped(' '.join(pieces))}"


def _body(paragraphs: list[str]) -> Iterator[str]:
    for paragraph in paragraphs:
        yield ".PP"
        if paragraph.startswith("\b\n"):
            yield ".nf"
            yield from map(_escaped, paragraph.splitlines()[1:])
            yield ".fi"
        else:
            yield _escaped(" ".join(paragraph.split("\n")))


def _option(option: click.Option) -> Iterator[str]:
    value = "" if option.is_flag else f" {option.make_metavar(click.Context(click.Command('x')))}"
    names = ", ".join(f"\\fB{_escaped(name)}\\fR" for name in option_names(option))
    yield ".TP"
    yield f"{names}\\fI{_escaped(value)}\\fR"
    default = f" [default: {option.default}]" if option.show_default else ""
    yield _escaped(f"{option.help or ''}{default}")


def _commands(context: click.Context) -> Iterator[str]:
    if not isinstance(context.command, click.Group):
        return
    yield ".SH COMMANDS"
    for name, part in context.command.commands.items():
        yield ".TP"
        yield f"\\fB{_escaped(name)}\\fR"
        yield _escaped(part.get_short_help_str(limit=200))


def _see_also(context: click.Context) -> str:
    others = [parent for parent in (context.parent,) if parent]
    others += [
        click.Context(part, info_name=name, parent=context)
        for name, part in getattr(context.command, "commands", {}).items()
    ]
    return ",\n".join(f".BR {_escaped(_page_name(other))} (1)" for other in others).replace(",\n", " ,\n")


def _escaped(text: str) -> str:
    """Text that roff prints as it is: no line begins with a dot or an apostrophe."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", escaped, flags=re.MULTILINE)


if __name__ == "__main__":
    main()
