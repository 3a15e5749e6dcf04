"""One attempt at a step: the model call, its result and its cost."""

from __future__ import annotations

import time
from asyncio import shield
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from app.agent.changes import AttemptVoided, Change, ResponseClosed, StepOpened
from app.agent.conversation import AgentConfig
from app.agent.model_calls import ModelCalls
from app.agent.ports import Sink
from app.agent.stream_processor import StreamProcessor
from app.context.tokens import PER_MESSAGE
from app.errors import ContextOverflowError, ProviderError
from app.llm.base import ModelRequest
from app.messages import FinishReason, Message, Part, Role, Usage, now


class Attempt:
    """Sends a step's request once. What the model writes is in `processor`, its cost in `usage`."""

    def __init__(
        self, sink: Sink, models: ModelCalls, config: AgentConfig, opened: StepOpened, before: Sequence[Change]
    ) -> None:
        """Record the start of the attempt at once, after the changes in `before`."""
        self.config = config
        self.opened = opened
        self.processor = StreamProcessor(sink, opened.message_id)
        self.usage = Usage()
        self._models = models
        self._recorded = sink.record(*before, opened)
        self._seq = 0

    async def send(self, request: ModelRequest) -> None:
        """Feeds the stream into the processor; the start of the attempt is committed before the first event is
        shown."""
        provider, name = self._models.resolve(self.opened.model)
        async with aclosing(provider.stream(replace(request, model=name))) as stream:  # type: ignore[type-var]
            async for event in stream:
                if not self._seq:
                    # Shielded: a cancellation would otherwise cancel the future itself, which is awaited again.
                    self._seq = await shield(self._recorded)
                self.processor.feed(event)
        if self.processor.stop_reason is None:
            raise ProviderError("The model's stream ended before its answer did.", retryable=True)
        if self.processor.stop_reason == "context_overflow":
            usage = self.processor.usage
            raise ContextOverflowError(
                "The model's answer ran into the end of its context window.",
                # Prompt and answer together filled it.
                limit=usage.total_tokens if usage is not None else None,
            )

    def bill(self) -> Usage | None:
        """Record the call's usage; None if the call produced nothing."""
        usage = self._models.bill(
            self.opened.model,
            self.processor.usage,
            self.opened.context.tokens,
            self.processor.written_tokens,
            finished=self.processor.stop_reason is not None,
        )
        self.usage = usage or self.usage
        return usage

    @property
    def finish_reason(self) -> FinishReason:
        """The provider's stop reason as a finish reason. Calls run whatever it says, and an unknown one counts as a
        stop."""
        reason = self.processor.stop_reason
        match reason:
            case "length":
                return FinishReason.LENGTH
            case "content_filter":
                return FinishReason.CONTENT_FILTER
            case "refusal":
                return FinishReason.REFUSAL
            case "stop" | "tool_calls" | "other" | "context_overflow" | None:
                return FinishReason.TOOL_CALLS if self.processor.calls else FinishReason.STOP
        assert_never(reason)

    async def message(self, reason: FinishReason, problem: dict[str, Any] | None = None) -> Message:
        """The model's message, once the processor is closed."""
        self._seq = self._seq or await self._recorded
        parts: tuple[Part, ...] = self.processor.ordered_parts
        return Message(
            id=self.opened.message_id,
            seq=self._seq,
            role=Role.ASSISTANT,
            parts=parts,
            tokens=PER_MESSAGE + sum(part.tokens for part in parts),
            model=self.opened.model,
            finish_reason=reason,
            error=problem,
            created_at=now(),
        )

    def closed(self, message: Message, reason: FinishReason) -> ResponseClosed:
        """The change that stores the end of the message."""
        step, number = self.opened.step, self.opened.attempt
        return ResponseClosed(step, number, message.id, reason, self.usage, message.tokens, message.error)

    def voided(self, error: ProviderError, delay_s: float) -> AttemptVoided:
        """The change that voids the attempt; it is retried after `delay_s` seconds."""
        return AttemptVoided(
            self.opened.step,
            self.opened.attempt,
            self.opened.message_id,
            self.usage,
            round(delay_s * 1000),
            error.code,
            error.detail,
        )


@dataclass(slots=True)
class Spent:
    """When a step began and its cost so far, over all attempts; `known_cost_usd` is the part of the cost with a known
    price."""

    started: float = field(default_factory=time.monotonic)
    usage: Usage = field(default_factory=Usage)
    known_cost_usd: float = 0.0

    def count(self, attempt: Attempt) -> None:
        """Adds an attempt's cost."""
        usage = attempt.bill()
        if usage is not None:
            self.usage = self.usage + usage
            self.known_cost_usd += usage.cost_usd or 0.0

    @property
    def duration_ms(self) -> int:
        return round((time.monotonic() - self.started) * 1000)
