"""One step: a model call, retried if that may help, and the tool calls that it requested."""

from __future__ import annotations

import time
from asyncio import sleep
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import count
from typing import Any, get_args

import structlog
from structlog.contextvars import bind_contextvars, unbind_contextvars

from app.agent.approvals import Batch, WaitingStep
from app.agent.changes import CallsAwaited, Change, PartClosed, ResponseClosed, StepClosed, StepOpened
from app.agent.conversation import Conversation
from app.agent.interrupt import Interrupt, Stopped
from app.agent.model_calls import Attempt, ModelCalls, Spent, WindowLessons
from app.agent.protocols import AgentConfig, Sink
from app.agent.refusals import REFUSING, Accepted, Refusals, RemedyError, Sent, advice, overflow_of
from app.agent.stream_processor import DEGENERATE
from app.agent.tool_executor import ToolExecutor
from app.errors import (
    AnswerError,
    ContextOverflowError,
    InvalidRequestError,
    PalimpsestError,
    ProviderError,
    Reshape,
    ReshapeError,
    StaleOwnerError,
    StorageError,
)
from app.llm.base import ModelRequest, Remedy, delay_s
from app.messages import FinishReason, TextPart, Usage, new_id

log = structlog.get_logger(__name__)

LOGGED = ("step", "attempt", "message_id")
"""Bound to the log lines of a step, and unbound when it has ended. If a step raises, they stay bound for whoever logs
the error, who then unbinds them."""
MAX_PAID = 4
"""How often an answer that broke off is asked for again; a provider that is away costs nothing, and is waited for."""
_AT_ONCE = {
    **dict.fromkeys((f"reshape_{reshape}" for reshape in get_args(Reshape)), 1),
    "endpoint_switched": 2,
    DEGENERATE: 1,
}
"""How often a step is retried without a delay if the next attempt will differ; such attempts do not count as
failures."""


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
    """`usage` is the step's own, over all attempts, and `known_cost_usd` the part of its cost with a known price;
    `error` is the outcome's problem, if any, `overflow` the refusal of a request that was too large, and `is_empty`
    whether the answer had neither text nor a call."""

    outcome: Outcome
    usage: Usage
    known_cost_usd: float = 0.0
    error: dict[str, Any] | None = None
    overflow: ContextOverflowError | None = None
    is_empty: bool = False

    @classmethod
    def of(cls, outcome: Outcome, spent: Spent, error: dict[str, Any] | None = None) -> StepResult:
        return cls(outcome, spent.usage, spent.known_cost_usd, error)


@dataclass(frozen=True, slots=True)
class _Ending:
    """What the end of a step is recorded with, except how it ended."""

    opened: StepOpened
    config: AgentConfig
    spent: Spent
    input_transformations: tuple[dict[str, Any], ...] = ()


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
        self._lessons = WindowLessons(conversation, models.windows)
        self._tools = tools
        self._interrupt = interrupt
        self._refusals = Refusals()
        self._trial_form: tuple[Remedy, ...] = ()
        """The remedies in whose form the conversation is, which are not known to help."""

    def not_shrunk(self) -> None:
        """The context that may have been refused as too large could not be made smaller."""
        self._refusals.not_shrunk()

    async def run(
        self, number: int, config: AgentConfig, before: Sequence[Change] = (), refusal: str | None = None
    ) -> StepResult:
        """Makes step `number`; `before` are changes committed with its start, in front of it. With a `refusal` none of
        its calls runs, and each gets that text as an error."""
        result = await self._make(number, config, before, refusal)
        unbind_contextvars(*LOGGED)
        return result

    async def _make(
        self, number: int, config: AgentConfig, before: Sequence[Change], refusal: str | None
    ) -> StepResult:
        spent = Spent()
        tried: Counter[str] = Counter()
        failed = paid = 0
        before = [*before, *await self._tried(config)]
        for attempt_number in count(1):
            attempt = self._open(number, attempt_number, config, before)
            request = replace(self._conversation.request(config), remedies=self._refusals.trial)
            failure = await self._send(attempt, request)
            if isinstance(failure, ReshapeError) and self._refusals.trial:
                # What is tried has broken a rule that is known.
                failure = self._refusals.refusal
            if isinstance(failure, AnswerError) and not attempt.processor.has_content:
                failure = await self._remedied(failure, request, attempt)
            match failure:
                case None:
                    images = await self._accepted(request, attempt)
                    result = await self._answered(attempt, spent, refusal)
                    if images:
                        await self._sink.record(*await self._conversation.clear_images(config, images))
                    return result
                case RemedyError() as error:
                    await self._void(attempt, spent, error, 0.0)
                    before = await self._tried(config)
                    continue
                case ProviderError() as error if tried[error.code] < _AT_ONCE.get(error.code, 0):
                    tried[error.code] += 1
                    await self._void(attempt, spent, error, 0.0)
                    before = await self._changed(error, config)
                    continue
                case ProviderError() as error if (delay := self._delay_s(failed + 1, paid, error)) is not None:
                    failed += 1
                    paid += bool(attempt.processor.written_tokens)
                    await self._void(attempt, spent, error, delay)
                    if error.code not in _AT_ONCE:
                        self._refusals.pause()
                    before = await self._tried(config)
                case _:
                    result = await self._failed(attempt, spent, failure)
                    if result.outcome is not Outcome.OVERFLOWED:
                        self._refusals.give_up()
                        if changes := await self._tried(config):
                            await self._sink.record(*changes)
                    return result
            try:
                await self._interrupt.guard(sleep(delay))
            except Stopped:
                # Its last attempt is voided already.
                self._record_end(_Ending(attempt.opened, config, spent), self._stop_reason())
                return StepResult.of(Outcome.STOPPED, spent)
        raise AssertionError("unreachable: the attempts are endless")

    async def _void(self, attempt: Attempt, spent: Spent, error: ProviderError, delay: float) -> None:
        """Voids an attempt that is retried after `delay` seconds."""
        spent.count(attempt)
        await self._sink.record(attempt.voided(error, delay))
        wait, model = round(delay, 3), attempt.opened.model
        log.warning("step_retrying", code=error.code, detail=error.detail, delay_s=wait, model=model)

    async def _changed(self, error: ProviderError, config: AgentConfig) -> Sequence[Change]:
        """Makes what has to be different in the next attempt; returns the changes to record before it."""
        if isinstance(error, ReshapeError):
            return await self._conversation.reshape(config, error.reshape)
        if error.code == DEGENERATE:
            await self._conversation.say("repetition", self._sink)
        return ()

    async def _remedied(self, error: AnswerError, request: ModelRequest, attempt: Attempt) -> ProviderError:
        """The error of a refused request that no list explains, with what to try next, if anything."""
        sent = Sent.of(request, self._whole(request, attempt), knows_images=attempt.config.has_seen_images)
        remedy = self._refusals.remedy(error, sent)
        if remedy is None:
            return error if error.retryable else self._given_up(error, sent)
        return overflow_of(error) if remedy.kind == "shrink" else RemedyError(error, remedy)

    def _given_up(self, error: AnswerError, sent: Sent) -> AnswerError:
        """The refusal with what was tried, and what else can be done."""
        tried = self._refusals.give_up()
        if tried or (error.meant_status in REFUSING and not error.is_explained):
            error.detail = f"{error.detail.rstrip('.')}.{advice(error, tried, sent)}"
        return error

    async def _tried(self, config: AgentConfig) -> Sequence[Change]:
        """Gives the conversation the form of what is tried; returns the changes to record before the next attempt."""
        if self._trial_form == self._refusals.trial:
            return ()
        self._trial_form = self._refusals.trial
        return await self._conversation.try_remedies(config, self._refusals.trial)

    async def _accepted(self, request: ModelRequest, attempt: Attempt) -> tuple[str, ...]:
        """Learns from an answer what helped against the refusals before it; returns the images to clear."""
        self._trial_form = ()
        images = next((remedy.names for remedy in self._refusals.trial if remedy.kind == "clear_images"), ())
        refused = self._refusals.accepted(self._whole(request, attempt))
        if refused is not None and self._models.windows is not None:
            await self._models.windows.refused(attempt.opened.model, None, refused)
        return images

    def _whole(self, request: ModelRequest, attempt: Attempt) -> Accepted:
        images = frozenset(image.id for image in self._conversation.transcript.images)
        settings = (request.model, request.reasoning_effort, request.temperature, request.max_output_tokens)
        return Accepted(request.model, attempt.opened.context.tokens, settings, tuple(request.tools), images)

    async def go_on(self, waiting: WaitingStep, config: AgentConfig) -> StepResult:
        """Finishes a step that was left waiting; its message is in the conversation already."""
        _log_with(waiting.opened)
        spent = Spent(time.monotonic() - waiting.elapsed_s, waiting.usage, waiting.known_cost_usd)
        result = await self._run_tools(
            _Ending(waiting.opened, config, spent), Batch.left(waiting), waiting.finish_reason
        )
        unbind_contextvars(*LOGGED)
        return result

    def _open(self, step: int, number: int, config: AgentConfig, before: Sequence[Change]) -> Attempt:
        conversation = self._conversation
        context, generation = conversation.state(config.budget), conversation.generation.number
        opened = StepOpened(step, number, new_id(), config.model, generation, context, conversation.round)
        _log_with(opened)
        return Attempt(self._sink, self._models, config, opened, before, self._tools.is_for_client)

    async def _send(self, attempt: Attempt, request: ModelRequest) -> Stopped | PalimpsestError | None:
        """Calls the model; returns what kept it from answering, if anything."""
        try:
            await self._interrupt.guard(attempt.send(request), insist=True)
        except (Stopped, ProviderError) as failure:
            return failure
        except InvalidRequestError as error:
            # The model or its key was removed after the session chose it.
            return error
        except (StaleOwnerError, StorageError):
            raise
        except Exception:
            log.exception("model_call_crashed", model=attempt.opened.model, message_id=attempt.opened.message_id)
            return _CRASH
        return None

    def _delay_s(self, failures: int, paid: int, error: ProviderError) -> float | None:
        """How long to wait after this many failures, this one included; None if another attempt would not help. Before
        it, `paid` answers had begun: those cost money."""
        if paid >= MAX_PAID:
            return None
        return delay_s(failures, error, self._models.rng, max_attempts=self._models.max_attempts)

    async def _answered(self, attempt: Attempt, spent: Spent, refusal: str | None) -> StepResult:
        """The stream is complete: closes the message, runs its calls, closes the step."""
        attempt.processor.close(interrupted=False)
        reason = attempt.finish_reason
        spent.count(attempt)
        if attempt.processor.usage is not None:
            await self._lessons.answered(attempt.opened, attempt.processor.usage)
        closed = await self._take_message(attempt, reason)
        self._conversation.answered()
        ending = _Ending(attempt.opened, attempt.config, spent, attempt.processor.input_transformations)
        if attempt.processor.calls:
            batch = Batch(attempt.processor.calls, asked_by=attempt.opened.message_id)
            if refusal is not None:
                await self._sink.record(*_late(attempt, ()), closed)
                self._tools.refuse(batch, refusal)
                self._conversation.append(await batch.message())
                self._record_end(ending, reason)
                return StepResult.of(Outcome.RAN_TOOLS, spent)
            waits = await self._tools.begin(batch, attempt.config.approval)
            # In one commit, so that after a restart no waiting call is taken for a running one.
            await self._sink.record(*_late(attempt, waits), closed, *waits)
            return await self._run_tools(ending, batch, reason)
        # In one commit, so that a final answer never belongs to an open step.
        await self._sink.record(closed, self._closed(ending, reason))
        says = any(isinstance(part, TextPart) and part.text.strip() for part in attempt.processor.parts)
        return replace(StepResult.of(_OUTCOMES[reason], spent, _REFUSALS.get(reason)), is_empty=not says)

    async def _run_tools(self, ending: _Ending, batch: Batch, reason: FinishReason) -> StepResult:
        outcome = Outcome.RAN_TOOLS
        problem: dict[str, Any] | None = None
        try:
            await self._interrupt.guard(self._tools.run(batch))
        except Stopped:
            outcome = Outcome.STOPPED
            if batch.has_not_started and self._interrupt.reason == "shutdown":
                # Nothing has started: it is left as it is, and waits again when the server is back.
                return StepResult.of(outcome, ending.spent)
            reason = self._stop_reason()
            self._tools.abandon(batch)
        except (StaleOwnerError, StorageError):
            raise
        except Exception:
            log.exception("tools_crashed", message_id=ending.opened.message_id)
            outcome, reason, problem = Outcome.FAILED, FinishReason.ERROR, _CRASH.problem()
            self._tools.abandon(batch)
        self._conversation.append(await batch.message())
        self._record_end(ending, reason)
        return StepResult.of(outcome, ending.spent, problem)

    async def _failed(self, attempt: Attempt, spent: Spent, failure: Stopped | PalimpsestError) -> StepResult:
        """Closes a step whose stream failed: what the model wrote stays, its calls get results."""
        outcome, reason, problem = Outcome.FAILED, FinishReason.ERROR, None
        match failure:
            case Stopped():
                outcome, reason = Outcome.STOPPED, self._stop_reason()
            case ContextOverflowError():
                outcome, problem = Outcome.OVERFLOWED, failure.problem()
                await self._lessons.refused(attempt.opened, attempt.processor.written_tokens, failure)
            case _:
                problem = failure.problem()
        attempt.processor.close(interrupted=True)
        spent.count(attempt)
        await self._sink.record(await self._take_message(attempt, reason, problem))
        batch = Batch(attempt.processor.calls)
        self._tools.abandon(batch)
        if batch.calls:
            self._conversation.append(await batch.message())
        self._record_end(_Ending(attempt.opened, attempt.config, spent), reason)
        overflow = failure if isinstance(failure, ContextOverflowError) else None
        return replace(StepResult.of(outcome, spent, problem), overflow=overflow)

    async def _take_message(
        self, attempt: Attempt, reason: FinishReason, problem: dict[str, Any] | None = None
    ) -> ResponseClosed:
        """Appends the model's message to the conversation; returns the change that stores its end."""
        message = await attempt.message(reason, problem)
        self._conversation.append(message)
        return attempt.closed(message, reason)

    def _record_end(self, ending: _Ending, reason: FinishReason) -> None:
        """Not awaited: whatever comes next is committed after it, or with it, or not at all."""
        self._sink.record(self._closed(ending, reason))

    def _closed(self, ending: _Ending, reason: FinishReason) -> StepClosed:
        opened = ending.opened
        log.debug("step_ended", finish_reason=reason, duration_ms=ending.spent.duration_ms)
        return StepClosed(
            opened.step,
            opened.attempt,
            opened.message_id,
            opened.model,
            reason,
            ending.spent.usage,
            self._conversation.state(ending.config.budget),
            ending.spent.duration_ms,
            ending.input_transformations,
        )

    def _stop_reason(self) -> FinishReason:
        return FinishReason.INTERRUPTED if self._interrupt.stopped_by == "shutdown" else FinishReason.CANCELLED


def _late(attempt: Attempt, waits: Sequence[Change]) -> list[PartClosed]:
    """The calls for clients; those that wait from now on have their event with that."""
    awaited = {call.call_id for wait in waits if isinstance(wait, CallsAwaited) for call, _ in wait.calls}
    late = attempt.processor.take_late()
    return [PartClosed(attempt.opened.message_id, part, part.call_id not in awaited) for part in late]


def _log_with(opened: StepOpened) -> None:
    bind_contextvars(step=opened.step, attempt=opened.attempt, message_id=opened.message_id)


_CRASH = PalimpsestError("The step failed inside the service; its log has the details.")
_OUTCOMES = {
    FinishReason.STOP: Outcome.FINISHED,
    FinishReason.LENGTH: Outcome.CUT_OFF,
    FinishReason.REFUSAL: Outcome.REFUSED,
    FinishReason.CONTENT_FILTER: Outcome.REFUSED,
}
"""What an answer without calls means for the run."""

_REFUSALS = {
    FinishReason.REFUSAL: ProviderError("The model refused to answer.", code="refusal").problem(),
    FinishReason.CONTENT_FILTER: ProviderError(
        "The provider's content filter ended the answer.", code="content_filter"
    ).problem(),
}
