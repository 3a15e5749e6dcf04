"""A summary that is prepared in the background, while the agent works on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

import structlog

from app.agent.apart import apart
from app.agent.candidates import candidate
from app.agent.conversation import AgentConfig, Conversation
from app.agent.coverage import prunable, selection
from app.agent.faults import SummaryFailed
from app.agent.interrupt import Interrupt, Stopped
from app.agent.ladder import Ladder
from app.agent.lull import Lull
from app.agent.ports import RoundEnded, RoundOpening, RungFailed, Sink
from app.agent.rounds import Candidate, Round, Target
from app.agent.triggers import is_coming
from app.context.selection import Selection
from app.llm.base import ModelRequest
from app.messages import Usage

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Places:
    """How many summaries may be prepared at the same time, by all sessions together; `refused` counts those that found
    no place."""

    most: int = 8
    taken: int = 0
    refused: int = 0

    @property
    def full(self) -> bool:
        return self.taken >= self.most

    def take(self) -> None:
        self.taken += 1

    def give_back(self) -> None:
        self.taken -= 1


@dataclass(frozen=True, slots=True)
class Ready:
    """A prepared summary that fits: its round with what that makes of the context, and all that it has cost."""

    round: Round
    made: Candidate
    usage: Usage


class Background:
    """Prepares one summary at a time for a conversation. What it costs counts while it is written, so that no limit is
    passed unseen."""

    def __init__(
        self,
        sink: Sink,
        conversation: Conversation,
        ladder: Ladder,
        interrupt: Interrupt,
        *,
        refreshed: Callable[[AgentConfig], Coroutine[Any, Any, AgentConfig]],
        places: Places,
    ) -> None:
        """`refreshed` gives a configuration with the system text of a new checkpoint. Where all `places` are taken the
        summary is left to be made when it is due."""
        self._places = places
        self._refreshed = refreshed
        self._sink = sink
        self._conversation = conversation
        self._ladder = ladder
        self._interrupt = interrupt
        self._prepared: Prepared | None = None
        self._lull = Lull()
        self._usage = Usage()

    def take_usage(self) -> Usage:
        """What was used since the last call."""
        if self._prepared is not None:
            self._usage = self._usage + self._prepared.take_usage()
        usage, self._usage = self._usage, Usage()
        return usage

    async def begin(self, config: AgentConfig) -> None:
        """Begins a summary where the trigger is near. Where old outputs can be cleared, that comes first at the
        trigger, and takes no time."""
        if not config.settings.background or self._prepared is not None or not is_coming(self._conversation, config):
            return
        conversation = self._conversation
        if self._lull.lasts(conversation, config):
            return
        if self._places.full:
            self._places.refused += 1
            return
        if await apart(conversation.rows, prunable, conversation, config.budget, config.settings) is not None:
            # What can be cleared now, can be until a generation begins.
            self._lull.begin(conversation, config, for_good=True)
            return
        target = Target(config.budget.usable, conversation.estimate)
        round = Round(conversation.round + 1, config, config.settings, target)
        found = await apart(conversation.rows, selection, conversation, round)
        if found is None:
            self._lull.begin(conversation, config)
            return
        self._places.take()
        self._prepared = Prepared(self._sink, self._ladder, conversation, round, found)
        self._prepared.when_done(self._places.give_back)

    async def discard_unfit(self, config: AgentConfig) -> None:
        """Gives up a summary of another base, model or settings."""
        if self._prepared is not None and not self._prepared.fits(config):
            await self.discard()

    async def ready(self, round: Round) -> Ready | None:
        """The prepared summary for a round that is due, waited for if need be; None where there is none that still fits
        what it was made from and is small enough. Raises `Stopped` once it is discarded."""
        prepared = self._prepared
        if prepared is None:
            return None
        try:
            config, fits = round.config, prepared.fits(round.config)
            opened = await self._interrupt.guard(prepared.result(), patient=True) if fits else None
            if opened is not None:
                config = await self._interrupt.guard(self._refreshed(config), patient=True)
        except Stopped:
            await self.discard()
            raise
        if opened is not None:
            due = replace(opened, config=config, target=round.target, batch=round.batch)
            made = await self._candidate(due, prepared)
            if due.target.accepts(made.tokens):
                self._usage, self._prepared = self._usage + prepared.take_usage(), None
                return Ready(due, made, prepared.usage)
        await self.discard()
        return None

    async def _candidate(self, due: Round, prepared: Prepared) -> Candidate:
        conversation, covered = self._conversation, prepared.selection
        return await apart(conversation.rows, candidate, conversation, due, covered, prepared.prose, "summary")

    async def discard(self) -> None:
        """Gives up the summary that is being prepared."""
        prepared, self._prepared = self._prepared, None
        if prepared is None:
            return
        number = await prepared.stop()
        self._usage = self._usage + prepared.take_usage()
        if number is not None:
            await self._sink.record(RoundEnded(number, "discarded", prepared.usage))


class Prepared:
    """One summary; starts on construction. `prose` is there once `result` has given a round."""

    def __init__(
        self, sink: Sink, ladder: Ladder, conversation: Conversation, round: Round, selection: Selection
    ) -> None:
        self.selection = selection
        self.prose = ""
        self._sink = sink
        self._ladder = ladder
        self._round = round
        self._base = conversation.in_force.checkpoints
        self._conversation = conversation
        self._failed = False
        self._summarizer = ladder.summarizer()
        self._taken = Usage()
        before, limit = round.target.before, round.budget.limit
        opening = RoundOpening("threshold", round.settings.policy, before, limit, background=True)
        self._number = asyncio.ensure_future(sink.open_round(opening))
        # The request of now: when the round has its number, a step may have calls that wait for their results.
        work = self._run(conversation.sound_request(round.config))
        self._task = asyncio.create_task(work, name="prepared-summary")

    def when_done(self, tell: Callable[[], None]) -> None:
        """Calls `tell` when its work has ended, however it did."""
        self._task.add_done_callback(lambda _: tell())

    @property
    def usage(self) -> Usage:
        """What it has cost so far."""
        return self._summarizer.usage

    def take_usage(self) -> Usage:
        """What it has cost since the last call."""
        usage, taken = self._summarizer.usage, self._taken
        self._taken = usage
        return _difference(usage, taken)

    async def _run(self, request: ModelRequest) -> Round | None:
        round = replace(self._round, number=await asyncio.shield(self._number))
        try:
            self.prose = await self._summarizer.prose(self._ladder.job(round, self.selection, request))
            return round
        except SummaryFailed as error:
            failure = error
        except Exception:
            # As in a step: a fault of ours costs the session no more than this summary.
            log.exception("summary_crashed", model=round.config.model)
            failure = SummaryFailed("internal_error", "Preparing the summary failed inside the service.")
        self._failed = True
        await self._sink.record(
            RungFailed(round.number, "summary", failure.code, failure.detail, self._summarizer.usage, None)
        )
        return None

    async def result(self) -> Round | None:
        """The round, once its prose is there; None where the model gave none."""
        return await asyncio.shield(self._task)

    def fits(self, config: AgentConfig) -> bool:
        """Whether what it was made from is still what the context begins with."""
        old = self._round.config
        return (
            self._base == self._conversation.in_force.checkpoints
            and config.model == old.model
            and config.settings == old.settings
        )

    async def stop(self) -> int | None:
        """Ends the work; the number of its round where that is still to be closed, None where it has failed. Raises
        what kept the round from being opened."""
        self._task.cancel()
        await asyncio.wait({self._task})
        if not self._task.cancelled() and (error := self._task.exception()) is not None:
            raise error
        return None if self._failed else await self._number


def _difference(usage: Usage, before: Usage) -> Usage:
    """The usage between two readings; its cost is unknown where that of the later one is."""
    names = [name for name in Usage.model_fields if name != "cost_usd"]
    counts = {name: getattr(usage, name) - getattr(before, name) for name in names}
    cost = None if usage.cost_usd is None else usage.cost_usd - (before.cost_usd or 0.0)
    return Usage(**counts, cost_usd=cost)
