"""OpenAI's Responses endpoint, and how endpoints report that a model must be called at the other one."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import orjson

from app.llm.base import ModelRequest
from app.llm.effort import reasons, wire_effort
from app.llm.http import AnswerError
from app.llm.quirks import Endpoint, Quirks
from app.llm.responses_stream import ErrorFor, ResponsesStream
from app.llm.responses_wire import encode_body, leave_reasoning_out

_NOT_CHAT = re.compile(r"v1/responses|not a chat model|responses (?:api|endpoint)", re.I)
_NOT_RESPONSES = re.compile(
    r"v1/chat/completions|(?:cannot be used|not supported) (?:with|in|by) the responses api", re.I
)
_UNKNOWN_PATH = frozenset({404, 405, 501})
_SOMETHING_ELSE = re.compile(r"model|item|deployment|project|organization|<html", re.I)
"""Words of a 404 that is not about the path. An HTML page is from a proxy, which knows nothing about models."""

_UNREADABLE = "invalid_encrypted_content"
_UNVERIFIED = re.compile(r"encrypted content .{0,200}could not be (?:verified|decrypted)", re.I | re.S)


class ResponsesFormat:
    """Requests to `/responses` and their streams. The whole conversation is sent each time and not stored there, so
    reasoning is sent encrypted. `stop` does not exist in this format."""

    path: ClassVar[str] = "/responses"

    def __init__(self, provider: str, error_for: ErrorFor) -> None:
        self._provider = provider
        self._error_for = error_for

    def parameters(self, request: ModelRequest, quirks: Quirks) -> dict[str, Any]:
        limit = request.max_output_tokens
        wanted: dict[str, Any] = {
            "temperature": request.temperature,
            "max_output_tokens": quirks.limited(limit) if limit is not None else None,
            "prompt_cache_key": request.cache_key,
        }
        if reasons(request.model):
            wanted["reasoning.effort"] = wire_effort(request.model, request.reasoning_effort, quirks.refused_efforts)
            wanted["reasoning.summary"] = "auto"
            wanted["include"] = ["reasoning.encrypted_content"]
        return quirks.parameters(wanted, None)

    def encode(self, request: ModelRequest, parameters: dict[str, Any]) -> bytes:
        return encode_body(request, parameters, self._provider)

    def open_stream(self) -> ResponsesStream:
        return ResponsesStream(self._error_for)

    def corrects(self, error: AnswerError, request: ModelRequest) -> bool:
        """Leaves out encrypted reasoning that the server cannot decrypt (a retired key, another organization);
        otherwise the history would always be refused."""
        if _code(error.body) != _UNREADABLE and not _UNVERIFIED.search(error.body):
            return False
        return leave_reasoning_out(request)


def points_elsewhere(endpoint: Endpoint, error: AnswerError) -> bool:
    """Whether a refusal of this endpoint means that the model has to be called at the other one."""
    if endpoint == "chat_completions":
        return error.meant_status in (400, 404) and _NOT_CHAT.search(error.body) is not None
    if error.meant_status in (400, 404) and _NOT_RESPONSES.search(error.body):
        return True
    return is_unknown_path(error)


def is_unknown_path(error: AnswerError, *, whatever: bool = False) -> bool:
    """Whether a refusal means that the path does not exist; with `whatever` (an endpoint on trial) its text is
    ignored."""
    return error.meant_status in _UNKNOWN_PATH and (whatever or _SOMETHING_ELSE.search(error.body) is None)


def _code(body: str) -> Any:
    try:
        return orjson.loads(body)["error"]["code"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
