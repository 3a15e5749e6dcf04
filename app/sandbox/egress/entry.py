"""The proxy's port in the network of a sandbox, as the kinds of sandbox ask for it."""

from __future__ import annotations

import asyncio
import errno
import socket

from app.errors import SandboxUnavailableError
from app.sandbox.egress.listener import PORT, open_listener


class PortTakenError(Exception):
    """A process in the sandbox listens on the proxy's port already."""


async def enter(pid: int, mark: str = "") -> socket.socket:
    """The listening socket in the network of a process, which has `mark` among its mounts. Raises `PortTakenError`, and
    `SandboxUnavailableError` where that network cannot be entered."""
    try:
        return await asyncio.to_thread(open_listener, pid, mark)
    except OSError as exc:
        if exc.errno == errno.EADDRINUSE:
            raise PortTakenError from exc
        raise unavailable(f"its network cannot be entered ({exc})") from exc


def unavailable(reason: str) -> SandboxUnavailableError:
    """For a session that cannot be held to its hosts: its commands do not run."""
    return SandboxUnavailableError(
        f"The sandbox cannot be limited to allowed_hosts: {reason}.", code="allowed_hosts_unavailable"
    )


def environment() -> dict[str, str]:
    """The variables that name the proxy, in both spellings: curl reads `http_proxy` in lower case alone."""
    proxy, direct = f"http://127.0.0.1:{PORT}", "localhost,127.0.0.1,::1"
    names = {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": direct}
    return {**names, **{name.lower(): value for name, value in names.items()}}
