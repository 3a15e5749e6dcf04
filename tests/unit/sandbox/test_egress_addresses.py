"""Which addresses the egress proxy connects to."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sandbox.egress.gateway import is_own, is_public, may_be_reached


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.9.9.9",
        "169.254.169.254",
        "168.63.129.16",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:8.8.8.8",
        "::ffff:127.0.0.1",
        "::8.8.8.8",
        "64:ff9b::808:808",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:0:4136:e378::1",
        "2001:db8::1",
        "2002:7f00:1::1",
        "2002:808:808::1",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%lo",
        "fec0::1",
        "ff02::1",
        "2606:4700::1111%eth0",
        "localhost",
        "",
        "8.8.8.8.",
        "8.8.8",
        "08.8.8.8",
    ],
)  # fmt: skip
def test_what_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "93.184.216.34", "172.32.0.1", "100.128.0.1", "2606:4700:4700::1111"])
def test_what_is_public(address: str) -> None:
    assert is_public(address)
    assert may_be_reached(address)


@given(st.ip_addresses())
def test_public_addresses_are_global_in_python_too(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if is_public(str(address)):
        assert address.is_global
        assert not address.is_multicast
        assert not address.is_reserved


@given(st.ip_addresses(v=4))
def test_no_ipv4_address_is_public_inside_an_ipv6_one(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    for base, shift in (("::ffff:0:0", 0), ("::", 0), ("64:ff9b::", 0), ("2002::", 80), ("2001::", 0)):
        assert not is_public(str(ipaddress.IPv6Address(int(ipaddress.IPv6Address(base)) | number << shift)))


def test_addresses_of_this_machine_are_recognized() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
        route.connect(("127.0.0.1", 9))
        assert is_own(route.getsockname()[0])
    assert is_own("::1")
    assert not is_own("93.184.216.34")
    assert not is_own("2606:4700:4700::1111")
