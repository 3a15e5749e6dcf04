"""Loading what a command needs, as fast as may be."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

RARELY = (10_000, 20, 100)
"""How many more objects than before make Python look for garbage among the newest, and how many such looks one among
all. Nearly all of a server's objects go without it, and a look among all, which nothing else can run beside, takes a
tenth of a second where a hundred sessions run; with Python's own numbers it came every few seconds there."""


def look_for_garbage_rarely() -> None:
    """For a process that serves for long."""
    gc.set_threshold(*RARELY)


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
