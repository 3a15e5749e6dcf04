"""The common part of the HTTP adapters: post, correct refused requests, read the stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from asyncio import sleep
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator, Mapping
from contextlib import aclosing
from time import monotonic
from typing import Any, ClassVar, Protocol

from app.errors import AnswerError, ProviderError, Reshape, ReshapeError
from app.llm.base import InputTransformed, ModelRequest, StreamEvent, UsageReport
from app.llm.http import ANSWER_BYTES, ProviderClient, error_message
from app.llm.quirks import QuirkMemory, Quirks, image_refusal
from app.llm.reachability import Reach
from app.llm.sse import SseParser
from app.llm.wire import ResponseStream, UnknownEndError
from app.messages import ImagePart

_MAX_CORRECTIONS = 10
"""Maximum corrections of one request: a model refuses a handful of parameters and rules, and each is learned once."""

MAX_EVENTS = 2_000_000
"""Maximum events of one answer: several for each token of the longest answer of any model."""

SILENT_S = 1800.0
"""Seconds that a stream may go without content, even if pings keep its connection alive: some models think for
minutes."""

MAX_STREAM_BYTES = 256 * 1024 * 1024
"""Bytes of one answer, unpacked: the longest that any model gives has 128,000 tokens, each in an event of 1 KB or less.
"""

_TURN_S = 0.005
"""Seconds of work on a stream after which other tasks get a turn."""
_PIECE = 16 * 1024
"""Bytes read between two looks at the clock: a few milliseconds of nothing but line ends."""
_AT_ONCE = 256
"""Events read between two checks of the clock: about a millisecond of the smallest ones."""

_BLANK = b" \t\r\n\xef\xbb\xbf"
"""What may precede a body, with the bytes of a BOM."""
_DOCUMENT_STARTS = (b"{", b"[")
_STREAM_STARTS = (b"", b":")
"""How a body begins that may have no events: not at all, or with a comment."""

_MAY_POINT = frozenset({400, 404, 405, 501})
"""Statuses of refusals that may mean that the model has to be called at the other endpoint."""


class Body(Protocol):
    """The body of a successful answer."""

    def chunks(self) -> AsyncGenerator[bytes]: ...


class WireFormat(Protocol):
    """The request and stream format of one endpoint."""

    @property
    def path(self) -> str: ...

    def parameters(self, request: ModelRequest, quirks: Quirks) -> dict[str, Any]: ...

    def encode(self, request: ModelRequest, parameters: dict[str, Any], quirks: Quirks) -> bytes: ...

    def open_stream(self) -> ResponseStream: ...

    def corrects(self, error: AnswerError, request: ModelRequest) -> bool: ...


class HttpProvider(ABC):
    """A provider over HTTP; a subclass defines the format of its requests and streams."""

    path: ClassVar[str]
    required: ClassVar[frozenset[str]] = frozenset()
    """Parameters that every request has to have."""

    def __init__(
        self, name: str, base_url: str, headers: Mapping[str, str], api_key: str | None, *, idle_timeout_s: float
    ) -> None:
        self.name = name
        self._client = ProviderClient(name, base_url, headers, secret=api_key, idle_timeout_s=idle_timeout_s)
        self._quirks: dict[str, Quirks] = {}
        self._recalled: dict[str, Mapping[str, Any] | None] = {}
        """The memory that the quirks already include, by model."""
        self._own_ends: dict[str, set[str]] = {}
        """Words of unknown meaning with which answers have ended, by model."""
        self._origin = base_url
        self._memory: QuirkMemory | None = None

    def remember(self, origin: str, memory: QuirkMemory) -> None:
        """Persists what it learns in `memory`, and starts with what is stored there. `origin` distinguishes the models
        of this provider from those of others: its kind and its configured base URL."""
        self._origin, self._memory = origin, memory

    @abstractmethod
    def quirks(self) -> Quirks:
        """The initial quirks of a model that was never called."""

    def known(self, model: str) -> Quirks:
        """What is known of a model so far; the caller may add to it."""
        quirks = self._quirks.setdefault(model, self.quirks()) if model not in self._quirks else self._quirks[model]
        stored = self._recall(model)
        if stored is not self._recalled.get(model):
            # From before a restart, or from another node.
            self._recalled[model] = stored
            quirks.take(self.quirks().restored(stored or {}))
        return quirks

    def look_up(self, model: str) -> Quirks:
        """What is known about a model so far; creates no entry for a model that was never called. Called by threads of
        the database."""
        quirks, stored = self._quirks.get(model), self._recall(model)
        if quirks is not None and stored is self._recalled.get(model):
            return quirks
        return self.quirks().restored(stored or {})

    def _recall(self, model: str) -> Mapping[str, Any] | None:
        return self._memory.recall(self._place(model)) if self._memory is not None else None

    def learn(self, error: AnswerError, body: bytes, parameters: dict[str, Any], quirks: Quirks) -> bool:
        """Learns from the refusal of a request; returns whether the next one will differ from this `body`."""
        return error.meant_status in (400, 422) and quirks.learn(error.body, parameters)

    @abstractmethod
    def parameters(self, request: ModelRequest, quirks: Quirks) -> dict[str, Any]:
        """The optional parameters of this request that its model accepts."""

    @abstractmethod
    def encode(self, request: ModelRequest, parameters: dict[str, Any], quirks: Quirks) -> bytes:
        """The request's body."""

    def echoes(self, model: str) -> bool:
        """Whether the model gets its own reasoning back as plain text."""
        return False

    @abstractmethod
    async def window(self, model: str) -> int | None:
        """The model's window in tokens as reported by its server, None if it is not. Raises `ProviderError`."""

    def headers(self, parameters: Mapping[str, Any]) -> dict[str, str]:
        """Headers of a request with these parameters, in addition to those of all requests."""
        return {}

    def reshape(self, error: AnswerError, quirks: Quirks) -> Reshape | None:
        """How the history must treat reasoning after this refusal; None if the refusal was about something else. What
        applies to all sessions of the model is recorded in its quirks."""
        return None

    @abstractmethod
    def open_stream(self) -> ResponseStream:
        """The state of a new response."""

    def corrects(self, error: AnswerError, request: ModelRequest) -> bool:
        """Whether the history will be encoded differently after this refusal, so that a retry makes sense."""
        return False

    def wire_format(self, quirks: Quirks) -> WireFormat:
        """The wire format of this model."""
        return self

    def switches_endpoint(self, error: AnswerError, quirks: Quirks) -> bool:
        """Whether this refusal points to the provider's other endpoint, where the model is called from now on."""
        return False

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """Streams one response; see `Provider`. What the model refuses (a parameter, an order of roles) is left out or
        written differently and the request is sent again, before any event; this is remembered for the model. Raises
        `ProviderError` (code `endpoint_switched`, to be retried at once) for a refusal that points to the other
        endpoint, and `ReshapeError` for a refusal of the history's reasoning."""
        quirks = self.known(request.model)
        wire = self.wire_format(quirks)
        refusal: AnswerError | None = None
        body = b""
        own_ends = self._own_ends.setdefault(request.model, set())
        traced = {} if request.traceparent is None else {"traceparent": request.traceparent}
        for correction in range(_MAX_CORRECTIONS + 1):
            tried = quirks.with_remedies(request.remedies)
            parameters = wire.parameters(request, tried)
            refused, body = body, wire.encode(request, parameters, tried)
            if refusal is not None and body == refused:
                quirks.fail_trial(for_good=True)
                raise refusal
            shown = False
            try:
                async with (
                    self._client.post(wire.path, body, {**self.headers(parameters), **traced}) as answer,
                    aclosing(read_response(wire.open_stream(), answer, own_ends)) as batches,
                ):
                    async for events in batches:
                        for event in events:
                            shown = shown or not isinstance(event, UsageReport | InputTransformed)
                            yield event
                        if shown:
                            # Not needed for a correction anymore; it may have megabytes.
                            body = refused = b""
                await self._answered(request, wire)
                return
            except ProviderError as error:
                if isinstance(error, AnswerError):
                    error.parameters = tuple(name for name in parameters if name not in self.required)
                if isinstance(error, UnknownEndError):
                    own_ends.add(error.word)
                # A refusal may also come inside a stream, as long as it has no content yet.
                may_differ = not shown and correction < _MAX_CORRECTIONS
                if (
                    isinstance(error, AnswerError)
                    and may_differ
                    and await self._corrects(error, request, wire, body, parameters)
                ):
                    refusal = error
                    continue
                if shown:
                    await self._answered(request, wire)
                elif wire is self.wire_format(quirks):
                    quirks.fail_trial(for_good=not error.retryable)
                raise

    async def _corrects(
        self, error: AnswerError, request: ModelRequest, wire: WireFormat, body: bytes, parameters: dict[str, Any]
    ) -> bool:
        """Whether the request can be sent again in another form. Raises `ProviderError` if the endpoint was switched,
        and `ReshapeError` if the history must change."""
        quirks = self.known(request.model)
        before = quirks.to_json()
        is_refusal = error.meant_status in (400, 422)
        # If two concurrent requests are refused, the second finds the endpoint already switched.
        was_late = error.meant_status in _MAY_POINT and wire is not self.wire_format(quirks)
        reshape = _image_refusal(error, request, quirks)
        # Before a remedy is tried, both endpoints have refused the request.
        may_switch = reshape is None and not request.remedies
        switched = may_switch and (was_late or self.switches_endpoint(error, quirks))
        if reshape is None and is_refusal and not switched:
            reshape = self.reshape(error, quirks)
        learned = False
        if not switched and reshape is None:
            learned = is_refusal and wire.corrects(error, request)
            learned = learned or self.learn(error, body, parameters, quirks)
        if switched:
            # Stored once the model has answered there.
            raise self._switched(error, quirks) from error
        await self._keep(request.model, before)
        if reshape is not None:
            raise ReshapeError(error.detail, reshape=reshape, http_status=error.http_status) from error
        return learned

    async def _answered(self, request: ModelRequest, wire: WireFormat) -> None:
        """Stores what an answer proves: the endpoint that the model was switched to, the remedies that were tried, and
        that it accepts images."""
        quirks = self.known(request.model)
        switched = quirks.switches and wire is self.wire_format(quirks)
        sees = quirks.sees_images is None and request.has_images and has_images(request)
        if not (switched or sees or request.remedies):
            return
        before = quirks.to_json()
        if switched:
            quirks.confirm_trial()
        if sees:
            quirks.sees_images = True
        for remedy in request.remedies:
            quirks.adopt(remedy)
        await self._keep(request.model, before)

    async def _keep(self, model: str, before: Mapping[str, Any]) -> None:
        """Stores what is known of a model, if it differs from `before`."""
        if self._memory is not None and (known := self.known(model).to_json()) != before:
            self._recalled[model] = known
            await self._memory.learned(self._place(model), known)

    def _switched(self, error: AnswerError, quirks: Quirks) -> ProviderError:
        detail = f"{error.detail} Switching the model to {self.wire_format(quirks).path}."
        return ProviderError(
            detail, code="endpoint_switched", retryable=True, retry_after=0.0, http_status=error.http_status
        )

    def _place(self, model: str) -> str:
        return f"{self._origin} {model}"

    @property
    def reach(self) -> Reach:
        """Whether the provider is reachable."""
        return self._client.reach

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._client.aclose()


def _image_refusal(error: AnswerError, request: ModelRequest, quirks: Quirks) -> Reshape | None:
    """What this refusal asks for, if it is about the request's images."""
    if not has_images(request):
        return None
    return image_refusal(error.meant_status, error_message(error.body), quirks)


def has_images(request: ModelRequest) -> bool:
    """Whether there are images in the request's messages."""
    return any(isinstance(part, ImagePart) for message in request.messages for part in message.parts)


class _StreamWatch:
    """Lets other tasks run while a stream never pauses, and ends a stream without content."""

    def __init__(self) -> None:
        self.events = self._bytes = 0
        self._worked = 0.0
        self._began = self._said = monotonic()

    def begin(self, size: int) -> None:
        """Counts the bytes that have arrived. Raises `ProviderError` if the stream exceeds its limit."""
        self._began = monotonic()
        self._bytes += size
        if self._bytes > MAX_STREAM_BYTES:
            mib = MAX_STREAM_BYTES // 2**20
            raise ProviderError(f"The answer has more than {mib:,} MiB.", code="provider_bad_response")

    def check(self, events: int, *, is_silent: bool) -> None:
        """Counts the events just read. Raises `ProviderError` if the stream exceeds its limits."""
        self.events += events
        if not is_silent:
            self._said = self._began
        if self.events > MAX_EVENTS:
            raise ProviderError(f"The answer has more than {MAX_EVENTS:,} events.", code="provider_bad_response")
        if self._began - self._said > SILENT_S:
            minutes = f"{SILENT_S / 60:g} minutes"
            raise ProviderError(f"The provider's stream had no content for {minutes}.", code="provider_timeout")

    async def rest(self) -> None:
        """Adds the time that the events took. Buffered data is read without awaiting anything, so no other task would
        run."""
        at = monotonic()
        self._worked += at - self._began
        self._began = at
        if self._worked > _TURN_S:
            self._worked = 0.0
            await sleep(0)
            self._began = monotonic()


def _portions(parser: SseParser, chunk: bytes) -> Iterator[list[tuple[bytes, bytes]]]:
    """The events that a chunk completes, between two checks of the clock. There may be none, which still counts toward
    the time without content."""
    for start in range(0, len(chunk), _PIECE):
        events = parser.feed(chunk[start : start + _PIECE] if len(chunk) > _PIECE else chunk)
        yield events[:_AT_ONCE]
        for later in range(_AT_ONCE, len(events), _AT_ONCE):
            yield events[later : later + _AT_ONCE]


async def read_response(
    stream: ResponseStream, answer: Body, own_ends: Collection[str] = ()
) -> AsyncGenerator[list[StreamEvent]]:
    """The events of an answer, some at a time as they arrive. `own_ends` are words of unknown meaning with which an
    answer of the model may end. Raises only `ProviderError`, whatever the server sent.

    Its first character decides whether it is a document or a stream: gateways send either with any content type."""
    parser, watch, first = SseParser(), _StreamWatch(), b""
    try:
        async with aclosing(answer.chunks()) as chunks:
            async for chunk in chunks:
                watch.begin(len(chunk))
                if not first:
                    chunk = chunk.lstrip(_BLANK)
                    first = chunk[:1]
                    if first in _DOCUMENT_STARTS:
                        yield stream.whole(await _document(chunk, chunks), own_ends)
                        return
                for events in _portions(parser, chunk):
                    said = stream.feed(events)
                    watch.check(len(events), is_silent=not said)
                    yield said
                    await watch.rest()
                if stream.done:
                    break
        yield stream.feed(last := parser.close())
        if first not in _STREAM_STARTS and watch.events + len(last) == 0:
            detail = "The provider sent neither a document nor a stream of events."
            raise ProviderError(detail, code="provider_bad_response", retryable=True)
    except ProviderError:
        if not stream.finished:
            yield stream.so_far()
            raise
    yield stream.end(own_ends)


async def _document(start: bytes, chunks: AsyncGenerator[bytes]) -> bytes:
    """The first `ANSWER_BYTES` of an answer that is one document."""
    body = bytearray(start)
    async for chunk in chunks:
        body += chunk
        if len(body) >= ANSWER_BYTES:
            break
    return bytes(body[:ANSWER_BYTES])
