"""Runs one command and adopts what it orphans, so that its processes stay one tree however they detach themselves.

Started as a program of its own, by `local.py`. It imports nothing of the service, so that it starts in milliseconds.
Linux alone: elsewhere it runs the command without adopting anything.
"""

import ctypes
import os
import subprocess
import sys

PR_SET_CHILD_SUBREAPER = 36
"""From `linux/prctl.h`."""


def main() -> int:
    """Runs the arguments as a command; its exit code, 128 + N where signal N ended it."""
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
