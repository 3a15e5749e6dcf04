"""A summary that is made in the background while the agent keeps working."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from app.agent.changes import RoundEnded, RoundOpening, RungFailed, SummaryFailed
from app.agent.compaction.ladder import RoundSetup
from app.agent.compaction.rounds import ROOMY, Candidate, Round, Target, candidate, may_be_cleared, prunable, selection
from app.agent.compaction.summarizer import Summarizer
from app.agent.compaction.triggers import LITTLE, Cooldown, is_at_work, is_coming
from app.agent.conversation import run_off_loop
from app.agent.interrupt import INSIST_S, Stopped
from app.agent.protocols import AgentConfig
from app.context.budget import trigger
from app.context.selection import Selection
from app.llm.base import ModelRequest
from app.messages import Usage

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Ready:
    """A background summary that fits: its round and the resulting context."""

    round: Round
    made: Candidate


class Background:
    """Prepares one summary at a time for a conversation. Its cost counts while it is written, so that limits apply to
    it."""

    def __init__(self, setup: RoundSetup, *, unused: int = 0) -> None:
        """`unused` is the context's size in tokens when the last unneeded summary for what is in force was begun, 0
        without one. If all slots are taken, the summary is made when it is due."""
        self._setup = setup
        self._conversation = setup.conversation
        self._summary: BackgroundSummary | None = None
        self._cooldown = Cooldown()
        self._usage = Usage()
        self._unused = setup.conversation.in_force.checkpoints, unused

    @property
    def unused(self) -> int:
        """See `__init__`."""
        base, tokens = self._unused
        return tokens if base == self._conversation.in_force.checkpoints else 0

    def take_usage(self) -> Usage:
        """Usage since the last call."""
        if self._summary is not None:
            self._usage = self._usage + self._summary.take_usage()
        usage, self._usage = self._usage, Usage()
        return usage

    async def begin(self, config: AgentConfig) -> None:
        """Begins a summary if the trigger is near. If old outputs can be cleared, that comes first at the trigger, and
        takes no time."""
        conversation = self._conversation
        if not config.settings.background or self._summary is not None or not self._is_coming(config):
            return
        if self._cooldown.lasts(conversation, config):
            return
        if await run_off_loop(conversation.rows, prunable, conversation, config.budget, config.settings) is not None:
            # What can be cleared now can be cleared until a generation begins.
            self._cooldown.begin(conversation, config, for_good=True)
            return
        if await run_off_loop(conversation.rows, may_be_cleared, conversation, config.budget, config.settings):
            self._cooldown.begin(conversation, config)
            return
        before = max(conversation.estimate, conversation.state(config.budget).tokens)
        target = Target(config.budget.usable, before)
        round = Round(conversation.round + 1, config, config.settings, target)
        await self._setup.know_past()
        found = await run_off_loop(conversation.rows, selection, conversation, round)
        if found is None or not await self._frees_much(round, found):
            self._cooldown.begin(conversation, config)
            return
        # Checked last, so that only a summary that would have been begun counts as refused.
        if not self._setup.background_slots.has_room():
            self._cooldown.begin(conversation, config)
            return
        self._prepare(round, found)

    def _prepare(self, round: Round, covered: Selection) -> None:
        background_slots = self._setup.background_slots
        background_slots.take()
        self._summary = BackgroundSummary(self._setup, round, covered)
        self._summary.when_done(background_slots.give_back)

    def _is_coming(self, config: AgentConfig) -> bool:
        """Whether the trigger is so near, and the run so likely to continue, that a summary may well be needed."""
        return is_at_work(self._conversation) and is_coming(self._conversation, config, self.unused)

    async def _frees_much(self, round: Round, covered: Selection) -> bool:
        """Whether a summary would leave room to work in, even once the trigger is reached."""
        conversation = self._conversation
        made = await run_off_loop(conversation.rows, candidate, conversation, round, covered, "", "summary")
        return round.target.before - made.tokens >= (1 - ROOMY) * trigger(round.budget, round.settings)

    async def discard_unfit(self, config: AgentConfig) -> None:
        """Discards a summary made for another base, model or settings."""
        if self._summary is not None and not self._summary.fits(config):
            await self.discard()

    async def ready(self, round: Round) -> Ready | None:
        """The background summary for a round that is due, awaited if necessary; None if none still fits the context it
        was made from and leaves some room after what came since. Raises `Stopped`, with the summary discarded."""
        prepared = self._summary
        if prepared is None:
            return None
        try:
            config, fits = round.config, prepared.fits(round.config)
            opened = await self._setup.interrupt.guard(prepared.result(), patient=True) if fits else None
            if opened is not None:
                config = await self._setup.interrupt.guard(self._setup.refreshed(config), patient=True)
        except Stopped:
            await self.discard()
            raise
        if opened is not None:
            due = replace(opened, config=config, target=round.target, batch=round.batch)
            made = await self._candidate(due, prepared)
            if due.target.accepts(made.tokens) and made.tokens <= (1 - LITTLE) * due.target.tokens:
                self._usage, self._summary = self._usage + prepared.take_usage(), None
                return Ready(due, made)
        await self.discard()
        return None

    async def _candidate(self, due: Round, prepared: BackgroundSummary) -> Candidate:
        conversation, covered = self._conversation, prepared.selection
        return await run_off_loop(conversation.rows, candidate, conversation, due, covered, prepared.prose, "summary")

    async def discard(self) -> None:
        """Discards the summary that is being prepared."""
        prepared, self._summary = self._summary, None
        if prepared is None:
            return
        self._unused = prepared.base, prepared.tokens
        number = await prepared.stop()
        self._usage = self._usage + prepared.take_usage()
        if number is not None:
            await self._setup.sink.record(RoundEnded(number, "discarded"))


class BackgroundSummary:
    """One summary; starts on construction. `prose` is set once `result` has given a round."""

    def __init__(self, setup: RoundSetup, round: Round, selection: Selection) -> None:
        conversation = setup.conversation
        self.selection = selection
        self.prose = ""
        self._sink, self._ladder = setup.sink, setup.ladder
        self._round = round
        self.base = conversation.in_force.checkpoints
        self.tokens = round.target.before
        self._conversation = conversation
        self._failed = False
        self._summarizer: Summarizer | None = None
        self._taken = Usage()
        before, limit = round.target.before, round.budget.limit
        opening = RoundOpening("threshold", round.settings.policy, before, limit, background=True)
        self._number = asyncio.ensure_future(setup.sink.open_round(opening))
        # The current request: once the round has its number, a step may have calls without results. It has its own
        # cache, since it may be sent again when the steps running meanwhile are further on.
        request = conversation.sound_request(round.config)
        work = self._run(replace(request, wire_cache=dict(request.wire_cache)))
        self._task = asyncio.create_task(work, name="background-summary")

    def when_done(self, callback: Callable[[], None]) -> None:
        """Calls `callback` when the work has ended, in whatever way."""
        self._task.add_done_callback(lambda _: callback())

    def take_usage(self) -> Usage:
        """Its cost since the last call."""
        usage, taken = self._usage, self._taken
        self._taken = usage
        return _difference(usage, taken)

    @property
    def _usage(self) -> Usage:
        return self._summarizer.usage if self._summarizer is not None else Usage()

    async def _run(self, request: ModelRequest) -> Round | None:
        round = replace(self._round, number=await asyncio.shield(self._number))
        self._summarizer = summarizer = self._ladder.summarizer(round)
        try:
            self.prose = await summarizer.prose(self._ladder.job(round, self.selection, request))
            return round
        except SummaryFailed as error:
            failure = error
        except Exception:
            # As in a step: an internal error costs the session no more than this summary.
            log.exception("summary_crashed", model=round.config.model)
            failure = SummaryFailed("internal_error", "Preparing the summary failed inside the service.")
        self._failed = True
        await self._sink.record(
            RungFailed(round.number, "summary", failure.code, failure.detail, summarizer.usage, None)
        )
        return None

    async def result(self) -> Round | None:
        """The round, once its prose is ready; None if the model gave none."""
        return await asyncio.shield(self._task)

    def fits(self, config: AgentConfig) -> bool:
        """Whether the context still begins with what the summary was made from."""
        old = self._round.config
        return (
            self.base == self._conversation.in_force.checkpoints
            and config.model == old.model
            and config.settings == old.settings
        )

    async def stop(self) -> int | None:
        """Ends the work; returns the number of its round if that still has to be closed, None if it has failed. Raises
        the error that kept the round from being opened."""
        self._task.cancel()
        while not (await asyncio.wait({self._task}, timeout=INSIST_S))[0]:
            # HTTP clients may lose a cancellation while they connect.
            self._task.cancel()
        if not self._task.cancelled() and (error := self._task.exception()) is not None:
            raise error
        return None if self._failed else await self._number


def _difference(usage: Usage, before: Usage) -> Usage:
    """The usage between two measurements; its cost is unknown if the later one's is."""
    names = [name for name in Usage.model_fields if name != "cost_usd"]
    counts = {name: getattr(usage, name) - getattr(before, name) for name in names}
    cost = None if usage.cost_usd is None else usage.cost_usd - (before.cost_usd or 0.0)
    return Usage(**counts, cost_usd=cost)
