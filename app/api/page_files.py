"""The page's files, read from disk, and the page itself, built so that a browser loads all of them at once.

The page consists of modules that import each other. To discover them one by one, a browser would need a dozen round
trips, so the page lists them all. Their URLs contain a version: browsers cache them forever, and two versions never
mix.
"""

from __future__ import annotations

import asyncio
import hashlib
import posixpath
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

STATIC = Path(__file__).parents[1] / "static"
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
