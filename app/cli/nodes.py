"""The nodes of a cluster, as one of them lists them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import typer

from app.cli.client import Client
from app.cli.listing import Cell, ago, print_json, print_table

_COLORS = {"ready": "green", "draining": "yellow", "lost": "red"}


async def show(client: Client, fields: Sequence[str] | None) -> None:
    """Prints a line for each node, or a sentence if the server is on its own."""
    found: dict[str, Any] = await client.call("GET", "/v1/nodes")
    if fields is not None:
        print_json(found["items"], fields)
        return
    if not found["items"]:
        typer.echo("This server is not a node of a cluster.")
        return
    heads = ("ID", "NAME", "ROLE", "STATUS", "SESSIONS", "SLOTS", "VERSION", "LAST SEEN")
    print_table(heads, node_rows(found["items"], datetime.now(UTC)))
    if found["waiting"]:
        typer.echo(f"{found['waiting']:,} sessions wait for a worker.", err=True)


def node_rows(items: Sequence[dict[str, Any]], now: datetime) -> list[list[Cell]]:
    return [
        [
            *(Cell(node[name]) for name in ("id", "name", "role")),
            Cell(node["status"], style={"fg": _COLORS.get(node["status"])}),
            *(Cell(str(node[name])) for name in ("sessions", "slots", "version")),
            Cell(ago(node["seen_at"], now), node["seen_at"]),
        ]
        for node in items
    ]
