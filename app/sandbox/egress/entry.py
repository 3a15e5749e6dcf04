"""Opens the proxy's port in the network of a sandbox."""

from __future__ import annotations

import asyncio
import errno
import socket

from app.errors import SandboxUnavailableError
from app.sandbox.egress.listener import PORT, open_listener


class PortTakenError(Exception):
    """A process in the sandbox already listens on the proxy's port."""


async def enter(pid: int, mark: str = "") -> socket.socket:
    """Opens the listening socket in the network of a process, which has `mark` among its mounts. Raises
    `PortTakenError`, and `SandboxUnavailableError` if that network cannot be entered."""
    try:
        return await asyncio.to_thread(open_listener, pid, mark)
    except OSError as exc:
        if exc.errno == errno.EADDRINUSE:
            raise PortTakenError from exc
        raise unavailable(f"its network cannot be entered ({exc})") from exc


def unavailable(reason: str) -> SandboxUnavailableError:
    """The error for a session that cannot be limited to its hosts; its commands do not run."""
    return SandboxUnavailableError(
        f"The sandbox cannot be limited to allowed_hosts: {reason}.", code="allowed_hosts_unavailable"
    )


def environment() -> dict[str, str]:
    """The variables that name the proxy, in both spellings: curl reads `http_proxy` only in lower case."""
    proxy, direct = f"http://127.0.0.1:{PORT}", "localhost,127.0.0.1,::1"
    names = {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": direct}
    return {**names, **{name.lower(): value for name, value in names.items()}}
