"""Ends commands of bubblewrap that an earlier life of the server has left.

They die with their server, by a signal of the kernel's; but one that is being started when the server is killed may
not have asked for that signal yet, and a server that was frozen is not dead.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def end_left_commands(workspaces: Path) -> int:
    """Kills bubblewrap's processes whose workspace lies in this directory, and with them all of their namespaces; how
    many there were. Linux alone: elsewhere it does nothing."""
    left = list(_left(f"{workspaces}{os.sep}".encode()))
    for pid in left:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(left)


def _left(prefix: bytes) -> Iterator[int]:
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            name, *arguments = (directory / "cmdline").read_bytes().split(b"\0")
            if name.endswith(b"bwrap") and _binds(arguments, prefix):
                yield int(directory.name)


def _binds(arguments: list[bytes], prefix: bytes) -> bool:
    """Whether bubblewrap's own arguments, up to the command, bind something below a directory."""
    own = arguments[: arguments.index(b"--")] if b"--" in arguments else arguments
    return any(argument.startswith(prefix) for argument in own)
