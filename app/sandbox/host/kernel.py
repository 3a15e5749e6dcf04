"""What the kernel holds bubblewrap's commands to: control groups (version 2), a seccomp filter and a keyring of their
own."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from app.sandbox.base import SandboxLimits

MOUNT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
PERIOD_US = 100_000
"""The kernel's own default period of `cpu.max`."""
WEIGHT = 1
"""The minimum; the default is 100."""

# From the kernel's tables arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
_DENIED = {
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "setns": (308, 268), "unshare": (272, 97),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "open_by_handle_at": (304, 265), "lookup_dcookie": (212, 18), "acct": (163, 89), "quotactl": (179, 60),
    "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142), "syslog": (103, 116), "vhangup": (153, 58),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266),
    "vmsplice": (278, 75),
}  # fmt: skip
"""Each call with its number on x86-64 and on aarch64."""
_X86_ONLY = {"iopl": 172, "ioperm": 173}
# The same everywhere: io_uring_setup, io_uring_enter, io_uring_register, open_tree, move_mount, fsopen, fsconfig,
# fsmount, fspick, mount_setattr, quotactl_fd
_DENIED_EVERYWHERE = (425, 426, 427, 428, 429, 430, 431, 432, 433, 442, 443)
_CLONE3 = 435
"""A filter cannot see its flags; C libraries fall back to clone if it is unknown."""
_NEW_NAMESPACES = 0x7E020000
"""The flags CLONE_NEW… of clone."""
_X32 = 0x40000000
"""Set in the call numbers of x32 programs, which report the x86-64 architecture."""
FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
# Classic BPF (linux/bpf_common.h) on the fields of seccomp_data
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_JOIN_SESSION_KEYRING = 1
_CLONE_NEWIPC = 0x08000000


class Cgroups:
    """A group in which the server may create others, with the memory and pids controllers delegated."""

    def __init__(self, parent: Path) -> None:
        self.parent = parent

    @classmethod
    def find(cls, mount: Path = MOUNT, own: Path = OWN) -> Cgroups | None:
        """Finds the nearest such group above the server's own process by trying it out; None if there is none.

        The server's own group usually does not work: a group with processes cannot delegate controllers.
        """
        for directory in _above(mount, own):
            groups = cls(directory)
            try:
                if {"memory", "pids"} <= set((directory / "cgroup.subtree_control").read_text().split()):
                    # Its own name, since other nodes may start on this machine at the same time.
                    probe = f"probe-{threading.get_native_id()}"
                    groups.create(probe, SandboxLimits())
                    groups.remove(probe)
                    return groups
            except OSError:
                continue
        return None

    def create(self, session_id: str, limits: SandboxLimits) -> None:
        """Makes the session's group, or updates the limits of an existing one."""
        group = self._group(session_id)
        group.mkdir(exist_ok=True)
        _write(group / "memory.max", limits.memory_mb * 1024 * 1024)
        _write(group / "pids.max", limits.pids)
        with suppress(OSError):  # no swap, or the controller is not delegated
            _write(group / "memory.swap.max", 0)
        with suppress(OSError):
            _write(group / "cpu.max", f"{round(limits.cpus * PERIOD_US)} {PERIOD_US}")
            _write(group / "cpu.weight", WEIGHT)

    def add(self, session_id: str, pid: int) -> None:
        """Moves a process, with everything it will start, into the session's group."""
        _write(self._group(session_id) / "cgroup.procs", pid)

    def remove(self, session_id: str) -> None:
        """Removes the session's group, which is empty; does nothing if it does not exist."""
        with suppress(OSError):
            self._group(session_id).rmdir()

    def _group(self, session_id: str) -> Path:
        return self.parent / f"palimpsest-{session_id}"


def _above(mount: Path, own: Path) -> Iterator[Path]:
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        if line.startswith("0::/"):
            relative = Path(line.removeprefix("0::/"))
            yield from (mount / part for part in (relative, *relative.parents))


def _write(path: Path, value: int | str) -> None:
    with path.open("r+") as file:  # never created: a missing controller has no file
        file.write(f"{value}\n")


@dataclass(frozen=True, slots=True)
class Machine:
    architecture: int
    denied: dict[str, int]
    socket: int
    socketpair: int
    clone: int


MACHINES = {
    "x86_64": Machine(0xC000003E, {name: x86 for name, (x86, _) in _DENIED.items()} | _X86_ONLY, 41, 53, 56),
    "aarch64": Machine(0xC00000B7, {name: arm for name, (_, arm) in _DENIED.items()}, 198, 199, 220),
}


@cache
def filter_program(machine: str | None = None) -> bytes | None:
    """The filter for this machine, as `bwrap --seccomp` takes it; None if its architecture is not supported."""
    found = MACHINES.get(machine or platform.machine())
    return None if found is None else b"".join(_program(found))


def _program(machine: Machine) -> list[bytes]:
    family = [_load(_FIRST_ARGUMENT), *(step for number in FAMILIES for step in _when(_EQUAL, number, _allow()))]
    family.append(_refuse(errno.EAFNOSUPPORT))
    denied = (*machine.denied.values(), *_DENIED_EVERYWHERE)
    return [
        _load(_ARCHITECTURE),
        _step(_EQUAL, machine.architecture, 1, 0),
        _refuse(errno.ENOSYS),
        _load(_NUMBER),
        *_when(_AT_LEAST, _X32, _refuse(errno.ENOSYS)),
        *(step for call in denied for step in _when(_EQUAL, call, _refuse(errno.EPERM))),
        *_when(_EQUAL, _CLONE3, _refuse(errno.ENOSYS)),
        *_when(_EQUAL, machine.socket, *family),
        *_when(_EQUAL, machine.socketpair, *family),
        *_when(
            _EQUAL,
            machine.clone,
            _load(_FIRST_ARGUMENT),
            *_when(_ANY_BIT, _NEW_NAMESPACES, _refuse(errno.EPERM)),
            _allow(),
        ),
        _allow(),
    ]


def _when(test: int, value: int, *then: bytes) -> list[bytes]:
    """`then`, which ends with a return, if the loaded value passes the test; else the code after it."""
    return [_step(test, value, 0, len(then)), *then]


def _load(offset: int) -> bytes:
    return _step(_LOAD, offset)


def _allow() -> bytes:
    return _step(_RETURN, _ALLOW)


def _refuse(number: int) -> bytes:
    return _step(_RETURN, _ERRNO | number)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def join_new_keyring() -> None:
    """Gives this thread and the processes it starts their own session keyring. Without keyrings in the kernel, or with
    the quota used up, nothing changes: the filter refuses the calls that would use one."""
    machine = MACHINES.get(platform.machine())
    if machine is not None:
        ctypes.CDLL(None).syscall(machine.denied["keyctl"], _JOIN_SESSION_KEYRING, None)


def limit_ipc(pid: int, most: int) -> None:
    """Limits a System V IPC namespace: shared memory segments in bytes, 32,768 semaphores, and 32 message queues.
    Unattached segments appear in no process's usage. Needs root; blocks. Raises `OSError`."""
    bounds = {"shmall": f"{most // os.sysconf('SC_PAGE_SIZE')}", "sem": "250 32768 32 128", "msgmni": "32"}
    failures: list[OSError] = []

    def enter() -> None:
        try:
            space = os.open(f"/proc/{pid}/ns/ipc", os.O_RDONLY | os.O_CLOEXEC)
            try:
                if ctypes.CDLL(None, use_errno=True).setns(space, _CLONE_NEWIPC):
                    raise OSError(ctypes.get_errno(), "cannot enter the namespace")
                for name, bound in bounds.items():
                    Path("/proc/sys/kernel", name).write_text(f"{bound}\n")
            finally:
                os.close(space)
        except OSError as exc:
            failures.append(exc)

    thread = threading.Thread(target=enter)  # The thread stays in that namespace, so nothing else may use it.
    thread.start()
    thread.join()
    for failure in failures:
        raise failure
