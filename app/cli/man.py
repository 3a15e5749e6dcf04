"""The manual page, `palimpsest --man`, made from the commands' help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperGroup, TyperOption

from app import __version__

_FILES = """.SH FILES
.TP
.I .env
Settings as lines of NAME=VALUE, read from the working directory.
.TP
.I ~/.local/share/palimpsest
Database, raw outputs and workspaces; PALIMPSEST_DATA_DIR names another directory.
.SH EXIT STATUS
0 completed, 1 failed, 2 usage, 3 limit reached, 4 a call was denied because nobody decided in time, 130 cancelled,
141 output closed."""


def man_page(program: Any, name: str) -> str:
    """The page of a Typer program in roff, as `man` reads it."""
    about, *_ = program.help.split("\n\n")
    lines = [
        f'.TH {name.upper()} 1 "" "{name} {__version__}" "User Commands"',
        ".SH NAME",
        f"{name} \\- {_roff(about[0].lower() + about[1:].rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {name}",
        "[OPTIONS] COMMAND [ARGS]...",
        ".SH DESCRIPTION",
        _paragraphs(program.help),
        ".SH OPTIONS",
        *_options(program),
        ".SH COMMANDS",
        *_commands(program, name),
        _FILES,
    ]
    return "\n".join(lines) + "\n"


def _commands(group: Any, path: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from _commands(command, f"{path} {name}")
        elif not command.hidden:
            pieces = command.collect_usage_pieces(typer.Context(command))
            yield f".SS {_roff(' '.join([path, name, *pieces]))}"
            yield _paragraphs(command.help or "")
            yield from _options(command)


def _options(command: Any) -> Iterator[str]:
    context = typer.Context(command)
    for option in command.params:
        shown = option.get_help_record(context) if isinstance(option, TyperOption) else None
        if shown is not None:
            names, about = shown
            yield f".TP\n\\fB{_roff(names)}\\fR\n{_roff(about)}"


def _paragraphs(text: str) -> str:
    return "\n.PP\n".join(_roff(" ".join(paragraph.split())) for paragraph in text.split("\n\n"))


def _roff(text: str) -> str:
    """Text that roff prints as it is."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
