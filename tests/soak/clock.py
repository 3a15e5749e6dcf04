"""The server's wall clock, which libfaketime sets forward and back while the server runs; its monotonic one stays."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

LIBRARIES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib*/faketime/libfaketimeMT.so.1")
SHARED = Path("/dev/shm")
JUMPS_S = (-7200, -60, -1, 1, 60, 7200, 90_000)
"""Temporary clock offsets in seconds; the last is more than a day."""


class Clock:
    """`environment` makes a process use this clock; it is empty if the library is not installed."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._library = next((path for pattern in LIBRARIES for path in Path("/").glob(pattern[1:])), None)
        self.set(0)

    @property
    def can_jump(self) -> bool:
        return self._library is not None

    def set(self, seconds: int) -> None:
        """Sets the clock so many seconds off the true time."""
        # In one short write: the file is read at every clock call.
        self._file.write_text(f"{seconds:+d}\n")

    def forget(self, pids: Iterable[int]) -> None:
        """Removes what the library leaves in shared memory of processes that were killed."""
        for pid in pids:
            for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
                (SHARED / name).unlink(missing_ok=True)

    @property
    def environment(self) -> dict[str, str]:
        if self._library is None:
            return {}
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # Otherwise it measures waits on the monotonic clock by the wall clock, so that they end at once: a thread
            # that waits for the interpreter takes it away from the others again and again.
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
            "NO_FAKE_STAT": "1",
        }
