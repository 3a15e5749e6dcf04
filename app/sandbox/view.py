"""What a bubblewrap command sees of the host: an allowlist, as arguments of bubblewrap."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.sandbox import egress
from app.sandbox.base import WORKSPACE, SandboxLimits

HOME = "/home/agent"
PATH = "/usr/local/bin:/usr/bin:/bin"
USER_ID = 1000
"""The uid in the sandbox if bubblewrap maps it."""
# No /etc/gitconfig, /etc/environment or /etc/ssl/private: the first two may hold credentials, the last one does.
ETC_FILES = (
    "alternatives",
    "ca-certificates.conf",
    "debian_version",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "magic",
    "mime.types",
    "os-release",
    "pki/ca-trust",
    "pki/tls/certs",
    "protocols",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "timezone",
)
ETC_NETWORK_FILES = ("gai.conf", "host.conf", "hosts", "nsswitch.conf", "resolv.conf")

OPEN_FILES = 4096
"""Descriptors of one process: each takes kernel memory, and time when the process ends."""

# The user enters the workspace, since it is closed to a root without capabilities. Limits are set inside, where only
# the namespace's own processes count, not all of the user's. RLIMIT_DATA and not RLIMIT_AS: runtimes such as Go's and
# V8 reserve far more address space than they ever use.
_ENTER = (
    f'cd {WORKSPACE} && ulimit -c 0 && ulimit -n {OPEN_FILES} && ulimit -d "$1" && '
    '{ ulimit -u "$2" 2>/dev/null || ulimit -p "$2"; } && ulimit -f "$3" && shift 3 && exec "$@"'
)

_GATE = "read -r go || exit 1; exec </dev/null; "


@dataclass(frozen=True, slots=True)
class View:
    """What one command sees. `uid` is None if bubblewrap maps the user."""

    workspace: Path
    scratch: Path
    network: bool
    limits: SandboxLimits
    uid: int | None
    proxied: bool = False
    """Whether it reaches some hosts through the egress proxy."""
    hidden: Sequence[Path] = ()
    """Directories below `/usr` that the sandbox must not see."""

    def arguments(self) -> list[str]:
        """bubblewrap's arguments up to and without the command."""
        tmpfs_bytes = str(self.limits.memory_mb * 1024 * 1024 // 2)
        return [
            *self._namespaces(),
            *("--new-session", "--die-with-parent", "--clearenv", "--hostname", "sandbox"),
            *_system(),
            *(part for path in self.hidden for part in ("--tmpfs", str(path))),
            *_etc(self.network),
            *("--ro-bind", str(self.scratch / "passwd"), "/etc/passwd"),
            *("--ro-bind", str(self.scratch / "group"), "/etc/group"),
            *("--proc", "/proc", "--dev", "/dev"),
            *("--perms", "1777", "--size", tmpfs_bytes, "--tmpfs", "/dev/shm"),  # noqa: S108 - inside
            *("--remount-ro", "/dev"),
            *("--perms", "0755", "--size", "1048576", "--tmpfs", "/run", "--remount-ro", "/run"),
            *("--perms", "0700", "--size", "1048576", "--tmpfs", "/root"),
            *("--perms", "0755", "--size", "1048576", "--tmpfs", "/home"),
            *("--bind", str(self.scratch / "home"), HOME, "--remount-ro", "/home"),
            *("--bind", str(self.scratch / "tmp"), "/tmp"),  # noqa: S108 - inside
            *("--bind", str(self.workspace), WORKSPACE),
            *("--remount-ro", "/"),
            *(part for name, value in self._environment().items() for part in ("--setenv", name, value)),
        ]

    def _environment(self) -> dict[str, str]:
        return {**environment(), **(egress.environment() if self.proxied else {})}

    def _namespaces(self) -> list[str]:
        if self.uid is None:
            user = ("--unshare-user", "--disable-userns", "--uid", str(USER_ID), "--gid", str(USER_ID))
            net = ("--share-net",) if self.network else ()
            return ["--unshare-all", *net, *user, "--cap-drop", "ALL"]
        spaces = ["--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
        spaces += [] if self.network else ["--unshare-net"]
        # what setpriv needs to give up everything, these included
        kept = [part for name in ("SETUID", "SETGID", "SETPCAP") for part in ("--cap-add", f"CAP_{name}")]
        return [*spaces, "--cap-drop", "ALL", *kept]

    def command(self, command: bytes, *, gated: bool = False, full: bool = False) -> list[str | bytes]:
        """The command, prefixed with what drops privileges and sets the limits. A `gated` one has no input and waits on
        standard input for a line before it starts; in a `full` workspace it cannot write to any file."""
        ids = () if self.uid is None else ("--reuid", str(self.uid), "--regid", str(self.uid), "--clear-groups")
        drop = ("setpriv", *ids, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--") if ids else ()
        limits = (str(self.limits.memory_mb * 1024), str(self.limits.pids), file_blocks(self.limits, full))
        shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
        return ["--", *drop, "/bin/sh", "-c", (_GATE if gated else "") + _ENTER, "sh", *limits, shell, "-c", command]


def file_blocks(limits: SandboxLimits, full: bool) -> str:
    """The size of the largest file a command may write, in blocks of 512 bytes, as a shell's `ulimit -f` takes it."""
    return "0" if full else str(limits.disk_mb * 2048)


def environment() -> dict[str, str]:
    """A command's environment, without the egress proxy."""
    return {"HOME": HOME, "PATH": PATH, "LANG": "C.UTF-8", "TERM": "dumb", "USER": "agent", "PWD": WORKSPACE}


def _system() -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for path in ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"):
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)


def _etc(network: bool) -> Iterator[str]:
    for path in ("/etc", "/etc/pki", "/etc/pki/tls", "/etc/ssl"):  # bubblewrap would close them to the user
        yield from ("--perms", "0755", "--dir", path)
    for name in (*ETC_FILES, *(ETC_NETWORK_FILES if network else ())):
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
