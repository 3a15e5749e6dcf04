"""What the adapters over HTTP have in common: post, correct what is refused, read the stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, ClassVar, Protocol

from app.errors import ProviderError, Reshape, ReshapeError
from app.llm.base import ModelRequest, StreamEvent
from app.llm.http import AnswerError, ProviderClient
from app.llm.quirks import QuirkMemory, Quirks
from app.llm.reach import Reach
from app.llm.sse import SseParser

_MAX_CORRECTIONS = 10
"""A request is corrected at most once for each optional parameter (6) and each rule about messages (4)."""


class ResponseStream(Protocol):
    """Folds one response's server-sent events into neutral events."""

    done: bool

    @property
    def finished(self) -> bool: ...

    def feed(self, events: list[tuple[bytes, bytes]]) -> list[StreamEvent]: ...

    def whole(self, body: bytes) -> list[StreamEvent]: ...

    def end(self) -> list[StreamEvent]: ...


class Body(Protocol):
    """What came back with a successful answer: a whole document where `is_json`, else a stream."""

    is_json: bool

    def chunks(self) -> AsyncGenerator[bytes]: ...

    async def read(self) -> bytes: ...


class HttpProvider(ABC):
    """A provider behind HTTP; a subclass says how its requests and its stream look."""

    path: ClassVar[str]

    def __init__(
        self, name: str, base_url: str, headers: Mapping[str, str], api_key: str | None, *, idle_timeout_s: float
    ) -> None:
        self.name = name
        self._client = ProviderClient(name, base_url, headers, secret=api_key, idle_timeout_s=idle_timeout_s)
        self._quirks: dict[str, Quirks] = {}
        self._base_url = base_url
        self._memory: QuirkMemory | None = None

    def remember(self, base_url: str, memory: QuirkMemory) -> None:
        """Keeps what it learns in `memory`, under the configured `base_url`, and begins with what is there."""
        self._base_url, self._memory = base_url, memory

    @abstractmethod
    def quirks(self) -> Quirks:
        """What is taken to be known of a model that was never called."""

    def known(self, model: str) -> Quirks:
        """What is known of a model by now."""
        if (quirks := self._quirks.get(model)) is None:
            stored = self._memory.recall(self._place(model)) if self._memory is not None else None
            quirks = self._quirks[model] = self.quirks().restored(stored or {})
        return quirks

    def learn(self, error: AnswerError, body: bytes, parameters: dict[str, Any], quirks: Quirks) -> bool:
        """Learns from the refusal of a request; says whether the next one will differ from this `body`."""
        return error.http_status in (400, 422) and quirks.learn(error.body, parameters)

    @abstractmethod
    def parameters(self, request: ModelRequest, quirks: Quirks) -> dict[str, Any]:
        """The optional parameters of this request that its model takes."""

    @abstractmethod
    def encode(self, request: ModelRequest, parameters: dict[str, Any]) -> bytes:
        """The request's body."""

    def headers(self, request: ModelRequest, quirks: Quirks) -> Mapping[str, str]:
        """Headers that this request alone carries."""
        return {}

    def reshape(self, error: AnswerError, quirks: Quirks) -> Reshape | None:
        """How the history has to treat reasoning differently after this refusal; None where that does not help. What
        holds for all sessions of the model is noted in its quirks."""
        return None

    @abstractmethod
    async def window(self, model: str) -> int | None:
        """The model's window in tokens as its server reports it, None where it reports none. Raises `ProviderError`."""

    @abstractmethod
    def open_stream(self) -> ResponseStream:
        """The state of a new response."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """Streams one response; see `Provider`. What the model refuses (a parameter, an order of roles) is left out or
        written differently and the request sent again, before any event, and this is remembered for the model.
        Raises `ReshapeError` where the history itself has to be another."""
        quirks = self.known(request.model)
        for correction in range(_MAX_CORRECTIONS + 1):
            parameters = self.parameters(request, quirks)
            body = self.encode(request, parameters)
            try:
                async with (
                    self._client.post(self.path, body, self.headers(request, quirks)) as answer,
                    aclosing(read_response(self.open_stream(), answer)) as batches,
                ):
                    async for events in batches:
                        for event in events:
                            yield event
                return
            except AnswerError as error:
                # An error inside a stream has no status of its own, and may come after events.
                is_first = error.http_status is not None and correction < _MAX_CORRECTIONS
                if not (is_first and await self._corrects(error, body, parameters, request.model)):
                    raise

    async def _corrects(self, error: AnswerError, body: bytes, parameters: dict[str, Any], model: str) -> bool:
        """Whether the request can be sent in another way now. Raises `ReshapeError` where its history must change."""
        quirks = self.known(model)
        before = quirks.to_json()
        reshape = self.reshape(error, quirks) if error.http_status in (400, 422) else None
        learned = reshape is None and self.learn(error, body, parameters, quirks)
        if self._memory is not None and (known := quirks.to_json()) != before:
            await self._memory.learned(self._place(model), known)
        if reshape is not None:
            raise ReshapeError(error.detail, reshape=reshape, http_status=error.http_status) from error
        return learned

    def _place(self, model: str) -> str:
        return f"{self._base_url} {model}"

    @property
    def reach(self) -> Reach:
        """Whether it answers."""
        return self._client.reach

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._client.aclose()


async def read_response(stream: ResponseStream, answer: Body) -> AsyncGenerator[list[StreamEvent]]:
    """The events of an answer, a list for each chunk off the wire. Raises `ProviderError`, whatever the server sent."""
    parser = SseParser()
    if answer.is_json:
        yield stream.whole(await answer.read())
        return
    try:
        async with aclosing(answer.chunks()) as chunks:
            async for chunk in chunks:
                yield stream.feed(parser.feed(chunk))
                if stream.done:
                    break
        yield stream.feed(parser.close())
    except ProviderError:
        if not stream.finished:
            raise
    yield stream.end()
