"""The adapter for Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from app.errors import ProviderError, Reshape
from app.llm.adapter import HttpProvider
from app.llm.anthropic_stream import AnthropicStream
from app.llm.anthropic_wire import encode_body
from app.llm.base import ModelRequest
from app.llm.http import AnswerError
from app.llm.quirks import Quirks
from app.llm.thinking import BINDING_HEADER, binds_thinking, is_binding_refusal, thinking_parameters
from app.llm.window_reports import entry_of, listed_window

ANTHROPIC_URL = "https://api.anthropic.com"
ANTHROPIC_VERSION = "2023-06-01"
DEFAULT_MAX_TOKENS = 8_192
"""The API wants a limit with every request; a model that takes less says so once."""


class AnthropicProvider(HttpProvider):
    """Anthropic, or a server that speaks its format; `base_url` with or without `/v1`."""

    path = "/messages"

    def __init__(self, name: str, base_url: str, api_key: str | None, *, idle_timeout_s: float) -> None:
        headers = {"anthropic-version": ANTHROPIC_VERSION} | ({"x-api-key": api_key} if api_key else {})
        super().__init__(name, _with_version(base_url), headers, api_key, idle_timeout_s=idle_timeout_s)

    def quirks(self) -> Quirks:
        return Quirks("max_tokens", token_names=("max_tokens",))

    def parameters(self, request: ModelRequest, quirks: Quirks) -> dict[str, Any]:
        thinking = thinking_parameters(request.model, request.reasoning_effort, drop_block=_drops(request, quirks))
        wanted = {
            # A model that is asked to think takes no other temperature than its own.
            "temperature": None if thinking else request.temperature,
            "stop_sequences": [s for s in request.stop if s.strip()] or None,
            **thinking,
        }
        return quirks.parameters(wanted, request.max_output_tokens or DEFAULT_MAX_TOKENS)

    def encode(self, request: ModelRequest, parameters: dict[str, Any]) -> bytes:
        return encode_body(request, parameters, self.name)

    def headers(self, request: ModelRequest, quirks: Quirks) -> Mapping[str, str]:
        return BINDING_HEADER if _drops(request, quirks) else {}

    def reshape(self, error: AnswerError, quirks: Quirks) -> Reshape | None:
        if not is_binding_refusal(error.body):
            return None
        quirks.binds_thinking = True
        return "drop_block"

    async def window(self, model: str) -> int | None:
        """As the model's own document has it; other servers that speak this format offer a list alone."""
        try:
            entry = await self._client.document(f"/models/{quote(model, safe='')}")
        except ProviderError as error:
            if error.code != "provider_not_found":
                raise
            entry = entry_of(await self._client.document("/models"), model)
        return listed_window(entry) if isinstance(entry, dict) else None

    def open_stream(self) -> AnthropicStream:
        return AnthropicStream(self._client.failure)


def _drops(request: ModelRequest, quirks: Quirks) -> bool:
    """Whether the provider has to be told to drop what it cannot verify: others would refuse to be."""
    verifies = binds_thinking(request.model) or quirks.binds_thinking
    return request.drop_block and verifies and "thinking" not in quirks.dropped


def _with_version(base_url: str) -> str:
    base = base_url.rstrip("/")
    return base if base.endswith("/v1") else base + "/v1"
