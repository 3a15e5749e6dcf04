"""The command line."""

from __future__ import annotations

import sys

import typer

from app.bootstrap import Runtime
from app.errors import PalimpsestError
from app.server import run
from app.settings import Settings

app = typer.Typer(no_args_is_help=True, help="Palimpsest runs coding agents that never run out of context.")


@app.callback()
def _root() -> None:
    pass


@app.command()
def serve(host: str | None = None, port: int | None = None) -> None:
    """Start the server."""
    given = {name: value for name, value in {"host": host, "port": port}.items() if value is not None}

    def ready(runtime: Runtime, url: str) -> None:
        print(f"Palimpsest at {url}: model {runtime.model}, {runtime.sandbox}", flush=True)

    try:
        run(Settings(**given), ready)  # type: ignore[arg-type]
    except PalimpsestError as error:
        print(error.detail, file=sys.stderr)
        raise typer.Exit(1) from error


def main() -> None:
    app()
