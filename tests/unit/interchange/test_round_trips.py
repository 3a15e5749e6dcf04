"""What is imported comes back: unchanged if it was in the form of an export, and unchanged again the next time."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.context.content import ReasoningRule
from app.context.projection import Transcript
from app.context.validator import repair
from app.errors import InvalidRequestError
from app.interchange import ImportedHistory, WireFormat, import_history, page_length, settled, to_wire
from app.messages import Message, Role
from tests.unit.context import builders
from tests.unit.context.strict import faults
from tests.unit.interchange.conversations import (
    Pair,
    anthropic_conversations,
    broken_anthropic,
    broken_openai,
    openai_conversations,
    renumbered,
)

FORMATS: tuple[WireFormat, ...] = ("openai", "anthropic")
formats = st.sampled_from(FORMATS)
broken: st.SearchStrategy[tuple[WireFormat, list[Any]]] = st.one_of(
    st.tuples(st.just("openai"), broken_openai), st.tuples(st.just("anthropic"), broken_anthropic)
).filter(lambda given: is_taken(*given))


def is_taken(form: WireFormat, messages: list[Any]) -> bool:
    """Whether any message has content; a conversation without any is refused."""
    try:
        import_history(form, messages)
    except InvalidRequestError as error:
        if "all messages are empty" not in error.detail:
            raise
        return False
    return True


@given(openai_conversations())
def test_an_openai_conversation_comes_back_in_its_canonical_form(pair: Pair) -> None:
    sent, back = pair
    assert renumbered(to_wire(import_history("openai", sent).messages, "openai")) == renumbered(back)


@given(anthropic_conversations())
def test_an_anthropic_conversation_comes_back_in_its_canonical_form(pair: Pair) -> None:
    sent, back = pair
    assert renumbered(to_wire(import_history("anthropic", sent).messages, "anthropic")) == renumbered(back)


@given(broken, formats)
def test_an_imported_export_is_exported_byte_for_byte(given: tuple[WireFormat, list[Any]], form: WireFormat) -> None:
    once = to_wire(import_history(*given).messages, form)
    again = to_wire(import_history(form, once, keep_system=True).messages, form)
    assert orjson.dumps(again) == orjson.dumps(once)


@given(builders.any_history, formats)
def test_a_palimpsest_history_survives_its_export(history: list[Message], form: WireFormat) -> None:
    repaired, _ = repair([m for m in history if m.role is not Role.SYSTEM], ReasoningRule(builders.MODEL))
    exported = to_wire(repaired, form)
    once = to_wire(import_history(form, exported).messages, form)
    assert renumbered(once) == renumbered(exported)
    assert orjson.dumps(to_wire(import_history(form, once).messages, form)) == orjson.dumps(once)


@given(broken)
def test_an_imported_conversation_can_be_sent(given: tuple[WireFormat, list[Any]]) -> None:
    transcript = Transcript(builders.generation(), import_history(*given).messages)
    repairs = transcript.settle()
    assert {repair.kind for repair in repairs} <= {"first_message", "last_message"}
    assert faults(transcript.messages, builders.MODEL) == []


@given(broken)
def test_no_text_is_lost(given: tuple[WireFormat, list[Any]]) -> None:
    imported = import_history(*given)
    kept = _strings(imported)
    for text in _texts(given[1]):
        assert text in kept


@given(broken)
def test_stored_values_are_complete(given: tuple[WireFormat, list[Any]]) -> None:
    messages = import_history(*given).messages
    assert [message.seq for message in messages] == list(range(1, len(messages) + 1))
    ids = [message.id for message in messages] + [part.id for message in messages for part in message.parts]
    assert len(set(ids)) == len(ids)
    for message in messages:
        assert message.parts
        assert [part.index for part in message.parts] == list(range(len(message.parts)))
        assert message.tokens == 4 + sum(part.tokens for part in message.parts)
        assert message.model is None
        assert (message.finish_reason is not None) == (message.role is Role.ASSISTANT)
        assert all(result.bytes == len(result.output.encode()) for result in message.tool_results)
    statuses = {call.call_id: call.status for message in messages for call in message.tool_calls}
    assert statuses == {result.call_id: result.status for message in messages for result in message.tool_results}


@pytest.mark.parametrize("form", FORMATS)
@given(given=broken, limit=st.integers(1, 4))
def test_pages_together_are_the_whole(form: WireFormat, given: tuple[WireFormat, list[Any]], limit: int) -> None:
    rest = list(import_history(*given).messages)
    whole = to_wire(rest, form)
    assert settled(rest) == rest
    pages: list[list[dict[str, Any]]] = []
    while rest:
        length = page_length(rest, limit, form) or len(rest)
        pages.append(to_wire(rest[:length], form))
        rest = rest[length:]
    assert [item for page in pages for item in page] == whole
    for page in pages:
        called, answered = _ids(page)
        assert called == answered


def _ids(page: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """The ids of a page's calls and of its results."""
    blocks = [block for item in page if isinstance(item["content"], list) for block in item["content"]]
    calls = [call["id"] for item in page for call in item.get("tool_calls", ())]
    calls += [block["id"] for block in blocks if block["type"] == "tool_use"]
    results = [item["tool_call_id"] for item in page if "tool_call_id" in item]
    return calls, results + [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]


def _strings(imported: ImportedHistory) -> str:
    """Everything that is kept, concatenated as text and as JSON."""
    kept = [imported.system_prompt or ""]
    for message in imported.messages:
        for part in message.parts:
            for value in part.model_dump().values():
                kept.append(value if isinstance(value, str) else orjson.dumps(value, default=str).decode())
        kept.extend(call.arguments_text for call in message.tool_calls)
    return "\n".join(kept)


def _texts(value: Any) -> list[str]:
    """All texts of a foreign conversation: texts, outputs, arguments, names."""
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    if isinstance(value, dict):
        found = [
            value[k] for k in ("text", "content", "arguments", "thinking", "name") if isinstance(value.get(k), str)
        ]
        nested = [value[k] for k in ("content", "tool_calls", "function", "function_call") if k in value]
        return [text for text in found if text.strip()] + [text for item in nested for text in _texts(item)]
    return []
