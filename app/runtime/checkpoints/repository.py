"""The git repository with a session's checkpoints: bare, outside of the workspace, and without anything that could
run a command.

git never sees the workspace: entries are read through the sandbox and given to `git fast-import`. So there are no
attributes, filters, hooks, submodules or settings of a user or of the workspace. A checkpoint is a commit without
parents, with two entries: the tree `files`, and the blob `modes` with what trees cannot hold.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

import orjson

from app.errors import PalimpsestError, UnavailableError

T = TypeVar("T")

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The id of the tree without entries, which every repository knows."""
GIT_S = 60.0
"""Seconds that a git command may take."""
WRITTEN = 1024 * 1024
"""Bytes gathered for one write to a git process."""
RENAMES = 1000
"""Files between which git looks for renames; the effort is quadratic."""
_NOW = "refs/palimpsest/now"
_UNFINISHED = (
    *("*.lock", "refs/**/*.lock", "packed-refs.new", "gc.pid", "fast_import_crash_*"),
    *("objects/pack/tmp_*", "objects/pack/.tmp-*", "objects/??/tmp_*"),
)
_CONFIG = {
    "core.bare": "true",
    "core.repositoryformatversion": "0",
    "core.hooksPath": "/dev/null",
    "core.attributesFile": "/dev/null",
    "core.fsmonitor": "false",
    # Names that only Windows and macOS must not have.
    "core.protectNTFS": "false",
    "core.protectHFS": "false",
    "core.compression": "1",
    "pack.threads": "1",
    "gc.auto": "0",
}


class GitMissingError(UnavailableError):
    """git is not installed."""

    code = "checkpoints_unavailable"
    title = "Checkpoints are not available"


class CheckpointError(PalimpsestError):
    """git failed."""

    code = "checkpoint_failed"
    title = "The checkpoint could not be used"


class Blob(NamedTuple):
    """A file or symbolic link of a tree; `mode` as in git: 0o100644, 0o100755 or 0o120000."""

    path: bytes
    mode: int
    id: str


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file that is there whole or not at all. Blocks."""
    # git ignores names of references that begin with a dot.
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_bytes(data)
    temporary.replace(path)


def blob_id(data: bytes | bytearray) -> str:
    """The id that git gives content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


INDEX = "palimpsest-index"
"""A file in the repository: the newest look, with what tells unchanged files of the workspace from others."""


class Repository:
    """The repository in `path`, which may not exist yet. Its methods raise `CheckpointError` and `GitMissingError`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self) -> None:
        """Makes it if it is not there. Blocks."""
        if (self.path / "HEAD").is_file():
            return
        for folder in ("objects", "refs/palimpsest", "info"):
            (self.path / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        sections: dict[str, list[str]] = {}
        for name, value in _CONFIG.items():
            section, _, key = name.partition(".")
            sections.setdefault(section, []).append(f"\t{key} = {value}\n")
        config = "".join(f"[{section}]\n{''.join(lines)}" for section, lines in sections.items())
        (self.path / "config").write_text(config)
        # A branch that never exists, so that git reads no attributes from a commit. Last: it makes this a repository.
        (self.path / "HEAD").write_text("ref: refs/heads/none\n")

    async def run(self, *arguments: str, stdin: bytes | None = None, output: IO[bytes] | None = None) -> bytes:
        """Runs a git command and returns what it prints, or writes that to `output`."""
        async with self._started(arguments, output) as process:
            try:
                async with asyncio.timeout(GIT_S):
                    printed, messages = await _in_thread(process, lambda: process.communicate(stdin))
            except TimeoutError as exc:
                raise CheckpointError(f"git {arguments[0]} took more than {GIT_S:.0f} seconds.") from exc
        if process.returncode != 0:
            raise _failed(arguments[0], messages)
        return printed or b""

    @asynccontextmanager
    async def _started(
        self, arguments: Sequence[str], output: IO[bytes] | None = None
    ) -> AsyncIterator[subprocess.Popen[bytes]]:
        """A git process, which is killed if it is left before its end. What it has left unfinished is removed."""
        starting = asyncio.ensure_future(asyncio.to_thread(self._start, arguments, output))
        try:
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The thread starts it all the same.
            with suppress(GitMissingError), _killed(await starting):
                pass
            await asyncio.to_thread(self.remove_unfinished)
            raise
        try:
            with _killed(process):
                yield process
        finally:
            if process.returncode != 0:
                await asyncio.to_thread(self.remove_unfinished)

    def _start(self, arguments: Sequence[str], output: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
        """Blocks."""
        try:
            return subprocess.Popen(  # noqa: S603 - arguments are ours or ids
                ["git", f"--git-dir={self.path}", *arguments],  # noqa: S607 - wherever the system has it
                stdin=subprocess.PIPE,
                stdout=output or subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd="/",
                env=_environment(),
                process_group=0,
            )
        except FileNotFoundError as exc:
            raise GitMissingError("git is not installed on the server's machine.") from exc

    @asynccontextmanager
    async def importing(self) -> AsyncIterator[Import]:
        """A new commit, which exists once `Import.commit` has returned."""
        # Without a depth, git looks for differences between files that have nothing in common.
        command = ("fast-import", "--quiet", "--force", "--done", "--date-format=raw", "--depth=0")
        async with self._started(command) as process:
            yield Import(process)

    async def changes(self, before: str, after: str) -> bytes:
        """The differences of two trees, as `git diff-tree -z --raw --numstat` prints them."""
        return await self.run("diff-tree", *_DIFF, "-z", "--raw", "--numstat", before, after)

    async def patch(self, before: str, after: str, output: IO[bytes]) -> None:
        """Writes the differences of two trees as a patch for `git apply`."""
        await self.run("diff-tree", *_DIFF, "-p", "--binary", "--full-index", before, after, output=output)

    async def files(self, tree: str) -> list[Blob]:
        """All files and symbolic links of a tree."""
        listed = await self.run("ls-tree", "-r", "-z", tree)
        return await asyncio.to_thread(lambda: [_blob(record) for record in listed.split(b"\0") if record])

    async def modes(self, commit: str) -> bytes:
        """See `Import.commit`."""
        return await self.run("cat-file", "blob", f"{commit}:modes")

    def contents(self, ids: Sequence[str]) -> Generator[bytes, None, None]:
        """The content of blobs, one after the other. Blocks."""
        with _killed(self._start(("cat-file", "--batch"))) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for id in ids:
                process.stdin.write(f"{id}\n".encode())
                process.stdin.flush()
                head = process.stdout.readline().split()
                if len(head) != 3:
                    raise CheckpointError("The checkpoint's repository lacks an object.")
                yield process.stdout.read(int(head[2]) + 1)[:-1]

    def keep(self, commit: str) -> None:
        """Keeps a commit until `keep_only` drops it. Blocks."""
        path = self.path / "refs" / "palimpsest" / commit
        if not path.is_file():
            write_whole(path, f"{commit}\n".encode())

    async def keep_only(self, commits: set[str]) -> bool:
        """Drops the references to all other commits, except to the newest look, which may be a checkpoint that is not
        stored yet; whether there were any."""
        refs = await self._refs()
        keep = commits | {refs[_NOW]} if _NOW in refs else commits
        drop = [ref for ref, commit in refs.items() if commit not in keep]
        if drop:
            await self.run("update-ref", "--stdin", stdin="".join(f"delete {ref}\n" for ref in drop).encode())
        return bool(drop)

    async def commits(self) -> set[str]:
        """The commits that are kept."""
        return set((await self._refs()).values())

    async def _refs(self) -> dict[str, str]:
        """The commits by reference; none if nothing was ever kept."""
        if not (self.path / "HEAD").is_file():
            return {}
        listed = (await self.run("for-each-ref", "--format=%(refname) %(objectname)")).decode()
        return dict(line.split(" ") for line in listed.splitlines())

    async def check_index(self) -> None:
        """After objects were added and removed: drops the newest look if its commit is no longer here."""
        index = self.path / INDEX
        try:
            commit = await asyncio.to_thread(lambda: orjson.loads(index.read_bytes().partition(b"\n")[0])["commit"])
            await self.run("cat-file", "-e", f"{commit}^{{tree}}")
        except FileNotFoundError:
            pass
        except (CheckpointError, OSError, ValueError, KeyError, TypeError):
            await asyncio.to_thread(index.unlink, missing_ok=True)

    async def collect(self) -> None:
        """Packs what is in use, and removes the rest."""
        await self.run("gc", "--quiet", "--prune=now")

    def remove_unfinished(self) -> None:
        """Removes what killed git processes have left, which would take space or block the next ones. None may be
        running. Blocks."""
        for left in (path for pattern in _UNFINISHED for path in self.path.glob(pattern)):
            with suppress(OSError):
                left.unlink()

    def size(self) -> tuple[int, int]:
        """Bytes on disk, and the number of files. Blocks."""
        files = (os.path.join(folder, name) for folder, _, names in os.walk(self.path) for name in names)
        sizes = [os.lstat(file).st_blocks * 512 for file in files]
        return sum(sizes), len(sizes)

    def copy_to(self, target: Path) -> None:
        """Copies the repository; objects, which never change, are shared. Blocks."""
        if not (self.path / "HEAD").is_file():
            return

        def copy(source: str, copied: str) -> None:
            if f"{os.sep}objects{os.sep}" in source:
                with suppress(OSError):  # another disk, or too many links
                    os.link(source, copied)
                    return
            shutil.copyfile(source, copied)

        shutil.copytree(self.path, target, copy_function=copy, ignore=shutil.ignore_patterns("tmp_*", "*.lock"))


_DIFF = (
    "-r",
    "-M",
    f"-l{RENAMES}",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)


class Import:
    """What is being written to a `git fast-import`. Its methods block, except `in_thread`, which runs them."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._held = bytearray()
        self.written: set[str] = set()

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Runs a call of these methods; if the caller is cancelled, git is killed."""
        return await _in_thread(self._process, call)

    def blob(self, data: bytes | bytearray) -> str:
        """Adds content and returns its id."""
        id = blob_id(data)
        if id not in self.written:
            self.written.add(id)
            self._write(b"blob\ndata %d\n" % len(data), data, b"\n")
        return id

    def commit(self, base: str, removed: Sequence[bytes], put: Sequence[Blob], modes: bytes) -> tuple[str, str]:
        """Makes the commit, which stays until the next one unless it is kept; returns its id and that of its tree of
        files. `base` is a tree to begin with, from which `removed` are removed first. `modes` are stored with it."""
        stored = self.blob(modes)
        self._write(b"commit %s\nmark :1\ncommitter palimpsest <> 0 +0000\ndata 0\n" % _NOW.encode())
        if base != EMPTY_TREE:
            self._write(b"M 040000 %s files\n" % base.encode())
        for path in removed:
            self._write(b"D %s\n" % _quoted(path))
        for blob in put:
            self._write(b"M %o %s %s\n" % (blob.mode, blob.id.encode(), _quoted(blob.path)))
        self._write(b'M 100644 %s modes\nls "files"\nget-mark :1\ndone\n' % stored.encode())
        self._flush()
        printed, messages = self._process.communicate()
        found = printed.split()
        if self._process.returncode != 0 or len(found) < 3:
            raise _failed("fast-import", messages)
        # `040000 tree ID files`, or `missing files`
        return found[-1].decode(), EMPTY_TREE if found[0] == b"missing" else found[2].decode()

    def _write(self, *pieces: bytes | bytearray) -> None:
        self._held += b"".join(pieces)
        if len(self._held) >= WRITTEN:
            self._flush()

    def _flush(self) -> None:
        assert self._process.stdin is not None
        # If git has failed, its message is reported at the end.
        with suppress(BrokenPipeError):
            self._process.stdin.write(self._held)
            self._process.stdin.flush()
        self._held = bytearray()


@contextmanager
def _killed(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Kills the process if it has not ended when the context is left."""
    try:
        yield process
    finally:
        if process.poll() is None:
            _kill(process)
            process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kills a process with its children, which hold its pipes."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _quoted(path: bytes) -> bytes:
    escaped = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"files/%s"' % escaped


def _blob(record: bytes) -> Blob:
    head, _, path = record.partition(b"\t")
    mode, _, id = head.split(b" ")
    return Blob(path, int(mode, 8), id.decode())


def _environment() -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }


async def _in_thread(process: subprocess.Popen[bytes], call: Callable[[], T]) -> T:
    """Runs a blocking call that ends with the process, which is killed if the caller is cancelled."""
    work = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        _kill(process)
        with suppress(Exception):
            await work
        raise


def _failed(command: str, messages: bytes) -> CheckpointError:
    text = messages.decode(errors="replace").strip()[:500]
    return CheckpointError(f"git {command} failed: {text or 'it was killed'}.")
