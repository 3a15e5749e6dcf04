"""Options and arguments shared by several commands."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

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
JsonLines = Annotated[bool, typer.Option("--json", help="Print each event as a line of JSON, for scripts.")]
Policy = Literal["reactive", "threshold", "handoff"]
SessionId = Annotated[str, typer.Argument(metavar="ID", help="The session's id, or enough of its start or end.")]
CallId = Annotated[
    str,
    typer.Argument(
        metavar="CALL", help="The call's id, or enough of its start or end, as shown by `palimpsest approvals`."
    ),
]
