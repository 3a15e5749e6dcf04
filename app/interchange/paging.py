"""Where an exported history may be cut: never between a call and its results, nor within a message of the format."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from app.interchange.exporting import is_shown, is_told, wire_role
from app.interchange.turns import WireFormat
from app.messages import Message, Role


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
