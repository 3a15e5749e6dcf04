"""The network of a session without one: what its background commands and the commands after them share, so that a
server started in one step answers in the next."""

from __future__ import annotations

import os
import shutil
from functools import cache

from app.sandbox.egress import Proxy


@cache
def find_nsenter() -> str | None:
    return shutil.which("nsenter")


class SharedNetwork:
    """The loopback of the first command that runs in the background. It lasts as long as any command that is in it, and
    all later ones enter it; before that, each command has its own network."""

    def __init__(self) -> None:
        self._namespace: int | None = None
        self._users = 0
        self.proxy: Proxy | None = None
        """The egress proxy in it."""

    @property
    def identity(self) -> int | None:
        """Another value for another network; None without one."""
        return self._namespace

    def share(self, pid: int, proxy: Proxy) -> None:
        """Shares the network of a process, which is its first user, unless one is shared already. Raises `OSError` if
        the process has ended."""
        if self._namespace is None:
            self._namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            self._users, self.proxy = 1, proxy

    def enter(self) -> tuple[str, ...]:
        """The command that starts another one in it, which is a user of it until `leave`."""
        self._users += 1
        # By the server's own descriptor: none is left to what runs in the sandbox.
        return (find_nsenter() or "nsenter", f"--net=/proc/{os.getpid()}/fd/{self._namespace}", "--")

    async def leave(self) -> None:
        """A user has ended."""
        self._users -= 1
        if self._users == 0 and self._namespace is not None:
            proxy, self.proxy = self.proxy, None
            os.close(self._namespace)
            self._namespace = None
            if proxy is not None:
                await proxy.close()
