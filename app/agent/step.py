"""One step: a model call, made again where that may help, and the tool calls that it asked for."""

from __future__ import annotations

import time
from asyncio import shield, sleep
from collections.abc import Awaitable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, assert_never

import structlog

from app.agent.conversation import AgentConfig, Conversation
from app.agent.interrupt import Interrupt, Stopped
from app.agent.model_calls import ModelCalls
from app.agent.ports import AttemptVoided, Change, ResponseClosed, Sink, StepClosed, StepOpened
from app.agent.stream_processor import StreamProcessor
from app.agent.tool_executor import Batch, ToolExecutor
from app.context.tokens import PER_MESSAGE
from app.errors import (
    ContextOverflowError,
    InvalidRequestError,
    PalimpsestError,
    ProviderError,
    StaleOwnerError,
    StorageError,
)
from app.llm.base import ModelRequest, StopReason
from app.llm.retry import delay_s
from app.messages import FinishReason, Message, Part, Role, Usage, new_id, now

log = structlog.get_logger(__name__)


class Outcome(Enum):
    """How a step ended."""

    RAN_TOOLS = "ran_tools"
    FINISHED = "finished"
    CUT_OFF = "cut_off"
    REFUSED = "refused"
    OVERFLOWED = "overflowed"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class StepResult:
    """`usage` is the step's own, all attempts together, and `known_cost_usd` the part of its cost that has a price;
    `error` a problem where the outcome has one."""

    outcome: Outcome
    usage: Usage
    known_cost_usd: float = 0.0
    error: dict[str, Any] | None = None


@dataclass(slots=True)
class _Attempt:
    """One attempt under way."""

    step: int
    number: int
    model: str
    processor: StreamProcessor
    message_id: str
    opened: Awaitable[int]
    context_tokens: int
    seq: int = 0
    usage: Usage = field(default_factory=Usage)


@dataclass(slots=True)
class _Spent:
    """What the step has cost so far and when it began."""

    started: float = field(default_factory=time.monotonic)
    usage: Usage = field(default_factory=Usage)
    known_cost_usd: float = 0.0

    def result(self, outcome: Outcome, error: dict[str, Any] | None = None) -> StepResult:
        return StepResult(outcome, self.usage, self.known_cost_usd, error)

    @property
    def duration_ms(self) -> int:
        return round((time.monotonic() - self.started) * 1000)


class Step:
    """Makes steps of one conversation."""

    def __init__(
        self,
        sink: Sink,
        conversation: Conversation,
        models: ModelCalls,
        tools: ToolExecutor,
        interrupt: Interrupt,
    ) -> None:
        self._sink = sink
        self._conversation = conversation
        self._models = models
        self._tools = tools
        self._interrupt = interrupt

    async def run(self, number: int, config: AgentConfig, before: Sequence[Change] = ()) -> StepResult:
        """Makes step `number`; `before` are changes that belong in front of it, committed with its start."""
        spent = _Spent()
        request = self._conversation.request(config)
        attempt_number = 1
        while True:
            attempt = self._open(number, attempt_number, config, before)
            try:
                await self._interrupt.guard(self._call_model(attempt, request), insist=True)
            except Stopped:
                return await self._end(attempt, config, spent, Outcome.STOPPED, self._stop_reason(), None)
            except ContextOverflowError as error:
                if self._models.windows is not None:
                    size = attempt.context_tokens + attempt.processor.written_tokens
                    await self._models.windows.refused(attempt.model, error.limit, size)
                return await self._end(attempt, config, spent, Outcome.OVERFLOWED, FinishReason.ERROR, error)
            except InvalidRequestError as error:
                # The model was taken away, or its key, since the session chose it.
                return await self._end(attempt, config, spent, Outcome.FAILED, FinishReason.ERROR, error)
            except ProviderError as error:
                self._count(attempt, spent)
                delay = delay_s(attempt_number, error, self._models.rng, max_attempts=self._models.max_attempts)
                if delay is None:
                    return await self._end(attempt, config, spent, Outcome.FAILED, FinishReason.ERROR, error)
                await self._void(attempt, error, delay)
                try:
                    await self._interrupt.guard(sleep(delay))
                except Stopped:
                    return self._close_voided(attempt, config, spent)
            except (StaleOwnerError, StorageError):
                raise
            except Exception:
                log.exception("model_call_crashed", model=attempt.model, message_id=attempt.message_id)
                self._count(attempt, spent)
                return await self._end(attempt, config, spent, Outcome.FAILED, FinishReason.ERROR, _CRASH)
            else:
                return await self._answered(attempt, config, spent)
            before = ()
            attempt_number += 1

    def _open(self, step: int, number: int, config: AgentConfig, before: Sequence[Change]) -> _Attempt:
        message_id = new_id()
        context = self._conversation.state(config.budget)
        generation = self._conversation.generation.number
        opened = StepOpened(step, number, message_id, config.model, generation, context, self._conversation.round)
        recorded = self._sink.record(*before, opened)
        processor = StreamProcessor(self._sink, message_id)
        return _Attempt(step, number, config.model, processor, message_id, recorded, context.tokens)

    async def _call_model(self, attempt: _Attempt, request: ModelRequest) -> None:
        """Feeds the stream into the attempt's processor; its start is committed before the first event is shown."""
        provider, name = self._models.resolve(attempt.model)
        async with aclosing(provider.stream(_named(request, name))) as stream:  # type: ignore[type-var]
            async for event in stream:
                if not attempt.seq:
                    # Shielded: a cancellation would else cancel the future itself, which is awaited again.
                    attempt.seq = await shield(attempt.opened)
                attempt.processor.feed(event)
        if attempt.processor.stop_reason is None:
            raise ProviderError("The model's stream ended before its answer did.", retryable=True)
        if attempt.processor.stop_reason == "context_overflow":
            usage = attempt.processor.usage
            raise ContextOverflowError(
                "The model's answer ran into the end of its context window.",
                # Prompt and answer together filled it.
                limit=usage.total_tokens if usage is not None else None,
            )

    async def _answered(self, attempt: _Attempt, config: AgentConfig, spent: _Spent) -> StepResult:
        """The stream is complete: closes the message, runs its calls, closes the step."""
        attempt.processor.close(interrupted=False)
        reason = _finish_reason(attempt.processor)
        self._count(attempt, spent)
        if attempt.processor.usage is not None:
            await self._observe(attempt, attempt.processor.usage)
        closed = await self._take_message(attempt, reason)
        self._conversation.answered()
        if attempt.processor.calls:
            await self._sink.record(closed)
            return await self._run_tools(attempt, config, spent, reason)
        # In one commit, so that a final answer is never one of an open step.
        await self._sink.record(closed, self._closed(attempt, config, spent, reason))
        return spent.result(_OUTCOMES[reason], _REFUSALS.get(reason))

    async def _observe(self, attempt: _Attempt, usage: Usage) -> None:
        """Takes what was reported. A prompt counted far below its estimate was cut off by the server without a word,
        as Ollama does: that count is its window."""
        windows = self._models.windows
        if self._conversation.was_truncated(usage):
            if windows is not None:
                await windows.refused(attempt.model, usage.total_tokens, attempt.context_tokens)
            return
        self._conversation.observe(usage)
        if windows is not None:
            windows.accepted(attempt.model, usage.prompt_tokens)

    async def _run_tools(
        self, attempt: _Attempt, config: AgentConfig, spent: _Spent, reason: FinishReason
    ) -> StepResult:
        batch = Batch(attempt.processor.calls)
        outcome = Outcome.RAN_TOOLS
        problem: dict[str, Any] | None = None
        try:
            await self._interrupt.guard(self._tools.run(batch))
        except Stopped:
            outcome, reason = Outcome.STOPPED, self._stop_reason()
            self._tools.abandon(batch)
        except Exception:
            log.exception("tools_crashed", message_id=attempt.message_id)
            outcome, reason, problem = Outcome.FAILED, FinishReason.ERROR, _CRASH.problem()
            self._tools.abandon(batch)
        return await self._close(attempt, config, spent, batch, spent.result(outcome, problem), reason)

    async def _end(
        self,
        attempt: _Attempt,
        config: AgentConfig,
        spent: _Spent,
        outcome: Outcome,
        reason: FinishReason,
        error: PalimpsestError | None,
    ) -> StepResult:
        """Closes a step whose stream did not end well: what came of it stays, its calls get results."""
        problem = error.problem() if error is not None else None
        attempt.processor.close(interrupted=True)
        if error is None or isinstance(error, ContextOverflowError):
            self._count(attempt, spent)
        await self._sink.record(await self._take_message(attempt, reason, problem))
        batch = Batch(attempt.processor.calls)
        self._tools.abandon(batch)
        return await self._close(attempt, config, spent, batch, spent.result(outcome, problem), reason)

    async def _take_message(
        self, attempt: _Attempt, reason: FinishReason, problem: dict[str, Any] | None = None
    ) -> ResponseClosed:
        """Appends the model's message to the conversation; gives the change that stores its end."""
        parts: tuple[Part, ...] = attempt.processor.ordered_parts
        tokens = PER_MESSAGE + sum(part.tokens for part in parts)
        attempt.seq = attempt.seq or await attempt.opened
        self._conversation.append(
            Message(
                id=attempt.message_id,
                seq=attempt.seq,
                role=Role.ASSISTANT,
                parts=parts,
                tokens=tokens,
                model=attempt.model,
                finish_reason=reason,
                error=problem,
                created_at=now(),
            )
        )
        return ResponseClosed(attempt.step, attempt.number, attempt.message_id, reason, attempt.usage, tokens, problem)

    async def _take_results(self, batch: Batch) -> None:
        """Appends the tool message once all of its results are committed."""
        seqs = [await recorded for recorded in batch.recorded]
        results = batch.ordered
        tokens = PER_MESSAGE + sum(part.tokens for part in results)
        message = Message(
            id=batch.message_id, seq=min(seqs), role=Role.TOOL, parts=results, tokens=tokens, created_at=now()
        )
        self._conversation.append(message)

    async def _close(
        self,
        attempt: _Attempt,
        config: AgentConfig,
        spent: _Spent,
        batch: Batch,
        result: StepResult,
        reason: FinishReason,
    ) -> StepResult:
        """Ends a step once the results of its calls are stored."""
        if batch.calls:
            await self._take_results(batch)
        self._record_end(attempt, config, spent, reason)
        return result

    def _record_end(self, attempt: _Attempt, config: AgentConfig, spent: _Spent, reason: FinishReason) -> None:
        """Nobody waits for this commit: whatever comes next is committed after it, or with it, or not at all."""
        self._sink.record(self._closed(attempt, config, spent, reason))

    def _closed(self, attempt: _Attempt, config: AgentConfig, spent: _Spent, reason: FinishReason) -> StepClosed:
        return StepClosed(
            attempt.step,
            attempt.number,
            attempt.message_id,
            attempt.model,
            reason,
            spent.usage,
            self._conversation.state(config.budget),
            spent.duration_ms,
        )

    async def _void(self, attempt: _Attempt, error: ProviderError, delay: float) -> None:
        await self._sink.record(
            AttemptVoided(
                attempt.step,
                attempt.number,
                attempt.message_id,
                attempt.usage,
                round(delay * 1000),
                error.code,
                error.detail,
            )
        )

    def _close_voided(self, attempt: _Attempt, config: AgentConfig, spent: _Spent) -> StepResult:
        """Ends a step whose last attempt is void already: it was stopped while it waited to try again."""
        self._record_end(attempt, config, spent, self._stop_reason())
        return spent.result(Outcome.STOPPED)

    def _count(self, attempt: _Attempt, spent: _Spent) -> None:
        """Notes an attempt's usage and adds it to the step's."""
        processor = attempt.processor
        usage = self._models.bill(
            attempt.model,
            processor.usage,
            attempt.context_tokens,
            processor.written_tokens,
            finished=processor.stop_reason is not None,
        )
        if usage is None:
            return
        attempt.usage = usage
        spent.usage = spent.usage + usage
        spent.known_cost_usd += usage.cost_usd or 0.0

    def _stop_reason(self) -> FinishReason:
        return FinishReason.INTERRUPTED if self._interrupt.reason == "shutdown" else FinishReason.CANCELLED


_CRASH = PalimpsestError("The step failed inside the service; its log has the details.")

_OUTCOMES = {
    FinishReason.STOP: Outcome.FINISHED,
    FinishReason.LENGTH: Outcome.CUT_OFF,
    FinishReason.REFUSAL: Outcome.REFUSED,
    FinishReason.CONTENT_FILTER: Outcome.REFUSED,
}
"""What a text alone means for the run."""

_REFUSALS = {
    FinishReason.REFUSAL: ProviderError("The model refused to answer.", code="refusal").problem(),
    FinishReason.CONTENT_FILTER: ProviderError(
        "The provider's content filter ended the answer.", code="content_filter"
    ).problem(),
}


def _finish_reason(processor: StreamProcessor) -> FinishReason:
    """The provider's reason in our words. Calls run whatever it says, and a reason nobody knows is a plain end."""
    reason: StopReason | None = processor.stop_reason
    match reason:
        case "length":
            return FinishReason.LENGTH
        case "content_filter":
            return FinishReason.CONTENT_FILTER
        case "refusal":
            return FinishReason.REFUSAL
        case "stop" | "tool_calls" | "other" | "context_overflow" | None:
            return FinishReason.TOOL_CALLS if processor.calls else FinishReason.STOP
    assert_never(reason)


def _named(request: ModelRequest, name: str) -> ModelRequest:
    """The request under the model's name at its provider."""
    return ModelRequest(
        model=name,
        system=request.system,
        messages=request.messages,
        tools=request.tools,
        max_output_tokens=request.max_output_tokens,
        temperature=request.temperature,
        stop=request.stop,
        wire_cache=request.wire_cache,
    )
