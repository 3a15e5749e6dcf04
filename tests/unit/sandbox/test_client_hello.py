"""The server's name in the first message of TLS, wherever its bytes are cut."""

from __future__ import annotations

import contextlib
import itertools
import ssl
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sandbox.egress.gateway import RefusedError
from app.sandbox.egress.requests import MAX_HELLO_BYTES, MAX_HELLO_RECORDS, server_name


def hello(name: str | None) -> bytes:
    context = ssl.create_default_context()
    context.check_hostname = name is not None
    outgoing = ssl.MemoryBIO()
    connection = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        connection.do_handshake()
    return outgoing.read()


HELLO = hello("packages.example.com")


def record(data: bytes) -> bytes:
    return b"\x16\x03\x01" + struct.pack(">H", len(data)) + data


def test_the_name_is_read() -> None:
    assert server_name(HELLO) == "packages.example.com"
    assert server_name(HELLO + b"\x14\x03\x03\x00\x01\x01") == "packages.example.com"


@given(st.integers(0, len(HELLO) - 1))
def test_an_incomplete_hello_is_awaited(cut: int) -> None:
    assert server_name(HELLO[:cut]) is None


@given(st.lists(st.integers(1, len(HELLO) - 6), max_size=5))
def test_it_may_come_in_several_records(cuts: list[int]) -> None:
    body, places = HELLO[5:], [0, *sorted(set(cuts)), len(HELLO) - 5]
    pieces = [body[start:end] for start, end in itertools.pairwise(places)]
    assert server_name(b"".join(map(record, pieces))) == "packages.example.com"


@given(st.binary(max_size=200) | st.binary(max_size=100).map(lambda data: HELLO[:43] + data))
def test_other_data_is_refused_or_awaited(data: bytes) -> None:
    with contextlib.suppress(RefusedError):
        assert server_name(data) in (None, "packages.example.com")


@pytest.mark.parametrize(
    "data",
    [b"SSH-2.0-x\r\n", b"GET / HTTP/1.1\r\n", b"\x16\x02\x01", record(b"\x02\x00\x00\x01x"), b"\x80\x2e\x01\x03"],
)
def test_data_that_is_not_tls_is_refused_at_once(data: bytes) -> None:
    with pytest.raises(RefusedError, match="only TLS"):
        server_name(data)


def test_without_a_name_it_is_refused() -> None:
    with pytest.raises(RefusedError, match="no server name"):
        server_name(hello(None))


def test_two_names_are_refused() -> None:
    """Which of them a server takes is its own choice."""
    name = b"packages.example.com"
    entry = b"\x00" + struct.pack(">H", len(name)) + name
    start = HELLO.index(struct.pack(">H", len(entry)) + entry) - 4
    extension = HELLO[start : start + 6 + len(entry)]
    body = HELLO[9:start] + extension + HELLO[start:]
    at = _extensions_at(HELLO[9:])
    (size,) = struct.unpack(">H", body[at : at + 2])
    body = body[:at] + struct.pack(">H", size + len(extension)) + body[at + 2 :]
    with pytest.raises(RefusedError, match="no server name"):
        server_name(record(b"\x01" + len(body).to_bytes(3, "big") + body))


def _extensions_at(body: bytes) -> int:
    at = 34
    for size in (1, 2, 1):
        at += size + int.from_bytes(body[at : at + size], "big")
    return at


def test_its_length_is_bounded() -> None:
    endless = record(b"\x01\xff\xff\xff" + bytes(16_000)) + record(bytes(16_000)) * (MAX_HELLO_BYTES // 16_000)
    with pytest.raises(RefusedError, match="only TLS"):
        server_name(endless)


@pytest.mark.parametrize("filler", [b"", b"\x01"], ids=["empty records", "a byte each"])
def test_a_hello_in_many_records_is_refused(filler: bytes) -> None:
    """Each piece that comes has all of them read again."""
    with pytest.raises(RefusedError, match="only TLS"):
        server_name(record(b"\x01") + record(b"\x00\xff\xff") + record(filler) * MAX_HELLO_RECORDS)
