from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from app.errors import AnswerError, ContextOverflowError, ProviderError
from app.llm.http import (
    CLIP_CHARS,
    DOCUMENT_VALUES,
    ERROR_BODY_BYTES,
    UNPACKED_BYTES,
    ProviderClient,
    error_message,
    retry_after_s,
)

from .servers import LocalServer, Scripted, document, local_server

KEY = "sk-secret-0123456789abcdef"


async def fetch(server: LocalServer | str, *, secret: str | None = KEY, idle_timeout_s: float = 5) -> bytes:
    url = server if isinstance(server, str) else server.url + "/v1/"
    client = ProviderClient("acme", url, {"x-key": secret or ""}, secret=secret, idle_timeout_s=idle_timeout_s)
    try:
        async with client.post("/chat", b'{"a":1}') as answer:
            return await answer.read()
    finally:
        await client.aclose()


async def refused(*answers: Scripted, **options: float) -> ProviderError:
    async with local_server(*answers) as server:
        with pytest.raises(ProviderError) as caught:
            await fetch(server, **options)  # type: ignore[arg-type]
    return caught.value


async def test_a_request_is_json_and_accepts_no_compression() -> None:
    async with local_server(Scripted(pieces=[b"one ", b"two"])) as server:
        assert await fetch(server) == b"one two"
    (asked,) = server.asked
    assert (asked.method, asked.path, asked.json) == ("POST", "/v1/chat", {"a": 1})
    assert asked.headers["accept-encoding"] == "identity"
    assert asked.headers["content-type"] == "application/json"
    assert asked.headers["content-length"] == "7"
    assert asked.headers["x-key"] == KEY
    assert "transfer-encoding" not in asked.headers


async def test_a_body_of_several_megabytes_arrives_whole() -> None:
    body = b"[" + b",".join(b"%d" % number for number in range(600_000)) + b"]"
    async with local_server(Scripted()) as server:
        client = ProviderClient("acme", server.url, {}, secret=None, idle_timeout_s=5)
        async with client.post("/", body):
            pass
        await client.aclose()
    assert server.asked[0].body == body


async def test_a_server_that_compresses_anyway_is_understood() -> None:
    packed = gzip.compress(b"data: x\n\n")
    async with local_server(Scripted(pieces=[packed[:9], packed[9:]], headers={"content-encoding": "gzip"})) as server:
        assert await fetch(server) == b"data: x\n\n"


@pytest.mark.parametrize("packed", [gzip.compress, zlib.compress])
async def test_what_is_packed_is_unpacked_in_pieces(packed: Callable[[bytes], bytes]) -> None:
    """20 KB on the wire; unpacked at once, it would be in memory whole."""
    whole = b":\n\n" * 7_000_000
    headers = {"content-encoding": "gzip" if packed is gzip.compress else "deflate"}
    async with local_server(Scripted(pieces=[packed(whole)], headers=headers)) as server:
        client = ProviderClient("acme", server.url, {}, secret=None, idle_timeout_s=5)
        async with client.post("/", b"{}") as answer:
            sizes = [len(piece) async for piece in answer.chunks()]
        await client.aclose()
    assert sum(sizes) == len(whole)
    assert max(sizes) <= UNPACKED_BYTES


@pytest.mark.parametrize(
    ("encoding", "body", "code"), [("br", b"x", "provider_bad_response"), ("gzip", b"x" * 100, "provider_unreachable")]
)
async def test_what_cannot_be_unpacked_is_an_error(encoding: str, body: bytes, code: str) -> None:
    assert (await refused(Scripted(pieces=[body], headers={"content-encoding": encoding}))).code == code


async def test_an_answer_that_is_compressed_twice_is_refused() -> None:
    packed = gzip.compress(gzip.compress(b"data: " + bytes(1_000_000)))
    for status in (200, 400):
        answer = Scripted(status, pieces=[packed], headers={"content-encoding": "gzip, gzip"})
        async with local_server(answer) as server:
            with pytest.raises(ProviderError) as caught:
                await fetch(server)
            assert caught.value.code in ("provider_bad_response", "provider_bad_request")
            assert not caught.value.retryable


async def test_a_document_of_too_many_values_is_an_error() -> None:
    async with local_server(Scripted(pieces=[b"[" + b"{}," * (DOCUMENT_VALUES + 1) + b"{}]"])) as server:
        client = ProviderClient("acme", server.url, {}, secret=None, idle_timeout_s=5)
        with pytest.raises(ProviderError, match="did not answer with a JSON document"):
            await client.document("/models")
        await client.aclose()


@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [
        (400, "provider_bad_request", False),
        (401, "provider_auth", False),
        (402, "provider_bad_request", False),
        (403, "provider_auth", False),
        (404, "provider_not_found", False),
        (408, "provider_timeout", True),
        (409, "provider_bad_request", True),
        (422, "provider_bad_request", False),
        (429, "provider_rate_limited", True),
        (500, "provider_server_error", True),
        (502, "provider_server_error", True),
        (503, "provider_overloaded", True),
        (529, "provider_overloaded", True),
        (302, "provider_bad_response", False),
        (202, "provider_bad_response", False),
    ],
)
async def test_a_status_becomes_a_code(status: int, code: str, retryable: bool) -> None:
    error = await refused(document(status, {"error": "No."}))
    assert (error.code, error.retryable, error.http_status) == (code, retryable, status)
    assert error.detail == f"acme answered {status}: No."


async def test_the_requested_delay_is_kept() -> None:
    assert (await refused(document(429, "slow", retry_after="7"))).retry_after == 7
    assert (await refused(document(429, "slow", retry_after="7", retry_after_ms="250"))).retry_after == 0.25
    assert (await refused(document(529, "slow"))).retry_after is None


async def test_an_overflow_is_distinguished_from_a_bad_request() -> None:
    error = await refused(document(400, {"error": {"message": "prompt is too long: 12 tokens > 10 maximum"}}))
    assert isinstance(error, ContextOverflowError)
    assert (error.limit, error.requested, error.http_status) == (10, 12, 400)


@pytest.mark.parametrize(
    "said",
    [
        f"Incorrect API key provided: {KEY}.",
        "Incorrect API key provided: sk-someone-elses-0123456789.",
        "Authorization was Bearer abc.def",
        "proxy http://user:hunter2@host/ said no",
    ],
)
async def test_no_key_is_in_an_errors_text(said: str) -> None:
    error = await refused(document(401, {"error": {"message": said}}))
    for secret in (KEY, "sk-someone-elses-0123456789", "abc.def", "hunter2"):
        assert secret not in error.detail
    assert "***" in error.detail


async def test_a_key_of_any_form_is_redacted() -> None:
    async with local_server(document(401, {"error": "The key open sesame is wrong."})) as server:
        with pytest.raises(ProviderError) as caught:
            await fetch(server, secret="open sesame")
    assert caught.value.detail == "acme answered 401: The key *** is wrong."


async def test_an_html_error_page_is_truncated() -> None:
    error = await refused(Scripted(502, [b"<html>" + b"x" * 500_000], {"content-type": "text/html"}))
    assert CLIP_CHARS < len(error.detail) < CLIP_CHARS + 100


async def test_an_error_that_cannot_be_written_again_still_has_its_status() -> None:
    """400 levels can be read, and not written."""
    body = b'{"error":{"x":' + b"[" * 400 + b"]" * 400 + b"}}"
    error = await refused(Scripted(500, pieces=[body]))
    assert (error.code, error.retryable) == ("provider_server_error", True)


async def test_an_error_whose_body_breaks_off_still_has_its_status() -> None:
    error = await refused(Scripted(503, [b'{"error": {"mess'], end="cut"))
    assert (error.code, error.http_status) == ("provider_overloaded", 503)


async def test_an_unreachable_server_is_retryable() -> None:
    async with local_server(Scripted()) as server:
        url = server.url
    with pytest.raises(ProviderError) as caught:
        await fetch(url)
    assert (caught.value.code, caught.value.retryable) == ("provider_unreachable", True)
    assert caught.value.http_status is None
    assert "ssl" not in caught.value.detail


async def test_a_broken_connection_is_retryable() -> None:
    error = await refused(Scripted(pieces=[b"half"], end="cut"))
    assert (error.code, error.retryable) == ("provider_unreachable", True)


async def test_an_invalid_address_is_not_retryable() -> None:
    with pytest.raises(ProviderError) as caught:
        await fetch("ftp://127.0.0.1/v1")
    assert (caught.value.code, caught.value.retryable) == ("provider_unreachable", False)


@pytest.mark.parametrize("answer", [Scripted(pieces=[b"half"], end="hang"), Scripted(silent=True, end="hang")])
async def test_silence_is_a_timeout_and_the_connection_is_closed(answer: Scripted) -> None:
    async with local_server(answer) as server:
        with pytest.raises(ProviderError) as caught:
            await fetch(server, idle_timeout_s=0.2)
        await asyncio.wait_for(server.left.wait(), 60)
    assert (caught.value.code, caught.value.retryable) == ("provider_timeout", True)
    assert "0.2 seconds" in caught.value.detail


async def test_more_connections_than_a_pool_usually_has_stream_at_once() -> None:
    async with local_server(Scripted(pieces=[b"x"], end="hang")) as server:
        client = ProviderClient("acme", server.url, {}, secret=None, idle_timeout_s=30)
        arrived = asyncio.Semaphore(0)

        async def hold() -> None:
            async with client.post("/", b"{}") as answer:
                async for _ in answer.chunks():
                    arrived.release()

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(hold()) for _ in range(150)]
            for _ in tasks:
                await asyncio.wait_for(arrived.acquire(), 60)
            for task in tasks:
                task.cancel()
        await client.aclose()


def test_an_error_in_a_stream_is_truncated_like_an_error_answer() -> None:
    """It is matched against patterns, and a stream's events are larger."""
    client = ProviderClient("acme", "http://127.0.0.1", {}, secret=None, idle_timeout_s=1)
    failure = client.failure(400, "x" * 5_000_000)
    assert isinstance(failure, AnswerError)
    assert len(failure.body) == ERROR_BODY_BYTES


async def test_a_failure_inside_a_stream_counts_as_a_server_error_by_default() -> None:
    client = ProviderClient("acme", "http://127.0.0.1", {}, secret=KEY, idle_timeout_s=1)
    assert client.failure(None, '{"error":"oops"}').retryable
    refused_request = client.failure(400, '{"error":"oops"}')
    assert isinstance(refused_request, AnswerError)
    assert not refused_request.retryable
    assert refused_request.http_status is None
    assert client.failure(None, "").detail == "acme reported an error."
    await client.aclose()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"error":{"message":"a"}}', "a"),
        ('{"error":"b"}', "b"),
        ('{"message":"c"}', "c"),
        ('{"detail":"d"}', "d"),
        ('{"error":{"code":5}}', '{"code":5}'),
        ('[{"error":{"message":"e"}}]', "e"),
        ('{"detail":[{"loc":["x"]}]}', '{"detail":[{"loc":["x"]}]}'),
        (" plain ", "plain"),
        ("[]", "[]"),
        ('"f"', '"f"'),
        ("", ""),
    ],
)
def test_the_sentence_inside_an_error_is_found(body: str, message: str) -> None:
    assert error_message(body) == message


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-1"}, 0),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9),
        ({"retry-after": "Sun, 22 Nov 2026 10:00:30 GMT"}, 30),
        ({"retry-after": "Sun, 22 Nov 2026 10:00:30 -0000"}, 30),
        ({"retry-after": "Sun, 22 Nov 2026 09:00:00 GMT"}, 0),
        ({"retry-after": "Sun, 22 Nov 2026 09:00:00 +99999999999999999999"}, None),
    ],
)
def test_the_requested_delay_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, at=datetime(2026, 11, 22, 10, 0, 0, tzinfo=UTC)) == seconds


@pytest.mark.parametrize(
    ("variables", "proxied"),
    [
        ({"http_proxy": "{proxy}"}, True),
        ({"all_proxy": "{proxy}"}, True),
        ({"http_proxy": "{proxy}", "no_proxy": "127.0.0.1"}, False),
        ({}, False),
    ],
)
async def test_a_proxy_of_the_environment_is_used(
    variables: dict[str, str], proxied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    async with local_server(Scripted(pieces=[b"proxy"])) as proxy, local_server(Scripted(pieces=[b"target"])) as target:
        for name, value in variables.items():
            monkeypatch.setenv(name, value.format(proxy=proxy.url))
        assert await fetch(target) == (b"proxy" if proxied else b"target")
