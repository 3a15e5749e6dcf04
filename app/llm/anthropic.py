"""The adapter for Anthropic's Messages API."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import quote

from app.errors import ProviderError, Reshape
from app.llm.adapter import HttpProvider
from app.llm.anthropic_stream import AnthropicStream
from app.llm.anthropic_wire import encode_body
from app.llm.base import ModelRequest
from app.llm.effort import wire_effort
from app.llm.http import AnswerError, error_message
from app.llm.quirks import Quirks
from app.llm.window_reports import entry_of, listed_window
from app.messages import ReasoningPart, Role

ANTHROPIC_URL = "https://api.anthropic.com"
ANTHROPIC_VERSION = "2023-06-01"
DEFAULT_MAX_TOKENS = 8_192
"""The API requires a limit with every request; a model with a lower limit refuses once, and it is learned."""


BINDING_BETA = "thinking-binding-controls-2026-08-01"
"""Lets a request choose what happens to thinking that cannot be verified; see
https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks.md"""
_DROP_BLOCK = {"prefix_mismatch_behavior": "drop_block"}

_BOUND = re.compile(r"Invalid `(?:signature|data)` in `(?:redacted_)?thinking` block")
"""A refusal of replayed thinking, whether it is bound to a model, a conversation or an account."""

_WITHOUT_ADAPTIVE = re.compile(r"claude-(?:3|(?:opus|sonnet|haiku)-4(?:[-.][0-5])?(?!\d)(?![-.][6-9](?!\d)))")
"""Models that think within a budget of tokens and do not support adaptive thinking."""
_BUDGETS = {"minimal": 1_024, "low": 1_024, "medium": 4_096, "high": 16_384, "max": 32_768}
"""Tokens of thinking for those models, by effort; the first is the API's minimum."""


class AnthropicProvider(HttpProvider):
    """Anthropic, or a server that speaks its format; `base_url` with or without `/v1`."""

    path = "/messages"

    def __init__(self, name: str, base_url: str, api_key: str | None, *, idle_timeout_s: float) -> None:
        headers = {"anthropic-version": ANTHROPIC_VERSION} | ({"x-api-key": api_key} if api_key else {})
        super().__init__(name, _with_version(base_url), headers, api_key, idle_timeout_s=idle_timeout_s)

    def quirks(self) -> Quirks:
        return Quirks("max_tokens", token_names=("max_tokens",))

    def parameters(self, request: ModelRequest, quirks: Quirks) -> dict[str, Any]:
        wanted = {"temperature": request.temperature, "stop_sequences": [s for s in request.stop if s.strip()] or None}
        limit = request.max_output_tokens or DEFAULT_MAX_TOKENS
        sent = quirks.parameters(wanted | thinking_parameters(request, limit, quirks.refused_efforts), limit)
        if sent.get("thinking", _OFF) != _OFF:
            # The API accepts only its default temperature while a model thinks.
            sent.pop("temperature", None)
        return sent

    def headers(self, parameters: Mapping[str, Any]) -> dict[str, str]:
        bound = "block_binding" in parameters.get("thinking", {})
        return {"anthropic-beta": BINDING_BETA} if bound else {}

    def reshape(self, error: AnswerError, quirks: Quirks) -> Reshape | None:
        return "drop_block" if error.meant_status == 400 and _BOUND.search(error_message(error.body)) else None

    def encode(self, request: ModelRequest, parameters: dict[str, Any]) -> bytes:
        return encode_body(request, parameters, self.name)

    async def window(self, model: str) -> int | None:
        """The window in the model's own document; other servers of this format only offer a list."""
        try:
            entry = await self._client.document(f"/models/{quote(model, safe='')}")
        except ProviderError as error:
            if error.code != "provider_not_found":
                raise
            entry = entry_of(await self._client.document("/models"), model)
        return listed_window(entry) if isinstance(entry, dict) else None

    def open_stream(self) -> AnthropicStream:
        return AnthropicStream(self._client.failure)


_OFF = {"type": "disabled"}


def thinking_parameters(request: ModelRequest, limit: int, refused: Collection[str] = ()) -> dict[str, Any]:
    """How much the model thinks, and what happens to thinking that it cannot verify. `limit` is the maximum length of
    the answer in tokens, including the thinking budget; `refused` are efforts that the model does not accept."""
    has_budget = _WITHOUT_ADAPTIVE.match(request.model.lower().rpartition("/")[2]) is not None
    effort = wire_effort(request.model, request.reasoning_effort, refused if has_budget else {*refused, "minimal"})
    if effort == "none":
        return {"thinking": _OFF}
    if has_budget:
        budget = 0 if _must_not_think(request) else min(_BUDGETS.get(effort or "", 0), limit // 2)
        return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= _BUDGETS["minimal"] else {}
    parameters: dict[str, Any] = {}
    if effort is not None or request.drop_block:
        parameters["thinking"] = {"type": "adaptive"} | ({"block_binding": _DROP_BLOCK} if request.drop_block else {})
    if effort is not None:
        parameters["output_config"] = {"effort": effort}
    return parameters


def _must_not_think(request: ModelRequest) -> bool:
    """Whether the request continues after calls whose message does not start with thinking. Those models then refuse to
    think: "Expected `thinking` or `redacted_thinking`, but found `tool_use`"."""
    if len(request.messages) < 2 or request.messages[-1].role is not Role.TOOL:
        return False
    first = request.messages[-2].parts[0]
    return not (isinstance(first, ReasoningPart) and first.provider_data)


def _with_version(base_url: str) -> str:
    base = base_url.rstrip("/")
    return base if base.endswith("/v1") else base + "/v1"
