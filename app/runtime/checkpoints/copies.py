"""Where a server has its copies of shared repositories: a folder that lasts as long as its process."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOCK = ".lock"


@contextmanager
def own_folder(above: Path) -> Iterator[Path]:
    """A new folder below `above`, which other servers may use too; removed at the end. Folders of servers that have
    died are removed first: their locks are free, those of frozen ones are not. Blocks."""
    above.mkdir(mode=0o700, parents=True, exist_ok=True)
    for lock in above.glob(f"*{LOCK}"):
        with _locked(lock) as free:
            if free:
                _remove(lock)
    lock = above / f"{secrets.token_hex(8)}{LOCK}"
    with _locked(lock, os.O_CREAT | os.O_EXCL):
        folder = lock.with_suffix("")
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            _remove(lock)


def _remove(lock: Path) -> None:
    shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
    lock.unlink(missing_ok=True)


@contextmanager
def _locked(path: Path, flags: int = 0) -> Iterator[bool]:
    """False if another process has the lock, or the file is gone. Without locks in this file system, only who has made
    the file has it."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
    except FileNotFoundError:
        yield False
        return
    try:
        free = bool(flags)
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        yield free
    finally:
        os.close(file)
