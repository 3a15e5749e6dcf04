"""The page at `/` and its files.

They are part of the installation, contain no session data, and need no key: the page itself asks for one if the server
requires it.
"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from app.api.page_files import VERSION, File, found, page, version
from app.errors import NotFoundError

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "worker-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types worker",
    )
)
UNUSED = (
    *("accelerometer", "autoplay", "camera", "display-capture", "encrypted-media", "fullscreen", "geolocation"),
    *("gyroscope", "hid", "magnetometer", "microphone", "midi", "payment", "picture-in-picture"),
    *("publickey-credentials-get", "screen-wake-lock", "serial", "usb", "xr-spatial-tracking"),
)
"""Browser features that the page does not need."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": ", ".join(f"{name}=()" for name in UNUSED),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
CHANGING = "no-cache"
"""Revalidated on each request, so that an upgrade shows at once; unchanged files are answered with 304."""
LASTING = "public, max-age=31536000, immutable"
"""For URLs that contain the version: a new version has new URLs."""

router = APIRouter(include_in_schema=False)


@router.get("/")
@router.head("/")
async def get_page(request: Request) -> Response:
    return _answer(request, await page(), CHANGING)


@router.get("/static/{path:path}")
@router.head("/static/{path:path}")
async def get_static(request: Request, path: str) -> Response:
    """A file of the page, or 304 if the browser has it. Raises `NotFoundError`."""
    first, _, rest = path.partition("/")
    named = VERSION.fullmatch(first) is not None
    file = await found(rest if named else path)
    if file is None:
        raise NotFoundError("The page has no such file.")
    return _answer(request, file, LASTING if named and first == await version() else CHANGING)


def _answer(request: Request, file: File, caching: str) -> Response:
    headers = {**HEADERS, "ETag": file.tag, "Cache-Control": caching}
    if has_tag(request.headers.get("if-none-match", ""), file.tag):
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.type, headers=headers)


def has_tag(if_none_match: str, tag: str) -> bool:
    """Whether `If-None-Match` has the tag, perhaps made weak by a proxy."""
    return tag in (given.strip().removeprefix("W/") for given in if_none_match.split(","))
