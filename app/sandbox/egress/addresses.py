"""Which addresses a sandbox may be connected to: public ones that do not belong to this machine."""

from __future__ import annotations

import errno
import ipaddress
import socket

_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
"""All of IANA's global unicast space. Addresses that embed an IPv4 address are outside of it or listed below: mapped,
compatible, translated (64:ff9b::/96 and 64:ff9b:1::/48)."""
_SPECIAL = [
    ipaddress.ip_network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3"),
        "168.63.129.16/32",  # a public number, but on Azure the virtual machine's host answers there
        # IETF protocols with Teredo and ORCHID, documentation, 6to4, documentation
        *("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"),
    )
]
"""The special-purpose registries of IANA (RFC 6890), multicast and reserved addresses, and Azure's WireServer."""


def is_public(text: str) -> bool:
    """Whether an address is global unicast. An address with a zone is not."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and (address not in _GLOBAL_V6 or address.scope_id):
        return False
    return not any(address in network for network in _SPECIAL if network.version == address.version)


def is_own(text: str) -> bool:
    """Whether an address is this machine's, including public ones of its interfaces: only those can be bound. An
    unexpected error from the kernel counts as yes."""
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((text, 0))
    except OSError as exc:
        return exc.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
    return True


def may_be_reached(text: str) -> bool:
    """Whether a sandbox may be connected to an address."""
    return is_public(text) and not is_own(text)
