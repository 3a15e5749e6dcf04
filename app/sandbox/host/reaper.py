"""Runs one command and adopts its orphans, so that its processes stay in one tree even if they detach.

Started as a separate program by `local.py`. It imports nothing from the service, so it starts in milliseconds. Linux
only: elsewhere it runs the command without adopting anything.
"""

import ctypes
import os
import subprocess
import sys

PR_SET_CHILD_SUBREAPER = 36
"""From `linux/prctl.h`."""


def main() -> int:
    """Runs the arguments as a command; its exit code, 128 + N if signal N ended it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = subprocess.Popen(sys.argv[1:])  # noqa: S603 - running a command is what it is for
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
