"""Asks a model for the prose of a summary: where, with how much room, and with a bound on the number of calls."""

from __future__ import annotations

from asyncio import sleep
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

import structlog

from app.agent.changes import ModelUsed, SummaryDelayed, SummaryFailed
from app.agent.compaction.summary_jobs import LEAST_INPUT, SummaryJob
from app.agent.conversation import run_off_loop
from app.agent.model_calls import ModelCalls
from app.agent.protocols import Sink
from app.agent.refusals import REFUSING, Refusals, Sent, is_away, sounds_like_outage
from app.agent.stream_processor import MAX_ANSWER_BYTES
from app.context.summary import check_prose
from app.context.summary_request import (
    RESULT_CHARS,
    in_conversation_request,
    text_request,
    transcript_items,
    windows,
)
from app.context.tokens import PER_MESSAGE, estimate_text
from app.errors import AnswerError, ContextOverflowError, PalimpsestError, ProviderError, ReshapeError
from app.llm.base import (
    Finish,
    ModelRequest,
    ReasoningDelta,
    StopReason,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallStart,
    UsageReport,
    delay_s,
)
from app.llm.windows import speaks_of_size
from app.messages import Message, Role, TextPart, Usage, new_id, now, utf8_length

log = structlog.get_logger(__name__)
MAX_CALLS = 12
"""Maximum model calls of one round, with all windows but without retries; beyond it the summary is made without a
model."""
PROBE_TOKENS = 16
"""Output tokens of a call that is made only for its token count, as in the hand-off design."""
MAX_ATTEMPTS = 3
"""Maximum attempts of one request with transient errors while the context still fits: the next step asks again."""

MAX_SWITCHES = 4
"""Times that a round is asked at the other endpoint: twice, and twice more for a request that is repeated."""

RESULT_SIZES = (30_000, 8_000, RESULT_CHARS)
"""Characters of a result or of a call's arguments that a summarizer of text reads: the most with which everything fits
into one request."""


@dataclass(slots=True)
class _Answer:
    pieces: list[str] = field(default_factory=list)
    size: int = 0
    usage: Usage | None = None
    stop_reason: StopReason | None = None
    called_tools: bool = False

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class Summarizer:
    """The model calls of one round. `usage` is their total, since the server started."""

    def __init__(self, sink: Sink, models: ModelCalls, round: int, *, max_attempts: int = MAX_ATTEMPTS) -> None:
        """`max_attempts` of one request, while its provider does not answer."""
        self._max_attempts = min(max_attempts, models.max_attempts)
        self._sink = sink
        self._models = models
        self._round = round
        self._calls = 0
        self._refusals = Refusals()
        self._switches = 0
        self.usage = Usage()
        self.has_answer = False
        """Whether a model has answered, whatever it said."""

    async def prose(self, job: SummaryJob) -> str:
        """The summary's prose. Raises `SummaryFailed`."""
        if job.prefix is None:
            return await self._from_text(job)
        try:
            return await self._in_conversation(job, job.prefix)
        except SummaryFailed as failure:
            if not _may_be_too_large(failure.__cause__):
                raise
            # A request with a conversation can be refused for its order of roles, calls or reasoning, which one of
            # plain text does not have, and cannot be smaller.
            log.warning("summary_asked_as_text", model=job.model, code=failure.code, reason=failure.detail)
            return await self._from_text(job)

    async def _in_conversation(self, job: SummaryJob, prefix: ModelRequest) -> str:
        """The summary as the next message of the conversation itself."""
        instruction = in_conversation_request(
            job.settings.policy,
            job.settings.profile,
            job.previous_round,
            job.instructions,
            tail=job.tail,
            max_tokens=job.max_tokens,
            template=job.template,
        )
        asked = replace(prefix, messages=[*prefix.messages, _question(instruction)])
        return await self._answer(job, replace(asked, temperature=job.settings.summary_temperature))

    async def count(self, request: ModelRequest) -> int | None:
        """The provider's token count of a request, from an answer of `PROBE_TOKENS`; None if it reports none."""
        try:
            answer = await self._ask_once(replace(request, max_output_tokens=PROBE_TOKENS))
        except (PalimpsestError, SummaryFailed) as error:
            log.info("recount_failed", reason=str(error))
            return None
        return answer.usage.prompt_tokens if answer.usage is not None else None

    async def _from_text(self, job: SummaryJob) -> str:
        """The summary of the messages as text, in pieces of half the size each time that one is refused and may have
        been too large."""
        refused: SummaryFailed | None = None
        while True:
            pieces = await run_off_loop(job.covered, _pieces, job)
            if len(pieces) > MAX_CALLS:
                detail = f"The messages need {len(pieces)} pieces, but a round may make only {MAX_CALLS} model calls."
                raise refused or SummaryFailed("too_many_calls", detail)
            try:
                return await self._window_by_window(job, pieces)
            except SummaryFailed as failure:
                half = max(map(estimate_text, pieces), default=0) // 2
                if half < LEAST_INPUT or not _may_be_too_large(failure.__cause__):
                    raise
                refused, job = failure, replace(job, input_tokens=half)

    async def _window_by_window(self, job: SummaryJob, pieces: Sequence[str]) -> str:
        """Folds the messages into the summary piece by piece, each time merging it with the one before."""
        previous = job.previous
        for number, items in enumerate(pieces, 1):
            system, user = text_request(
                job.settings.policy,
                job.settings.profile,
                items,
                previous,
                job.instructions,
                job.task,
                (number, len(pieces)),
                tail=job.tail,
                max_tokens=job.max_tokens,
                template=job.template,
            )
            request = ModelRequest(
                model=job.model,
                system=system,
                messages=[_question(user)],
                temperature=job.settings.summary_temperature,
            )
            previous = await self._answer(job, request)
        if previous is None:
            raise SummaryFailed("nothing_to_summarise", "There is nothing to summarize.")
        return previous

    async def _answer(self, job: SummaryJob, request: ModelRequest) -> str:
        """One answer that is a summary; if it is cut off, it is requested again with twice the output tokens."""
        cap = job.max_tokens
        answer = await self._ask(replace(request, max_output_tokens=cap + job.reasoning_tokens))
        if answer.stop_reason == "length":
            cap *= 2
            answer = await self._ask(replace(request, max_output_tokens=cap + job.reasoning_tokens))
        problem = check_prose(answer.text, answer.stop_reason, answer.called_tools, _size(request), cap)
        if problem is not None:
            raise SummaryFailed(problem.code, problem.detail)
        prose = answer.text.strip()
        if await run_off_loop(job.covered, _is_output, prose, job.covered):
            # This happens when it obeys instructions in a page or a file.
            raise SummaryFailed("summary_is_output", "The model repeated a tool's output instead of writing a summary.")
        return prose

    async def _ask(self, request: ModelRequest) -> _Answer:
        """One request, retried if that may help."""
        if self._calls >= MAX_CALLS:
            raise SummaryFailed("too_many_calls", f"The round has made {MAX_CALLS} model calls.")
        self._calls += 1
        attempt = 0
        while True:
            attempt += 1
            try:
                answer = await self._ask_once(request)
                self._refusals.accepted(Sent.of_summary(request, _size(request)).whole)
                return answer
            except SummaryFailed:
                raise
            except ContextOverflowError as error:
                if self._models.windows is not None and error.limit is not None:
                    await self._models.windows.refused(request.model, error.limit, _size(request))
                raise SummaryFailed("context_overflow", error.detail) from error
            except ProviderError as error:
                if isinstance(error, AnswerError) and speaks_of_size(error.body):
                    raise SummaryFailed("context_overflow", error.detail) from error
                if self._can_remedy(error, request):
                    request = replace(request, remedies=self._refusals.trial)
                    attempt -= 1
                    continue
                away = is_away(error)
                most = self._max_attempts if away else min(MAX_ATTEMPTS, self._max_attempts)
                delay = delay_s(attempt, error, self._models.rng, max_attempts=most)
                if delay is None:
                    raise SummaryFailed.by(error, is_away=away) from error
                self._refusals.pause()
                request = replace(request, remedies=())
                await self._wait(attempt, delay, error, request.model)
            except PalimpsestError as error:
                # The model or its key was removed.
                raise SummaryFailed.by(error) from error
            except Exception as error:
                # As in a step: an internal error costs the session no more than this rung.
                log.exception("summary_crashed", model=request.model)
                raise SummaryFailed("internal_error", "Asking for the summary failed inside the service.") from error

    async def _wait(self, attempt: int, delay: float, error: ProviderError, model: str) -> None:
        """Waits for the next attempt, and reports why."""
        self._sink.record(SummaryDelayed(self._round, attempt, round(delay * 1000), error.code, error.detail))
        log.warning(
            "compaction_retrying",
            round=self._round,
            attempt=attempt,
            code=error.code,
            detail=error.detail,
            delay_s=round(delay, 3),
            model=model,
        )
        await sleep(delay)

    def _can_remedy(self, error: ProviderError, request: ModelRequest) -> bool:
        """Whether another request is worth a try at once: at the other endpoint, or without a parameter."""
        if error.code == "endpoint_switched":
            self._switches += 1
            return self._switches <= MAX_SWITCHES
        sent = Sent.of_summary(request, _size(request))
        return isinstance(error, AnswerError) and self._refusals.remedy(error, sent) is not None

    async def _ask_once(self, request: ModelRequest) -> _Answer:
        provider, name = self._models.resolve(request.model)
        answer = _Answer()
        try:
            complete = await self._models.complete(replace(request, model=name))
            async with aclosing(provider.stream(complete)) as stream:  # type: ignore[type-var]
                async for event in stream:
                    _take(answer, event)
        finally:
            self._bill(request, answer)
        if answer.stop_reason is None:
            raise ProviderError("The model's stream ended before the answer was complete.", retryable=True)
        if answer.stop_reason == "context_overflow":
            raise ContextOverflowError("The summary hit the limit of the model's context window.")
        self.has_answer = True
        return answer

    def _bill(self, request: ModelRequest, answer: _Answer) -> None:
        written = estimate_text(answer.text)
        finished = answer.stop_reason is not None
        usage = self._models.bill(request.model, answer.usage, _size(request), written, finished=finished)
        if usage is not None:
            self.usage = self.usage + usage
            self._sink.record(ModelUsed(request.model, usage, self._round))


def _may_be_too_large(error: BaseException | None) -> bool:
    """Whether a provider may have refused a request's size or form, not its key, model or timing."""
    if isinstance(error, AnswerError):
        is_refused = error.meant_status in REFUSING and not error.is_explained
        says_so = speaks_of_size(error.body)
        return says_so or is_refused or (error.retryable and not sounds_like_outage(error))
    return isinstance(error, ContextOverflowError | ReshapeError)


def _pieces(job: SummaryJob) -> list[str]:
    """The covered messages as text, with as much of each result as fits into one request; more than one piece only if
    the shortest form is too large."""
    for chars in RESULT_SIZES:
        pieces = windows(transcript_items(job.covered, chars), job.input_tokens)
        if len(pieces) == 1:
            break
    return pieces


def _is_output(prose: str, covered: Sequence[Message]) -> bool:
    return any(prose in part.output for message in covered for part in message.tool_results)


def _take(answer: _Answer, event: object) -> None:
    match event:
        case TextDelta(_, text) | ReasoningDelta(_, text) | ToolArgumentsDelta(_, text):
            if isinstance(event, TextDelta):
                answer.pieces.append(text)
            answer.size += utf8_length(text)
            if answer.size > MAX_ANSWER_BYTES:
                raise ProviderError("The summary never finished.", code="provider_bad_response")
        case ToolCallStart():
            answer.called_tools = True
        case UsageReport(usage):
            answer.usage = usage if usage.total_tokens else answer.usage
        case Finish(reason):
            answer.stop_reason = reason


def _size(request: ModelRequest) -> int:
    """Estimated tokens of a prompt, without the tool schemas."""
    return estimate_text(request.system) + sum(message.tokens for message in request.messages)


def _question(text: str) -> Message:
    """The request for a summary, as the user's message; it is not added to the history."""
    part = TextPart(id=new_id(), index=0, text=text, tokens=estimate_text(text))
    return Message(
        id=new_id(), seq=0, role=Role.CONTROL, parts=(part,), tokens=PER_MESSAGE + part.tokens, created_at=now()
    )
