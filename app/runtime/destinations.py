"""Which addresses may be sent to. What a name resolves to can change between a check and a connection, so the address
that was checked is the one that is connected to."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Sequence

import httpx

from app.errors import InvalidRequestError
from app.sandbox.egress.gateway import may_be_reached
from app.sandbox.names import Resolve, Resolver, resolve

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

MOST_ADDRESSES = 4
"""Addresses of a name that are tried."""


_LOOPBACK = ("127.0.0.1", "::1")


class RefusedAddressError(Exception):
    """A name has no address that may be connected to; the message says so."""


class Destinations:
    """Public addresses, and those in `networks`."""

    def __init__(
        self,
        networks: Iterable[Network] = (),
        resolve: Resolve = resolve,
        setting: str = "PALIMPSEST_WEBHOOK_NETWORKS",
    ) -> None:
        """`setting` is where an operator names further networks."""
        self.setting = setting
        self._networks = tuple(networks)
        self._resolver = Resolver(resolve)

    def allow(self, text: str) -> bool:
        """Whether an address may be connected to. One of this machine may not, even if it is public."""
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return False
        named = any(address in network for network in self._networks if network.version == address.version)
        return named or may_be_reached(text)

    async def addresses(self, host: str) -> Sequence[str]:
        """The addresses of a host that may be connected to, resolved now. Raises `RefusedAddressError` if it has none,
        and `OSError` or `UnicodeError` if it cannot be resolved."""
        allowed = [address for address in await self._resolver.addresses(host) if self.allow(address)]
        if not allowed:
            raise RefusedAddressError(f"{host} has no allowed address")
        return allowed[:MOST_ADDRESSES]

    def check(self, url: str) -> None:
        """Raises `InvalidRequestError` for a URL whose host is an address, in whatever form, that is refused anyway,
        or `localhost`. Other names are resolved only when something is sent to them."""
        host = httpx.URL(url).host
        if not self.may_be(host) or (_is_localhost(host) and not any(map(self.allow, _LOOPBACK))):
            raise InvalidRequestError(
                f"Webhooks to {host} are refused: the address is private, this machine's or reserved, and"
                f" {self.setting} does not name it.",
                code="webhook_address_refused",
            )

    def may_be(self, host: str) -> bool:
        """Whether a host is a name, or an address in whatever form that may be connected to."""
        try:
            found = socket.getaddrinfo(host.rstrip("."), None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except (OSError, UnicodeError):
            return True
        return any(self.allow(str(each[4][0])) for each in found)

    def close(self) -> None:
        self._resolver.close()


def _is_localhost(host: str) -> bool:
    """Whether a name means this machine by RFC 6761."""
    return host.rstrip(".").lower().rpartition(".")[2] == "localhost"
