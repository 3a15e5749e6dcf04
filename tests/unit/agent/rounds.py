"""A conversation that is too large for its window, and the compactor working on it."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from app.agent.changes import Change, RoundCompleted, RoundEnded, RungFailed
from app.agent.compaction.compactor import Compactor
from app.agent.compaction.ladder import Ladder, RoundSetup
from app.agent.compaction.rounds import (
    BackgroundSlots,
    Candidate,
    RoomResult,
    Round,
    Target,
    candidate,
    prunable,
    selection,
)
from app.agent.compaction.triggers import ManualRound
from app.agent.conversation import Conversation
from app.agent.interrupt import Interrupt
from app.agent.model_calls import ModelCalls, Windows
from app.agent.protocols import AgentConfig
from app.agent.record import StoredConversation
from app.context.budget import Budget
from app.context.policies import CompactionSettings, Policy, preset
from app.context.selection import Selection
from app.context.shrinking import PruneBatch
from app.context.tokens import Calibration, counted_tokens
from app.llm.base import Provider, ToolSchema
from app.messages import Message, Role, Usage
from app.sessions import Rung
from tests.unit.agent.changes import refreshed_here
from tests.unit.agent.scenes import MODEL, Reply, Script, config, price, says
from tests.unit.agent.sinks import KeptSink
from tests.unit.context import builders as b

USABLE = 10_000
SMALL = b.budget_of(USABLE)

PROSE = "## Next Step\nGo on with the next file." + " It is the one after this." * 15
"""About as long as the shortest summary that a model is asked for."""
SUMMARY = says(PROSE)

UNPRUNED = ("execute_command",)
"""As exempt tools: nothing of these histories may be cleared."""


def settings_of(policy: Policy = "reactive", **changes: Any) -> CompactionSettings:
    """A policy's settings; rounds are made when they are due unless `background` says otherwise, and `reactive` clears
    first."""
    update = {"background": False, "clear_first": policy == "reactive", **changes}
    return preset(policy).model_copy(update={**update, "given": tuple(update)})


def models_of(
    script: Provider,
    *,
    resolve: Callable[[str], tuple[Provider, str]] | None = None,
    windows: Windows | None = None,
) -> ModelCalls:
    return ModelCalls(resolve or (lambda _: (script, "one-2026")), price, 3, random.Random(7), windows)


def counted(message: Message) -> Message:
    """The message with its tokens, as it is stored."""
    return message.model_copy(update={"tokens": counted_tokens(message)})


class Watched(Message):
    """A message that counts how often its fields are read."""

    reads: ClassVar[int] = 0
    thread: ClassVar[int | None] = None
    """Where a read must come from to count, if set."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("parts", "role", "seq", "is_summary") and Watched.thread in (None, threading.get_ident()):
            Watched.reads += 1
        return super().__getattribute__(name)


def watched(message: Message) -> Message:
    return Watched(**{name: getattr(message, name) for name in Message.model_fields})


def old_turn(steps: int = 60, tokens: int = 300) -> list[Message]:
    """A long turn and two short ones after it. All its outputs are old then; with `CLEARING`, some of them fit the tail
    once cleared."""
    history = b.long_task(steps, tokens)
    for _ in range(2):
        seq = history[-1].seq + 1
        history += [b.user(seq, "Go on."), b.message(Role.ASSISTANT, seq + 1, b.text("Well."))]
    return [*history, b.user(history[-1].seq + 1, "And now?")]


CLEARING = preset("reactive").model_copy(update={"clear_first": True, "prune_protect": 0, "prune_minimum": 0})
"""Clears everything old."""


class Tight:
    """A conversation in a small window. The model plays a script, and what happens is recorded in `sink`; `window` is
    the model's window as stated when a summary is requested."""

    def __init__(
        self,
        *replies: Reply,
        history: Sequence[Message] | None = None,
        settings: CompactionSettings | None = None,
        budget: Budget = SMALL,
        window: int = 200_000,
        calibration: float = 1.0,
    ) -> None:
        self.script, self.sink, self.interrupt = Script(*replies), KeptSink(), Interrupt()
        self.settings = settings or settings_of(prune_exempt_tools=UNPRUNED)
        self.budget, self.model, self.system = budget, MODEL, "You are an agent."
        self.tools: tuple[ToolSchema, ...] = ()
        given = [counted(message) for message in (b.long_task(12, 1_000) if history is None else history)]
        self.conversation = Conversation(StoredConversation(given), (), Calibration(calibration))
        refreshed_here(self.conversation, self.config)
        self.ladder = Ladder(self.sink, self.conversation, models_of(self.script), lambda _: window)
        self.notes: asyncio.Event | None = None
        self.taken = 0
        self.budgets: dict[Policy, Budget] = {}
        self.background_slots = BackgroundSlots()
        self.compactor = self.another_compactor()
        self.begun = 0

    def another_compactor(self, *, unused: int = 0) -> Compactor:
        """A compactor without any state, as after a restart."""
        rounds = RoundSetup(
            self.sink,
            self.conversation,
            self.ladder,
            self.interrupt,
            self._refreshed,
            self._take_notes,
            self._budget_of,
            background_slots=self.background_slots,
        )
        return Compactor(rounds, unused=unused)

    @property
    def config(self) -> AgentConfig:
        return config(self.model, budget=self.budget, settings=self.settings, tools=self.tools, system=self.system)

    async def _refreshed(self, config: AgentConfig) -> AgentConfig:
        """Reads the notes: waits until `notes` is set, if there is one."""
        if self.notes is not None:
            await self.notes.wait()
        return replace(config, system=self.system)

    def _budget_of(self, model: str, settings: CompactionSettings) -> Budget:
        """The session's budget, unless a test sets another one for other settings."""
        return self.budgets.get(settings.policy, self.budget)

    async def _take_notes(self) -> None:
        self.taken += 1

    async def _begin(self) -> None:
        self.begun += 1

    async def make_room(self, step: int = 1) -> RoomResult:
        return await self.compactor.make_room(self.config, step, self._begin)

    async def overflow(self, step: int = 1) -> RoomResult:
        return await self.compactor.after_overflow(self.config, step)

    async def manual(self, settings: CompactionSettings, instructions: str | None = None) -> RoomResult:
        asked = ManualRound(7, settings, instructions)
        return await self.compactor.manual(self.config, asked)

    def refresh(self) -> None:
        """Applies configuration changes, as before a step."""
        refreshed_here(self.conversation, self.config)

    def reports(self, tokens: int) -> None:
        """A step has reported a context of this size."""
        self.conversation.observe(Usage(input_tokens=tokens))
        self.conversation.answered()

    def grow(self, steps: int, tokens: int = 1_000) -> None:
        """Adds steps with an output of `tokens` tokens each."""
        seq = self.conversation.history[-1].seq + 1
        for number in range(steps):
            for message in b.long_step(seq + 2 * number, f"c{seq + 2 * number}", tokens):
                self.conversation.append(counted(message))

    def selection(self, round: Round | None = None, *, urgent: bool = False) -> Selection:
        found = selection(self.conversation, round or self.round(), urgent=urgent)
        assert found is not None
        return found

    def round(self, target: int = USABLE, *, number: int = 1, **more: Any) -> Round:
        wanted = Target(target, self.conversation.estimate)
        return Round(number, self.config, self.settings, wanted, **more)

    def candidate(self, round: Round, selection: Selection, prose: str, rung: Rung) -> Candidate:
        return candidate(self.conversation, round, selection, prose, rung)

    @property
    def clearable(self) -> PruneBatch | None:
        """Old outputs that may be cleared now."""
        return prunable(self.conversation, self.budget, self.settings)

    @property
    def snapshot(self) -> tuple[object, ...]:
        """What a failed round must leave unchanged."""
        conversation = self.conversation
        return (
            [message.id for message in conversation.history],
            conversation.in_force,
            conversation.generation,
            [message.id for message in conversation.transcript.messages],
        )

    @property
    def rungs(self) -> list[str]:
        """The result of each rung, in order, and how a round ended."""
        return [said for change in self.sink.changes if (said := _said(change))]


def _said(change: Change) -> str:
    match change:
        case RungFailed():
            return f"{change.rung}: {change.code}"
        case RoundCompleted():
            return f"{change.rung}: completed"
        case RoundEnded():
            return change.status
    return ""
