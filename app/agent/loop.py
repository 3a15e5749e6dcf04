"""The agent's loop: deliver what the user has said, make a step, look at how it ended; until the run is over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from app.agent.compactor import Compactor, ManualRound, Room
from app.agent.conversation import AgentConfig, Conversation
from app.agent.interrupt import Interrupt
from app.agent.ports import Change, ControlAdded, Inbox, Sink
from app.agent.step import Outcome, Step, StepResult
from app.context.prompts import ControlKind, control_text
from app.context.tokens import PER_MESSAGE, estimate_text
from app.errors import PalimpsestError, ProviderError
from app.messages import Message, Role, TextPart, Usage, new_id, now
from app.sessions import Limits
from app.sessions import Outcome as RunOutcome


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended; `parked` is a run that goes on when the server is back, so it has not ended for the session, and
    `void` one whose message was withdrawn before it did anything."""

    outcome: RunOutcome
    error: dict[str, Any] | None = None
    parked: bool = False
    void: bool = False


class LimitReached(PalimpsestError):
    """A limit of the session ended the run; the code names it."""

    status = 409
    code = "limit_reached"
    title = "A limit was reached"


@dataclass(slots=True)
class Progress:
    """What counts against limits: steps of the run; steps in all; usage of the session, and the part of its cost, in
    US dollars, that has a known price."""

    run_steps: int
    steps: int
    usage: Usage
    cost_usd: float

    def add(self, usage: Usage, known_cost_usd: float | None = None) -> None:
        """Counts the usage of model calls; their known cost is theirs where it is not given."""
        self.usage = self.usage + usage
        self.cost_usd += known_cost_usd if known_cost_usd is not None else usage.cost_usd or 0.0


class AgentLoop:
    """One run of a session."""

    def __init__(
        self,
        sink: Sink,
        inbox: Inbox,
        conversation: Conversation,
        step: Step,
        interrupt: Interrupt,
        compactor: Compactor,
        *,
        asked_round: Callable[[], Awaitable[ManualRound | None]],
        config: Callable[[], AgentConfig],
        limits: Callable[[], Limits],
        progress: Progress,
        goes_on: bool,
        elapsed_s: float = 0.0,
    ) -> None:
        """`config` and `limits` are asked before each step, since a session may be changed while it runs. `goes_on` is
        a run with work left from an earlier one; without it there must be a message to begin with. `elapsed_s` is how
        long ago, in seconds, the run began, before a restart of the server."""
        self._sink = sink
        self._inbox = inbox
        self._conversation = conversation
        self._step = step
        self._interrupt = interrupt
        self._compactor = compactor
        self._asked_round = asked_round
        self._config = config
        self._limits = limits
        self._progress = progress
        self._goes_on = goes_on
        self._cut_off = False
        self._refused_limit = 0
        self._started = time.monotonic() - elapsed_s

    async def run(self) -> RunResult:
        """Makes steps until there is a final answer, a limit, a stop or an error that does not pass."""
        if not await self._deliver() and not self._goes_on:
            return self._stopped() or RunResult(RunOutcome.COMPLETED, void=True)
        while True:
            await self._deliver()
            if (result := self._stopped() or self._limited()) is not None:
                return result
            asked = await self._asked_round()
            config = self._config()
            before = self._refreshed(config)
            room = await self._make_room(config, before, asked)
            if room is Room.NONE:
                return RunResult(RunOutcome.FAILED, self._compactor.problem)
            if room is not Room.ENOUGH:
                # It took a while: there may be messages, or a wish to stop.
                continue
            with self._deadline():
                step = await self._make_step(config, before)
            if (result := await self._take(step)) is not None:
                return result

    async def _deliver(self) -> bool:
        """Puts pending steering messages into the conversation and says whether there were any; an interrupting one
        has done its work then."""
        if self._interrupt.ends_run or not (self._inbox.waiting or self._interrupt.reason == "interrupt"):
            return False
        messages = await self._inbox.deliver()
        self._interrupt.clear()
        for message in messages:
            self._conversation.append(message)
            self._cut_off = False
        return bool(messages)

    def _refreshed(self, config: AgentConfig) -> list[Change]:
        """Brings the conversation's generation up to date; the changes belong in front of the next step."""
        opened = self._conversation.refresh(config)
        return [] if opened is None else [opened]

    async def _make_room(self, config: AgentConfig, before: list[Change], asked: ManualRound | None) -> Room:
        """Makes the context smaller where that is due, or asked for."""
        with self._deadline():
            if asked is not None:
                await self._flush(before)
                room = await self._compactor.manual(config, asked)
                self._progress.add(self._compactor.take_usage())
                return Room.MADE if room is Room.ENOUGH else room
            room = await self._compactor.make_room(config, self._progress.steps, lambda: self._flush(before))
        self._progress.add(self._compactor.take_usage())
        return room

    async def _flush(self, before: list[Change]) -> None:
        """Stores what waits for the next step, since something else comes first."""
        if before:
            await self._sink.record(*before)
            before.clear()

    async def _make_step(self, config: AgentConfig, before: list[Change]) -> StepResult:
        last = self._conversation.last
        if last is not None and last.role is Role.ASSISTANT:
            # No provider answers to an answer: a run that goes on after one needs a word of ours.
            await self._say("continue" if self._cut_off else "interrupted" if self._goes_on else "resume")
        self._goes_on = False
        if (mended := self._conversation.settle()) is not None:
            before.append(mended)
        self._refused_limit = config.budget.limit
        self._progress.steps += 1
        self._progress.run_steps += 1
        result = await self._step.run(self._progress.steps, config, before)
        self._progress.add(result.usage, result.known_cost_usd)
        return result

    async def _take(self, step: StepResult) -> RunResult | None:
        """What a step's outcome means for the run; None where it goes on."""
        match step.outcome:
            case Outcome.RAN_TOOLS | Outcome.STOPPED:
                self._cut_off = False
                return None
            case Outcome.FINISHED:
                # What is finished stays finished, even if a limit or a shutdown came with its last word.
                return None if await self._deliver() else RunResult(RunOutcome.COMPLETED)
            case Outcome.CUT_OFF:
                return self._after_cut_off()
            case Outcome.OVERFLOWED:
                return await self._after_overflow()
            case Outcome.REFUSED | Outcome.FAILED:
                return RunResult(RunOutcome.FAILED, step.error)

    def _after_cut_off(self) -> RunResult | None:
        """An answer that ran out of room goes on once; one that does so twice in a row will not end by itself."""
        if self._cut_off:
            error = ProviderError("The answer was cut off at the output limit twice in a row.", code="output_limit")
            return RunResult(RunOutcome.FAILED, error.problem())
        self._cut_off = True
        return None

    async def _after_overflow(self) -> RunResult | None:
        """Makes the context smaller after the provider has refused it, so that the next step fits."""
        refused, config = self._refused_limit, self._config()
        if config.budget.limit < refused and self._conversation.estimate <= config.budget.usable:
            # Only the room for the answer was too large for the window, as it is known now.
            return None
        with self._deadline():
            room = await self._compactor.after_overflow(config, self._progress.steps)
        self._progress.add(self._compactor.take_usage())
        return RunResult(RunOutcome.FAILED, self._compactor.problem) if room is Room.NONE else None

    async def close(self) -> None:
        """Puts the context in order after the run, also after one that failed."""
        await self._compactor.end_of_run(self._config())

    async def _say(self, kind: ControlKind) -> None:
        """Adds a control message to the history and the conversation."""
        message = control_message(kind)
        seq = await self._sink.record(ControlAdded(message))
        self._conversation.append(message.model_copy(update={"seq": seq}))

    def _stopped(self) -> RunResult | None:
        match self._interrupt.reason:
            case "cancel":
                return RunResult(RunOutcome.CANCELLED)
            case "shutdown":
                return RunResult(RunOutcome.INTERRUPTED, parked=True)
            case "limit":
                seconds = self._limits().max_seconds
                if seconds is not None and self._elapsed_s >= seconds:
                    return _limit_result("max_seconds", seconds)
                # It was raised or lifted while it ended the step.
                self._interrupt.lift()
        return None

    @property
    def _elapsed_s(self) -> float:
        return time.monotonic() - self._started

    def _limited(self) -> RunResult | None:
        limits, progress = self._limits(), self._progress
        if limits.max_steps is not None and progress.run_steps >= limits.max_steps:
            return _limit_result("max_steps", limits.max_steps)
        if limits.max_tokens is not None and progress.usage.total_tokens >= limits.max_tokens:
            return _limit_result("max_tokens", limits.max_tokens)
        if limits.max_cost_usd is not None and progress.cost_usd >= limits.max_cost_usd:
            return _limit_result("max_cost_usd", limits.max_cost_usd)
        return None

    @contextmanager
    def _deadline(self) -> Iterator[None]:
        """Ends the step when the run's seconds are over. Set anew for each step, as the limit may be changed."""
        seconds = self._limits().max_seconds
        if seconds is None:
            yield
            return
        left = max(0.0, seconds - self._elapsed_s)
        timer = asyncio.get_running_loop().call_later(left, self._interrupt.fire, "limit")
        try:
            yield
        finally:
            timer.cancel()


def control_message(kind: ControlKind) -> Message:
    """A control message without a seq yet."""
    text = control_text(kind)
    part = TextPart(id=new_id(), index=0, text=text, tokens=estimate_text(text))
    tokens = PER_MESSAGE + part.tokens
    return Message(id=new_id(), seq=0, role=Role.CONTROL, parts=(part,), tokens=tokens, created_at=now())


def _limit_result(code: str, value: float | None) -> RunResult:
    error = LimitReached(f"The run has reached its limit: {code} = {value:g}.", code=code, limit=value)
    return RunResult(RunOutcome.LIMIT_REACHED, error.problem())
