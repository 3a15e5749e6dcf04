"""How the agent calls models: one attempt at a step with every token billed, the room that it asks for its answer, and
what answers and refusals reveal about the models' windows."""

from __future__ import annotations

import random
import time
from asyncio import shield
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, assert_never

import structlog

from app.agent.changes import AttemptVoided, Change, ResponseClosed, StepOpened
from app.agent.conversation import Conversation
from app.agent.protocols import AgentConfig, Sink
from app.agent.stream_processor import StreamProcessor
from app.context.budget import less_output
from app.context.images import missing_digests, with_data
from app.context.tokens import PER_MESSAGE
from app.errors import ContextOverflowError, ProviderError
from app.llm.base import ModelRequest, Provider
from app.messages import FinishReason, Message, Part, Role, Usage, now

log = structlog.get_logger(__name__)
LEAST_GUESS = 2
"""A refusal that names no window is believed only if its request had at least this many times the tokens of system text
and tools. In a smaller window no session could work, and nothing would be sent that could prove the refusal wrong."""


class Windows(Protocol):
    """Learns the windows of models from answers and refusals."""

    def accepted(self, model: str, prompt_tokens: int) -> None:
        """A prompt of this size was answered."""
        ...

    async def cut(self, model: str, answered: int, estimate: int) -> None:
        """A request of about `estimate` tokens was silently truncated; `answered` tokens are known to fit."""
        ...

    async def refused(self, model: str, named: int | None, estimate: int) -> None:
        """A request of about `estimate` tokens did not fit; `named` is the window that the provider named, if any."""
        ...


LoadImages = Callable[[Collection[str]], Awaitable[Mapping[str, str]]]
"""The session's images in base64, by digest; those that are not stored are missing."""


async def _no_images(digests: Collection[str]) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class ModelCalls:
    """How models are called: `resolve` gives a model's provider and its name there, `cost_usd` prices a usage, `images`
    loads what the messages of a session only name, and `traceparent` is the trace of its run."""

    resolve: Callable[[str], tuple[Provider, str]]
    cost_usd: Callable[[str, Usage], float | None]
    max_attempts: int
    rng: random.Random = field(default_factory=random.Random)
    windows: Windows | None = None
    images: LoadImages = _no_images
    traceparent: Callable[[], str | None] = lambda: None

    async def complete(self, request: ModelRequest) -> ModelRequest:
        """The request with its trace and the data of its images, which is not kept with the conversation, since it
        would fill the memory. An image that is no longer stored becomes text."""
        request = replace(request, traceparent=self.traceparent())
        wanted = missing_digests(request.messages) if request.has_images else None
        if not wanted:
            return request
        loaded = await self.images(wanted)
        return replace(request, messages=[with_data(message, loaded) for message in request.messages])

    def bill(
        self, model: str, reported: Usage | None, prompt_tokens: int, written_tokens: int, *, finished: bool
    ) -> Usage | None:
        """A call's usage with its price; None for a call that produced nothing. If the provider reported no usage
        although the model wrote something, estimates are used: uncounted tokens would escape every limit."""
        usage = reported
        if usage is None and (written_tokens or finished):
            usage = Usage(input_tokens=prompt_tokens, output_tokens=written_tokens, cost_usd=None)
        if usage is not None and usage.cost_usd is None:
            usage = usage.model_copy(update={"cost_usd": self.cost_usd(model, usage)})
        return usage


class Attempt:
    """Sends a step's request once. What the model writes is in `processor`, its cost in `usage`."""

    def __init__(
        self,
        sink: Sink,
        models: ModelCalls,
        config: AgentConfig,
        opened: StepOpened,
        before: Sequence[Change],
        is_late: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Record the start of the attempt at once, after the changes in `before`. See `StreamProcessor` for
        `is_late`."""
        self.config = config
        self.opened = opened
        self.processor = StreamProcessor(sink, opened.message_id, is_late)
        self.usage = Usage()
        self._models = models
        self._recorded = sink.record(*before, opened)
        self._seq = 0

    async def send(self, request: ModelRequest) -> None:
        """Feeds the stream into the processor; the start of the attempt is committed before the first event is
        shown."""
        provider, name = self._models.resolve(self.opened.model)
        complete = await self._models.complete(replace(request, model=name))
        async with aclosing(provider.stream(complete)) as stream:  # type: ignore[type-var]
            async for event in stream:
                if not self._seq:
                    # Shielded: a cancellation would otherwise cancel the future itself, which is awaited again.
                    self._seq = await shield(self._recorded)
                self.processor.feed(event)
        if self.processor.stop_reason is None:
            raise ProviderError("The model's stream ended before the answer was complete.", retryable=True)
        if self.processor.stop_reason == "context_overflow":
            usage = self.processor.usage
            raise ContextOverflowError(
                "The model's answer hit the limit of its context window.",
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


class AnswerRoom:
    """Lowers the output reserve for one step after a provider says that prompt and answer together are too large."""

    def __init__(self) -> None:
        self._refused_limit = 0
        self._less: int | None = None
        self._was_less = False

    def of_step(self, config: AgentConfig) -> AgentConfig:
        """The configuration of the next step; its output reserve may be smaller than usual."""
        self._refused_limit = config.budget.limit
        less, self._less = self._less, None
        self._was_less = less is not None
        if less is None:
            return config
        return replace(config, budget=replace(config.budget, output_reserve=min(less, config.budget.output_reserve)))

    def helps(self, error: ContextOverflowError | None, config: AgentConfig, conversation: Conversation) -> bool:
        """Whether the next step can fit with the context unchanged, although the provider refused this one. A step that
        was refused with a reduced reserve needs a smaller context."""
        budget = config.budget
        if config.model != conversation.generation.model:
            # The session uses another model now; this refusal says nothing about it.
            return True
        if conversation.estimate > budget.usable:
            return False
        if budget.limit < self._refused_limit:
            # Only the output reserve was too large for the window as it is known now.
            return True
        if error is None or error.prompt is None or self._was_less:
            return False
        self._less = less_output(budget, error.limit or budget.limit, error.prompt)
        return self._less is not None


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
        """Records a refusal that came after `written_tokens` tokens of the answer. A guess is recorded once it has
        helped, unless it names a window."""
        size = opened.context.tokens + written_tokens
        fixed = self._conversation.calibration.apply(self._conversation.generation.fixed_tokens)
        if self._windows is None or (error.limit is None and (error.guess or size < LEAST_GUESS * fixed)):
            return
        await self._windows.refused(opened.model, error.limit, size)
