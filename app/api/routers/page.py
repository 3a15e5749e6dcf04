"""The page at `/` and its files, as they are on the disk, with all that a browser loads first named in it."""

from __future__ import annotations

import asyncio
import hashlib
import posixpath
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request, Response

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

STATIC = Path(__file__).parents[2] / "static"
PAGE = "index.html"
ENTRY = "main.js"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
"""File types that are served, with their media types; the machine's own table may have types that browsers refuse."""
LOOK_S = 1.0
"""How long the files are assumed to be unchanged, in seconds: checking all of them takes 3 ms, and a browser requests
more than a hundred."""
VERSION = re.compile(r"v-[0-9a-f]{16}")
MODULES = "<!-- modules -->"
"""Placeholder in the page for the list of its modules."""
_IMPORT = re.compile(r"""^(?:import|export)\b[^"'`;]*?["'](\.[^"']+)["']|\bfrom\s*["'](\.[^"']+)["']""", re.MULTILINE)
"""Static imports of a module; dynamic ones (`import()`) are not matched."""


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


@dataclass(frozen=True, slots=True)
class File:
    """A file of the page. `seen` is its modification time, size and inode when it was read. `tag` depends only on the
    content: file times are unreliable in unpacked packages."""

    content: bytes
    type: str
    tag: str
    seen: tuple[int, int, int] = (0, 0, 0)


_read: dict[str, File] = {}
"""Cached files by path: a browser requests more than a hundred to show the page. In total about a megabyte."""
_version: tuple[float, str] | None = None
_built: tuple[str, File] | None = None
"""The page, with its version."""


async def found(path: str) -> File | None:
    """The file below `static`, as it is on disk now; None if it does not exist or is not served."""
    type_, names = TYPES.get(Path(path).suffix), path.split("/")
    if type_ is None or any(name in ("", ".", "..") for name in names):
        return None
    place = STATIC.joinpath(*names)
    try:
        status = place.stat()
        seen = (status.st_mtime_ns, status.st_size, status.st_ino)
        if path not in _read or _read[path].seen != seen:
            content = await asyncio.to_thread(place.read_bytes)
            _read[path] = File(content, type_, _tag(content), seen)
    except (OSError, ValueError):
        return None
    return _read[path]


async def version() -> str:
    """The version of all files: `v-` and a hash of their contents, recomputed at most once a second."""
    global _version
    if _version is None or time.monotonic() - _version[0] > LOOK_S:
        _version = time.monotonic(), await _hashed()
    return _version[1]


async def _hashed() -> str:
    digest = hashlib.sha256()
    for path in await asyncio.to_thread(_paths):
        file = await found(path)
        digest.update(f"{path} {file.tag if file else None}\n".encode())
    return f"v-{digest.hexdigest()[:16]}"


async def page() -> File:
    """The page, with a list of all modules that it loads."""
    global _built
    current = await version()
    if _built is None or _built[0] != current:
        index = await found(PAGE)
        assert index is not None
        links = "\n".join(f'<link rel="modulepreload" href="/static/{path}">' for path in await modules())
        text = index.content.decode().replace(MODULES, links).replace("/static/", f"/static/{current}/")
        _built = current, File(text.encode(), index.type, _tag(text.encode()))
    return _built[1]


async def modules() -> list[str]:
    """The entry module and all modules that it imports, as paths below `static`."""
    needed = [ENTRY]
    for path in needed:
        file = await found(path)
        if file is not None:
            needed += [target for target in dict.fromkeys(_imports(path, file)) if target not in needed]
    return needed


def _imports(path: str, file: File) -> Iterator[str]:
    for match in _IMPORT.finditer(file.content.decode()):
        yield posixpath.normpath(posixpath.join(posixpath.dirname(path), match[1] or match[2]))


def _paths() -> list[str]:
    return sorted(str(path.relative_to(STATIC)) for path in STATIC.rglob("*") if path.suffix in TYPES)


def _tag(content: bytes) -> str:
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'
