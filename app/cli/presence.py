"""A locked file in the data directory with the URL of its server, so that servers on one directory find each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from app.cli.errors import CliError
from app.errors import StorageError

FILE = "server.url"


@contextmanager
def claimed(data_dir: Path) -> Iterator[IO[str]]:
    """Locks the directory for this process and yields the file for the URL: two servers on one database would resume
    each other's runs. The kernel releases the lock if the process dies.

    Raises `StorageError` if the directory is not writable, and `CliError` if another process holds the lock.
    """
    import fcntl

    try:
        opened = (data_dir / FILE).open("a+")
    except OSError as error:
        raise StorageError(f"The data directory {data_dir} cannot be written: {error.strerror}.") from error
    with opened as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise in_use(data_dir) from error
        file.truncate(0)
        try:
            yield file
        finally:
            file.truncate(0)


def in_use(data_dir: Path) -> CliError:
    """The error that names who uses the directory: a server with a known URL, or a command with its own server."""
    url = announced_url(data_dir)
    who = f"The server at {url}" if url else "Another Palimpsest"
    advice = "use that server" if url else "start `palimpsest serve` to run several tasks at once"
    return CliError(f"{who} uses {data_dir}; {advice}, or set another PALIMPSEST_DATA_DIR.", code="data_dir_in_use")


def announce(file: IO[str], url: str) -> None:
    """Writes the URL of this data directory's server."""
    file.write(url)
    file.flush()


def announced_url(data_dir: Path) -> str | None:
    """The URL that a server of this directory wrote; it may have stopped since."""
    with suppress(OSError):
        return (data_dir / FILE).read_text().strip() or None
    return None
