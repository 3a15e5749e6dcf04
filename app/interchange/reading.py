"""Reads foreign messages one by one, in every form that the two formats have had."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from app.interchange.content import add_result, arguments, call_key, read_content
from app.interchange.turns import Turn, WireFormat, call_part, invalid, leftovers_note, reasoning_part, speaker_note
from app.messages import Part, Role

_ROLES: Mapping[WireFormat, Mapping[str, Role]] = {
    "openai": {
        "system": Role.SYSTEM,
        "developer": Role.SYSTEM,
        "user": Role.USER,
        "assistant": Role.ASSISTANT,
        "tool": Role.TOOL,
        "function": Role.TOOL,
    },
    "anthropic": {"system": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT},
}

_REASONING = ("reasoning_content", "reasoning")
"""Where servers of OpenAI's format put their model's reasoning text; some fill both with the same text."""

MAX_PARTS = 200_000
"""Maximum texts, images, calls and results of one history; each takes some 5 kB of memory during the import, however
short it is."""

_SPOKEN = frozenset({"role", "content", "name", "refusal"})
_OF_ASSISTANT = _SPOKEN | {"tool_calls", "function_call"}
_OF_TOOL = frozenset({"role", "content", "name", "tool_call_id", "is_error"})


def read_turns(format: WireFormat, messages: Iterable[Any]) -> Iterator[Turn]:
    """The content of each message, read one by one. Raises `InvalidRequestError` (code `invalid_history`, with the
    `index`) for anything that is not a message.

    Anthropic's format treats consecutive assistant messages as one, and transcripts in it have a message per block:
    these become one turn, so that reasoning and parallel calls stay together.
    """
    last: Turn | None = None
    parts = 0
    for index, message in enumerate(messages):
        turn = _read(format, index, message)
        parts += len(turn.parts) + len(turn.after)
        if parts > MAX_PARTS:
            raise invalid(index, f"the history has more than {MAX_PARTS:,} parts up to here")
        if format == "anthropic" and last is not None and turn.role is last.role is Role.ASSISTANT:
            last.parts.extend(turn.parts)
            last.after.extend(turn.after)
            continue
        if last is not None:
            yield last
        last = turn
    if last is not None:
        yield last


def _read(format: WireFormat, index: int, message: Any) -> Turn:
    if not isinstance(message, Mapping):
        raise invalid(index, "a message should be an object")
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES[format]:
        raise invalid(index, f"role should be one of {', '.join(_ROLES[format])}")
    turn = Turn(_ROLES[format][role])
    if turn.role is Role.TOOL:
        _read_result(message, turn, index)
    else:
        _read_speech(message, turn, index)
    return turn


def _read_result(message: Mapping[str, Any], turn: Turn, index: int) -> None:
    name = message.get("name")
    name = name if isinstance(name, str) else ""
    key = message.get("tool_call_id")
    if key is None and name and message["role"] == "function":
        key = function_key(name)
    add_result(turn, index, key, message.get("content"), name=name, error=message.get("is_error") is True)
    for note in leftovers_note(message, _OF_TOOL):
        turn.after.append(_note(note))


def _read_speech(message: Mapping[str, Any], turn: Turn, index: int) -> None:
    known = _SPOKEN
    if turn.role is Role.ASSISTANT:
        known = _OF_ASSISTANT | _read_reasoning(message, turn)
    if message.get("name"):
        turn.add_text(speaker_note(message["name"]))
    read_content(message.get("content"), turn, index)
    if isinstance(refusal := message.get("refusal"), str):
        turn.add_text(refusal)
    for note in leftovers_note(message, known):
        turn.add_text(note)
    if turn.role is Role.ASSISTANT:
        turn.parts.extend(_calls(message, index))


def _note(text: str) -> Part:
    turn = Turn(Role.CONTROL)
    turn.add_text(text)
    return turn.parts[0]


def _read_reasoning(message: Mapping[str, Any], turn: Turn) -> frozenset[str]:
    """Adds the reasoning; returns the fields that need no note, since several may have the same text."""
    for name in _REASONING:
        if isinstance(text := message.get(name), str) and text:
            turn.parts.append(reasoning_part(text))
            same = {other for other in _REASONING if message.get(other) == text}
            return frozenset(same | {"reasoning_details"})
    return frozenset()


def _calls(message: Mapping[str, Any], index: int) -> Iterator[Part]:
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        raise invalid(index, "tool_calls should be an array")
    for call in calls or ():
        if not isinstance(call, Mapping):
            raise invalid(index, "each item of tool_calls should be an object")
        yield _call(call, index)
    if (old := message.get("function_call")) is not None:
        name, text = _function(old, index)
        yield call_part(function_key(name), name, text)


def _call(call: Mapping[str, Any], index: int) -> Part:
    key = call_key(call.get("id"))
    if call.get("type") == "custom" and isinstance(custom := call.get("custom"), Mapping):
        # A tool that takes free text: every provider accepts an object back.
        text = orjson.dumps({"input": custom.get("input")}).decode()
        return call_part(key, str(custom.get("name") or ""), text)
    return call_part(key, *_function(call.get("function"), index))


def _function(function: Any, index: int) -> tuple[str, str]:
    if not isinstance(function, Mapping):
        raise invalid(index, "the function of a call should be an object")
    name = function.get("name")
    if name is not None and not isinstance(name, str):
        raise invalid(index, "the name of a call should be a string")
    return name or "", arguments(function.get("arguments"))


def function_key(name: str) -> str:
    """The key that connects an old `function_call` with its result: they have no id, only the function's name. Ids
    never contain NUL, since incoming text does not."""
    return f"\x00{name}"
