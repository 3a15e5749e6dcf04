"""Files of a container's workspace, through scripts in the container and the Engine's archive API."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, contextmanager
from dataclasses import dataclass
from operator import attrgetter

import aiodocker
import aiohttp

from app.errors import SandboxError
from app.sandbox import paths, tar
from app.sandbox.base import WORKSPACE, FileInfo
from app.sandbox.docker.engine import Engine, refused
from app.sandbox.docker.scripts import run_script
from app.sandbox.host.workspace import kind_of

_LISTED_BYTES = 512
"""Bytes of listing allowed for each entry asked for; a path has 4,095 at most and far fewer usually."""
_LINK, _NOT_A_FILE, _FULL, _CLOSED = 40, 41, 42, 43
# $1 directory, $2 name, $3 temporary name, $4 size. The size is compared, so that an incomplete input is rejected.
# A full disk has its own exit code, and so does a place without access or one that a command has just moved away.
_WRITE_SCRIPT = f"""
fail() {{ [ "$(stat -f -c %a .)" = 0 ] && exit {_FULL}; exit "$1"; }}
mkdir -p -- "./$1" && cd -- "./$1" || fail {_CLOSED}
[ ! -L "./$2" ] || exit {_LINK}
[ ! -e "./$2" ] || [ -f "./$2" ] || exit {_NOT_A_FILE}
temporary=$3
cleanup() {{ rm -f "./$temporary"; }}
true >"./$3" || fail {_CLOSED}
head -c "$4" >"./$3" && [ "$(stat -c %s "./$3")" = "$4" ] || fail 1
mode=; [ ! -f "./$2" ] || mode=$(stat -c %a "./$2")
chmod "${{mode:-644}}" "./$3" && mv -f "./$3" "./$2" || fail {_CLOSED}
"""
# $1 directory, $2 mark of an entry, $3 maximum depth, $4 bytes. A name may hold anything but the mark, random.
_LIST_SCRIPT = f"""
cd -- "./$1" || exit {_CLOSED}
find . -mindepth 1 -maxdepth "$3" -exec stat -c "$2 %f %s %Y %n" -- {{}} + 2>/dev/null | head -c "$4"
"""
_ENTRY = re.compile(rb"([0-9a-f]{1,8}) (\d{1,19}) (-?\d{1,19}) (.*)", re.DOTALL)
_MAX_DEPTH = 200
READS = 3
"""Maximum attempts to fetch a file that keeps changing."""

ARCHIVE_PIECE = 64 * 1024
"""Bytes of an archive read at a time."""
# Go's os.FileMode bits, in which the Engine describes a path
_GO_DIRECTORY, _GO_LINK = 1 << 31, 1 << 27
_GO_TYPES = _GO_DIRECTORY | _GO_LINK | 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19


class ContainerFile:
    """A file of a container, fetched on each read. What was appended after the status check is left out."""

    def __init__(self, archives: ContainerArchives, place: str, status: PathStatus, path: str) -> None:
        self.size = status.size
        self.version = f"{status.size:x}-{status.changed}"
        self._archives = archives
        self._place = place
        self._path = path

    async def read(self, part: range) -> AsyncGenerator[bytes, None]:
        for again in reversed(range(READS)):
            has_begun = False
            try:
                async with aclosing(self._read(part)) as pieces:
                    async for piece in pieces:
                        has_begun = True
                        yield piece
                return
            except SandboxError:
                # The Engine's archive breaks off if a command replaces the file in the meantime.
                if has_begun or not again:
                    raise

    async def _read(self, part: range) -> AsyncGenerator[bytes, None]:
        start = 0
        with _refusals(self._path):
            async with (
                aclosing(self._archives.fetch(self._place)) as archive,
                aclosing(tar.file_content(archive)) as content,
            ):
                async for piece in content:
                    wanted = piece[max(part.start - start, 0) : max(part.stop - start, 0)]
                    start += len(piece)
                    if wanted:
                        yield wanted
                    if start >= part.stop:
                        break
        if start == 0 < part.stop:  # it was replaced since it was checked
            raise paths.not_a_file(self._path)
        if start < part.stop:
            raise paths.became_shorter(self._path)

    async def aclose(self) -> None:
        """Does nothing: no resource is held open."""


class ContainerFiles:
    """The files of one session's container, which exists; `list` and `write` need it running."""

    def __init__(self, engine: Engine, container: str, archives: ContainerArchives) -> None:
        """`archives` belongs to the same container."""
        self._engine = engine
        self._container = container
        self._archives = archives

    async def read(self, path: str, max_bytes: int | None) -> bytes:
        file = await self.open(path)
        limit = file.size if max_bytes is None else max_bytes
        if file.size > limit:
            raise paths.too_large(path, file.size, limit)
        return b"".join([piece async for piece in file.read(range(file.size))])

    async def open(self, path: str) -> ContainerFile:
        route = paths.Route(paths.resolve(path), path)
        status = await self._follow(route, path)
        if not status.is_regular:
            raise paths.not_a_file(path)
        return ContainerFile(self._archives, _absolute(route.place), status, path)

    async def write(self, path: str, data: bytes) -> None:
        route = paths.Route(paths.resolve(path), path)
        await self._follow(route, path, create=True)
        names = route.place
        if not names:
            raise paths.not_a_file(path)
        temporary = f".palimpsest-{secrets.token_hex(8)}"
        arguments = ("/".join(names[:-1]) or ".", names[-1], temporary, str(len(data)))
        code, _, messages = await run_script(self._engine, self._container, _WRITE_SCRIPT, arguments, stdin=data)
        if code == _LINK:
            raise paths.outside_workspace(path)
        if code == _NOT_A_FILE:
            raise paths.not_a_file(path)
        if code == _FULL:
            raise paths.workspace_full(path)
        if code == _CLOSED:
            raise paths.closed(path)
        if code != 0:
            raise SandboxError(f"{paths.show(path)} cannot be written: {_last_line(messages)}")

    async def list(self, path: str, recursive: bool, limit: int) -> Sequence[FileInfo]:
        names = paths.resolve(path)
        route = paths.Route(names, path)
        if not (await self._follow(route, path)).is_directory:
            raise paths.not_a_directory(path)
        mark = secrets.token_hex(16)
        size = (limit + 1) * _LISTED_BYTES
        arguments = ("/".join(route.place) or ".", mark, str(_MAX_DEPTH if recursive else 1), str(size))
        code, output, messages = await run_script(
            self._engine, self._container, _LIST_SCRIPT, arguments, limit=2 * size
        )
        if code == _CLOSED:
            raise paths.closed(path)
        if code != 0 and not output:
            raise SandboxError(f"{paths.show(path)} cannot be listed: {_last_line(messages)}")
        complete = len(output) < size

        def entries() -> list[FileInfo]:
            return sorted(parse_listing(output, mark, names, complete=complete), key=attrgetter("path"))[:limit]

        # Parsing ten thousand entries would block the event loop for too long.
        return await asyncio.to_thread(entries)

    async def archive(self) -> AsyncIterator[bytes]:
        with _refusals("."):
            async with (
                aclosing(self._archives.fetch(f"{WORKSPACE}/.")) as archive,
                aclosing(tar.without_special_files(archive)) as pieces,
            ):
                async for piece in pieces:
                    yield piece

    async def _follow(self, route: paths.Route, path: str, *, create: bool = False) -> PathStatus:
        """Walks along a route; returns the status of where it leads. With `create`, names at its end may be missing."""
        top = status = await self._look_at((), path)
        if top is None or status is None:
            raise SandboxError("The session has no workspace.")
        while (name := route.next()) is not None:
            if not status.is_directory:
                raise paths.not_a_directory(path)
            found = await self._look_at([*route.place, name], path)
            if found is not None and found.is_link:
                route.follow(found.target)
                status = top
            elif found is not None:
                route.enter()
                status = found
            elif create and not route.is_of_link:
                route.enter_rest()
            else:
                raise route.missing()
        return status

    async def _look_at(self, names: Sequence[str], path: str) -> PathStatus | None:
        """The status of one component of the path; None if it does not exist."""
        with _refusals(path):
            return await self._archives.status(_absolute(names))


@contextmanager
def _refusals(path: str) -> Iterator[None]:
    """Translates the Engine's errors. A command may remove or replace a path after it was checked."""
    try:
        yield
    except aiodocker.DockerError as exc:
        raise paths.file_not_found(path) if exc.status == 404 else refused(exc) from exc


def parse_listing(output: bytes, mark: str, names: Sequence[str], *, complete: bool) -> list[FileInfo]:
    """The entries of the list script's output; the last one is left out if the output is incomplete."""
    records = list(split(output, mark))[1:]
    prefix = "".join(f"{name}/" for name in names)
    return [_parse_entry(record, prefix) for record in (records if complete else records[:-1])]


def split(output: bytes, mark: str) -> Iterator[bytes]:
    """What a script has printed before its first mark, and after each one. Splitting it all at once would keep other
    threads waiting."""
    separator = mark.encode() + b" "
    start = 0
    while (end := output.find(separator, start)) >= 0:
        yield output[start:end]
        start = end + len(separator)
    yield output[start:]


def _parse_entry(record: bytes, prefix: str) -> FileInfo:
    # Another command of the container may write into the script's output, as it runs as the same user.
    entry = _ENTRY.fullmatch(record)
    if entry is None:
        raise SandboxError("The sandbox returned an invalid listing.")
    mode, size, modified, name = entry.groups()
    path = paths.clean_name(name.removesuffix(b"\n").removeprefix(b"./"))
    return FileInfo(prefix + path, kind_of(int(mode, 16)), int(size), float(modified))


def _absolute(names: Sequence[str]) -> str:
    return "/".join((WORKSPACE, *names))


def _last_line(messages: bytes) -> str:
    lines = messages.decode("utf-8", "replace").split("\n")
    return next((paths.show(line.strip()) for line in reversed(lines) if line.strip()), "the command failed.")


@dataclass(frozen=True, slots=True)
class PathStatus:
    """The Engine's description of one path in a container; of a link itself."""

    mode: int
    size: int
    changed: str = ""
    """When its content was changed last, as the Engine writes it."""
    target: str = ""
    """Where a link leads in the container, through other links too."""

    @property
    def is_link(self) -> bool:
        return bool(self.mode & _GO_LINK)

    @property
    def is_directory(self) -> bool:
        return bool(self.mode & _GO_DIRECTORY)

    @property
    def is_regular(self) -> bool:
        return not self.mode & _GO_TYPES


class ContainerArchives:
    """The content of one container, running or not. Methods raise what those of `Engine` raise."""

    def __init__(self, engine: Engine, container: str) -> None:
        self._engine = engine
        self._container = container

    async def status(self, path: str) -> PathStatus | None:
        """The status of `path`; None if it does not exist."""
        async with self._engine.answering(self._engine.look_s):
            docker = self._engine.docker
            # not through aiodocker: it parses an error's body as JSON, and a response to HEAD has none
            url = f"{docker.docker_host}/{docker.api_version}/containers/{self._container}/archive"
            async with docker.session.head(url, params={"path": path}) as response:
                if response.status == 404:
                    return None
                if response.status != 200:
                    raise aiodocker.DockerError(response.status, f"It cannot look at {path!r} or its target.")
                status = json.loads(base64.b64decode(response.headers["X-Docker-Container-Path-Stat"]))
        return PathStatus(int(status["mode"]), int(status["size"]), str(status["mtime"]), str(status["linkTarget"]))

    async def fetch(self, path: str) -> AsyncGenerator[bytes, None]:
        """Yields `path` as a tar in pieces."""
        with self._engine.translated():
            # A timeout of the connection only, since the consumer may be slow.
            silence = aiohttp.ClientTimeout(sock_read=self._engine.answer_s)
            async with AsyncExitStack() as stack:
                async with self._engine.answering():
                    response = await stack.enter_async_context(self._archive(path, "GET", silence))
                # If abandoned halfway, its connection cannot be reused.
                stack.callback(response.close)
                async for piece in response.content.iter_chunked(ARCHIVE_PIECE):
                    yield piece

    async def put(self, path: str, archive: bytes | AsyncIterator[bytes]) -> None:
        """Unpacks a tar at `path`, with the owners it names."""
        async with self._engine.answering() as heard:
            data = archive if isinstance(archive, bytes) else _each(archive, heard)
            async with self._archive(path, "PUT", aiohttp.ClientTimeout(), data):
                pass

    def _archive(
        self,
        path: str,
        method: str,
        timeout: aiohttp.ClientTimeout,
        data: bytes | AsyncIterator[bytes] | None = None,
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return self._engine.docker._query(
            f"containers/{self._container}/archive",
            method=method,
            params={"path": path},
            data=data,
            headers={"Content-Type": "application/x-tar"},
            timeout=timeout,
        )


async def _each(pieces: AsyncIterator[bytes], heard: Callable[[], None]) -> AsyncIterator[bytes]:
    async for piece in pieces:
        heard()
        yield piece
