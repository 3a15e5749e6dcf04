"""Anthropic's error object and its refusals of a key."""

from __future__ import annotations

from tests.provider.dialect import status_words
from tests.provider.records import JSON, Refused

BAD_JSON = "The request body is not valid JSON."


def error(refused: Refused) -> JSON:
    return error_document(refused.kind, refused.message)


def error_document(kind: str, message: str) -> JSON:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_fake"}


def status_error(status: int) -> JSON:
    return error_document(*status_words(status))


def authorize(headers: dict[str, str], key: str) -> None:
    given = headers.get("x-api-key")
    if given is None:
        raise Refused("auth", "x-api-key header is required", status=401, kind="authentication_error")
    if given != key:
        raise Refused("auth", "invalid x-api-key", status=401, kind="authentication_error")
