"""What is shown below the line that ends a run: the files that changed, and where the session is."""

from __future__ import annotations

from typing import Any

from app.cli.client import Client
from app.cli.screen import Screen, ServerRefusedError, one_line
from app.cli.view import plural

MAX_FILES = 10
_LETTERS = {"added": ("A", "green"), "modified": ("M", "yellow"), "deleted": ("D", "red"), "renamed": ("R", "cyan")}


async def show_end(client: Client, session_id: str, screen: Screen, *, linked: bool) -> None:
    """Shows the changed files, and with `linked` the session's address on the page. Without checkpoints, such as where
    git is missing, no file is shown."""
    try:
        changes = await client.call("GET", f"/v1/sessions/{session_id}/changes")
    except ServerRefusedError:
        changes = {"items": []}
    show_changes(changes, screen)
    if linked:
        screen.line(f"  {page_url(client.url, session_id)}", dim=True)


def show_changes(changes: dict[str, Any], screen: Screen) -> None:
    """`2 files changed, +12 −3`, and a line for each of the first ten."""
    items = changes["items"]
    if not items:
        return
    more = "more than " if changes["truncated"] else ""
    screen.line(f"  {more}{plural(len(items), 'file')} changed, {_counts(changes)}", bold=True)
    for item in items[:MAX_FILES]:
        letter, color = _LETTERS.get(item["status"], ("?", "yellow"))
        screen.write(f"  {letter} ", fg=color)
        screen.write(one_line(f"{item['path']}  {'binary' if item['binary'] else _counts(item)}", 200))
        screen.fresh()
    if len(items) > MAX_FILES:
        screen.line(f"    and {len(items) - MAX_FILES:,} more", dim=True)


def _counts(change: dict[str, Any]) -> str:
    return f"+{change['additions']:,} −{change['deletions']:,}"


def page_url(url: str, session_id: str) -> str:
    """The address of the session on the server's page."""
    return f"{url}/#/sessions/{session_id}"
