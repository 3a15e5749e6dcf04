"""The `/etc` of bubblewrap's sandboxes: copies of the host's harmless files in one directory, which a command sees with
one mount. Each mount costs bubblewrap a look at all of the host's; with one for each file a command started 3 ms later,
with many containers on the host 8 ms."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

# No gitconfig, environment or ssl/private: the first two may hold credentials, the last one does.
FILES = (
    "ca-certificates.conf",
    "debian_version",
    "ld.so.cache",
    "ld.so.conf",
    "localtime",
    "magic",
    "mime.types",
    "os-release",
    "protocols",
    "services",
    "ssl/openssl.cnf",
    "timezone",
)
NETWORK_FILES = ("gai.conf", "host.conf", "hosts", "nsswitch.conf", "resolv.conf")
DIRECTORIES = ("alternatives", "ld.so.conf.d", "pki/ca-trust", "pki/tls/certs", "ssl/certs")
"""Mounted from the host, since they are large or have links."""

OWN_FILES = ("passwd", "group")
"""Each session has its own, mounted over empty ones."""


class Etc:
    """A directory with the copies. `directory` is created by the first `refresh`."""

    def __init__(self, directory: Path, *, network: bool, host: Path = Path("/etc")) -> None:
        self._host = host
        self.directory = directory
        self._names = (*FILES, *(NETWORK_FILES if network else ()))
        self._copied: dict[str, tuple[int, ...]] = {}
        self._lock = threading.Lock()

    def refresh(self) -> None:
        """Copies what has changed on the host since the last time. Blocks, for microseconds if nothing has."""
        with self._lock:
            if not self._copied or not self.directory.is_dir():
                self._copied.clear()
                self._create()
            for name in self._names:
                version = _version(self._host / name)
                if version != self._copied.get(name):
                    # Without room on the disk the copy before stays, and the next command tries again.
                    with suppress(OSError):
                        self._copy(name)
                        self._copied[name] = version

    def arguments(self) -> Iterator[str]:
        """bubblewrap's arguments that mount the directory at `/etc`."""
        yield from ("--ro-bind", str(self.directory), "/etc")
        for name in DIRECTORIES:
            if (self._host / name).is_dir():
                yield from ("--ro-bind-try", str(self._host / name), f"/etc/{name}")

    def _create(self) -> None:
        for directory in (self.directory, *(self.directory / name for name in DIRECTORIES)):
            directory.mkdir(parents=True, exist_ok=True)
        for name in OWN_FILES:
            (self.directory / name).touch()
        # Whatever the server's umask is: a command has a user of its own.
        for path in (self.directory, *self.directory.rglob("*")):
            # Another node that shares the data directory may be replacing its copies.
            with suppress(FileNotFoundError):
                path.chmod(0o755 if path.is_dir() else 0o644)

    def _copy(self, name: str) -> None:
        """Replaces a copy as a whole: a command may be reading the one before."""
        copy = self.directory / name
        try:
            content = (self._host / name).read_bytes()
        except OSError:  # gone, or closed to this server
            copy.unlink(missing_ok=True)
            return
        # Process ids are not unique among nodes that share the data directory: in containers they often are the same.
        new = copy.with_name(f".{copy.name}.{token_hex(8)}")
        new.write_bytes(content)
        new.chmod(0o644)
        new.replace(copy)


def _version(path: Path) -> tuple[int, ...]:
    """Changes with a file's content; empty if there is no such file."""
    with suppress(OSError):
        status = path.stat()
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
    return ()
