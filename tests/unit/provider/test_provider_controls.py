"""What a script can do to a connection, and what a test can wait for."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import httpx
import pytest

from tests.provider import (
    Begin,
    Delay,
    FakeProvider,
    Gate,
    Hang,
    HttpError,
    Raw,
    Reply,
    Reset,
    Text,
    ToolCall,
    running_provider,
)
from tests.provider.script import Responder
from tests.unit.provider.wire import FORMATS, Format, body_of, events, openai_body, post, stream_events, streaming


async def in_thread(provider: FakeProvider, wire: Format = "openai", **fields: object) -> httpx.Response:
    return await asyncio.to_thread(post, provider, wire, body_of(wire, **fields))


@pytest.mark.parametrize("wire", FORMATS)
async def test_a_gate_holds_the_stream_until_it_is_opened(provider: FakeProvider, wire: Format) -> None:
    provider.script(Reply(Text("before"), Gate("g"), Text("after")))
    async with streaming(provider, wire) as response:
        received = response.aiter_text()
        seen = ""
        while "before" not in seen:
            seen += await anext(received)
        await provider.reached("g")
        assert "after" not in seen
        provider.open("g")
        seen += "".join([piece async for piece in received])
    assert "after" in seen
    await provider.answered(1)


async def test_a_gate_before_content_holds_the_headers(provider: FakeProvider) -> None:
    provider.script(Reply(Gate("g"), HttpError(500)))
    answer = asyncio.create_task(in_thread(provider, stream=True))
    await provider.reached("g")
    assert not answer.done()
    provider.open("g")
    assert (await answer).status_code == 500


async def test_a_gate_in_the_middle_of_arguments(provider: FakeProvider) -> None:
    provider.script(Reply(ToolCall("ls", {"path": "abc"}, chunks=4, pause=Gate("g"))))
    answer = asyncio.create_task(in_thread(provider, stream=True))
    await provider.reached("g")
    provider.open("g")
    assert len(events(await answer)) == 7


async def test_an_open_gate_holds_nobody_and_counts(provider: FakeProvider) -> None:
    provider.open("g")
    provider.respond(lambda _: Reply(Gate("g"), Text("x")))
    await asyncio.gather(*(in_thread(provider, stream=True) for _ in range(3)))
    await provider.reached("g", 3)


async def test_begin_sends_the_headers_ahead(provider: FakeProvider) -> None:
    provider.script(Reply(Begin(), Gate("g"), Text("x")))
    async with streaming(provider, "openai") as response:
        assert response.status_code == 200
        provider.open("g")


@pytest.mark.parametrize("wire", FORMATS)
async def test_a_client_that_leaves_a_hanging_stream_is_counted(provider: FakeProvider, wire: Format) -> None:
    provider.script(Reply(Text("x"), Hang()))
    async with streaming(provider, wire) as response:
        await anext(response.aiter_bytes())
        assert provider.client_left == 0
    await provider.left()
    assert provider.client_left == 1


async def test_a_client_that_leaves_before_the_headers_is_counted(provider: FakeProvider) -> None:
    provider.script(Reply(Hang()))
    answer = asyncio.create_task(_never(provider))
    await provider.request_count(1)
    answer.cancel()
    await provider.left(1)
    with pytest.raises(asyncio.CancelledError):
        await answer


async def _never(provider: FakeProvider) -> None:
    async with streaming(provider, "openai"):
        raise AssertionError("a hanging answer has begun")


async def test_a_client_that_leaves_at_a_gate_frees_it(provider: FakeProvider) -> None:
    provider.script(Reply(Text("x"), Gate("g")))
    async with streaming(provider, "openai"):
        await provider.reached("g")
    await provider.left(1)


async def test_a_reset_is_a_read_error(provider: FakeProvider) -> None:
    provider.script(Reply(Text("half"), Gate("g"), Reset()))
    async with streaming(provider, "openai") as response:
        received = response.aiter_bytes()
        await anext(received)
        provider.open("g")
        with pytest.raises(httpx.ReadError):
            [_ async for _ in received]


async def test_a_close_is_an_incomplete_read(provider: FakeProvider) -> None:
    provider.script(Reply(Text("half"), Reset("close")))
    async with streaming(provider, "openai") as response:
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
            await response.aread()


async def test_a_connection_accepted_just_before_the_end_is_dropped() -> None:
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setblocking(False)
        async with FakeProvider() as provider:
            client.connect_ex(("127.0.0.1", int(httpx.URL(provider.url).port or 0)))
            # In these two turns, the loop sees the connection and accepts it; it is not made yet.
            for _ in range(2):
                await asyncio.sleep(0)
        async with asyncio.timeout(60):
            with suppress(ConnectionResetError):
                assert await loop.sock_recv(client, 1) == b""


@pytest.mark.parametrize("how", ["rst", "close"])
def test_a_connection_dropped_before_the_answer(provider: FakeProvider, how: str) -> None:
    provider.script(Reply(Reset(how)))  # type: ignore[arg-type]
    with pytest.raises(httpx.TransportError):
        post(provider, "openai", openai_body(stream=True))
    assert post(provider, "openai", openai_body()).status_code == 200


async def test_delays_and_pace_take_their_time(provider: FakeProvider) -> None:
    loop = asyncio.get_running_loop()
    provider.script(Reply(Delay(0.05), Text("x")), Reply(Text("abcdefgh", chunks=8), pace=200))
    for least in (0.05, 0.045):
        start = loop.time()
        await in_thread(provider, stream=True)
        assert loop.time() - start >= least


@pytest.mark.parametrize("wire", FORMATS)
async def test_controls_hold_answers_that_do_not_stream(provider: FakeProvider, wire: Format) -> None:
    provider.script(Reply(Text("x"), Gate("g")))
    answer = asyncio.create_task(in_thread(provider, wire))
    await provider.reached("g")
    provider.open("g")
    assert (await answer).status_code == 200


async def test_waiting_for_requests_returns_them(provider: FakeProvider) -> None:
    waiting = asyncio.create_task(provider.request_count(2))
    await in_thread(provider)
    await in_thread(provider, "anthropic")
    assert [request.wire for request in await waiting] == ["openai", "anthropic"]


async def test_a_wait_that_times_out_says_what_was_seen(provider: FakeProvider) -> None:
    await in_thread(provider)
    with pytest.raises(TimeoutError, match=r"waited 0\.01 s for gate 'g' 1 times; 1 arrived, 1 answered, 0 left"):
        await provider.reached("g", timeout=0.01)


def test_waits_work_from_many_loops(provider: FakeProvider) -> None:
    async def two() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(provider.request_count(2))
            group.create_task(in_thread(provider))

    async def one() -> None:
        await in_thread(provider)
        await provider.answered(1)

    asyncio.run(one())
    asyncio.run(two())


def run_one(responder: Responder) -> None:
    """A test's course with one request, whose answer is known to fail."""
    with running_provider() as provider:
        provider.respond(responder)
        with suppress(httpx.RemoteProtocolError):
            assert post(provider, "openai", openai_body(stream=True)).status_code == 500
        assert len(provider.script_errors) == 1


def test_an_error_status_after_content_is_the_tests_own_mistake() -> None:
    with pytest.raises(ValueError, match="must stand before any content"):
        run_one(lambda _: Reply(Text("x"), HttpError(500)))


def test_a_script_that_raises_fails_its_test() -> None:
    with pytest.raises(ZeroDivisionError):
        run_one(lambda request: Reply(Text(str(1 // request.index))))


async def test_it_serves_from_the_running_loop_as_well() -> None:
    async with FakeProvider() as provider:
        provider.script(Reply(Text("x"), Gate("g"), Text("y")), Reply(Hang()))
        async with streaming(provider, "openai") as response:
            await provider.reached("g")
            provider.open("g")
            assert b'"y"' in await response.aread()


def test_stopping_does_not_wait_for_answers_that_hang() -> None:
    with FakeProvider() as provider:
        provider.script(Reply(Text("x"), Hang()))
        client = httpx.Client(trust_env=False, verify=False)
        request = client.build_request("POST", f"{provider.openai_url}/chat/completions", json=openai_body(stream=True))
        response = client.send(request, stream=True)
    with pytest.raises(httpx.TransportError):
        response.read()
    client.close()


def test_raw_bytes_alone_are_content(provider: FakeProvider) -> None:
    provider.script(Reply(Raw(b"data: nonsense\n\n")))
    assert b"nonsense" in post(provider, "openai", openai_body(stream=True)).content


async def test_many_streams_at_once(provider: FakeProvider) -> None:
    provider.respond(lambda _: Reply(Text("abcdef", chunks=6), pace=500))
    answers = await asyncio.gather(*(in_thread(provider, stream=True) for _ in range(12)))
    assert all(answer.text.endswith("data: [DONE]\n\n") for answer in answers)
    assert [request.index for request in provider.requests] == list(range(12))


def test_connections_are_kept(provider: FakeProvider) -> None:
    with httpx.Client(trust_env=False, verify=False) as client:
        for _ in range(3):
            client.post(f"{provider.openai_url}/chat/completions", json=openai_body(stream=True)).raise_for_status()
    assert len(provider.requests) == 3
    assert len(stream_events(provider, "openai")) == 3
