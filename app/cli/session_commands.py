"""The commands of `palimpsest sessions` and the options that several commands have. Each fetches its work when it
runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from app.cli.listing import Listing, chosen

sessions = typer.Typer(no_args_is_help=True, help="List, show, follow and steer the sessions of a running server.")

Server = Annotated[
    str | None,
    typer.Option(
        "--server", metavar="URL", help="The server's URL; default: PALIMPSEST_URL, else the server on this machine."
    ),
]
Key = Annotated[
    str | None,
    typer.Option("--key", metavar="KEY", help="The server's API key; prefer PALIMPSEST_API_KEY."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Fields = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="FIELDS",
        help="Print these fields as JSON, comma-separated; `all` prints all, and --json alone lists them.",
    ),
]
JsonLines = Annotated[bool, typer.Option("--json", help="Print each event as a line of JSON, for scripts.")]
Policy = Literal["reactive", "threshold", "handoff"]
SessionId = Annotated[str, typer.Argument(metavar="ID", help="The session's id, or enough of its start or end.")]
CallId = Annotated[
    str,
    typer.Argument(
        metavar="CALL", help="The call's id, or enough of its start or end, as shown by `palimpsest approvals`."
    ),
]


@sessions.command("ls", cls=Listing)
def list_sessions(
    status: Annotated[
        Literal["idle", "running", "awaiting_approval", "awaiting_client"] | None,
        typer.Option(help="Only sessions with this status."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Max number of sessions.")] = 20,
    query: Annotated[
        str | None,
        typer.Option("--search", "--query", "-q", help="Only sessions whose title or task contains this text."),
    ] = None,
    json: Fields = None,
    server: Server = None,
    key: Key = None,
) -> None:
    """List sessions, newest first.

    Shows the end of each id, which other commands accept. For other programs, prints lines with tabs: id, status, time
    of the last update, steps, cost in dollars, and title.
    """
    from app.cli import sessions as work
    from app.sessions import Session

    fields = chosen(json, Session)
    work.connected(server, key, lambda client: work.show_list(client, status, query, limit, fields))


@sessions.command()
def show(session: SessionId, json: Json = False, server: Server = None, key: Key = None) -> None:
    """Show a session: its state, usage, limits, pending messages, and calls waiting for approval."""
    from app.cli import sessions as work

    work.connected(server, key, lambda client: work.show(client, session, json))


@sessions.command()
def follow(session: SessionId, json: JsonLines = False, server: Server = None, key: Key = None) -> None:
    """Show a session from its start and follow it until it is idle.

    Ctrl-C stops following; the run continues. The exit status is as for `palimpsest run`, by the last run's outcome.
    """
    from app.cli import attach as work
    from app.cli.sessions import connected

    raise typer.Exit(connected(server, key, lambda client: work.follow(client, session, json)))


@sessions.command()
def send(
    session: SessionId,
    text: Annotated[str, typer.Argument(help="The message; - reads standard input.")],
    mode: Annotated[
        Literal["steer", "follow_up", "interrupt"],
        typer.Option(
            help="When to deliver it: before the next step, at the end of the run, or now, canceling the current step."
        ),
    ] = "steer",
    server: Server = None,
    key: Key = None,
) -> None:
    """Send a message; starts a run if the session is idle."""
    from app.cli import sessions as work

    work.connected(server, key, lambda client: work.send(client, session, text, mode))


@sessions.command()
def cancel(session: SessionId, server: Server = None, key: Key = None) -> None:
    """Cancel a session's run; partial output is kept.

    Pending messages are held; `palimpsest sessions resume` or another message continues.
    """
    from app.cli import sessions as work

    work.connected(server, key, lambda client: work.cancel(client, session))


@sessions.command()
def resume(session: SessionId, server: Server = None, key: Key = None) -> None:
    """Continue after a run that was cancelled, was interrupted, failed or reached a limit."""
    from app.cli import sessions as work

    work.connected(server, key, lambda client: work.resume(client, session))


@sessions.command()
def files(
    session: SessionId,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The directory to copy them into.")],
    server: Server = None,
    key: Key = None,
) -> None:
    """Copy a session's files into a directory."""
    from app.cli import sessions as work

    work.connected(server, key, lambda client: work.files(client, session, output))


@sessions.command(cls=Listing)
def compactions(session: SessionId, json: Fields = None, server: Server = None, key: Key = None) -> None:
    """List a session's compaction rounds, oldest first.

    Shows what each round saved and cost, or why it failed.
    """
    from app.cli import rounds as work
    from app.cli.sessions import connected
    from app.sessions import CompactionEvent

    fields = chosen(json, CompactionEvent)
    connected(server, key, lambda client: work.show_rounds(client, session, fields))


@sessions.command()
def revert(
    session: SessionId,
    round: Annotated[
        int | None,
        typer.Argument(metavar="ROUND", min=1, help="The number of the latest round in force, which is the default."),
    ] = None,
    server: Server = None,
    key: Key = None,
) -> None:
    """Revert the latest compaction round.

    The context is then as if the round had not happened; later messages stay. `palimpsest sessions compactions` lists
    the rounds with their numbers.
    """
    from app.cli import rounds as work
    from app.cli.sessions import connected

    connected(server, key, lambda client: work.revert(client, session, round))


@sessions.command("rm")
def remove(
    session: SessionId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    server: Server = None,
    key: Key = None,
) -> None:
    """Delete a session with its history and files."""
    from app.cli import sessions as work

    work.connected(server, key, lambda client: work.remove(client, session, yes))
