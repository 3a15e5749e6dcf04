"""What the answers and refusals of a conversation's steps reveal about its models' windows."""

from __future__ import annotations

import structlog

from app.agent.changes import StepOpened
from app.agent.conversation import Conversation
from app.agent.model_calls import Windows
from app.errors import ContextOverflowError
from app.messages import Usage

log = structlog.get_logger(__name__)

LEAST_GUESS = 2
"""A refusal that names no window is believed only if its request had at least this many times the tokens of system text
and tools. In a smaller window no session could work, and nothing would be sent that could prove the refusal wrong."""


class WindowLessons:
    """Informs `windows`, if given, and the conversation's own gauge."""

    def __init__(self, conversation: Conversation, windows: Windows | None) -> None:
        self._conversation = conversation
        self._windows = windows

    async def answered(self, opened: StepOpened, usage: Usage) -> None:
        """Records what was reported. If the server silently truncated the prompt, as Ollama does, only the window can
        be learned."""
        conversation, windows = self._conversation, self._windows
        if conversation.was_truncated(usage, known_window=opened.context.source != "assumed"):
            log.info("prompt_cut_off", model=opened.model, message_id=opened.message_id, left=usage.prompt_tokens)
            if windows is not None:
                await windows.cut(opened.model, conversation.known_to_fit(usage), opened.context.tokens)
            return
        conversation.observe(usage)
        if windows is not None:
            windows.accepted(opened.model, usage.prompt_tokens)

    async def refused(self, opened: StepOpened, written_tokens: int, error: ContextOverflowError) -> None:
        """Records a refusal that came after `written_tokens` tokens of the answer."""
        size = opened.context.tokens + written_tokens
        fixed = self._conversation.calibration.apply(self._conversation.generation.fixed_tokens)
        if self._windows is None or (error.limit is None and size < LEAST_GUESS * fixed):
            return
        await self._windows.refused(opened.model, error.limit, size)
