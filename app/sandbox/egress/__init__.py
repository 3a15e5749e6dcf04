"""Network access for a sandbox that may reach only some hosts: a proxy in the server, with its port in the sandbox.

The sandbox has a network namespace with nothing but loopback. `listener` opens the proxy's port in it and passes the
socket out; the server accepts from it and connects from its own namespace. So a command has no other way out, has no
proxy process to tamper with, and never asks DNS itself. `proxy` serves one sandbox; all share `gateway`.
"""

from app.sandbox.egress.entry import PortTakenError, enter, environment, unavailable
from app.sandbox.egress.gateway import Gateway
from app.sandbox.egress.listener import PORT
from app.sandbox.egress.proxy import Proxy
from app.sandbox.egress.refusals import Refusals

__all__ = ["PORT", "Gateway", "PortTakenError", "Proxy", "Refusals", "enter", "environment", "unavailable"]
