"""The page at `/` and its files.

They come from the installation, hold nothing of any session, and are open to all who may ask at all: the page itself
asks for a key where the server wants one.
"""

from __future__ import annotations

import asyncio
import hashlib
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
    type_ = TYPES.get(Path(path).suffix)
    content = await asyncio.to_thread(read, path) if type_ is not None else None
    if content is None:
        raise NotFoundError("There is no such file of the page.")
    tag = tag_of(content)
    headers = {**HEADERS, "ETag": tag}
    if has_tag(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=type_, headers=headers)


def read(path: str) -> bytes | None:
    """The content of a file below `static`; None where there is none."""
    names = path.split("/")
    if any(name in ("", ".", "..") for name in names):
        return None
    try:
        return STATIC.joinpath(*names).read_bytes()
    except (OSError, ValueError):
        return None


def tag_of(content: bytes) -> str:
    """What changes with the content and with nothing else: times of files say little where packages are unpacked."""
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def has_tag(if_none_match: str, tag: str) -> bool:
    """Whether the browser, or a proxy that made the tag weak, has the file already."""
    return tag in (given.strip().removeprefix("W/") for given in if_none_match.split(","))
