"""Messages between nodes: read as they were written, and refused if they are no such messages."""

from __future__ import annotations

import builtins
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from app.bootstrap import secrets_of
from app.cluster.broker import BrokerError, RedisBroker, address_of
from app.cluster.sending import Traffic
from app.cluster.wire import (
    MAX_BODY_BYTES,
    MAX_EVENT_BYTES,
    MAX_ITEMS,
    MAX_MESSAGE_BYTES,
    Delta,
    MalformedUpdateError,
    Update,
    decode,
    encode,
)
from app.eventlog.log import StreamItem
from app.settings import Settings

texts = st.text(st.sampled_from('a😀𝒳é\n"\\\0'), max_size=20)
items = st.builds(
    StreamItem,
    type=texts,
    seq=st.none() | st.integers(0, 1 << 50),
    data=texts.map(str.encode),
    closes=st.none() | texts,
    voids=st.none() | texts,
)
deltas = st.builds(
    Delta, texts, st.integers(0, 1 << 50), texts, texts, texts, st.none() | st.dictionaries(texts, texts, max_size=3)
)


@given(
    st.builds(
        Update, texts, texts, st.lists(items, max_size=5), st.integers(0, 9), st.integers(0, 9),
        st.lists(deltas, max_size=5), st.booleans(), st.lists(texts, max_size=5), st.booleans(),
    )
)  # fmt: skip
def test_an_update_is_read_as_it_was_written(update: Update) -> None:
    assert decode(encode(update)) == update


def test_a_large_event_is_sent_without_its_data() -> None:
    large, small = (StreamItem("t", seq, b"x" * size) for seq, size in ((1, MAX_EVENT_BYTES + 1), (2, 5)))
    read = decode(encode(Update("n", "s", [large, small])))
    assert [item.data for item in read.events] == [b"", b"xxxxx"]


def test_the_data_of_all_events_is_bounded() -> None:
    events = [StreamItem("t", seq, b"x" * MAX_EVENT_BYTES) for seq in range(1, 60)]
    message = encode(Update("n", "s", events))
    assert len(message) < MAX_BODY_BYTES + 10_000
    read = decode(message).events
    full = MAX_BODY_BYTES // MAX_EVENT_BYTES
    assert [len(item.data) for item in read] == [MAX_EVENT_BYTES] * full + [0] * (59 - full)


def test_a_message_that_is_too_large_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(MalformedUpdateError, match="bytes"):
        decode(b"[" + b" " * MAX_MESSAGE_BYTES)


@pytest.mark.parametrize(
    "too_many",
    [
        Update("n", "s", open=["p"] * (MAX_ITEMS + 1)),
        Update("n", "s", [StreamItem("t", 1, b"")] * (MAX_ITEMS + 1)),
        Update("n", "s", deltas=[Delta("p", 0, "", "")] * (MAX_ITEMS + 1)),
    ],
    ids=["open", "events", "deltas"],
)
def test_too_many_items_are_refused(too_many: Update) -> None:
    with pytest.raises(MalformedUpdateError):
        decode(encode(too_many))


@pytest.mark.parametrize("body", [b"", b"1234", b"123456"])
def test_sizes_that_are_not_those_of_the_data_are_refused(body: bytes) -> None:
    with pytest.raises(MalformedUpdateError, match="add up"):
        decode(b'["n","s",0,0,false,false,[],[["t",1,null,null,5]],[]]\n' + body)


@given(data=st.binary(max_size=200) | texts.map(str.encode))
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedUpdateError):
        decode(data)


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b"{}",
        b"[1,2,3,4,5,6,7,8,9]",
        b'["n","s",0,0,false,false,[],[],[[1,2]]]',
        b"null\n",
        b"[" * 9_999,
        b'["n","s","x",0,false,false,[],[],[]]',
        b'["n","s",0,0,false,false,[],[],[["p","x","t","","",null]]]',
        b'["n","s",0,0,false,false,[],[["t","x",null,null,0]],[]]',
        b'["n","s",0,0,false,false,[],[["t",1,["part"],null,0]],[]]',
        b'["n","s",0,0,false,false,[],[["t",1,null,7,0]],[]]',
        b'["n","s",0,0,false,false,[],[["t",1,null,null,-1]],[]]',
        b'["n","s",0,0,false,false,3,[],[]]',
        b'["n","s",0,0,1,false,[],[],[]]',
        b'["n","s",-1,0,false,false,[],[],[]]',
    ],
)
def test_json_of_another_shape_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedUpdateError):
        decode(data)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://:secret@host:6379/0", "host:6379"),
        ("rediss://user:secret@host", "host"),
        ("unix:///run/redis.sock", "/run/redis.sock"),
        ("redis://:secret@host:port", "host"),
    ],
)
def test_an_address_has_no_password(url: str, address: str) -> None:
    assert address_of(url) == address


def test_a_password_is_a_secret_and_a_wrong_url_is_not_repeated() -> None:
    assert "secret-word" in secrets_of(Settings(_env_file=None, broker="redis://:secret-word@h"))
    with pytest.raises(BrokerError) as refused:
        RedisBroker("http://:secret-word@h")
    assert "secret-word" not in str(refused.value)


async def test_a_broker_that_refuses_is_named_without_its_password() -> None:
    broker = RedisBroker("redis://:secret-word@127.0.0.1:1")
    with pytest.raises(BrokerError) as refused:
        await broker.connect()
    assert "secret-word" not in str(refused.value)
    await broker.aclose()


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *more: Any, **named: Any) -> Any:
        if name.startswith("redis"):
            raise ImportError(name)
        return real(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(BrokerError, match=r"pip install 'palimpsest\[cluster\]'"):
        RedisBroker("redis://h")


def test_malformed_messages_are_counted_and_logged_once_a_minute() -> None:
    traffic = Traffic()
    with capture_logs() as logs:
        for _ in range(100):
            traffic.refuse(MalformedUpdateError("x" * 1_000))
    assert traffic.malformed == 100
    assert [(line["event"], len(line["error"])) for line in logs] == [("broker_message_malformed", 200)]
