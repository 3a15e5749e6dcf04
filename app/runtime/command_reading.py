"""Reads the output of background commands: of those that run here also from memory, of others what is stored."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Row

from app.errors import PalimpsestError
from app.tools.base import CommandPiece, CommandState

if TYPE_CHECKING:
    from app.runtime.setup import RuntimeSetup


async def read_output(setup: RuntimeSetup, row: Row[Any], since: int | None, most: int) -> CommandPiece:
    """At most `most` bytes of the output of the command in this row, from `since` or the last ones. A piece ends
    between two characters unless nothing follows."""
    running, key = setup.commands.of(row.session_id).get(row.call_id), f"{row.session_id}/{row.call_id}"
    if running is not None:
        state, log = running.state(), running.log
        start = _start(since, state.bytes, most)
        data = log.recent_from(start)
        if data is None:
            data = await asyncio.to_thread(_read, setup.output_path, key, start, most)
        if not data and start < state.bytes:
            # Not stored: the output is larger than what is kept of it.
            start, data = log.recent
        return _piece(state, data[:most], start, since)
    size = await asyncio.to_thread(_size, setup.output_path, key)
    start = _start(since, size, most)
    data = await asyncio.to_thread(_read, setup.output_path, key, start, most)
    return _piece(_state(row, size), data, start, since)


def _piece(state: CommandState, data: bytes, start: int, since: int | None) -> CommandPiece:
    if start != since:
        skipped = next((place for place, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)
        data, start = data[skipped:], start + skipped
    if state.status == "running" or start + len(data) < state.bytes:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        decoder.decode(data)
        begun, _ = decoder.getstate()
        data = data[: len(data) - len(begun)]
    return CommandPiece(state, data, start)


def _start(since: int | None, size: int, most: int) -> int:
    return max(0, size - most) if since is None else min(since, size)


def _state(row: Row[Any], stored: int) -> CommandState:
    """A command that does not run here, with as much of its output as is stored."""
    lost = f"{row.bytes - stored:,} bytes of its output are not stored" if row.bytes > stored else None
    remark = "; ".join(filter(None, (row.remark, lost))) or None
    return CommandState(row.call_id, row.status, row.exit_code, stored, remark)


def _size(path_of: Callable[[str], Path] | None, key: str) -> int:
    try:
        return path_of(key).stat().st_size if path_of is not None else 0
    except (OSError, PalimpsestError):
        return 0


def _read(path_of: Callable[[str], Path] | None, key: str, start: int, length: int) -> bytes:
    if path_of is None:
        return b""
    try:
        with path_of(key).open("rb") as file:
            file.seek(start)
            return file.read(length)
    except (OSError, PalimpsestError):
        return b""
