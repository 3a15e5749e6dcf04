"""The agent's loop: deliver messages, make a step, look at its outcome, until the run is over."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from app.agent.approvals import WaitingStep
from app.agent.changes import Change, GenerationOpened
from app.agent.compaction.compactor import Compactor
from app.agent.compaction.rounds import RoomResult
from app.agent.compaction.triggers import ManualRound
from app.agent.conversation import Conversation, had_last_word
from app.agent.interrupt import Interrupt
from app.agent.limits import (
    SESSION_LIMITS,
    LimitReached,
    LoopGuard,
    Progress,
    RunLimits,
    RunRules,
    Verdict,
    in_circles,
)
from app.agent.model_calls import AnswerRoom
from app.agent.protocols import AgentConfig, MessageSource, Sink
from app.agent.step import Outcome, Step, StepResult
from app.agent.submission import invalid_output, is_submitted, missing_output
from app.context.prompts import ControlKind
from app.errors import ContextOverflowError, ProviderError
from app.messages import Role, now
from app.sessions import Limits
from app.sessions import Outcome as RunOutcome

NOT_RUN = "[not run: the run has reached a limit, and this was its last step]"
NOT_RUN_IN_SESSION = "[not run: the session has reached a limit, and this was its last step]"


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended. A `parked` run continues when the server is back, so the session does not count it as ended; the
    message of a `void` one was withdrawn before the run did anything. One that `holds` could make no step, as the next
    one could not: pending messages wait for a resume."""

    outcome: RunOutcome
    error: dict[str, Any] | None = None
    parked: bool = False
    void: bool = False
    holds: bool = False

    def for_log(self) -> dict[str, Any]:
        """Outcome and error; the text only of a provider's error, since others may quote the model."""
        code = (self.error or {}).get("code")
        detail = self.error.get("detail") if self.error and str(code).startswith("provider_") else None
        return {"outcome": self.outcome, "code": code, "detail": detail}


class RunningSession(Protocol):
    """The session as its run sees it. It may change while it runs, so each step asks again."""

    async def prepare(self, conversation: Conversation) -> None:
        """Awaited before each step; the interrupt ends it."""
        ...

    async def before_end(self) -> None:
        """Awaited when the model has finished: what was accepted until now belongs to this run."""
        ...

    async def manual_round(self, conversation: Conversation) -> ManualRound | None:
        """The requested round of compaction, once."""
        ...

    def config(self) -> AgentConfig: ...

    def limits(self) -> Limits: ...


@dataclass(frozen=True, slots=True)
class RunStart:
    """Where a run begins. `continues` is a run with work left from an earlier one; any other needs a message to begin
    with. `elapsed_s` is how many seconds ago the run began, before a restart of the server, and `waiting` the step that
    waited for approvals then."""

    progress: Progress
    continues: bool
    elapsed_s: float = 0.0
    waiting: WaitingStep | None = None


class AgentLoop:
    """One run of a session."""

    def __init__(
        self,
        sink: Sink,
        session: RunningSession,
        message_source: MessageSource,
        conversation: Conversation,
        step: Step,
        interrupt: Interrupt,
        compactor: Compactor,
        start: RunStart,
        rules: RunRules,
    ) -> None:
        self._sink = sink
        self._session = session
        self._message_source = message_source
        self._conversation = conversation
        self._step = step
        self._interrupt = interrupt
        self._compactor = compactor
        self._progress = start.progress
        self._continues = start.continues
        self._waiting = start.waiting
        self._last_step_s = rules.last_step_s
        self._limits = RunLimits(session.limits, start.progress, interrupt, elapsed_s=start.elapsed_s)
        self._guard = LoopGuard(rules.guard)
        began = now() - timedelta(seconds=start.elapsed_s)
        self._is_over = start.elapsed_s > 0 and had_last_word(conversation.history, began)
        self._cut_off = self._was_empty = False
        self._answer_room = AnswerRoom()

    async def run(self) -> RunResult:
        """Makes steps until there is a final answer, a limit, a stop or a permanent error."""
        if self._waiting is not None and (result := await self._take(await self._finish(self._waiting))) is not None:
            return result
        if not await self._deliver() and not self._continues:
            return self._stopped() or RunResult(RunOutcome.COMPLETED, void=True)
        if self._continues and self._session.config().has_output and is_submitted(self._conversation.history):
            # A restart came between the accepted output and the end of the run.
            return RunResult(RunOutcome.COMPLETED)
        while True:
            await self._session.prepare(self._conversation)
            await self._deliver()
            if (result := self._stopped() or self._limited() or await self._guarded()) is not None:
                return await self._ended(result)
            manual = await self._session.manual_round(self._conversation)
            config = self._session.config()
            before = await self._refreshed(config)
            room = await self._make_room(config, before, manual)
            if room is RoomResult.NONE:
                return RunResult(RunOutcome.FAILED, self._compactor.problem)
            if room is not RoomResult.ENOUGH:
                # It took a while: there may be new messages, or a stop.
                continue
            with self._limits.deadline():
                step = await self._make_step(config, before)
            if (result := await self._take(step)) is not None:
                return result

    async def _finish(self, waiting: WaitingStep) -> StepResult:
        """Finishes the step that was left waiting, before anything else happens."""
        self._waiting = None
        with self._limits.deadline():
            result = await self._step.go_on(waiting, self._session.config())
        self._progress.run_steps += 1
        self._progress.add(result.usage, result.known_cost_usd)
        return result

    async def _deliver(self) -> bool:
        """Appends pending steering messages to the conversation and says whether there were any; this clears an
        interrupt by a message."""
        if self._interrupt.ends_run or not (self._message_source.waiting or self._interrupt.reason == "interrupt"):
            return False
        messages = await self._message_source.deliver()
        self._interrupt.clear()
        for message in messages:
            self._conversation.append(message)
            self._cut_off = self._was_empty = False
        return bool(messages)

    async def _refreshed(self, config: AgentConfig) -> list[Change]:
        """Brings the conversation's generation up to date; returns the changes to record before the next step."""
        opened = await self._conversation.refresh(config)
        return [] if opened is None else [opened]

    async def _make_room(self, config: AgentConfig, before: list[Change], manual: ManualRound | None) -> RoomResult:
        """Makes the context smaller if that is due or was requested."""
        with self._limits.deadline():
            if manual is None:
                return await self._fit(config, before)
            await self._flush(before)
            room = await self._compactor.manual(config, manual)
        self._progress.add(self._compactor.take_usage())
        return RoomResult.MADE if room is RoomResult.ENOUGH else room

    async def _fit(self, config: AgentConfig, before: list[Change]) -> RoomResult:
        cold = any(isinstance(c, GenerationOpened) and c.generation.reason == "model" for c in before)
        room = await self._compactor.make_room(config, self._progress.steps, lambda: self._flush(before), cold=cold)
        self._progress.add(self._compactor.take_usage())
        return room

    async def _flush(self, before: list[Change]) -> None:
        """Records the changes that wait for the next step, because something else comes first."""
        if before:
            await self._sink.record(*before)
            before.clear()

    async def _make_step(self, config: AgentConfig, before: list[Change], refusal: str | None = None) -> StepResult:
        """`refusal` is the result for calls that must not run."""
        last = self._conversation.last
        if last is not None and last.role is Role.ASSISTANT:
            # No provider answers an assistant message: a run that continues after one needs a control message.
            kind: ControlKind = "continue" if self._cut_off else "interrupted" if self._continues else "resume"
            await self._conversation.say(kind, self._sink)
        self._continues = False
        if (repaired := await self._conversation.settle()) is not None:
            before.append(repaired)
        config = self._answer_room.of_step(config)
        self._progress.steps += 1
        self._progress.run_steps += 1
        result = await self._step.run(self._progress.steps, config, before, refusal)
        self._progress.add(result.usage, result.known_cost_usd)
        return result

    async def _take(self, step: StepResult) -> RunResult | None:
        """What a step's outcome means for the run; None if it continues."""
        if step.outcome is Outcome.FAILED:
            await self._compactor.revert_guesses()
        elif step.outcome not in (Outcome.OVERFLOWED, Outcome.STOPPED):
            self._compactor.keep_guesses()
        match step.outcome:
            case Outcome.STOPPED:
                self._cut_off = False
                return None
            case Outcome.RAN_TOOLS:
                self._cut_off = self._was_empty = False
                return await self._after_tools() if self._session.config().has_output else None
            case Outcome.FINISHED if step.is_empty and not self._session.config().has_output:
                return await self._after_empty()
            case Outcome.FINISHED:
                return await self._after_text() if self._session.config().has_output else await self._finished()
            case Outcome.CUT_OFF:
                return self._after_cut_off()
            case Outcome.OVERFLOWED:
                return await self._after_overflow(step.overflow)
            case Outcome.REFUSED | Outcome.FAILED:
                return RunResult(RunOutcome.FAILED, step.error)

    async def _finished(self) -> RunResult | None:
        """A finished run stays finished, even if a limit or a shutdown came with its last message."""
        await self._session.before_end()
        return None if await self._deliver() else RunResult(RunOutcome.COMPLETED)

    async def _after_tools(self) -> RunResult | None:
        """Ends a run whose output was accepted, or was invalid too often."""
        if is_submitted(self._conversation.history):
            return await self._finished()
        error = invalid_output(self._conversation.history)
        return None if error is None or await self._deliver() else RunResult(RunOutcome.FAILED, error.problem())

    async def _after_text(self) -> RunResult | None:
        """Asks once for the output that has to come instead of a text."""
        await self._session.before_end()
        if await self._deliver():
            return None
        if (error := missing_output(self._conversation.history)) is not None:
            return RunResult(RunOutcome.FAILED, error.problem())
        await self._conversation.say("submit_output", self._sink)
        return None

    async def _after_empty(self) -> RunResult | None:
        """Asks once for an answer in place of one with neither text nor a call."""
        await self._session.before_end()
        if await self._deliver():
            return None
        if self._was_empty:
            error = ProviderError(
                "The model answered with neither text nor a call, twice in a row.", code="empty_answer"
            )
            return RunResult(RunOutcome.FAILED, error.problem())
        self._was_empty = True
        await self._conversation.say("empty_answer", self._sink)
        return None

    def _after_cut_off(self) -> RunResult | None:
        """An answer that was cut off is continued once; a model cut off twice in a row will not finish."""
        if self._cut_off:
            error = ProviderError("The answer was cut off at the output limit twice in a row.", code="output_limit")
            return RunResult(RunOutcome.FAILED, error.problem())
        self._cut_off = True
        return None

    async def _after_overflow(self, error: ContextOverflowError | None) -> RunResult | None:
        """Makes the next step fit after the provider refused one: with a smaller output reserve, else with a smaller
        context."""
        config = self._session.config()
        is_guess = error is not None and error.guess
        if (not is_guess and self._answer_room.helps(error, config, self._conversation)) or await self._refits(config):
            return None
        with self._limits.deadline():
            room = await self._compactor.after_overflow(config, self._progress.steps, is_guess=is_guess)
        self._progress.add(self._compactor.take_usage())
        if room is RoomResult.NONE:
            if not is_guess:
                return RunResult(RunOutcome.FAILED, self._compactor.problem)
            self._step.not_shrunk()
        return None

    async def _refits(self, config: AgentConfig) -> bool:
        """Whether the conversation fits with the tools and system text for the window as it is known now: a window
        smaller than assumed has fewer tools."""
        opened = await self._refreshed(config)
        if not opened:
            return False
        await self._flush(opened)
        return self._conversation.estimate <= config.budget.usable

    async def close(self) -> None:
        """Cleans up the context after the run, even if it failed."""
        await self._compactor.end_of_run(self._session.config())

    def _stopped(self) -> RunResult | None:
        self._interrupt.step_ended()
        match self._interrupt.reason:
            case "cancel":
                return RunResult(RunOutcome.CANCELLED)
            case "shutdown":
                return RunResult(RunOutcome.INTERRUPTED, parked=True)
            case "limit":
                if (error := self._limits.timed_out()) is not None:
                    return _at_limit(error)
                # The limit was raised or lifted while it ended the step.
                self._interrupt.lift()
        return None

    def _limited(self) -> RunResult | None:
        error = self._limits.reached()
        if error is None and self._is_over:
            # Its time ended before a restart; no step is running that the deadline could end.
            error = self._limits.timed_out()
        return _at_limit(error) if error is not None else None

    async def _guarded(self) -> RunResult | None:
        """Warns a model that repeats itself, and ends its run if that does not help."""
        match self._guard.look(self._conversation.history):
            case Verdict.TELL:
                await self._conversation.say("loop_guard", self._sink)
            case Verdict.END:
                return _at_limit(in_circles())
        return None

    async def _ended(self, result: RunResult) -> RunResult:
        """Lets the model sum up before a limit ends the run: in one step, with unchanged tools so that the provider's
        cache holds, but without running their calls. Skipped if the run has made no step (it began beyond a session
        limit) and if a restart interrupted this step."""
        if result.outcome is not RunOutcome.LIMIT_REACHED or self._is_over:
            return result
        if self._last_step_s == 0 or self._progress.run_steps == 0:
            return result
        self._is_over = True
        self._interrupt.lift()
        with self._limits.within(self._last_step_s):
            await self._last_word(of_session=(result.error or {}).get("code") in SESSION_LIMITS)
        self._interrupt.lift()
        return self._stopped() or result

    async def _last_word(self, *, of_session: bool) -> None:
        """Makes the last step, in a context that fits; skipped without room, or without time to make it. `of_session`
        says whether the limit is the session's rather than the run's."""
        room = RoomResult.MADE
        while self._interrupt.reason is None and room is not RoomResult.NONE:
            config = self._session.config()
            before = await self._refreshed(config)
            room = await self._fit(config, before)
            if room is RoomResult.ENOUGH:
                await self._conversation.say("last_step_of_session" if of_session else "last_step", self._sink)
                await self._make_step(config, before, NOT_RUN_IN_SESSION if of_session else NOT_RUN)
                return


def _at_limit(error: LimitReached) -> RunResult:
    return RunResult(RunOutcome.LIMIT_REACHED, error.problem())
