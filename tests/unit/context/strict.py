"""An independent checker of conversations: it refuses what strict providers refuse."""

from __future__ import annotations

from collections.abc import Sequence

from app.messages import ImagePart, Message, ReasoningPart, Role, TextPart, ToolCallPart, ToolResultPart

ALLOWED = {
    Role.USER: {"text", "image"},
    Role.CONTROL: {"text", "image"},
    Role.ASSISTANT: {"text", "reasoning", "tool_call"},
    Role.TOOL: {"tool_result"},
}


def faults(messages: Sequence[Message], model: str) -> list[str]:
    """What a strict provider would complain about; empty for a valid conversation."""
    found = [fault for message in messages for fault in _message_faults(message, model)]
    if messages and messages[0].role not in (Role.USER, Role.CONTROL):
        found.append("does not begin with the user")
    if messages and messages[-1].role is Role.ASSISTANT:
        found.append("ends with the assistant")
    ids = [p.call_id for m in messages for p in m.parts if isinstance(p, ToolCallPart)]
    if len(ids) != len(set(ids)) or "" in ids:
        found.append("call ids are not unique")
    return found + _pairing_faults(messages)


def _pairing_faults(messages: Sequence[Message]) -> list[str]:
    found = []
    for before, message in zip([None, *messages], [*messages, None], strict=True):
        called = [p.call_id for p in before.parts if isinstance(p, ToolCallPart)] if before else []
        is_tool = message is not None and message.role is Role.TOOL
        answered = [p.call_id for p in message.parts if isinstance(p, ToolResultPart)] if message else []
        if called != answered or is_tool != bool(called):
            found.append(f"calls {called} are followed by results {answered}")
    return found


def _message_faults(message: Message, model: str) -> list[str]:
    found = []
    if message.role not in ALLOWED:
        return [f"role {message.role}"]
    calls = {part.call_id for part in message.tool_results}
    own = [part for part in message.parts if isinstance(part, ImagePart) and part.of_call in calls]
    types = {part.type for part in message.parts if part not in own}
    if not types - {"reasoning"}:
        found.append("an empty message")
    if types - ALLOWED[message.role]:
        found.append(f"{types} in a {message.role} message")
    for part in message.parts:
        if isinstance(part, TextPart) and not part.text.strip():
            found.append("a blank text")
        if isinstance(part, ReasoningPart) and (
            part.provider_data is None or part.interrupted or message.model != model
        ):
            found.append("reasoning that is broken or another model's")
    return found
