"""How servers on one data directory know of each other: a locked file that says where the server answers."""

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
    """Holds the directory for this process as long as it lives, and yields the file to write the URL into: two servers
    on one database would take up each other's runs. The kernel frees it at the holder's death.

    Raises `StorageError` where it cannot be written, and `CliError` where another process holds it.
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
    """Says who has the directory: a server that is known by its URL, or a command with a server of its own."""
    url = announced_url(data_dir)
    who = f"The server at {url}" if url else "Another Palimpsest"
    advice = "use that one" if url else "for several tasks at a time start `palimpsest serve`"
    return CliError(f"{who} uses {data_dir}; {advice}, or choose another PALIMPSEST_DATA_DIR.", code="data_dir_in_use")


def announce(file: IO[str], url: str) -> None:
    """Says where the server of this data directory answers."""
    file.write(url)
    file.flush()


def announced_url(data_dir: Path) -> str | None:
    """Where a server of this directory said that it answers; it may be gone since."""
    with suppress(OSError):
        return (data_dir / FILE).read_text().strip() or None
    return None
