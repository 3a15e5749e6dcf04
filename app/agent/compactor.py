"""Keeps a conversation within its model's window: sees a round of compaction through, from its trigger to its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from app.agent.apart import apart
from app.agent.conversation import AgentConfig, Conversation
from app.agent.coverage import asked_selection, is_hopeless, prunable, selection
from app.agent.faults import RungCode
from app.agent.interrupt import Interrupt, Stopped
from app.agent.ladder import Ladder
from app.agent.lull import Lull
from app.agent.pace import Pace
from app.agent.ports import RoundEnded, RoundOpening, RungFailed, Sink
from app.agent.prepared import Background, Places
from app.agent.rounds import Candidate, Round, Target
from app.agent.triggers import due, is_near, most
from app.context.policies import CompactionSettings
from app.context.selection import Selection
from app.context.shrinking import largest_fixed
from app.errors import ProviderError
from app.messages import Usage
from app.sessions import CompactionReason, PruneReason, Rung

OVERFLOW_SHARE = 0.9
"""Share of a refused request's own estimate that the next one may have: a wrong estimator still ends."""

NOTHING: tuple[RungCode, str] = ("nothing_to_compact", "Nothing in the context is old enough to be summarised.")
"""Code and detail of a round that somebody asked for too early."""


class Room(Enum):
    """What became of a context that was looked at; `REVERTED` is one of which a round was taken back while it was being
    made smaller, so that it has to be looked at again."""

    ENOUGH = "enough"
    MADE = "made"
    REVERTED = "reverted"
    STOPPED = "stopped"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class ManualRound:
    """A round that somebody asked for; its number was given when it was accepted."""

    number: int
    settings: CompactionSettings
    instructions: str | None = None


class Compactor:
    """One conversation's."""

    def __init__(
        self,
        sink: Sink,
        conversation: Conversation,
        ladder: Ladder,
        interrupt: Interrupt,
        *,
        refreshed: Callable[[AgentConfig], Coroutine[Any, Any, AgentConfig]],
        taken: Callable[[], Awaitable[None]] | None = None,
        places: Places | None = None,
    ) -> None:
        """`refreshed` gives a configuration with the workspace's standing notes read again, which a new checkpoint
        takes into its system text; `taken` is awaited when one does. `places` are those of summaries in the
        background."""
        self._sink = sink
        self._conversation = conversation
        self._ladder = ladder
        self._interrupt = interrupt
        self._refreshed = refreshed
        self._taken = taken
        self._background = Background(
            sink, conversation, ladder, interrupt, refreshed=refreshed, places=places or Places()
        )
        self._pace = Pace()
        self._lull = Lull()
        self._step = 0
        self._usage = Usage()
        self.problem: dict[str, Any] | None = None
        """Why there is no room, after `Room.NONE`."""

    def take_usage(self) -> Usage:
        """What its model calls have cost since the last call."""
        usage, self._usage = self._usage + self._background.take_usage(), Usage()
        return usage

    async def make_room(
        self, config: AgentConfig, step: int, begin: Callable[[], Awaitable[None]], *, cold: bool = False
    ) -> Room:
        """Sees to it that the next request fits. Where the policy alone asks for a round and nothing is old enough for
        it, the step is made as it is. `begin` is called before anything is changed. `cold` is a request of which the
        provider's cache knows nothing, so that clearing old outputs costs nothing."""
        self._step = step
        reason = due(self._conversation, config)
        await self._background.discard_unfit(config)
        if reason is None:
            self._lull.end()
            if cold:
                await self._clear(config, "model_change", begin)
            await self._background.begin(config)
            return Room.ENOUGH
        if reason == "threshold" and self._lull.lasts(self._conversation, config):
            return Room.ENOUGH
        await begin()
        before = max(self._conversation.estimate, self._conversation.state(config.budget).tokens)
        target = Target(most(config.budget, config.settings), before)
        return await self._make(config, reason, target, must=reason != "threshold")

    async def after_overflow(self, config: AgentConfig, step: int) -> Room:
        """Makes the context smaller after the provider has refused it."""
        self._step = step
        refused = self._conversation.estimate
        wanted = min(int(refused * OVERFLOW_SHARE), most(config.budget, config.settings))
        return await self._make(config, "provider_overflow", Target(wanted, refused), must=True)

    async def manual(self, config: AgentConfig, asked: ManualRound) -> Room:
        """Makes the round that somebody asked for, whatever the size of the context."""
        await self.discard()
        settings = asked.settings
        target = Target(most(config.budget, settings), self._conversation.size)
        batch = await apart(self._conversation.rows, prunable, self._conversation, config.budget, settings)
        round = Round(asked.number, config, settings, target, batch, asked.instructions)
        covered = await apart(self._conversation.rows, asked_selection, self._conversation, round)
        if covered is None:
            await self._sink.record(RungFailed(asked.number, "summary", *NOTHING, Usage(), None))
            return Room.ENOUGH
        room = await self._climb(round, covered, "summary", asked=True)
        # Nothing depends on a round that somebody asked for: a run goes on with the context as it was.
        return Room.ENOUGH if room is Room.NONE else room

    async def end_of_run(self, config: AgentConfig) -> None:
        """Clears old outputs where a trigger is near, now that nobody waits; gives up what is being prepared."""
        await self.discard()
        conversation = self._conversation
        if conversation.has_generation and is_near(conversation, config):
            await self._clear(config, "run_end")

    async def _clear(
        self, config: AgentConfig, reason: PruneReason, begin: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Clears old outputs where that is worthwhile, though nothing has to be smaller; `begin` is called before."""
        conversation = self._conversation
        batch = await apart(conversation.rows, prunable, conversation, config.budget, config.settings)
        if batch is None:
            return
        if begin is not None:
            await begin()
        in_force = conversation.in_force.clearing(batch.call_ids)
        after = await apart(conversation.rows, conversation.measure, in_force, config=config)
        await self._ladder.prune(config, batch, reason, conversation.estimate, after)

    async def discard(self) -> None:
        """Gives up the summary that is being prepared."""
        await self._background.discard()

    async def _make(self, config: AgentConfig, reason: CompactionReason, target: Target, *, must: bool) -> Room:
        """One round from its trigger to its end, by the mildest means that does; `must` is one without which there is
        no next step."""
        conversation = self._conversation
        if conversation.fixed(config) >= target.tokens:
            return self._no_room(config) if must else self._none_for_now(config)
        batch = await apart(conversation.rows, prunable, conversation, config.budget, config.settings)
        round = Round(conversation.round + 1, config, config.settings, target, batch)
        if await self._prune(round):
            return Room.MADE
        swapped = await self._swap_in(round)
        if swapped is not None:
            return swapped
        covered = await apart(conversation.rows, selection, conversation, round)
        if covered is None and must:
            covered = await apart(conversation.rows, selection, conversation, round, urgent=True)
        if covered is None or await apart(conversation.rows, is_hopeless, conversation, round, covered):
            return self._no_room(config) if must else self._none_for_now(config)
        return await self._open(round, reason, covered, must=must)

    def _none_for_now(self, config: AgentConfig) -> Room:
        """The context fits the window; that the policy would like it smaller is no reason to end."""
        self._lull.begin(self._conversation, config)
        return Room.ENOUGH

    async def _prune(self, round: Round) -> bool:
        """Clears the round's outputs if that alone is enough."""
        if round.batch is None:
            return False
        in_force = self._conversation.in_force.clearing(round.cleared)
        after = await apart(self._conversation.rows, self._conversation.measure, in_force, config=round.config)
        if not round.target.accepts(after):
            return False
        await self._ladder.prune(round.config, round.batch, "trigger", round.target.before, after)
        return True

    async def _swap_in(self, round: Round) -> Room | None:
        """Makes the prepared summary the context if it fits; None where there is none that does."""
        try:
            ready = await self._background.ready(round)
        except Stopped:
            return Room.STOPPED
        if ready is None:
            return None
        if not await self._commit(ready.round, ready.made, ready.usage):
            return Room.REVERTED
        self._pace.note(self._step, ready.round.target, ready.made.tokens)
        return Room.MADE

    async def _open(self, round: Round, reason: CompactionReason, covered: Selection, *, must: bool) -> Room:
        """Begins a round, which gets its number, and sees it through."""
        opening = RoundOpening(reason, round.settings.policy, round.target.before, round.budget.limit)
        opened = replace(round, number=await self._sink.open_round(opening))
        start = self._pace.first_rung(self._step)
        room = await self._climb(opened, covered, start)
        if room is Room.NONE and not must:
            self._pace.note(self._step, round.target, round.target.before)
            room = self._none_for_now(round.config)
        if start != "summary":
            self._pace.start_over()
        return room

    async def _climb(self, round: Round, covered: Selection, start: Rung, *, asked: bool = False) -> Room:
        """Takes a round through the ladder. A cancel leaves everything as it was. The notes are read before, so that
        what is measured is what will be sent; model, tools and budget stay those that the round began with."""
        summarizer = self._ladder.summarizer()
        try:
            config = await self._interrupt.guard(self._refreshed(round.config), patient=True)
            round = replace(round, config=config)
            climb = self._ladder.climb(round, covered, summarizer, start=start)
            made = await self._interrupt.guard(climb, patient=True)
        except Stopped:
            await self._sink.record(RoundEnded(round.number, "cancelled", summarizer.usage))
            return Room.STOPPED
        finally:
            self._usage = self._usage + summarizer.usage
        if made is None:
            return self._no_room(round.config)
        if not await self._commit(round, made, summarizer.usage):
            return Room.REVERTED
        await self._recount(round)
        if not asked:
            self._pace.note(self._step, round.target, made.tokens)
        return Room.MADE

    async def _commit(self, round: Round, made: Candidate, usage: Usage) -> bool:
        """Makes a candidate the context, and its notes the session's; see `Ladder.commit`. The notes come first: after
        a crash in between the next step takes them in."""
        if self._taken is not None:
            await self._taken()
        return await self._ladder.commit(round, made, usage)

    async def _recount(self, round: Round) -> None:
        """Has the provider count the new context, where the settings want that."""
        if round.settings.policy != "handoff" or not round.settings.recount_probe:
            return
        summarizer = self._ladder.summarizer()
        request = self._conversation.sound_request(round.config)
        try:
            tokens = await self._interrupt.guard(summarizer.count(request), patient=True)
        except Stopped:
            return
        finally:
            self._usage = self._usage + summarizer.usage
        if tokens is not None:
            self._conversation.recounted(tokens)

    def _no_room(self, config: AgentConfig) -> Room:
        """Says what is too large, since nothing can be made smaller any more."""
        tokens, limit = self._conversation.estimate, config.budget.limit
        conversation = self._conversation
        messages, history = conversation.transcript.messages, conversation.history
        name, size = largest_fixed(conversation.generation, messages, history, conversation.task_id)
        error = ProviderError(
            f"The context of about {tokens:,} tokens does not fit the model's window of {limit:,}, and cannot be made"
            f" smaller: the largest part is the {name} with about {size:,} tokens. Shorten it, or take a model with a"
            " larger window.",
            code="context_too_large",
        )
        self.problem = {**error.problem(), "tokens": tokens, "limit": limit, "part": name, "part_tokens": size}
        return Room.NONE
