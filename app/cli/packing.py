"""A folder of this machine as an archive for a session: without what git ignores, or all of it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, cast

import typer
from pathspec import GitIgnoreSpec

from app.cli.screen import CliError, UsageError, columns, one_line, visible

SHOW_S, PAUSE_S = 1.0, 0.1
"""Seconds until progress is shown, and between two lines of it."""
LEVEL = 3
"""gzip's level: a little larger than the usual one, and twice as fast."""
IGNORES = ".gitignore"


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder to pack; `all` takes what git ignores too, and `.git`."""

    path: Path
    all: bool = False


def project_folder(given: str) -> Path:
    """The folder at an absolute path from a program. Raises `UsageError` if it is more than a project."""
    path = Path(given)
    if not path.is_absolute() or not path.is_dir():
        raise UsageError(f"{one_line(given)} is not the absolute path of a folder.", code="no_folder")
    if path in (Path.home(), Path(path.anchor)):
        raise UsageError(f"{path} is a home directory or a whole disk, not a project.", code="folder_too_large")
    return path


class Meter:
    """One changing line on a terminal, for what takes longer than a moment; nothing elsewhere."""

    def __init__(self) -> None:
        self._next = time.monotonic() + SHOW_S
        self._is_shown = False

    def show(self, text: Callable[[], str]) -> None:
        if time.monotonic() >= self._next and sys.stderr.isatty():
            self._next = time.monotonic() + PAUSE_S
            self._is_shown = True
            # A longer line would wrap, and the next one would not replace it.
            typer.echo(f"\r{visible(text())[: columns(sys.stderr) - 1]}\x1b[K", nl=False, err=True)

    def clear(self) -> None:
        if self._is_shown:
            typer.echo("\r\x1b[K", nl=False, err=True)


def pack(folder: Folder, into: IO[bytes], say: Callable[[str], None], *, only: Collection[str] | None = None) -> None:
    """Writes a tar.gz of a folder, or of its files in `only`, and reports what was left out and how much was packed.
    Links that lead out of the folder, special files and what cannot be read are left out. Blocks. Raises
    `CliError`."""
    if not folder.path.is_dir():
        raise UsageError(f"{folder.path} is not a folder.", code="no_folder")
    meter, files, size = Meter(), 0, 0
    try:
        with tarfile.open(fileobj=into, mode="w:gz", format=tarfile.PAX_FORMAT, compresslevel=LEVEL) as archive:
            for name in chosen(folder) if only is None else only:
                if (info := _entry(archive, folder.path, name, say)) is None:
                    continue
                _add(archive, info, folder.path / name)
                files, size = files + (not info.isdir()), size + info.size
                meter.show(partial(_amount, "packing: ", files, size))
    except OSError as error:
        raise CliError(f"{folder.path} cannot be packed: {error.strerror or error}.", code="not_packed") from error
    finally:
        meter.clear()
    say(f"{_amount('packed ', files, size)}, as {into.tell() / 1e6:,.1f} MB")


def _amount(text: str, files: int, size: int) -> str:
    return f"{text}{files:,} file{'' if files == 1 else 's'}, {size / 1e6:,.1f} MB"


def _entry(archive: tarfile.TarFile, folder: Path, name: str, say: Callable[[str], None]) -> tarfile.TarInfo | None:
    path = folder / name
    try:
        # None for a socket, unlike its published type.
        info = cast(tarfile.TarInfo | None, archive.gettarinfo(path, arcname=name))
        if info is not None and (info.isreg() or info.islnk()):
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        elif info is not None and info.isdir():
            os.scandir(path).close()
    except FileNotFoundError:
        return None  # removed, but still in git's index
    except OSError as error:
        say(f"left out {name}: {error.strerror}")
        return None
    if info is None or not (info.isreg() or info.isdir() or info.issym() or info.islnk()):
        say(f"left out {name}: it is not a file, folder or link")
        return None
    if info.issym() and _leads_out(name, info.linkname):
        say(f"left out {name}: it links out of the folder")
        return None
    info.mode &= 0o777
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def _leads_out(name: str, target: str) -> bool:
    leads_to = os.path.normpath(os.path.join(os.path.dirname(name), target))
    return os.path.isabs(leads_to) or leads_to.split(os.sep)[0] == os.pardir


def _add(archive: tarfile.TarFile, info: tarfile.TarInfo, path: Path) -> None:
    if info.isreg():
        with path.open("rb") as content:
            archive.addfile(info, content)
    else:
        archive.addfile(info)


def chosen(folder: Folder) -> Iterator[str]:
    """The paths to pack, relative to the folder, a directory before its contents."""
    if folder.all:
        return _walk(folder.path, "", [], all_of_it=True)
    tracked = _of_git(folder.path)
    return iter(tracked) if tracked is not None else _walk(folder.path, "", [], all_of_it=False)


def _of_git(folder: Path) -> list[str] | None:
    """What git has or would add in its working tree; None if the folder is in none, or git is not installed."""
    git = shutil.which("git")
    if git is None:
        return None
    command = [git, "-c", "core.fsmonitor=false", "-C", str(folder), "ls-files", "-z", "--cached", "--others"]
    ran = subprocess.run([*command, "--exclude-standard", "--deduplicate"], capture_output=True)  # noqa: S603 - fixed
    if ran.returncode != 0:
        return None
    names = [os.fsdecode(name).rstrip("/") for name in ran.stdout.split(b"\0") if name]
    # A folder here is another repository, such as a submodule.
    return [name for name in names if not _is_folder(folder / name)]


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _walk(folder: Path, above: str, rules: list[tuple[str, GitIgnoreSpec]], *, all_of_it: bool) -> Iterator[str]:
    """The entries below `above`; `rules` are those of the folders on the way, each with its folder."""
    here = folder / above
    try:
        with os.scandir(here) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        if not above:
            raise
        return  # it was reported, or is gone
    if not all_of_it and (here / IGNORES).is_file():
        lines = (here / IGNORES).read_text("utf-8", "replace").splitlines()
        rules = [*rules, (above, GitIgnoreSpec.from_lines(lines))]
    for entry in entries:
        name = f"{above}{entry.name}"
        is_folder = stat.S_ISDIR(entry.stat(follow_symlinks=False).st_mode)
        if not all_of_it and (entry.name == ".git" or _is_ignored(name + "/" * is_folder, rules)):
            continue
        yield name
        if is_folder:
            yield from _walk(folder, f"{name}/", rules, all_of_it=all_of_it)


def _is_ignored(name: str, rules: list[tuple[str, GitIgnoreSpec]]) -> bool:
    """The nearest rule decides."""
    for above, spec in reversed(rules):
        decision = spec.check_file(name.removeprefix(above)).include
        if decision is not None:
            return decision
    return False
