"""Changes of conversations, for tests that cannot await them."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from app.agent.changes import GenerationOpened
from app.agent.conversation import Conversation
from app.agent.protocols import AgentConfig

T = TypeVar("T")


def now(change: Coroutine[Any, Any, T]) -> T:
    """The result of a change that never waits: with fewer than `LONG` messages it needs no thread."""
    try:
        change.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("the change waits")


def refreshed_here(conversation: Conversation, wanted: AgentConfig) -> GenerationOpened | None:
    """`Conversation.refresh` without a thread, whatever the conversation's length."""
    opened = conversation.due_generation(wanted)
    if opened is not None:
        conversation.begin(opened, conversation.shown_by(opened.generation, conversation.in_force), wanted)
    return opened
