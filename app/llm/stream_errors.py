"""Errors inside answers with status 200: in the middle of a stream, or as the whole answer."""

from __future__ import annotations

from typing import Any

_STATUSES = {
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "slow_down": 503,
    "server_error": 500,
    "server_is_overloaded": 503,
    "vector_store_timeout": 504,
    "invalid_prompt": 400,
    "invalid_encrypted_content": 400,
    "data_residency_mismatch": 400,
    "bio_policy": 400,
    "cyber_policy": 400,
    "misalignment_policy_violation": 400,
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The HTTP status of each code or type of error of OpenAI and Anthropic when it is sent as a separate answer. Unknown
and missing codes count as server errors, which may be transient."""

_BASE_STATUSES = {1002: 429, 1004: 401, 1008: 402, 1039: 429, 2013: 400, 2049: 401}
"""The same for MiniMax, whose numbers are no HTTP statuses."""
_MESSAGES = ("message", "msg", "error_msg", "detail")
_CODES = ("code", "error_code", "status", "status_code", "success")


def error_in(document: dict[str, Any]) -> Any:
    """The error that a document reports, as an object or a text; None if it reports none."""
    if error := document.get("error"):
        return error[0] if isinstance(error, list) else error
    if document.get("object") == "error":
        return document
    if isinstance(inner := document.get("response"), dict):
        # A gateway's event of another format.
        return error_in(inner)
    base = document.get("base_resp")
    if isinstance(base, dict) and base.get("status_code") not in (None, 0, "0"):
        return {"message": base.get("status_msg"), "base_code": base["status_code"]}
    return None


def bare_error_in(document: dict[str, Any]) -> dict[str, Any] | None:
    """The document itself if it only has a code and a message, as gateways report errors."""
    has_message = any(isinstance(document.get(name), str) for name in _MESSAGES)
    return document if has_message and any(name in document for name in _CODES) else None


def error_status(error: Any) -> int | None:
    """The HTTP status that an error means, None if it is unknown."""
    if not isinstance(error, dict):
        return None
    if isinstance(base := error.get("base_code"), int):
        return _BASE_STATUSES.get(base)
    for value in (error.get("code"), error.get("type"), error.get("status")):
        number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) == 3 else value
        if isinstance(number, int) and 400 <= number < 600:
            return number
        if isinstance(value, str) and value in _STATUSES:
            return _STATUSES[value]
    return None
