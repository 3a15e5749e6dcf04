"""Rules about messages that only some servers of this format have, each refused in that server's own shape.

Mistral: its validator (mistral-common, `protocol/instruct/validator.py`) and API. Alternating: the template of
Mistral's instruct models as llama.cpp serves it, which answers a raised exception with 500. Two roles: Gemma's template
behind vLLM. Echo: https://api-docs.deepseek.com/guides/thinking_mode, of which the present tool loop is checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from itertools import pairwise

from tests.provider.openai.reading import calls_of, function_of, text_of
from tests.provider.records import JSON, Refused
from tests.provider.script import Reply
from tests.provider.settings import Insistence
from tests.provider.thinking import SealBook


def check_insistence(model: str, messages: Sequence[JSON], insists: Collection[Insistence], seals: SealBook) -> None:
    """Raises `Refused` for the first message that breaks a rule of this server."""
    if "mistral" in insists:
        _check_mistral(messages)
    if "alternating" in insists:
        _check_alternating(messages)
    if "two_roles" in insists:
        _check_two_roles(messages)
    if "echo" in insists:
        _check_echo(model, messages, seals)


def _check_mistral(messages: Sequence[JSON]) -> None:
    for call_id in (str(call.get("id")) for message in messages for call in calls_of(message)):
        if re.fullmatch("[a-zA-Z0-9]{9}", call_id) is None:
            message = f"Tool call id was {call_id} but must be a-z, A-Z, 0-9, with a length of 9."
            kind = "invalid_function_call"
            body = {"object": "error", "message": message, "type": kind, "param": None, "code": "3280"}
            raise Refused("insistence", message, body=body)
    for first, second in pairwise(message["role"] for message in messages):
        if (first, second) in (("tool", "user"), ("user", "user"), ("assistant", "assistant")):
            message = f"Unexpected role '{second}' after role '{first}'"
            kind = "invalid_request_message_order"
            body = {"object": "error", "message": message, "type": kind, "param": None, "code": "3230"}
            raise Refused("insistence", message, body=body)


def _check_alternating(messages: Sequence[JSON]) -> None:
    spoken = [m for m in messages if m["role"] not in ("system", "tool") and not calls_of(m)]
    if any((message["role"] == "user") != (at % 2 == 0) for at, message in enumerate(spoken)):
        message = (
            "After the optional system message, conversation roles must alternate user and assistant roles except for"
            " tool calls and results."
        )
        raise Refused(
            "insistence",
            message,
            status=500,
            body={"error": {"code": 500, "message": message, "type": "server_error"}},
        )


def _check_two_roles(messages: Sequence[JSON]) -> None:
    if messages[0]["role"] == "system":
        raise _template("System role not supported")
    if any((message["role"] == "user") != (at % 2 == 0) for at, message in enumerate(messages)):
        raise _template("Conversation roles must alternate user/assistant/user/assistant/...")


def _template(message: str) -> Refused:
    body = {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": 400}
    return Refused("insistence", message, body=body)


def remember(seals: SealBook, model: str, reply: Reply) -> None:
    """Keeps what a reply has reasoned, to know it again."""
    calls = [(call.name, call.arguments_text) for call in reply.calls]
    seals.reasoned.setdefault(_key(model, reply.text, calls), set()).add(reply.reasoning)


def _check_echo(model: str, messages: Sequence[JSON], seals: SealBook) -> None:
    begin = max((at for at, message in enumerate(messages) if message["role"] == "user"), default=0)
    for at, message in enumerate(messages):
        calls = [(str(function_of(c).get("name")), str(function_of(c).get("arguments"))) for c in calls_of(message)]
        known = seals.reasoned.get(_key(model, text_of(message), calls))
        given = message.get("reasoning_content")
        is_missing = given is None and bool(calls) and at > begin
        is_altered = given is not None and known is not None and given not in known
        if is_missing or is_altered:
            sentence = "The `reasoning_content` in the thinking mode must be passed back to the API."
            raise Refused("insistence", sentence, code="invalid_request_error")


def _key(model: str, text: str, calls: Sequence[tuple[str, str]]) -> str:
    return json.dumps([model, text, calls])
