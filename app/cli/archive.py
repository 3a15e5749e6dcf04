"""Unpacks a session's workspace, whose names and links are untrusted: a model chose them."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import IO


def unpack(archive: IO[bytes], folder: Path) -> list[str]:
    """Unpacks a tar into `folder` and returns the names that were skipped because they lead out of it or are not
    files. Blocks: call it in a thread.

    Links are created last, so nothing can be written through them, whatever Python's tar filter misses. Owners and
    set-uid bits are dropped.
    """
    folder.mkdir(parents=True, exist_ok=True)
    refused: list[str] = []
    with tarfile.open(fileobj=archive, mode="r:") as tar:
        members = tar.getmembers()
        for member in sorted(members, key=_pass):
            if member.name.rstrip("/") in ("", "."):
                continue
            if not _extract(tar, member, folder):
                refused.append(member.name)
    return refused


def _pass(member: tarfile.TarInfo) -> int:
    return 2 if member.issym() else 1 if member.islnk() else 0


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> bool:
    try:
        safe = tarfile.data_filter(member, str(folder))
        if ".." in Path(safe.name).parts or _through_link(folder, safe.name):
            return False
        if safe.issym() and os.path.lexists(folder / safe.name):
            (folder / safe.name).unlink()
        tar.extract(safe, folder, filter="data")
    except (tarfile.TarError, OSError, ValueError):
        return False
    return True


def _through_link(folder: Path, name: str) -> bool:
    """Whether a parent directory of `name`, below `folder`, is a link."""
    way = folder
    for part in Path(name).parts[:-1]:
        way = way / part
        if way.is_symlink():
            return True
    return False
