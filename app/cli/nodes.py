"""The nodes of a cluster, as one of them lists them."""

from __future__ import annotations

import json
from typing import Any

import typer

from app.cli.client import Client
from app.cli.screen import visible

_ROW = "{:<36}  {:<24}  {:<6}  {:<8}  {:>8}  {:>5}  {:<10}  {}"


async def show(client: Client, as_json: bool) -> None:
    """Prints a line for each node, or a sentence if the server is on its own."""
    found: dict[str, Any] = await client.call("GET", "/v1/nodes")
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    if not found["items"]:
        typer.echo("This server is not a node of a cluster.")
        return
    typer.echo(_ROW.format("ID", "NAME", "ROLE", "STATUS", "SESSIONS", "SLOTS", "VERSION", "LAST SEEN"))
    for node in found["items"]:
        seen = node["seen_at"][:19].replace("T", " ")
        columns = (node[name] for name in ("id", "name", "role", "status", "sessions", "slots", "version"))
        typer.echo(visible(_ROW.format(*columns, seen)))
    if found["waiting"]:
        typer.echo(f"{found['waiting']:,} sessions wait for a worker.")
