"""The program around its commands: expected errors in one sentence, and the options that need no command."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from app.cli.listing import with_optional_values
from app.cli.screen import CANCELLED, CLOSED_PIPE, FAILED, Screen, silence
from app.errors import PalimpsestError

_COMPLETION = ("--install-completion", "--show-completion")
OF_PROGRAM = ("-h", "--help", "--version", "--man", *_COMPLETION)
"""Options of the program itself, not of a command."""
COMPLETE = "_PALIMPSEST_COMPLETE"
"""The variable with which a shell's completion script asks for suggestions."""
SHELLS = ("bash", "zsh", "fish")


class Commands(TyperGroup):
    """Commands that report expected errors in one sentence, and exit silently on a closed pipe."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_optional_values(args, *_COMPLETION))

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except PalimpsestError as error:
            Screen(sys.stderr).line(f"palimpsest: {error.detail} ({error.code})")
            raise typer.Exit(getattr(error, "exit_status", FAILED)) from error
        except KeyboardInterrupt as error:
            raise typer.Exit(CANCELLED) from error
        except BrokenPipeError as error:
            silence()
            raise typer.Exit(CLOSED_PIPE) from error


def _version(wanted: bool) -> None:
    if wanted:
        from app import __version__

        typer.echo(f"palimpsest {__version__}")
        raise typer.Exit


def _man(ctx: typer.Context, wanted: bool) -> None:
    if wanted:
        from app.cli.man import man_page

        typer.echo(man_page(ctx.command, "palimpsest"), nl=False)
        raise typer.Exit


def _complete(ctx: typer.Context, param: typer.CallbackParam, shell: str | None) -> None:
    """Installs or prints the completion of the named shell, or of the one that this command was started from."""
    if shell is None or ctx.resilient_parsing:
        return
    if shell not in ("", *SHELLS):
        raise typer.BadParameter(f"{shell} is not one of {', '.join(SHELLS)}.")
    from typer.completion import install_callback, show_callback

    act = install_callback if param.name == "install_completion" else show_callback
    act(ctx, param, shell or True)


Version = Annotated[
    bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
]
Man = Annotated[
    bool, typer.Option("--man", callback=_man, is_eager=True, help="Print the manual page, for man -l -, and exit.")
]
InstallCompletion = Annotated[
    str | None,
    typer.Option(
        callback=_complete,
        is_eager=True,
        metavar="[SHELL]",
        help="Install completion for bash, zsh or fish; default: the current shell.",
    ),
]
ShowCompletion = Annotated[
    str | None,
    typer.Option(
        callback=_complete,
        is_eager=True,
        metavar="[SHELL]",
        help="Print the completion script without installing it.",
    ),
]


def prepare_completion() -> None:
    """Lets a shell's completion script ask for suggestions; without Typer's own options, Typer does not."""
    if COMPLETE in os.environ:
        from typer._completion_classes import completion_init

        completion_init()
