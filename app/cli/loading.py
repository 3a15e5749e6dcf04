"""Loading what a command needs, as fast as may be."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

RARELY = (10_000, 20, 100)
"""How many more objects than before make Python look for garbage among the newest, and how many such looks one among
all. Nearly all of a server's objects go without it, and a look among all, which nothing else can run beside, takes a
tenth of a second where a hundred sessions run; with Python's own numbers it came every few seconds there."""


ARENAS = 2
"""Heaps that glibc's allocator makes for threads that allocate at once, of which it would make 8 for each processor.
Little of what lives in them for a moment is ever given back. Measured after 400 sessions: 153 MB instead of 159."""
_M_ARENA_MAX = -8

OWN_PAGES = 256 * 1024
"""Bytes from which a block gets pages of its own, which go back to the system with it. glibc raises that by itself to
the size of the largest block that was freed, and keeps what large messages have taken. Measured after 160 sessions with
messages of a megabyte were deleted: 357 MB instead of 1,407."""
_M_MMAP_THRESHOLD = -3


FIRST = "-20"
"""Niceness of the server's autogroup (man 7 sched). Each `setsid` in a command starts another group; this one has 87
times its share of the processor. A server in a terminal shares a group with the shell, which is left as it is."""


def prepare_to_serve() -> None:
    """For a process that serves for long: it looks for garbage rarely, and keeps few heaps and no large free
    blocks. Before it has threads."""
    gc.set_threshold(*RARELY)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):  # not root, or a kernel without autogroups
            Path("/proc/self/autogroup").write_text(FIRST)
    with suppress(OSError, AttributeError):  # other C libraries have neither heaps of that kind nor `mallopt`
        allocator = ctypes.CDLL(None)
        allocator.mallopt(_M_ARENA_MAX, ARENAS)
        allocator.mallopt(_M_MMAP_THRESHOLD, OWN_PAGES)


@contextmanager
def loading() -> Iterator[None]:
    """Around large imports. What they make stays, so looking through it for garbage is in vain: it is not done while
    they run, which saves a tenth of a server's start, nor is it ever done with what they made."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
