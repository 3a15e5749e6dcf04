"""The page's files: as they are on the disk, and the page itself, made so that a browser loads the rest at once.

The page is modules that import each other. A browser that had to read each before it knows the next would ask a dozen
times in a row, so the page names them all. It names them under an address with the version in it, which a browser keeps
for good and in which two versions never meet.
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
"""What is served, and as what; the machine's own table of types may say something that no browser runs."""

LOOK_S = 1.0
"""How long the files are taken to be those that they were, in seconds: to look at all takes 3 ms, and a browser asks
for more than a hundred."""

VERSION = re.compile(r"v-[0-9a-f]{16}")
MODULES = "<!-- modules -->"
"""The place in the page for the names of its modules."""

_IMPORT = re.compile(r"""^(?:import|export)\b[^"'`;]*?["'](\.[^"']+)["']|\bfrom\s*["'](\.[^"']+)["']""", re.MULTILINE)
"""What a module imports, unless it does so later, by a call."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of the page as it was read; `seen` is what its place on the disk looked like then. `tag` changes with the
    content and with nothing else: times of files say little where packages are unpacked."""

    content: bytes
    type: str
    tag: str
    seen: tuple[int, int, int] = (0, 0, 0)


_read: dict[str, File] = {}
"""Files by path, since a browser asks for more than a hundred to show the page; all of them have about a megabyte."""
_version: tuple[float, str] | None = None
_built: tuple[str, File] | None = None
"""The page of a version."""


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
            _read[path] = File(content, type_, _tag(content), seen)
    except (OSError, ValueError):
        return None
    return _read[path]


async def version() -> str:
    """What all files together are called: `v-` and a hash of their contents, looked at once a second."""
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
    """The page, which names all that it loads."""
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
    """The modules that the first one needs, itself first, by their paths below `static`."""
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
