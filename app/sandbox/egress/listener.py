"""The proxy's port inside a sandbox. Run as a program, this file opens it: a thread of the server could not enter a
user namespace, and must never be left in another network.

The program is short-lived, gets a network namespace as a descriptor and hands back the listening socket.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import socket
import subprocess
import sys
from pathlib import Path

PORT = 3128
"""A common port for proxies; nothing else listens in the sandbox."""
BACKLOG = 64
_TIMEOUT_S = 30.0
"""Only a machine that is out of CPU time comes near it."""
_NS_GET_USERNS = 0xB701  # linux/nsfs.h
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_IP_FREEBIND = 15


def open_listener(pid: int, mark: str = "") -> socket.socket:
    """Opens a socket that listens on loopback in the network of a process, which has `mark` among its mounts; blocks.
    Raises `OSError` if the process is gone or another one, its network is the server's own or cannot be entered, or the
    port is taken (`EADDRINUSE`)."""
    process = os.pidfd_open(pid)
    try:
        if mark not in Path(f"/proc/{pid}/mountinfo").read_text():
            raise ProcessLookupError("it does not run on this machine")
        network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if _has_ended(process):
                raise ProcessLookupError("it has ended")
            if os.fstat(network).st_ino == os.stat("/proc/self/ns/net").st_ino:
                raise PermissionError("it shares the server's network")
            return _enter(network)
        finally:
            os.close(network)
    finally:
        os.close(process)


def _has_ended(process: int) -> bool:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(0))


def _enter(network: int) -> socket.socket:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        argv = (sys.executable, "-I", "-S", __file__, str(network))
        try:
            done = subprocess.run(  # noqa: S603 - this file
                argv,
                stdin=theirs.fileno(),
                capture_output=True,
                env={},
                pass_fds=[network],
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as exc:
            raise TimeoutError("the network cannot be entered in time") from exc
        if done.returncode:
            raise OSError(done.returncode, os.strerror(done.returncode))
        _, (listener,), _, _ = socket.recv_fds(ours, 1, 1)
    os.set_inheritable(listener, False)  # Python 3.11 does not pass the flag for this
    return socket.socket(fileno=listener)


def _open(network: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    owner = fcntl.ioctl(network, _NS_GET_USERNS)
    if os.fstat(owner).st_ino != os.stat("/proc/self/ns/user").st_ino:
        _set_namespace(libc, owner, _CLONE_NEWUSER)
    _set_namespace(libc, network, _CLONE_NEWNET)
    with socket.socket() as listener, socket.socket(fileno=0) as parent:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # bubblewrap may not have given the address to loopback yet.
        listener.setsockopt(socket.SOL_IP, _IP_FREEBIND, 1)
        listener.bind(("127.0.0.1", PORT))
        listener.listen(BACKLOG)
        socket.send_fds(parent, [b"."], [listener.fileno()])


def _set_namespace(libc: ctypes.CDLL, descriptor: int, kind: int) -> None:
    if libc.setns(descriptor, kind):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    try:
        _open(int(sys.argv[1]))
    except OSError as error:
        sys.exit(error.errno or 1)
