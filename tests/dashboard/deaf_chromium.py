#!/usr/bin/env python3
"""Starts Chromium so that it does not notice changes of the machine's network.

Chromium drops pending requests whenever a network interface comes or goes (ERR_NETWORK_CHANGED), as with each
container of another test. It gets these changes from a netlink socket and without one assumes that the network never
changes, so a seccomp filter denies such sockets. Linux on x86-64 and ARM only; elsewhere Chromium starts unmodified.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

SOCKET_CALL = {"x86_64": 41, "aarch64": 198}
AF_NETLINK = 16
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, MODE_FILTER = 38, 22, 2
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EACCES


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def refuse_netlink(call: int) -> None:
    """Denies netlink sockets to this process and its children."""
    instructions = [
        (LOAD, 0, 0, 0),  # the call's number
        (JUMP_IF_EQUAL, 0, 3, call),
        (LOAD, 0, 0, 16),  # its first argument, the family
        (JUMP_IF_EQUAL, 0, 1, AF_NETLINK),
        (RETURN, 0, 0, REFUSE),
        (RETURN, 0, 0, ALLOW),
    ]
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    program = Program(len(instructions), code)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, MODE_FILTER, ctypes.byref(program)):
        raise OSError(ctypes.get_errno(), "the kernel rejected the filter")


if __name__ == "__main__":
    program = os.environ["PALIMPSEST_TEST_CHROMIUM"]
    if platform.machine() in SOCKET_CALL:
        refuse_netlink(SOCKET_CALL[platform.machine()])
    os.execv(program, [program, *sys.argv[1:]])
