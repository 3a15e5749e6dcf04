"""A container's workspace, copied, scanned and restored: by scripts in the container, and through the Engine's
archives."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from itertools import islice
from operator import itemgetter

import aiodocker

from app.errors import SandboxError, SandboxUnavailableError, WorkspaceFullError
from app.sandbox import paths, tar
from app.sandbox.base import WORKSPACE, Scan, TreeEntry
from app.sandbox.docker.engine import Engine, refused
from app.sandbox.docker.files import ContainerArchives, split
from app.sandbox.docker.scripts import run_script
from app.sandbox.host.copying import copy_too_large
from app.sandbox.host.workspace import MAX_DEPTH, kind_of

ROOT = "/"
"""Where the archive of a workspace is unpacked: at a directory below, the Engine refuses links that lead out of it."""
COPIES = 3
"""Maximum attempts to copy a workspace whose files keep changing."""
BROKEN_OFF = "unexpected EOF"
"""The Engine's errors for an archive that ends too soon, as its own do if a file shrinks or disappears while being
read."""
_SCANNED_BYTES = 512
"""Bytes of output allowed for each entry of a scan."""
# $1 mark of an entry, $2 maximum depth, $3 bytes, the rest: options of find that leave out the contents of some
# directories. busybox shows times in whole seconds, others in nanoseconds too.
_SCAN_SCRIPT = """
cd /workspace || exit 1
date +%s
case $(stat -c %.Y . 2>/dev/null) in *.?????????) times='%.Y %.Z' ;; *) times='%Y %Z' ;; esac
mark=$1 depth=$2 bytes=$3; shift 3
find . -mindepth 1 -maxdepth "$depth" -exec stat -c "$mark %f %s $times %i %n" -- {} + "$@" 2>/dev/null |
    head -c "$bytes"
"""
# $1 a command with options, $2 bytes of its arguments in the input, each ended by a NUL.
_EACH_SCRIPT = """
cd /workspace || exit 1
head -c "$2" | xargs -0 -r $1 -- 2>/dev/null
exit 0
"""
_ENTRY = re.compile(rb"([0-9a-f]{1,8}) (\d{1,19}) (-?[\d.]{1,30}) (-?[\d.]{1,30}) (\d{1,20}) \./(.+)\n", re.DOTALL)
_SECOND = 1_000_000_000


async def copy(source: ContainerArchives, target: ContainerArchives, limit: int) -> None:
    """Copies a workspace of up to `limit` bytes into an empty one: streamed directly, keeping owners, without commands
    that an image might lack."""
    for others in reversed(range(COPIES)):
        pieces = _Bounded(source.fetch(WORKSPACE), limit)
        try:
            async with aclosing(aiter(pieces)) as archive:
                await target.put(ROOT, archive)
            return
        except (aiodocker.DockerError, SandboxUnavailableError) as exc:
            if pieces.is_over:
                raise copy_too_large(limit) from exc
            if isinstance(exc, SandboxUnavailableError):
                raise
            if not (others and BROKEN_OFF in str(exc.message)):
                raise not_copied(exc) from exc


async def restore(archives: ContainerArchives, archive: AsyncIterator[bytes]) -> None:
    """See `MovableSandbox.restore`; the workspace must be empty."""
    try:
        await archives.put(ROOT, tar.in_folder(WORKSPACE.strip("/"), archive))
    except aiodocker.DockerError as exc:
        raise not_copied(exc) from exc


class _Bounded:
    """The pieces of an archive, up to `limit` bytes. An archive fills the holes of files, so it may be far larger than
    its workspace."""

    def __init__(self, pieces: AsyncGenerator[bytes, None], limit: int) -> None:
        self._pieces = pieces
        self._left = limit
        self.is_over = False

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        # If the source were left open halfway, it could not be used again.
        async with aclosing(self._pieces) as pieces:
            async for piece in pieces:
                self._left -= len(piece)
                if self._left < 0:
                    self.is_over = True
                    raise OSError(errno.EFBIG, "the archive is too large")
                yield piece


def not_copied(exc: aiodocker.DockerError) -> SandboxError:
    """The Engine refused an archive for a container."""
    # The Engine has no error code for this.
    if "no space left" in str(exc.message).lower() or "quota" in str(exc.message).lower():
        return WorkspaceFullError("The workspace cannot be copied: the disk of the Docker Engine is full.")
    return refused(exc)


async def remove(engine: Engine, container: str, removed: Sequence[TreeEntry]) -> None:
    """Removes entries, directories only if nothing is left in them; the container must run. What cannot be removed
    stays."""
    for command, data in await asyncio.to_thread(_removal, removed):
        if data:
            await run_script(engine, container, _EACH_SCRIPT, (command, str(len(data))), stdin=data)


def _removal(removed: Sequence[TreeEntry]) -> list[tuple[str, bytes]]:
    """Commands, and their arguments, each ended by a NUL."""
    parents = {entry.path.rpartition(b"/")[0] for entry in removed} - {b""}
    files = [entry.path for entry in removed if entry.type != "directory"]
    directories = sorted((entry.path for entry in removed if entry.type == "directory"), reverse=True)
    commands = (("chmod u+rwx", sorted(parents)), ("rm -f", files), ("rmdir", directories))
    return [(command, b"".join(b"./%b\0" % name for name in names)) for command, names in commands]


async def scan(engine: Engine, container: str, limit: int, skip: frozenset[bytes] = frozenset()) -> Scan:
    """See `MovableSandbox.scan`; the container must run."""
    mark = secrets.token_hex(16)
    size = (limit + 1) * _SCANNED_BYTES
    arguments = (mark, str(MAX_DEPTH), str(size), *_left_out(skip))
    code, output, _ = await run_script(engine, container, _SCAN_SCRIPT, arguments, limit=2 * size)
    if code != 0 and not output:
        raise SandboxError("The workspace cannot be scanned: the container has no usable find or stat.")
    # Parsing thousands of entries would block the event loop for too long.
    return await asyncio.to_thread(parse_scan, output, mark, limit)


def _left_out(names: frozenset[bytes]) -> list[str]:
    """Options for find, after an action for all entries, that keep it out of directories with these names."""
    if not names:
        return []
    listed = [
        word for name in sorted(names) for word in ("-o", "-name", re.sub(r"([*?\[\\])", r"\\\1", os.fsdecode(name)))
    ]
    return ["-type", "d", "(", *listed[1:], ")", "-prune"]


def parse_scan(output: bytes, mark: str, limit: int) -> Scan:
    """What the script has printed. Raises `TooLargeError` for more than `limit` entries."""
    records = split(output, mark)
    now = next(records)
    found = [entry for record in islice(records, limit) if (entry := _entry(record)) is not None]
    if next(records, None) is not None:
        raise paths.too_many_entries(limit)
    # The current second is not over, and the times may be whole seconds.
    # By path alone, which takes less time: no other thread runs meanwhile.
    return Scan(sorted(found, key=itemgetter(0)), (int(now) - 1) * _SECOND)


def _entry(line: bytes) -> TreeEntry | None:
    match = _ENTRY.fullmatch(line)
    if match is None:
        return None  # cut off at the end
    mode, size, modified, changed, inode, path = match.groups()
    kind = kind_of(int(mode, 16))
    if kind == "other":
        return None
    length = int(size) if kind == "file" else 0
    return TreeEntry(path, kind, int(mode, 16) & 0o777, length, _time_ns(modified), _time_ns(changed), int(inode))


def _time_ns(text: bytes) -> int:
    """Nanoseconds of a time in seconds, which has either no fraction or nine digits of it."""
    seconds, _, fraction = text.partition(b".")
    return int(seconds) * _SECOND + int(fraction or b"0")
