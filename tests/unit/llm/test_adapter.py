"""How an answer is read: other tasks keep running, and streams without content end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator
from itertools import count, repeat

import pytest

from app.errors import ProviderError
from app.llm import adapter
from app.llm.adapter import read_response
from app.llm.base import Finish, StreamEvent, TextDelta
from app.llm.http import ANSWER_BYTES
from app.llm.openai_stream import OpenAiStream

NOTHING = b"data: {}\n\n" * 5_000
WORD = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
END = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


class Flood:
    """A body with more data always available, so that reading it never waits."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks

    async def chunks(self) -> AsyncGenerator[bytes]:
        for chunk in self._chunks:
            yield chunk


def error(status: int | None, body: str) -> ProviderError:
    return ProviderError(body)


async def said(chunks: Iterable[bytes]) -> list[StreamEvent]:
    return [event async for batch in read_response(OpenAiStream(error), Flood(chunks)) for event in batch]


@pytest.mark.parametrize("chunks", [[NOTHING] * 40, [b":\n\n" * 1_000_000]], ids=["events", "one chunk of comments"])
@pytest.mark.slow
async def test_other_tasks_run_while_a_stream_never_pauses(chunks: list[bytes]) -> None:
    turns = count()

    async def other() -> None:
        while True:
            next(turns)
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    assert len(await said([*chunks, END])) == 1
    task.cancel()
    assert next(turns) > 10


async def test_a_chunk_of_many_events_is_read_completely() -> None:
    events = await said([WORD * 2_000 + END])
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "a" * 2_000


async def test_endless_events_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "MAX_EVENTS", 20_000)
    with pytest.raises(ProviderError, match="more than 20,000 events") as caught:
        await said(repeat(NOTHING))
    assert not caught.value.retryable


async def test_bytes_without_end_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comments are no events."""
    monkeypatch.setattr(adapter, "MAX_STREAM_BYTES", 1024 * 1024)
    with pytest.raises(ProviderError, match="more than 1 MiB") as caught:
        await said(repeat(b":\n\n" * 1_000))
    assert not caught.value.retryable


@pytest.mark.parametrize("chunk", [NOTHING, b": ping\n\n"])
async def test_a_stream_without_content_is_an_error(monkeypatch: pytest.MonkeyPatch, chunk: bytes) -> None:
    clock: Iterator[int] = count(0, 60)
    monkeypatch.setattr(adapter, "monotonic", lambda: next(clock))
    with pytest.raises(ProviderError, match="no content for 30 minutes"):
        await said(repeat(chunk))


DOCUMENT = b"""
{
  "choices": [
    {"message": {"content": "a"}, "finish_reason": "stop"}
  ]
}
"""


@pytest.mark.parametrize("chunks", [[DOCUMENT], [bytes([byte]) for byte in DOCUMENT], [b"[", DOCUMENT, b"]"]])
async def test_a_body_that_begins_like_json_is_a_document(chunks: list[bytes]) -> None:
    events = await said(chunks)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "a"
    assert events[-1] == Finish("stop")


@pytest.mark.parametrize("start", [b"", b"\n", b"\xef\xbb\xbf", b" \r\n"])
async def test_another_body_is_a_stream(start: bytes) -> None:
    for chunks in ([start + WORD + END], [*(bytes([byte]) for byte in start), WORD, END]):
        assert [event.text for event in await said(chunks) if isinstance(event, TextDelta)] == ["a"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"<html>Bad gateway</html>", "provider_bad_response"),
        (b'{"choices": [', "provider_bad_response"),
        (b"[1]", "provider_bad_response"),
        (b": keep-alive\n\n", "provider_stream_ended"),
        (b"\n\n", "provider_stream_ended"),
        (b"", "provider_stream_ended"),
    ],
)
async def test_a_body_that_is_neither_is_retried(body: bytes, code: str) -> None:
    with pytest.raises(ProviderError) as caught:
        await said([body])
    assert (caught.value.code, caught.value.retryable) == (code, True)


async def test_an_endless_document_is_not_kept() -> None:
    taken = count()

    def endless() -> Iterator[bytes]:
        yield b'{"a":"'
        while next(taken) < 1_000:
            yield b"x" * 65_536

    with pytest.raises(ProviderError, match="not JSON"):
        await said(endless())
    assert next(taken) <= ANSWER_BYTES // 65_536 + 1
