"""The page at `/` and its files.

They come from the installation, hold nothing of any session, and are open to all who may ask at all: the page itself
asks for a key where the server wants one.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request, Response

from app.errors import NotFoundError

STATIC = Path(__file__).parents[2] / "static"
PAGE = "index.html"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
"""What is served, and as what; the machine's own table of types may say something that no browser runs."""

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
UNUSED = (
    *("accelerometer", "autoplay", "camera", "display-capture", "encrypted-media", "fullscreen", "geolocation"),
    *("gyroscope", "hid", "magnetometer", "microphone", "midi", "payment", "picture-in-picture"),
    *("publickey-credentials-get", "screen-wake-lock", "serial", "usb", "xr-spatial-tracking"),
)
"""What browsers can do for a page, and this one needs not."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": ", ".join(f"{name}=()" for name in UNUSED),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    # Asked for again each time, so that an upgrade is seen at once; the answer is empty while nothing has changed.
    "Cache-Control": "no-cache",
}

router = APIRouter(include_in_schema=False)


@router.get("/")
@router.head("/")
async def get_page(request: Request) -> Response:
    return await file_response(request, PAGE)


@router.get("/static/{path:path}")
@router.head("/static/{path:path}")
async def get_static(request: Request, path: str) -> Response:
    return await file_response(request, path)


async def file_response(request: Request, path: str) -> Response:
    """The file below `static`, or 304 where the browser has it. Raises `NotFoundError`."""
    file = await found(path)
    if file is None:
        raise NotFoundError("There is no such file of the page.")
    headers = {**HEADERS, "ETag": file.tag}
    if has_tag(request.headers.get("if-none-match", ""), file.tag):
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.type, headers=headers)


@dataclass(frozen=True, slots=True)
class File:
    """A file of the page as it was read; `seen` is what its place on the disk looked like then. `tag` changes with the
    content and with nothing else: times of files say little where packages are unpacked."""

    content: bytes
    type: str
    tag: str
    seen: tuple[int, int, int]


_read: dict[str, File] = {}
"""Files by path, since a browser asks for more than a hundred to show the page; all of them have about a megabyte."""


async def found(path: str) -> File | None:
    """The file below `static`, as it is on the disk now; None where there is none."""
    type_, names = TYPES.get(Path(path).suffix), path.split("/")
    if type_ is None or any(name in ("", ".", "..") for name in names):
        return None
    place = STATIC.joinpath(*names)
    try:
        status = place.stat()
        seen = (status.st_mtime_ns, status.st_size, status.st_ino)
        if path not in _read or _read[path].seen != seen:
            content = await asyncio.to_thread(place.read_bytes)
            tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            _read[path] = File(content, type_, tag, seen)
    except (OSError, ValueError):
        return None
    return _read[path]


def has_tag(if_none_match: str, tag: str) -> bool:
    """Whether the browser, or a proxy that made the tag weak, has the file already."""
    return tag in (given.strip().removeprefix("W/") for given in if_none_match.split(","))
