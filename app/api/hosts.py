"""Which host names and origins a request may carry: pure functions over header values.

Local agent servers have been taken over by DNS rebinding and cross-site requests, so only known hosts and origins pass;
anything that cannot be parsed is refused.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

DEFAULT_PORTS = {"http": 80, "https": 443}

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?)(?::(?P<port>[0-9]{1,5}))?")
_ORIGIN = re.compile(r"(?P<scheme>https?)://(?P<host>[^/?#@\s]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class HostPort:
    """A host from a header: lower case, IPv6 addresses in their shortest form without brackets."""

    name: str
    port: int | None


def parse_host(value: str) -> HostPort | None:
    """`name`, `name:port`, `1.2.3.4:port` or `[v6]:port`; None for anything else."""
    match = _HOST.fullmatch(value.lower())
    if match is None:
        return None
    name, port = match["name"], match["port"]
    if port is not None and not 0 < int(port) < 65536:
        return None
    if name.startswith("["):
        try:
            name = str(ipaddress.IPv6Address(name[1:-1]))
        except ValueError:
            return None
    return HostPort(name, int(port) if port else None)


def is_loopback(name: str) -> bool:
    """Whether `name` is `localhost`, a full address in 127.0.0.0/8, or `::1`."""
    if name == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        return address == ipaddress.IPv6Address("::1")
    return address.is_loopback


def parse_allowed(entries: tuple[str, ...]) -> frozenset[HostPort]:
    """The operator's host names. Raises `ValueError` for an entry that is not `host` or `host:port`."""
    hosts = set()
    for entry in entries:
        host = parse_host(f"[{entry}]" if entry.count(":") > 1 and not entry.startswith("[") else entry)
        if host is None:
            raise ValueError(f"not a host name: {entry!r}")
        hosts.add(host)
    return frozenset(hosts)


def host_is_ours(host: HostPort | None, allowed: frozenset[HostPort]) -> bool:
    """Whether a `Host` is loopback, on any port, or allowed; an allowed name without a port covers all ports."""
    if host is None:
        return False
    return is_loopback(host.name) or host in allowed or HostPort(host.name, None) in allowed


def origin_is_ours(origin: str, scheme: str, host: HostPort, allowed: frozenset[HostPort]) -> bool:
    """Whether an `Origin` is the server's own (`scheme` and the request's `Host`) or that of an allowed host."""
    match = _ORIGIN.fullmatch(origin)
    if match is None:
        return False
    origin_scheme = match["scheme"].lower()
    parsed = parse_host(match["host"])
    if parsed is None:
        return False
    if origin_scheme == scheme and _with_port(parsed, scheme) == _with_port(host, scheme):
        return True
    return bool({parsed, _with_port(parsed, origin_scheme), HostPort(parsed.name, None)} & allowed)


def _with_port(host: HostPort, scheme: str) -> HostPort:
    return HostPort(host.name, host.port or DEFAULT_PORTS.get(scheme))
