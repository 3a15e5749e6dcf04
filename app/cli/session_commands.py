"""The commands of `palimpsest sessions`. Each fetches its work when it runs, as those of the program itself do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from app.cli.options import Json, JsonLines, Key, Server, SessionId

sessions = typer.Typer(no_args_is_help=True, help="List, show, follow and steer the sessions of a running server.")


@sessions.command("ls")
def list_sessions(
    status: Annotated[
        Literal["idle", "running", "awaiting_approval"] | None, typer.Option(help="Only sessions in this status.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 20,
    query: Annotated[
        str | None, typer.Option("--query", "-q", help="Only sessions whose title or task has this text.")
    ] = None,
    json: Json = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """List sessions, newest first."""
    from app.cli import sessions as work

    work.connected(server, key, lambda client: work.show_list(client, status, query, limit, json))


@sessions.command()
def show(session: SessionId, json: Json = False, server: Server = None, key: Key = None) -> None:
    """Show a session: its state, use and limits, how many messages are pending, and which calls wait for approval."""
    from app.cli import sessions as work

    work.connected(server, key, lambda client: work.show(client, session, json))


@sessions.command()
def follow(session: SessionId, json: JsonLines = False, server: Server = None, key: Key = None) -> None:
    """Show all that has happened in a session and go on until it is idle.

    Ctrl-C leaves; the run goes on. Exit status as that of `palimpsest run`, by the outcome of the last run.
    """
    from app.cli import sessions as work

    raise typer.Exit(work.connected(server, key, lambda client: work.follow(client, session, json)))


@sessions.command()
def send(
    session: SessionId,
    text: Annotated[str, typer.Argument(help="The message; - reads standard input.")],
    mode: Annotated[
        Literal["steer", "follow_up", "interrupt"],
        typer.Option(
            help="When it is delivered: before the next step, when the run would end, or at once, ending the step."
        ),
    ] = "steer",
    server: Server = None,
    key: Key = None,
) -> None:
    """Send a message; an idle session starts to run."""
    from app.cli import sessions as work

    work.connected(server, key, lambda client: work.send(client, session, text, mode))


@sessions.command()
def cancel(session: SessionId, server: Server = None, key: Key = None) -> None:
    """End the run of a session; what it has written is kept.

    Messages that wait are held; `palimpsest sessions resume` or another message goes on.
    """
    from app.cli import sessions as work

    work.connected(server, key, lambda client: work.act(client, session, "cancel"))


@sessions.command()
def resume(session: SessionId, server: Server = None, key: Key = None) -> None:
    """Go on after a run that was cancelled or interrupted, failed or reached a limit."""
    from app.cli import sessions as work

    work.connected(server, key, lambda client: work.act(client, session, "resume"))


@sessions.command()
def files(
    session: SessionId,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The directory to copy them into.")],
    server: Server = None,
    key: Key = None,
) -> None:
    """Copy the files of a session's workspace into a directory."""
    from app.cli import sessions as work

    work.connected(server, key, lambda client: work.files(client, session, output))


@sessions.command()
def compactions(session: SessionId, json: Json = False, server: Server = None, key: Key = None) -> None:
    """List the rounds of compaction of a session, oldest first.

    Each with what it has saved and cost, or why it has failed.
    """
    from app.cli import compaction as work
    from app.cli.sessions import connected

    connected(server, key, lambda client: work.show_rounds(client, session, json))


@sessions.command()
def revert(
    session: SessionId,
    round: Annotated[int, typer.Argument(metavar="ROUND", min=1, help="Its number: the latest completed round.")],
    server: Server = None,
    key: Key = None,
) -> None:
    """Take the latest round of compaction back.

    The context is then as if it had not happened; later messages stay. `palimpsest sessions compactions` lists the
    rounds with their numbers.
    """
    from app.cli import compaction as work
    from app.cli.sessions import connected

    connected(server, key, lambda client: work.revert(client, session, round))


@sessions.command("rm")
def remove(
    session: SessionId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Delete a session with its history and files."""
    from app.cli import sessions as work

    work.connected(server, key, lambda client: work.remove(client, session, yes))
