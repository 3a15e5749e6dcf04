"""The adapter for OpenAI: Chat Completions, which many servers speak, and Responses, by which its newer models are
called. A model that points to the other endpoint is called there from then on. Tool calls that a local model has
written as text are read too."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import orjson

from app.errors import AnswerError, ProviderError, Reshape
from app.llm.adapter import HttpProvider, WireFormat
from app.llm.base import BlockEnd, Finish, ModelRequest, StreamEvent, TextDelta, ToolArgumentsDelta, ToolCallStart
from app.llm.known_models import wire_effort
from app.llm.openai_responses import ResponsesFormat, is_unknown_path, points_elsewhere
from app.llm.openai_stream import OpenAiStream
from app.llm.openai_wire import encode_body, form_of
from app.llm.quirks import Endpoint, Quirks, learn_messages, wants_reasoning
from app.llm.windows import entry_of, is_llama_cpp, is_lm_studio, listed_window, props_window

OPENAI_URL = "https://api.openai.com/v1"
_NEW_NAME_HOSTS = ("api.openai.com", ".openai.azure.com")
"""Hosts that accept `max_completion_tokens`; elsewhere the old name is the safer first guess."""
_SECOND_LOOK_S = 2.0
"""Timeout in seconds for a second document of a local server, which may start loading the model for it."""

_MOST_SWITCHES = 2
"""Maximum switches without an answer in between: the first may be due to a proxy's transient 404."""

_TAG, _END_TAG = "<tool_call>", "</tool_call>"
_FENCE = "```"
_OPENINGS = (_TAG, f"{_FENCE}json", _FENCE)
"""Markers that may precede a call; only the call's object may follow them."""
_FIRST_KEYS = ("name", "type", "function", "arguments", "parameters", "id")
_FIRST_KEY = re.compile(r'\{\s*"([^"]{0,12})')
_BLANKS = re.compile(r"\s*")
HELD_CHARS = 1_000_000
"""Maximum characters held back as a possible call; the largest file that a model writes in one call is smaller."""
_HEAD_CHARS = 200
"""Characters that decide whether a text may be a call; whitespace in front of a tag or a key is shorter."""


class OpenAiProvider(HttpProvider):
    """Any server of Chat Completions at `base_url`, which has the form that the provider's SDK expects."""

    path = "/chat/completions"

    def __init__(
        self,
        name: str,
        base_url: str,
        api_key: str | None,
        *,
        idle_timeout_s: float,
        endpoint: Endpoint = "chat_completions",
    ) -> None:
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        super().__init__(name, base_url, headers, api_key, idle_timeout_s=idle_timeout_s)
        is_new = (urlsplit(base_url).hostname or "").endswith(_NEW_NAME_HOSTS)
        self._token_name = "max_completion_tokens" if is_new else "max_tokens"
        self._endpoint = endpoint
        self._responses = ResponsesFormat(name, self._client.failure)

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """Streams one response; see `Provider`. Calls that a local model writes as text are parsed."""
        is_chat = self._is_chat(self.known(request.model))
        calls = TextCalls({tool.name for tool in request.tools if is_chat})
        async with aclosing(super().stream(request)) as events:  # type: ignore[type-var]
            try:
                async for event in events:
                    if calls.done:
                        yield event
                    else:
                        for found in calls.feed(event):
                            yield found
            except ProviderError:
                for held in calls.release():
                    yield held
                raise

    def quirks(self) -> Quirks:
        return Quirks(self._token_name)

    def parameters(self, request: ModelRequest, quirks: Quirks) -> dict[str, Any]:
        wanted = {
            "temperature": request.temperature,
            "stop": list(request.stop) or None,
            "stream_options": {"include_usage": True},
            "reasoning_effort": wire_effort(request.model, request.reasoning_effort, quirks.refused_efforts),
        }
        return quirks.parameters(wanted, request.max_output_tokens)

    def encode(self, request: ModelRequest, parameters: dict[str, Any], quirks: Quirks) -> bytes:
        return encode_body(request, parameters, form_of(quirks))

    def learn(self, error: AnswerError, body: bytes, parameters: dict[str, Any], quirks: Quirks) -> bool:
        learned = self._is_chat(quirks) and learn_messages(error.body, body, quirks)
        return learned or super().learn(error, body, parameters, quirks)

    def reshape(self, error: AnswerError, quirks: Quirks) -> Reshape | None:
        return "echo_reasoning" if self._is_chat(quirks) and wants_reasoning(error.body, quirks) else None

    def echoes(self, model: str) -> bool:
        quirks = self.look_up(model)
        return self._is_chat(quirks) and quirks.echoes_reasoning is not False

    def wire_format(self, quirks: Quirks) -> WireFormat:
        return self if self._is_chat(quirks) else self._responses

    def switches_endpoint(self, error: AnswerError, quirks: Quirks) -> bool:
        """Switches to the other endpoint, and back if that was a mistake; if each endpoint points to the other, the
        third refusal is the error. For a non-default endpoint an unknown path is enough to switch back."""
        current = self._endpoint_of(quirks)
        is_gone = current != self._endpoint and is_unknown_path(error, whatever=quirks.trial is not None)
        points = points_elsewhere(current, error)
        if quirks.switches >= _MOST_SWITCHES or not (is_gone or points):
            error.is_explained = points and not is_unknown_path(error)
            return False
        other: Endpoint = "responses" if current == "chat_completions" else "chat_completions"
        quirks.trial = None if other == (quirks.endpoint or self._endpoint) else other
        quirks.switches += 1
        return True

    def _is_chat(self, quirks: Quirks) -> bool:
        return self._endpoint_of(quirks) == "chat_completions"

    def _endpoint_of(self, quirks: Quirks) -> Endpoint:
        return quirks.trial or quirks.endpoint or self._endpoint

    async def window(self, model: str) -> int | None:
        """The window in the list of models, or in a local server's other documents."""
        entry = entry_of(await self._client.document("/models"), model)
        if entry is None:
            return None
        if is_llama_cpp(entry):
            props = await self._unversioned(f"/props?model={quote(model, safe='')}")
            return props_window(props) or listed_window(entry)
        if is_lm_studio(entry):
            found = await self._unversioned(f"/api/v0/models/{quote(model)}")
            return listed_window(found) if isinstance(found, dict) else None
        return listed_window(entry)

    async def _unversioned(self, path: str) -> Any:
        """A document that the server offers outside the API's `/v1`; None if it does not."""
        try:
            async with asyncio.timeout(_SECOND_LOOK_S):
                return await self._client.document(path, unversioned=True)
        except (ProviderError, TimeoutError):
            return None

    def open_stream(self) -> OpenAiStream:
        return OpenAiStream(self._client.failure)


@dataclass(frozen=True, slots=True)
class TextCall:
    """A call found in text; `arguments` is the JSON of an object."""

    name: str
    arguments: str


class TextCalls:
    """Filters one response. A text that starts like a call is held back until it can no longer be one, so that a call
    is never shown as an answer; a text with nothing but calls of offered tools becomes calls. Once `done`, events pass
    unchanged."""

    def __init__(self, offered: Collection[str]) -> None:
        self._offered = offered
        self._held: list[StreamEvent] = []
        self._block: int | None = None
        self._head = ""
        self._chars = 0
        self.done = not offered

    def feed(self, event: StreamEvent) -> Iterator[StreamEvent]:
        """Returns the event itself, nothing yet, or the held events."""
        match event:
            case _ if self.done:
                yield event
            case TextDelta(block, text) if self._block in (None, block):
                yield from self._hold(event, block, text)
            case TextDelta() | ToolCallStart():
                # The response has other content than the text.
                yield from self.release()
                yield event
            case BlockEnd(block) if block == self._block:
                self._held.append(event)
            case Finish(reason):
                yield from self._end(event, cut_off=reason not in ("stop", "tool_calls", "other"))
            case _:
                yield event

    def release(self) -> Iterator[StreamEvent]:
        """Returns the held events and clears them."""
        held, self._held, self.done = self._held, [], True
        yield from held

    def _hold(self, event: StreamEvent, block: int, text: str) -> Iterator[StreamEvent]:
        self._block = block
        self._held.append(event)
        self._chars += len(text)
        if len(self._head) < _HEAD_CHARS:
            self._head = (self._head + text).lstrip()[:_HEAD_CHARS]
        if self._chars > HELD_CHARS or not may_be_call(self._head):
            yield from self.release()

    def _end(self, finish: Finish, *, cut_off: bool) -> Iterator[StreamEvent]:
        text = "".join(event.text for event in self._held if isinstance(event, TextDelta))
        calls = [] if cut_off or self._block is None else calls_in(text, self._offered)
        if not calls:
            yield from self.release()
            yield finish
            return
        for block, call in enumerate(calls, self._block or 0):
            yield ToolCallStart(block, call.name)
            yield ToolArgumentsDelta(block, call.arguments)
            yield BlockEnd(block)
        yield Finish("tool_calls")


def may_be_call(head: str) -> bool:
    """Whether a text with this start, stripped of leading whitespace, may still consist only of calls."""
    for opening in _OPENINGS:
        if opening.startswith(head):
            return True
        if head.startswith(opening):
            return _may_begin_object(head[len(opening) :].lstrip())
    return _may_begin_object(head)


def _may_begin_object(head: str) -> bool:
    """Whether the first key of an object, as far as it was received, may be the first key of a call."""
    if not head or (head[0] == "{" and head[1:].lstrip() in ("", '"')):
        return True
    key = _FIRST_KEY.match(head)
    return key is not None and any(known.startswith(key[1]) for known in _FIRST_KEYS)


def calls_in(text: str, offered: Collection[str]) -> list[TextCall]:
    """The calls of offered tools that a text consists of; none if it contains anything else. Takes linear time, since
    the text is untrusted."""
    text = text.strip()
    if text.startswith(_TAG):
        documents = _tagged(text)
    elif text.startswith(_FENCE):
        documents = _fenced(text)
    else:
        documents = [text]
    calls = [_call(document, offered) for document in documents]
    return [call for call in calls if call is not None] if all(calls) else []


def _tagged(text: str) -> list[str]:
    """The contents of the tags of a text that has nothing else; the last tag may be left open."""
    documents = []
    at = 0
    while at < len(text):
        if not text.startswith(_TAG, at):
            return []
        end = text.find(_END_TAG, at)
        documents.append(text[at + len(_TAG) : end if end >= 0 else len(text)])
        blanks = _BLANKS.match(text, end + len(_END_TAG)) if end >= 0 else None
        at = blanks.end() if blanks is not None else len(text)
    return documents


def _fenced(text: str) -> list[str]:
    """The content of a text that is one code block."""
    head, _, rest = text.partition("\n")
    if head[len(_FENCE) :].strip() not in ("", "json") or not rest.endswith(_FENCE):
        return []
    return [rest.removesuffix(_FENCE)]


def _call(document: str, offered: Collection[str]) -> TextCall | None:
    try:
        found = orjson.loads(document)
    except orjson.JSONDecodeError:
        return None
    if isinstance(found, dict) and isinstance(function := found.get("function"), dict):
        found = function
    if not isinstance(found, dict) or found.get("name") not in offered:
        return None
    arguments: Any = next((found[key] for key in ("arguments", "parameters") if key in found), None)
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return None
    return TextCall(str(found["name"]), orjson.dumps(arguments).decode()) if isinstance(arguments, dict) else None
