"""The page at `/` and its files.

They come from the installation, hold nothing of any session, and are open to all who may ask at all: the page itself
asks for a key where the server wants one.
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
"""What browsers can do for a page, and this one needs not."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": ", ".join(f"{name}=()" for name in UNUSED),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
CHANGING = "no-cache"
"""Asked for again each time, so that an upgrade is seen at once; the answer is empty while nothing has changed."""
LASTING = "public, max-age=31536000, immutable"
"""For addresses with the version in them: another version has another address."""

router = APIRouter(include_in_schema=False)


@router.get("/")
@router.head("/")
async def get_page(request: Request) -> Response:
    return _answer(request, await page(), CHANGING)


@router.get("/static/{path:path}")
@router.head("/static/{path:path}")
async def get_static(request: Request, path: str) -> Response:
    """A file of the page, or 304 where the browser has it. Raises `NotFoundError`."""
    first, _, rest = path.partition("/")
    named = VERSION.fullmatch(first) is not None
    file = await found(rest if named else path)
    if file is None:
        raise NotFoundError("There is no such file of the page.")
    return _answer(request, file, LASTING if named and first == await version() else CHANGING)


def _answer(request: Request, file: File, caching: str) -> Response:
    headers = {**HEADERS, "ETag": file.tag, "Cache-Control": caching}
    if has_tag(request.headers.get("if-none-match", ""), file.tag):
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.type, headers=headers)


def has_tag(if_none_match: str, tag: str) -> bool:
    """Whether the browser, or a proxy that made the tag weak, has the file already."""
    return tag in (given.strip().removeprefix("W/") for given in if_none_match.split(","))
