"""The adapter for OpenAI: Chat Completions, which many servers speak, and Responses, by which its newer models are
called. A model that points to the other endpoint is called there from then on. Tool calls that a local model has
written as text are read too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote, urlsplit

from app.errors import AnswerError, ProviderError, Reshape
from app.llm.adapter import HttpProvider, WireFormat
from app.llm.base import ModelRequest, StreamEvent
from app.llm.known_models import wire_effort
from app.llm.openai_responses import ResponsesFormat, is_unknown_path, points_elsewhere
from app.llm.openai_stream import OpenAiStream
from app.llm.openai_wire import encode_body, form_of
from app.llm.quirks import Endpoint, Quirks, learn_messages, wants_reasoning
from app.llm.text_calls import with_text_calls
from app.llm.windows import entry_of, is_llama_cpp, is_lm_studio, listed_window, props_window

OPENAI_URL = "https://api.openai.com/v1"
_NEW_NAME_HOSTS = ("api.openai.com", ".openai.azure.com")
"""Hosts that accept `max_completion_tokens`; elsewhere the old name is the safer first guess."""
_SECOND_LOOK_S = 2.0
"""Timeout in seconds for a second document of a local server, which may start loading the model for it."""

_MOST_SWITCHES = 2
"""Maximum switches without an answer in between: the first may be due to a proxy's transient 404."""


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

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        """Streams one response; see `Provider`. Calls that a model writes as text are read."""
        is_chat = self._is_chat(self.known(request.model))
        return with_text_calls(super().stream(request), request.tools if is_chat else ())

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
