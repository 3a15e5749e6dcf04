"""Ends commands of bubblewrap left by an earlier server process.

Normally they die with their server, by the parent-death signal. But one that is being started when the server is killed
may not have set that signal yet, and a server that was frozen is not dead.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def end_left_commands(workspaces: Path) -> int:
    """Kills bubblewrap processes whose workspace is in this directory, and with them their namespaces; returns how many
    there were. Linux only: elsewhere it does nothing."""
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
