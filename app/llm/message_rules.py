"""Learns rules about the order of roles and about reasoning from refusals of Chat Completions servers.

Chat templates and Mistral's validator refuse histories with a sentence about roles; the rule follows from that sentence
together with the refused request.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import orjson

from app.llm.quirks import Quirks, says_refused

_TURNS = re.compile(r"roles? must alternate", re.I)
_ORDER = re.compile(r"unexpected role \W*(?:user|assistant)\W* after role|" + _TURNS.pattern, re.I)
_AFTER_SYSTEM = re.compile(r"after the optional system message", re.I)
_TWO_ROLES = re.compile(r"only user and assistant roles are supported", re.I)
_NO_SYSTEM = re.compile(
    r"system role (?:is )?not supported|system (?:messages?|prompts?) (?:is|are) not (?:supported|allowed)"
    r"|does(?: not|n't) support (?:the )?system|roles are supported\W+got \W*system",
    re.I,
)
_SHORT_IDS = re.compile(r"tool[ _]call[ _]id\b.{0,200}\blength of 9\b", re.I | re.S)
"""Mistral's API, and the templates of its older models: "Tool call id was … but must be a-z, A-Z, 0-9, with a length of
9" (https://github.com/mistralai/mistral-vibe/issues/1075)."""
SHORT_ID_CHARS = 9
_WANTS_REASONING = re.compile(
    r"\b(reasoning_content|reasoning)\b.{0,80}must be passed back"
    r"|missing \W*(reasoning_content|reasoning)\b|must include \W*(reasoning_content|reasoning)\b",
    re.I | re.S,
)
"""DeepSeek's sentence in 2026, its earlier one, and the sentence of gateways in front of it."""


def learn_messages(text: str, body: bytes, quirks: Quirks) -> bool:
    """Learns from the `text` of a refusal of the request `body`; returns whether the next request will differ. A
    template error is a 400 from vLLM and a 500 from llama.cpp, so the status is ignored."""
    if _refuses_echo(text, body, quirks):
        quirks.echoes_reasoning = False
        return True
    if not any(rule.search(text) for rule in (_ORDER, _TWO_ROLES, _NO_SYSTEM, _SHORT_IDS)):
        return False
    name = _rule(text, orjson.loads(body)["messages"])
    if name is None:
        return False
    # It may be set already: if two concurrent requests are refused, the second finds the rule learned.
    setattr(quirks, name, True)
    return True


def wants_reasoning(text: str, quirks: Quirks) -> bool:
    """Whether a refusal asks for the model's reasoning; remembers that and the name of the field."""
    match = _WANTS_REASONING.search(text)
    if match is None or quirks.echoes_reasoning is False:
        return False
    quirks.echoes_reasoning, quirks.reasoning_field = True, (match[1] or match[2] or match[3]).lower()
    return True


def _rule(text: str, messages: Sequence[dict[str, Any]]) -> str | None:
    """The quirk that these messages need; None if they follow every known rule."""
    if _SHORT_IDS.search(text):
        ids = [call["id"] for message in messages for call in message.get("tool_calls", ())]
        return "short_call_ids" if any(len(call_id) != SHORT_ID_CHARS for call_id in ids) else None
    roles = [message["role"] for message in messages]
    has_system, has_tools = roles[:1] == ["system"], "tool" in roles
    if _NO_SYSTEM.search(text):
        return "no_system_role" if has_system else None
    if _TWO_ROLES.search(text):
        return "tools_as_text" if has_tools else "no_system_role" if has_system else None
    if any(not may_follow(first, second) for first, second in pairwise(roles)):
        return "bridges_roles"
    if not _TURNS.search(text):
        return None
    if has_system and not has_tools and not _AFTER_SYSTEM.search(text):
        # The template counts the system message as the user's turn.
        return "no_system_role"
    return "tools_as_text" if has_tools else None


def may_follow(first: str, second: str) -> bool:
    """Whether the strictest servers accept a message of role `second` right after one of role `first`: a user after an
    assistant, an assistant after a user or results."""
    if second == "user":
        return first not in ("user", "tool")
    return second != "assistant" or first != "assistant"


def _refuses_echo(text: str, body: bytes, quirks: Quirks) -> bool:
    field = quirks.reasoning_field
    named = re.search(rf"\b{re.escape(field)}\b", text) is not None
    return bool(quirks.echoes_reasoning) and named and says_refused(text) and b'"%s":' % field.encode() in body
