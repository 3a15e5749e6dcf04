"""Loading what a command needs, as fast as may be."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
