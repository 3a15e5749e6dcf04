"""The way out of a sandbox that may reach some hosts alone: a proxy of the server's, with its port in the sandbox.

The sandbox has a network namespace with nothing but loopback. `listener` opens the proxy's port in there and hands the
socket out; the server accepts from it and dials from its own namespace. So a command has no other way out, finds
nothing of the proxy to tamper with, and never asks DNS itself. `proxy` serves one sandbox, `gateway` is what all share.
"""

import asyncio
import socket

from app.errors import SandboxUnavailableError
from app.sandbox.egress.gateway import Gateway
from app.sandbox.egress.listener import PORT, open_listener
from app.sandbox.egress.proxy import Proxy
from app.sandbox.egress.refusals import Refusals

__all__ = ["PORT", "Gateway", "Proxy", "Refusals", "enter", "environment", "open_listener", "unavailable"]


async def enter(pid: int) -> socket.socket:
    """The proxy's port in the network of a process. Raises `SandboxUnavailableError`."""
    try:
        return await asyncio.to_thread(open_listener, pid)
    except OSError as exc:
        raise unavailable(f"its network cannot be entered ({exc})") from exc


def unavailable(reason: str) -> SandboxUnavailableError:
    """For a session whose commands cannot be held to its hosts: they do not run."""
    return SandboxUnavailableError(
        f"The sandbox cannot be limited to allowed_hosts: {reason}.", code="allowed_hosts_unavailable"
    )


def environment() -> dict[str, str]:
    """What tells programs of the proxy, in both spellings: curl reads `http_proxy` in lower case alone."""
    proxy, direct = f"http://127.0.0.1:{PORT}", "localhost,127.0.0.1,::1"
    names = {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": direct}
    return {**names, **{name.lower(): value for name, value in names.items()}}
