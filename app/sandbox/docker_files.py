"""Files of a container's workspace.

Reading goes through the Engine's archive API, so it needs neither a running container nor an Engine on this host.
Listing and writing run a small script in the container, as its user: an archive of a directory carries all its content,
and one that is put there is unpacked in place, so that a reader could meet half a file.

Every component of a path is looked at before it is used. Between the look and the use a command may put a link there;
what that can reach is the container's own file system with its own user's rights, never the host's.
"""

from __future__ import annotations

import asyncio
import io
import re
import secrets
import tarfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress

import aiodocker

from app.errors import SandboxError
from app.sandbox import paths, tar
from app.sandbox.base import WORKSPACE, FileInfo
from app.sandbox.docker_archives import ContainerArchives, PathStatus
from app.sandbox.docker_streams import run_script
from app.sandbox.engine import Engine, refused
from app.sandbox.workspace import kind_of

_LISTED_BYTES = 512
"""Bytes of listing allowed for each entry asked for; a path has 4,095 at most and far fewer as a rule."""
_LINK, _NOT_A_FILE, _FULL, _CLOSED = 40, 41, 42, 43

# $1 directory, $2 name, $3 temporary name, $4 size. The size is compared, so that an input which broke off is no file.
# A failure on a disk without a free block is told apart, and so is a place that is closed or that a command has moved
# away meanwhile.
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

# $1 directory, $2 mark of an entry, $3 greatest depth, $4 bytes. A name may hold anything but the mark, random.
_LIST_SCRIPT = f"""
cd -- "./$1" || exit {_CLOSED}
find . -mindepth 1 -maxdepth "$3" -exec stat -c "$2 %f %s %Y %n" -- {{}} + 2>/dev/null | head -c "$4"
"""
_ENTRY = re.compile(rb"([0-9a-f]{1,8}) (\d{1,19}) (-?\d{1,19}) (.*)", re.DOTALL)
_MAX_DEPTH = 200
READS = 3
"""How often a file is read at most that changes while it is read."""


class ContainerFiles:
    """The files of one session's container, which exists; for `list` and `write` it runs."""

    def __init__(self, engine: Engine, container: str, archives: ContainerArchives) -> None:
        """`archives` are those of the same container."""
        self._engine = engine
        self._container = container
        self._archives = archives

    async def read(self, path: str, max_bytes: int | None) -> bytes:
        names = paths.resolve(path)
        status = await self._status(names, path)
        if not status.is_regular:
            raise paths.not_a_file(path)
        limit = status.size if max_bytes is None else max_bytes
        if status.size > limit:
            raise paths.too_large(path, status.size, limit)
        for _ in range(READS):
            archive = await self._fetch(names, path, limit)
            with suppress(tarfile.TarError):
                return await asyncio.to_thread(_content, archive, path)
        raise SandboxError(f"{paths.show(path)} cannot be read, because it changes all the time.")

    async def write(self, path: str, data: bytes) -> None:
        names = paths.resolve(path)
        if not names:
            raise paths.not_a_file(path)
        await self._check_parents(names[:-1], path)
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
        status = await self._status(names, path)
        if not status.is_directory:
            raise paths.not_a_directory(path)
        mark = secrets.token_hex(16)
        size = (limit + 1) * _LISTED_BYTES
        arguments = ("/".join(names) or ".", mark, str(_MAX_DEPTH if recursive else 1), str(size))
        code, output, messages = await run_script(
            self._engine, self._container, _LIST_SCRIPT, arguments, limit=2 * size
        )
        if code == _CLOSED:
            raise paths.closed(path)
        if code != 0 and not output:
            raise SandboxError(f"{paths.show(path)} cannot be listed: {_last_line(messages)}")
        entries = parse_listing(output, mark, names, complete=len(output) < size)
        return sorted(entries, key=lambda info: info.path)[:limit]

    async def archive(self) -> AsyncIterator[bytes]:
        pieces = self._archives.fetch(f"{WORKSPACE}/.")
        with _refusals("."):
            async for piece in tar.without_special_files(pieces):
                yield piece

    async def _fetch(self, names: Sequence[str], path: str, limit: int) -> bytes:
        archive = bytearray()
        with _refusals(path):
            async for piece in self._archives.fetch(_absolute(names)):
                archive += piece
                if len(archive) > limit + tar.OVERHEAD:
                    raise paths.too_large(path, len(archive), limit)
        return bytes(archive)

    async def _status(self, names: Sequence[str], path: str) -> PathStatus:
        """What lies at the end of the path; raises where that is nothing, or a link, or beyond one."""
        status = await self._look_at((), path)
        for count in range(1, len(names) + 1):
            if status is not None and not status.is_directory:
                raise paths.not_a_directory(path)
            status = await self._look_at(names[:count], path)
            if status is None:
                raise paths.file_not_found(path)
            if status.is_link:
                raise paths.outside_workspace(path)
        if status is None:
            raise SandboxError("The session has no workspace.")
        return status

    async def _look_at(self, names: Sequence[str], path: str) -> PathStatus | None:
        """What lies at a part of the path; None where nothing does."""
        with _refusals(path):
            return await self._archives.status(_absolute(names))

    async def _check_parents(self, names: Sequence[str], path: str) -> None:
        """Raises where a parent is a link or no directory; one that does not exist yet will be made."""
        for count in range(1, len(names) + 1):
            status = await self._look_at(names[:count], path)
            if status is None:
                return
            if status.is_link:
                raise paths.outside_workspace(path)
            if not status.is_directory:
                raise paths.not_a_directory(path)


@contextmanager
def _refusals(path: str) -> Iterator[None]:
    """Tells what the Engine refuses in our errors. A command may take away or swap what was looked at just before."""
    try:
        yield
    except aiodocker.DockerError as exc:
        raise paths.file_not_found(path) if exc.status == 404 else refused(exc) from exc


def parse_listing(output: bytes, mark: str, names: Sequence[str], *, complete: bool) -> list[FileInfo]:
    """The entries of the list script's output; the last one is left out where the output is not complete."""
    records = output.split(mark.encode() + b" ")[1:]
    prefix = "".join(f"{name}/" for name in names)
    return [_parse_entry(record, prefix) for record in (records if complete else records[:-1])]


def _parse_entry(record: bytes, prefix: str) -> FileInfo:
    # Another command of the container may write into the script's output, as it runs as the same user.
    entry = _ENTRY.fullmatch(record)
    if entry is None:
        raise SandboxError("The sandbox's answer is no listing.")
    mode, size, modified, name = entry.groups()
    path = paths.clean_name(name.removesuffix(b"\n").removeprefix(b"./"))
    return FileInfo(prefix + path, kind_of(int(mode, 16)), int(size), float(modified))


def _content(archive: bytes, path: str) -> bytes:
    """Raises `tarfile.TarError` where the archive broke off, as the Engine's do when the file changes meanwhile."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as file:
        member = file.next()
        content = file.extractfile(member) if member is not None and member.isreg() else None
        if content is None:  # it was replaced since it was looked at
            raise paths.not_a_file(path)
        return content.read()


def _absolute(names: Sequence[str]) -> str:
    return "/".join((WORKSPACE, *names))


def _last_line(messages: bytes) -> str:
    lines = messages.decode("utf-8", "replace").split("\n")
    return next((paths.show(line.strip()) for line in reversed(lines) if line.strip()), "the command failed.")
