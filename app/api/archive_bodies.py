"""Archives in request bodies, kept in temporary files: in a body by themselves, or in one of several parts."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import IO, cast

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from app.errors import MalformedRequestError, TooLargeError, ValidationFailedError

MULTIPART = "multipart/form-data"
PARTS = ("session", "archive")
_PIECE = 1024 * 1024
"""Bytes gathered for one write, which needs a thread."""


@asynccontextmanager
async def spooled(request: Request) -> AsyncIterator[IO[bytes]]:
    """The body in a temporary file. Only a piece of it is in memory."""
    file = await asyncio.to_thread(tempfile.TemporaryFile)
    try:
        held = bytearray()
        async for piece in request.stream():
            held += piece
            if len(held) >= _PIECE:
                await asyncio.to_thread(file.write, bytes(held))
                held.clear()
        await asyncio.to_thread(file.write, bytes(held))
        yield file
    finally:
        await asyncio.shield(asyncio.to_thread(file.close))


async def pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    """A file's content."""
    await asyncio.to_thread(file.seek, 0)
    while piece := await asyncio.to_thread(file.read, _PIECE):
        yield piece


def has_parts(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == MULTIPART


@asynccontextmanager
async def parts(
    request: Request, max_json_bytes: int, max_file_bytes: int, turn: AsyncExitStack
) -> AsyncIterator[tuple[bytearray, IO[bytes]]]:
    """The parts of a body: `session`, as JSON of limited size, and the file `archive`. JSON that is sent as a file may
    be larger, since it is on the disk until it is its turn among the large bodies.

    Raises `MalformedRequestError` for an invalid body, `TooLargeError` for a field that is too large, and
    `ValidationFailedError` for missing or unknown parts.
    """
    parser = MultiPartParser(request.headers, request.stream(), max_files=2, max_fields=2, max_part_size=max_json_bytes)
    try:
        form = await parser.parse()
    except MultiPartException as exc:
        if exc.message.startswith("Part exceeded"):
            detail = f"A part that is not a file is larger than {max_json_bytes} bytes."
            raise TooLargeError(detail, limit_bytes=max_json_bytes) from None
        raise MalformedRequestError(f"The multipart body is invalid: {exc.message}") from None
    try:
        for name in PARTS:
            _check_part(name, form.getlist(name))
        if unknown := next((name for name in form if name not in PARTS), None):
            raise _invalid(unknown[:100], "Unknown part; the parts are session and archive")
        archive = form["archive"]
        if not isinstance(archive, UploadFile):
            raise _invalid("archive", "Input should be a file, with a filename")
        found = form["session"]
        limit = max_json_bytes if isinstance(found, str) else max_file_bytes
        if isinstance(found, UploadFile) and (found.size or 0) > max_json_bytes:
            await turn.enter_async_context(request.app.state.large_bodies)
        yield await _text(found, limit), cast(IO[bytes], archive.file)
    finally:
        await form.close()


def _check_part(name: str, found: list[UploadFile | str]) -> None:
    if len(found) != 1:
        raise _invalid(name, "Part required" if not found else "Only one part may have this name")


async def _text(part: UploadFile | str, limit: int) -> bytearray:
    """The JSON, whether it was sent as a field or as a file."""
    data = part.encode() if isinstance(part, str) else await part.read(limit + 1)
    if len(data) > limit:
        raise _invalid("session", f"Input should have at most {limit} bytes")
    return bytearray(data)


def _invalid(field: str, message: str) -> ValidationFailedError:
    return ValidationFailedError(
        f"The request is not valid: {field}: {message[0].lower()}{message[1:]}.",
        errors=[{"field": field, "message": message}],
    )
