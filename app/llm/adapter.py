"""What the adapters over HTTP have in common: post, correct what is refused, read the stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, ClassVar, Protocol

from app.errors import ProviderError, Reshape, ReshapeError
from app.llm.base import ModelRequest, StreamEvent
from app.llm.http import AnswerError, ProviderClient
from app.llm.quirks import Quirks
from app.llm.reach import Reach
from app.llm.sse import SseParser

_MAX_CORRECTIONS = 6
"""A request is corrected at most once for each optional parameter."""


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

    @abstractmethod
    def quirks(self) -> Quirks:
        """What is taken to be known of a model that was never called."""

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
        """Streams one response; see `Provider`. A parameter that the model refuses is left out, lowered or renamed and
        the request sent again, before any event, and this is remembered for the model. Raises `ReshapeError` where the
        history itself has to be another."""
        quirks = self._quirks.setdefault(request.model, self.quirks())
        for correction in range(_MAX_CORRECTIONS + 1):
            parameters = self.parameters(request, quirks)
            try:
                async with (
                    self._client.post(
                        self.path, self.encode(request, parameters), self.headers(request, quirks)
                    ) as answer,
                    aclosing(read_response(self.open_stream(), answer)) as batches,
                ):
                    async for events in batches:
                        for event in events:
                            yield event
                return
            except AnswerError as error:
                if error.http_status not in (400, 422):
                    raise
                if (wanted := self.reshape(error, quirks)) is not None:
                    raise ReshapeError(error.detail, reshape=wanted, http_status=error.http_status) from error
                refused = correction < _MAX_CORRECTIONS
                if not (refused and quirks.learn(error.body, parameters)):
                    raise

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
