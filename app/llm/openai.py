"""The adapter for OpenAI's Chat Completions and the many servers that speak it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from app.llm.adapter import HttpProvider
from app.llm.base import ModelRequest
from app.llm.openai_stream import OpenAiStream
from app.llm.openai_wire import encode_body
from app.llm.quirks import Quirks

OPENAI_URL = "https://api.openai.com/v1"
_NEW_NAME_HOSTS = ("api.openai.com", ".openai.azure.com")
"""Who takes `max_completion_tokens`; elsewhere the old name is the safer first guess."""


class OpenAiProvider(HttpProvider):
    """Any server of Chat Completions at `base_url`, which ends where the provider's own SDK would have it end."""

    path = "/chat/completions"

    def __init__(self, name: str, base_url: str, api_key: str | None, *, idle_timeout_s: float) -> None:
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        super().__init__(name, base_url, headers, api_key, idle_timeout_s=idle_timeout_s)
        is_new = (urlsplit(base_url).hostname or "").endswith(_NEW_NAME_HOSTS)
        self._token_name = "max_completion_tokens" if is_new else "max_tokens"

    def quirks(self) -> Quirks:
        return Quirks(self._token_name)

    def parameters(self, request: ModelRequest, quirks: Quirks) -> dict[str, Any]:
        wanted = {
            "temperature": request.temperature,
            "stop": list(request.stop) or None,
            "stream_options": {"include_usage": True},
        }
        return quirks.parameters(wanted, request.max_output_tokens)

    def encode(self, request: ModelRequest, parameters: dict[str, Any]) -> bytes:
        return encode_body(request, parameters)

    def open_stream(self) -> OpenAiStream:
        return OpenAiStream(self._client.failure)
