"""How servers on one data directory know of each other: a locked file that says where the server answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

FILE = "server.url"


@contextmanager
def claimed(data_dir: Path) -> Iterator[IO[str] | None]:
    """Holds the directory for this process as long as it lives: yields the file to write the URL into, or None where
    another process holds it. The kernel frees it at the holder's death."""
    import fcntl

    with (data_dir / FILE).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        file.truncate(0)
        try:
            yield file
        finally:
            file.truncate(0)


def announce(file: IO[str], url: str) -> None:
    """Says where the server of this data directory answers."""
    file.write(url)
    file.flush()


def announced_url(data_dir: Path) -> str | None:
    """Where a server of this directory said that it answers; it may be gone since."""
    with suppress(OSError):
        return (data_dir / FILE).read_text().strip() or None
    return None
