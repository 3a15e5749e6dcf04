"""Writes a session's messages in the format of OpenAI's Chat Completions or Anthropic's Messages, in pages that part no
call from its results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import orjson

from app.interchange.turns import WireFormat
from app.llm.wire import wire_arguments, wire_name
from app.messages import (
    CompactionMarkerPart,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolStatus,
)

Wire = dict[str, Any]
BEFORE_ASSISTANT = "[The conversation begins with the assistant's message.]"
"""Starts an exported history that begins with the assistant, since Anthropic's format begins with the user."""


def to_wire(messages: Sequence[Message], format: WireFormat) -> list[Wire]:
    """The messages in a wire format.

    Control messages are sent in the user's role. Voided attempts, blank texts and messages that say nothing are left
    out, as no provider accepts them; so is reasoning without a provider's signature, which Anthropic's format cannot
    carry. Summaries are left out too, whether in force or reverted: the whole history includes everything that they
    cover, and another program would read it twice, as the user's words. In Anthropic's format consecutive messages of
    one role become one.
    """
    shown = [message for message in messages if is_shown(message)]
    if format == "openai":
        return [wire for message in shown for wire in _openai(message)]
    return _anthropic(shown)


def begun_by_user(wires: list[Wire], format: WireFormat) -> list[Wire]:
    """The beginning of a history, made valid: Anthropic's format needs a user turn first, so a short one is inserted
    before the assistant's."""
    if format == "openai" or not wires or wires[0]["role"] == "user":
        return wires
    return [{"role": "user", "content": BEFORE_ASSISTANT}, *wires]


def is_shown(message: Message) -> bool:
    """Whether any of the message is sent; reasoning alone is not a message in either format."""
    return is_told(message) and any(_says(part) for part in message.parts)


def is_told(message: Message) -> bool:
    """Whether the message is part of the conversation: neither a voided attempt nor a summary of other messages."""
    return message.voided_at is None and not message.is_summary


def _says(part: Part) -> bool:
    if isinstance(part, TextPart):
        return bool(part.text.strip())
    return not isinstance(part, ReasoningPart | CompactionMarkerPart)


def _texts_and_images(message: Message) -> Iterator[TextPart | ImagePart]:
    """Everything shown except reasoning, calls and results."""
    for part in message.parts:
        if isinstance(part, ImagePart) or (isinstance(part, TextPart) and part.text.strip()):
            yield part


def _openai(message: Message) -> Iterator[Wire]:
    for result in message.tool_results:
        yield {"role": "tool", "tool_call_id": result.call_id, "content": result.output}
    blocks = [_openai_block(part) for part in _texts_and_images(message)]
    if message.role is Role.ASSISTANT:
        yield _openai_assistant(message, blocks)
    elif blocks:
        yield {"role": "user", "content": _content(blocks)}


def _openai_assistant(message: Message, blocks: Sequence[Wire]) -> Wire:
    wire: Wire = {"role": "assistant", "content": _content(blocks) if blocks else None}
    reasoning = [part.text for part in message.parts if isinstance(part, ReasoningPart) and part.text]
    if reasoning:
        wire["reasoning_content"] = "\n\n".join(reasoning)
    if message.tool_calls:
        wire["tool_calls"] = [_openai_call(call) for call in message.tool_calls]
    return wire


def _openai_call(call: ToolCallPart) -> Wire:
    function = {"name": wire_name(call.name), "arguments": wire_arguments(call.arguments_text)}
    return {"id": call.call_id, "type": "function", "function": function}


def _openai_block(part: TextPart | ImagePart) -> Wire:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}


def _content(blocks: Sequence[Wire]) -> str | list[Wire]:
    """A single text as a string, which every server accepts; anything else as blocks."""
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        return str(blocks[0]["text"])
    return list(blocks)


def _anthropic(messages: Sequence[Message]) -> list[Wire]:
    turns: list[tuple[str, list[Wire]]] = []
    for message in messages:
        role = wire_role(message)
        if not turns or turns[-1][0] != role:
            turns.append((role, []))
        turns[-1][1].extend(_anthropic_blocks(message))
    return [{"role": role, "content": _content(blocks)} for role, blocks in turns]


def wire_role(message: Message) -> str:
    """Whose turn it is in a format with two roles."""
    return "assistant" if message.role is Role.ASSISTANT else "user"


def _anthropic_blocks(message: Message) -> Iterator[Wire]:
    """A message's blocks in order, with results first, as the API requires."""
    yield from (_anthropic_result(result) for result in message.tool_results)
    for part in message.parts:
        match part:
            case ReasoningPart(provider_data={"type": "thinking" | "redacted_thinking"}) if not part.interrupted:
                yield dict(part.provider_data or {})
            case ToolCallPart():
                arguments = orjson.loads(wire_arguments(part.arguments_text))
                yield {"type": "tool_use", "id": part.call_id, "name": wire_name(part.name), "input": arguments}
            case TextPart() if part.text.strip():
                yield _anthropic_block(part)
            case ImagePart():
                yield _anthropic_block(part)


def _anthropic_block(part: TextPart | ImagePart) -> Wire:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": part.data}}


def _anthropic_result(part: ToolResultPart) -> Wire:
    block: Wire = {"type": "tool_result", "tool_use_id": part.call_id}
    if part.output.strip():
        block["content"] = part.output
    if part.status is not ToolStatus.COMPLETED:
        block["is_error"] = True
    return block


def settled(messages: Sequence[Message]) -> list[Message]:
    """The messages without voided attempts, and without an unfinished step at their end: an answer that is being
    written, or calls without all their results. Summaries stay, and are not a step."""
    live = [message for message in messages if message.voided_at is None]
    said = [place for place, message in enumerate(live) if is_told(message)]
    for place in reversed(said[-2:]):
        message = live[place]
        if message.role is not Role.ASSISTANT:
            continue
        done = {result.call_id for later in live[place + 1 :] for result in later.tool_results}
        if message.finish_reason is None or any(call.call_id not in done for call in message.tool_calls):
            return live[:place]
        break
    return live


def page_length(messages: Sequence[Message], limit: int, format: WireFormat) -> int | None:
    """How many of `messages` a page of `limit` takes: up to the first valid page end from there on; None if that needs
    later messages."""
    shown = [place for place, message in enumerate(messages) if is_shown(message)]
    for last, following in pairwise(shown):
        if following >= limit and _may_part(messages[last], messages[following], format):
            return max(limit, last + 1)
    return None


def _may_part(last: Message, following: Message, format: WireFormat) -> bool:
    """Whether a page may end between two shown messages."""
    if last.tool_calls:
        return False
    return format == "openai" or wire_role(last) != wire_role(following)
