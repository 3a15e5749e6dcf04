"""The page at `/` and its files, as they are on the disk: bundled as `make page` left them, or module by module if one
was edited since."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import os
import posixpath
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request, Response

from app.api.responses import has_tag
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
DOCS_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        # Swagger UI sets inline styles, and has its icons in data: URLs.
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""For `/docs`, which shows nothing but the server's own OpenAPI document."""
UNUSED = (
    *("accelerometer", "autoplay", "camera", "display-capture", "encrypted-media", "fullscreen", "geolocation"),
    *("gyroscope", "hid", "magnetometer", "microphone", "midi", "payment", "picture-in-picture"),
    *("publickey-credentials-get", "screen-wake-lock", "serial", "usb", "xr-spatial-tracking"),
)
"""Browser features that the page does not need."""
HEADERS = {
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
BUNDLE = "bundle"
"""The folder below `static` that `make page` writes: few small files made of all others."""
MANIFEST = f"{BUNDLE}/manifest.json"
"""Says in `sources` which sources the bundle was made of."""
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
"""File types that are served, with their media types; the machine's own table may have types that browsers refuse."""
HASHED = TYPES.keys() - {".map"}
DOCS = ("docs/", "vendor/swagger-ui/")
"""The files of `/docs`, which the page does not need."""
COMPRESSED_FROM = 1_000
"""Bytes from which a file is sent compressed."""
LOOK_S = 1.0
"""How long the files are assumed to be unchanged, in seconds: checking all of them takes 2 ms, and without the bundle a
browser requests more than two hundred."""
SOURCES = (".css", ".html", ".js")
"""What a bundle is made of."""
VERSION = re.compile(r"v-[0-9a-f]{16}")
MODULES = "<!-- modules -->"
"""Placeholder in the page for the list of its modules."""
_IMPORT = re.compile(r"""^(?:import|export)\b[^"'`;]*?["'](\.[^"']+)["']|\bfrom\s*["'](\.[^"']+)["']""", re.MULTILINE)
"""Static imports of a module; dynamic ones (`import()`) are not matched."""


@router.get("/")
async def get_page(request: Request) -> Response:
    return await _answer(request, await page(), CHANGING)


@router.get("/docs")
async def get_docs(request: Request) -> Response:
    """The API's documentation, from its OpenAPI document."""
    file = await found("docs/index.html")
    assert file is not None
    return await _answer(request, file, CHANGING, DOCS_POLICY)


@router.get("/static/{path:path}")
async def get_static(request: Request, path: str) -> Response:
    """A file of the page, or 304 if the browser has it. Raises `NotFoundError`."""
    first, _, rest = path.partition("/")
    named = VERSION.fullmatch(first) is not None
    file = await found(rest if named else path)
    if file is None:
        raise NotFoundError("The page has no such file.")
    return await _answer(request, file, LASTING if named and first == await version() else CHANGING)


async def _answer(request: Request, file: File, caching: str, policy: str = POLICY) -> Response:
    own = {"ETag": file.tag, "Cache-Control": caching, "Vary": "Accept-Encoding", "Content-Security-Policy": policy}
    headers = {**HEADERS, **own}
    if has_tag(request.headers.get("if-none-match", ""), file.tag):
        return Response(status_code=304, headers=headers)
    if len(file.content) >= COMPRESSED_FROM and accepts_gzip(request.headers.get("accept-encoding", "")):
        file.compressed = file.compressed or await asyncio.to_thread(_compressed, file.content)
        return Response(file.compressed, media_type=file.type, headers={**headers, "Content-Encoding": "gzip"})
    return Response(file.content, media_type=file.type, headers=headers)


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether `Accept-Encoding` names gzip, and not with a weight of zero."""
    for part in accept_encoding.lower().split(","):
        name, _, weight = part.partition(";")
        if name.strip() in ("gzip", "*"):
            return not re.fullmatch(r"q=0(\.0*)?", weight.strip())
    return False


Seen = tuple[int, int, int]
"""A file's modification time, size and inode."""


@dataclass(slots=True)
class File:
    """A file of the page, as it was `seen` when it was read. `tag` depends only on the content: file times are
    unreliable in unpacked packages. It is weak, as both encodings of the file have it."""

    content: bytes
    type: str
    tag: str
    seen: Seen = (0, 0, 0)
    compressed: bytes = b""
    """The content in gzip, once it was requested: compressing all files takes 100 ms."""


_read: dict[str, File] = {}
"""Cached files by path, in total about two megabytes."""
_version: tuple[float, dict[str, Seen], str] | None = None
"""When the files were last checked, how they were seen, and their version."""
_built: tuple[str, File] | None = None
"""The page, with its version."""


async def found(path: str) -> File | None:
    """The file below `static`, as it is on disk now; None if it does not exist or is not served."""
    type_, names = TYPES.get(Path(path).suffix), path.split("/")
    if type_ is None or any(name in ("", ".", "..") for name in names):
        return None
    place = STATIC.joinpath(*names)
    try:
        seen = _seen(place.stat())
        if path not in _read or _read[path].seen != seen:
            _read[path] = await asyncio.to_thread(lambda: _made(place.read_bytes(), type_, seen))
    except (OSError, ValueError):
        return None
    return _read[path]


async def version() -> str:
    """The version of all files: `v-` and a hash of their contents. They are checked at most once a second."""
    global _version
    if _version is None or time.monotonic() - _version[0] > LOOK_S:
        files = await asyncio.to_thread(_files)
        known = _version[2] if _version and _version[1] == files else f"v-{(await _digest(files))[:16]}"
        _version = time.monotonic(), files, known
    return _version[2]


async def _digest(paths: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        file = await found(path)
        digest.update(f"{path} {file.tag if file else None}\n".encode())
    return digest.hexdigest()


async def sources() -> str:
    """A hash of the files that the bundle is made of."""
    paths = await asyncio.to_thread(_files)
    return await _digest([path for path in paths if path.endswith(SOURCES) and not path.startswith(f"{BUNDLE}/")])


async def is_bundled() -> bool:
    """Whether the bundle was made of the sources as they are now."""
    manifest = await found(MANIFEST)
    return manifest is not None and json.loads(manifest.content)["sources"] == await sources()


async def page() -> File:
    """The page: with the bundle, or with a list of all modules that it loads."""
    global _built
    current = await version()
    if _built is None or _built[0] != current:
        index = await found(f"{BUNDLE}/{PAGE}" if await is_bundled() else PAGE)
        assert index is not None
        text = index.content.decode()
        if MODULES in text:
            text = text.replace(MODULES, "\n".join(preload(path) for path in await modules()))
        text = text.replace("/static/", f"/static/{current}/")
        _built = current, _made(text.encode(), index.type)
    return _built[1]


def preload(path: str) -> str:
    """The link that makes a browser load the module at once."""
    return f'<link rel="modulepreload" href="/static/{path}">'


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


def _files(folder: str = "") -> dict[str, Seen]:
    """All files of the page but source maps, which are large and loaded only by developer tools."""
    found: dict[str, Seen] = {}
    with os.scandir(STATIC / folder) as entries:
        for entry in entries:
            path = f"{folder}{entry.name}"
            # A file may be removed meanwhile, and an editor's lock is a link that leads nowhere.
            with suppress(FileNotFoundError):
                if entry.is_dir():
                    found |= {} if f"{path}/" in DOCS else _files(f"{path}/")
                elif os.path.splitext(entry.name)[1] in HASHED:
                    found[path] = _seen(entry.stat())
    return found


def _seen(status: os.stat_result) -> Seen:
    return status.st_mtime_ns, status.st_size, status.st_ino


def _made(content: bytes, type_: str, seen: Seen = (0, 0, 0)) -> File:
    return File(content, type_, f'W/"{hashlib.sha256(content).hexdigest()[:32]}"', seen)


def _compressed(content: bytes) -> bytes:
    # Without a time, the same content is the same everywhere.
    return gzip.compress(content, mtime=0)
