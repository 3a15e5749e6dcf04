"""`palimpsest doctor`: checks this machine and suggests fixes."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable
from dataclasses import asdict

import typer

from app.cli import checks
from app.cli.checks import Check
from app.cli.config import load_settings
from app.cli.errors import COMPLETED, FAILED, InvalidSettingsError
from app.cli.screen import Screen
from app.settings import Settings

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "missing": ("✗", "red")}


def examine(*, as_json: bool) -> int:
    """Prints all findings; returns the exit status."""
    found = asyncio.run(_all())
    healthy = all(check.status != "missing" for check in found)
    if as_json:
        typer.echo(json.dumps({"healthy": healthy, "checks": [asdict(check) for check in found]}, indent=2))
    else:
        screen = Screen(sys.stdout)
        for check in found:
            mark, colour = _MARKS[check.status]
            screen.write(f"{mark} ", fg=colour)
            screen.write(f"{check.name:<12} {check.detail}\n")
            if check.fix:
                screen.line(f"  {'':<12} → {check.fix}", dim=True)
        screen.line("Ready to go." if healthy else "Something required is missing.", bold=True)
    return COMPLETED if healthy else FAILED


async def _all() -> list[Check]:
    first = [checks.python()]
    try:
        settings = await asyncio.to_thread(load_settings)
    except InvalidSettingsError as error:
        return [*first, Check("settings", "missing", error.detail, "Set the variable to a valid value.")]
    return [*first, *await asyncio.to_thread(checks.variables), *await _of(settings)]


async def _of(settings: Settings) -> list[Check]:
    work: list[Awaitable[list[Check]]] = [
        asyncio.to_thread(checks.storage, settings),
        checks.sandboxes(settings),
        asyncio.to_thread(checks.models, settings),
        asyncio.to_thread(checks.prompts, settings),
        checks.address(settings),
        asyncio.to_thread(checks.access, settings),
    ]
    return [check for group in await asyncio.gather(*work) for check in group]
