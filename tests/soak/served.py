"""The unmodified server, which also reports its resources on a signal: `python -m tests.soak.served serve`.

What a process has in memory says little of what it still needs: Python looks for garbage rarely, and the allocator
keeps what was given back to it. So the server is asked by a signal; it then looks for garbage, gives back what is free,
and counts what is left, and its threads by their pools.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType

ASK = signal.SIGUSR1
ANSWER = "SOAK_HELD_FILE"
"""The variable in the environment that names the file for the answer."""


def _tell(_signal: int, _frame: FrameType | None) -> None:
    gc.collect()
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:  # glibc's alone
        trim(0)
    answer = Path(os.environ[ANSWER])
    draft = answer.with_suffix(".draft")
    # A pool numbers its threads: `name_0`.
    pools = Counter(thread.name.rpartition("_")[0] or thread.name for thread in threading.enumerate())
    draft.write_text(json.dumps({"blocks": sys.getallocatedblocks(), "pools": pools}))
    draft.replace(answer)


def main(default: str = "serve") -> None:
    """The server's own command line."""
    signal.signal(ASK, _tell)
    from app.cli import main as serve

    serve(default=default)


if __name__ == "__main__":
    main()
