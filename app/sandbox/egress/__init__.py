"""Network access of a sandbox limited to some hosts: a proxy in the server, with its port in the sandbox.

The sandbox has a network namespace with nothing but loopback. `listener` opens the proxy's port inside it and hands the
socket out; the server accepts from it and dials from its own namespace. So a command has no other way out, finds
nothing of the proxy to tamper with, and never asks DNS itself. `proxy` serves one sandbox, `gateway` is what all share.
"""

from app.sandbox.egress.gateway import Gateway, Refusals
from app.sandbox.egress.listener import PORT
from app.sandbox.egress.proxy import PortTakenError, Proxy, enter, environment, unavailable

__all__ = ["PORT", "Gateway", "PortTakenError", "Proxy", "Refusals", "enter", "environment", "unavailable"]
