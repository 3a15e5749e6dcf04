"""Names of hosts: what is one, and what a pattern covers."""

from __future__ import annotations

import ipaddress
import socket
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sessions import MAX_HOSTS, AllowedHosts, Network, covers, host_name, host_pattern, is_covered, network_within

labels = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True).filter(lambda label: label[2:4] != "--")
names = st.lists(labels, min_size=2, max_size=4).map(".".join)
networks: st.SearchStrategy[Network] = st.booleans() | st.lists(
    st.sampled_from(["a.example", "b.a.example", "*.a.example", "*.b.a.example", "c.example"]), min_size=1
).map(lambda hosts: AllowedHosts(allowed_hosts=tuple(hosts)))


@given(names)
def test_a_name_is_itself_in_lower_case(name: str) -> None:
    assert host_name(name) == host_name(name.upper()) == name


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Bücher.example", "xn--bcher-kva.example"),
        ("ｅxample．com", "example.com"),
        ("packages。example.com", "packages.example.com"),
        ("PACKAGES.example.COM", "packages.example.com"),
    ],
)
def test_a_name_is_kept_as_dns_has_it(written: str, name: str) -> None:
    assert host_name(written) == name


def test_names_that_look_alike_are_different() -> None:
    assert host_name("p\u0430ckages.example.com") != "packages.example.com"
    assert not covers("packages.example.com", host_name("p\u0430ckages.example.com"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "*",
        "localhost",
        "com",
        "a..b",
        ".example.com",
        "example.com.",
        "-a.example",
        "a-.example",
        "a_b.example",
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "1.2.3.0x4",
        "1.2.3.0x",
        "0177.0.0.1",
        "2130706433",
        "[::1]",
        "::1",
        "a.1",
        "a b.example",
        "a.example:80",
        "u@a.example",
        "a%2e.example",
        "a/b.example",
        "a\\b.example",
        "a.example\n",
        "x" * 64 + ".example",
        ".".join(["x" * 60] * 5),
        "a.*.example",
        "**.example.org",
        "\u2488com.example",
    ],
)  # fmt: skip
def test_what_is_no_name(text: str) -> None:
    with pytest.raises(ValueError, match="host name"):
        host_name(text)


@given(st.text(string.digits + "abcdefx.:[]", max_size=20))
def test_nothing_that_is_taken_for_an_address_is_a_name(text: str) -> None:
    try:
        name = host_name(text)
    except ValueError:
        return
    with pytest.raises(OSError, match="illegal IP address"):
        socket.inet_aton(name)
    with pytest.raises(ValueError, match="does not appear"):
        ipaddress.ip_address(name)


@pytest.mark.parametrize("text", ["*", "*.", "*.com", "*.*.example.org", "a.*.org", "*example.org", "*.1.2", "*.[::1]"])
def test_a_pattern_is_a_name_or_all_below_one(text: str) -> None:
    with pytest.raises(ValueError, match="not a host name"):
        host_pattern(text)


@given(labels, names)
def test_a_wildcard_covers_what_is_below_it_alone(label: str, name: str) -> None:
    assert covers(f"*.{name}", f"{label}.{name}")
    assert covers(f"*.{name}", f"*.{label}.{name}")
    assert not covers(f"*.{name}", name)
    assert not covers(f"*.{name}", f"{label}{name}")
    assert not covers(name, f"{label}.{name}")
    assert not covers(name, f"*.{name}")


@given(names, names, names)
def test_what_a_covered_pattern_covers_is_covered(top: str, middle: str, low: str) -> None:
    outer, inner, name = f"*.{top}", f"*.{middle}.{top}", f"{low}.{middle}.{top}"
    assert covers(outer, inner)
    assert covers(inner, name)
    assert covers(outer, name)


def _reaches(network: Network, name: str) -> bool:
    return network if isinstance(network, bool) else is_covered(name, network.allowed_hosts)


@given(networks, networks)
def test_of_two_networks_what_both_have_is_left(asked: Network, most: Network) -> None:
    both = network_within(asked, most)
    for name in ("a.example", "b.a.example", "x.a.example", "x.b.a.example", "c.example", "d.example"):
        assert _reaches(both, name) == (_reaches(asked, name) and _reaches(most, name))
    assert network_within(both, most) == both


def test_a_list_has_a_bounded_length() -> None:
    hosts = tuple(f"h{number}.example.com" for number in range(MAX_HOSTS))
    assert len(AllowedHosts(allowed_hosts=hosts).allowed_hosts) == MAX_HOSTS
    for wrong in ((), (*hosts, "one.example.com"), ("x" * 300 + ".example",)):
        with pytest.raises(ValueError, match="allowed_hosts"):
            AllowedHosts(allowed_hosts=wrong)
