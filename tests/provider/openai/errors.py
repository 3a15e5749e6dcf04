"""OpenAI's error object and its refusals of a key."""

from __future__ import annotations

from tests.provider.dialect import status_words
from tests.provider.records import JSON, Refused

BAD_JSON = (
    "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library"
    " correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.)"
)


def error(refused: Refused) -> JSON:
    return {
        "error": {
            "message": refused.message,
            "type": refused.kind,
            "param": refused.param,
            "code": refused.code,
        }
    }


def status_error(status: int) -> JSON:
    kind, message = status_words(status)
    code = "rate_limit_exceeded" if status == 429 else None
    return error(Refused("parameter", message, kind=kind, code=code))


def authorize(headers: dict[str, str], key: str) -> None:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not given:
        message = (
            "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer"
            " auth (i.e. Authorization: Bearer YOUR_KEY)."
        )
        raise Refused("auth", message, status=401)
    if given != key:
        message = (
            f"Incorrect API key provided: {given[:2]}***."
            " You can find your API key at https://platform.openai.com/account/api-keys."
        )
        raise Refused("auth", message, status=401, code="invalid_api_key")
