"""Keeps a conversation within its model's window: decides when to act, and sees a round through."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from app.agent.conversation import AgentConfig, Conversation
from app.agent.interrupt import Interrupt, Stopped
from app.agent.ladder import Ladder, Round, Target
from app.agent.ports import RoundEnded, RoundOpening, RungFailed, Sink
from app.agent.prepared import Prepared
from app.context.budget import trigger
from app.context.policies import CompactionSettings
from app.context.pruning import PruneBatch
from app.context.selection import Selection
from app.context.shrinking import largest_fixed
from app.errors import ProviderError
from app.messages import Usage
from app.sessions import CompactionReason, Rung

PREPARE_SHARE = 0.8
"""Share of the trigger from which a summary is prepared in the background."""

NEAR_SHARE = 0.9
"""Share of the trigger from which a run's end is a good time to clear old outputs."""

OVERFLOW_SHARE = 0.9
"""Share of a refused request's own estimate that the next one may have: a wrong estimator still ends."""

CROWDED_STEPS = 10
CROWDED_ROUNDS = 3
"""So many rounds within so many steps did not help enough: the next one starts a rung further."""

NOTHING = ("nothing_to_compact", "Nothing in the context is old enough to be summarised.")
"""Code and detail of a round that somebody asked for too early."""

LITTLE = 0.1
"""A round that freed less than this share has freed little."""


class Room(Enum):
    """What became of a context that was looked at."""

    ENOUGH = "enough"
    MADE = "made"
    STOPPED = "stopped"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class ManualRound:
    """A round that somebody asked for; its number was given when it was accepted."""

    number: int
    settings: CompactionSettings
    instructions: str | None = None


@dataclass(frozen=True, slots=True)
class _Past:
    """A round that is over: at which step, and what share of the context it freed."""

    step: int
    freed: float


class Compactor:
    """One conversation's. `usage` collects what its model calls have cost since it was last taken."""

    def __init__(
        self,
        sink: Sink,
        conversation: Conversation,
        ladder: Ladder,
        interrupt: Interrupt,
        *,
        refreshed: Callable[[], Awaitable[AgentConfig]],
    ) -> None:
        """`refreshed` gives the configuration with the workspace's standing notes read again, which a new checkpoint
        takes into its system text."""
        self._sink = sink
        self._conversation = conversation
        self._ladder = ladder
        self._interrupt = interrupt
        self._refreshed = refreshed
        self._past: deque[_Past] = deque(maxlen=CROWDED_ROUNDS)
        self._prepared: Prepared | None = None
        self._step = 0
        self._usage = Usage()
        self.problem: dict[str, Any] | None = None
        """Why there is no room, after `Room.NONE`."""

    def take_usage(self) -> Usage:
        """What was used since the last call."""
        if self._prepared is not None:
            # It counts while it is written, so that no limit is passed unseen.
            self._usage = self._usage + self._prepared.take_usage()
        usage, self._usage = self._usage, Usage()
        return usage

    # Before a step

    async def make_room(self, config: AgentConfig, step: int, begin: Callable[[], Awaitable[None]]) -> Room:
        """Sees to it that the next request fits. Where the policy alone asks for a round and nothing is old enough for
        it, the step is made as it is. `begin` is called before anything is changed."""
        self._step = step
        reason = self._due(config)
        if self._prepared is not None and not self._prepared.fits(config):
            await self.discard()
        if reason is None:
            self._prepare(config)
            return Room.ENOUGH
        await begin()
        before = max(self._conversation.estimate, self._conversation.state(config.budget).tokens)
        return await self._round(config, reason, Target(_most(config), before), must=reason != "threshold")

    async def after_overflow(self, config: AgentConfig, step: int) -> Room:
        """Makes the context smaller after the provider has refused it."""
        self._step = step
        refused = self._conversation.estimate
        wanted = min(int(refused * OVERFLOW_SHARE), _most(config))
        return await self._round(config, "provider_overflow", Target(wanted, refused), must=True)

    def _due(self, config: AgentConfig) -> CompactionReason | None:
        """Why the context is too large now, None where it is not."""
        budget, settings = config.budget, config.settings
        state, estimate = self._conversation.state(budget), self._conversation.estimate
        if max(state.tokens, estimate if state.source != "reported" else 0) > budget.usable:
            return "overflow"
        limit = trigger(budget, settings)
        match settings.policy:
            case "threshold":
                return "threshold" if estimate >= limit else None
            case "handoff":
                early = settings.handoff_threshold > 0 and state.tokens >= limit
                return "threshold" if early else None
        return None

    async def _round(self, config: AgentConfig, reason: CompactionReason, target: Target, *, must: bool) -> Room:
        """One round from its trigger to its end."""
        batch = self._ladder.prunable(config) if config.settings.policy == "reactive" else None
        if batch is not None and await self._pruned(config, batch, target):
            return Room.MADE
        swapped = await self._take_prepared(config, target, batch)
        if swapped is not None:
            return swapped
        pruned = self._ladder.pruned(batch)
        selection = self._ladder.selection(config, config.settings, pruned)
        if selection is None and must:
            selection = self._ladder.selection(config, config.settings, pruned, urgent=True)
        if selection is None:
            return self._no_room(config, target) if must else Room.ENOUGH
        round = Round(self._conversation.round + 1, config, config.settings, target)
        if self._ladder.hopeless(round, selection, pruned):
            return self._no_room(config, target) if must else Room.ENOUGH
        opening = RoundOpening(reason, config.settings.policy, target.before, config.budget.limit)
        round = replace(round, number=await self._sink.open_round(opening))
        start = self._first_rung()
        room = await self._climb(round, selection, batch, start)
        if room is Room.NONE and not must:
            # It fits the window; that the policy would like it smaller is no reason to end.
            self._note(target, target.before)
            room = Room.ENOUGH
        if start != "summary":
            # The next one may ask a model again.
            self._past.clear()
        return room

    async def _climb(
        self, round: Round, selection: Selection, batch: PruneBatch | None, start: Rung, *, asked: bool = False
    ) -> Room:
        """Takes a round through the ladder. A cancel leaves everything as it was."""
        pruned = self._ladder.pruned(batch)
        summarizer = self._ladder.summarizer()
        climb = self._ladder.climb(round, selection, pruned, start=start, summarizer=summarizer)
        try:
            candidate, usage = await self._interrupt.guard(climb, patient=True)
        except Stopped:
            await self._sink.record(RoundEnded(round.number, "cancelled", summarizer.usage))
            return Room.STOPPED
        finally:
            self._usage = self._usage + summarizer.usage
        if candidate is None:
            return self._no_room(round.config, round.target)
        await self._ladder.commit(round, candidate, batch, usage, self._refreshed)
        await self._recount(round)
        if not asked:
            self._note(round.target, candidate.tokens)
        return Room.MADE

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

    def _note(self, target: Target, after: int) -> None:
        self._past.append(_Past(self._step, 1 - after / max(1, target.before)))

    def _first_rung(self) -> Rung:
        """Where the next round begins: further up the ladder where the last ones did not help for long."""
        crowded = len(self._past) == CROWDED_ROUNDS and self._step - self._past[0].step < CROWDED_STEPS
        little = len(self._past) >= 2 and all(past.freed < LITTLE for past in list(self._past)[-2:])
        return "fold" if crowded or little else "summary"

    def _no_room(self, config: AgentConfig, target: Target) -> Room:
        """Says what is too large, since nothing can be made smaller any more."""
        tokens, limit = self._conversation.estimate, config.budget.limit
        name, size = largest_fixed(self._conversation.generation, self._conversation.transcript.messages)
        error = ProviderError(
            f"The context of about {tokens:,} tokens does not fit the model's window of {limit:,}, and cannot be made"
            f" smaller: the largest part is the {name} with about {size:,} tokens. Shorten it, or take a model with a"
            " larger window.",
            code="context_too_large",
        )
        self.problem = {**error.problem(), "tokens": tokens, "limit": limit, "part": name, "part_tokens": size}
        return Room.NONE

    # Clearing old outputs

    async def _pruned(self, config: AgentConfig, batch: PruneBatch, target: Target) -> bool:
        """Clears outputs if that alone is enough."""
        conversation = self._conversation
        after = conversation.measure(None, conversation.checkpoints, self._ladder.pruned(batch))
        if not target.accepts(after):
            return False
        await self._ladder.prune(config, batch, "trigger", target.before, after)
        return True

    async def end_of_run(self, config: AgentConfig) -> None:
        """Clears old outputs where a trigger is near, now that nobody waits; gives up what is being prepared."""
        await self.discard()
        conversation = self._conversation
        if config.settings.policy != "reactive" or not conversation.has_generation:
            return
        before = conversation.estimate
        if before < NEAR_SHARE * trigger(config.budget, config.settings):
            return
        batch = self._ladder.prunable(config)
        if batch is not None:
            after = conversation.measure(None, conversation.checkpoints, self._ladder.pruned(batch))
            await self._ladder.prune(config, batch, "run_end", before, after)

    # In the background

    def _prepare(self, config: AgentConfig) -> None:
        """Begins a summary in the background where the trigger is near."""
        if not config.settings.background or self._prepared is not None:
            return
        near = PREPARE_SHARE * trigger(config.budget, config.settings)
        if self._conversation.state(config.budget).tokens < near:
            return
        if config.settings.policy == "reactive" and self._ladder.prunable(config) is not None:
            # At the trigger, clearing old outputs comes first, which takes no time.
            return
        selection = self._ladder.selection(config, config.settings, self._conversation.pruned)
        if selection is not None:
            self._prepared = Prepared(self._sink, self._ladder, self._conversation, config, selection)

    async def _take_prepared(self, config: AgentConfig, target: Target, batch: PruneBatch | None) -> Room | None:
        """Swaps in the prepared summary if it still fits what it was made from; None where there is none that does."""
        prepared = self._prepared
        if prepared is None:
            return None
        try:
            ready = await self._interrupt.guard(prepared.result(), patient=True) if prepared.fits(config) else None
        except Stopped:
            await self.discard()
            return Room.STOPPED
        if ready is None:
            await self.discard()
            return None
        pruned = self._ladder.pruned(batch)
        round = replace(ready, config=config, target=target)
        candidate = self._ladder.candidate(round, prepared.selection, prepared.prose, "summary", pruned)
        if not target.accepts(candidate.tokens):
            await self.discard()
            return None
        self._usage, self._prepared = self._usage + prepared.take_usage(), None
        await self._ladder.commit(round, candidate, batch, prepared.usage, self._refreshed)
        self._note(target, candidate.tokens)
        return Room.MADE

    async def discard(self) -> None:
        """Gives up the summary that is being prepared."""
        prepared, self._prepared = self._prepared, None
        if prepared is None:
            return
        number = await prepared.stop()
        self._usage = self._usage + prepared.take_usage()
        if number is not None:
            await self._sink.record(RoundEnded(number, "discarded", prepared.usage))

    # By hand

    async def manual(self, config: AgentConfig, asked: ManualRound) -> Room:
        """Makes the round that somebody asked for, whatever the size of the context."""
        await self.discard()
        settings = asked.settings
        before = self._conversation.size
        round = Round(asked.number, config, settings, Target(config.budget.usable, before), asked.instructions)
        batch = self._ladder.prunable(config) if settings.policy == "reactive" else None
        selection = self._ladder.asked_selection(round, settings, self._ladder.pruned(batch))
        if selection is None:
            await self._sink.record(RungFailed(asked.number, "summary", NOTHING[0], NOTHING[1], Usage(), None))
            return Room.ENOUGH
        room = await self._climb(round, selection, batch, "summary", asked=True)
        # Nothing depends on a round that somebody asked for: a run goes on with the context as it was.
        return Room.ENOUGH if room is Room.NONE else room


def _most(config: AgentConfig) -> int:
    """The largest context that the policy does not act on: `reactive` acts beyond its trigger, the others at it."""
    most = min(trigger(config.budget, config.settings), config.budget.usable)
    return most if config.settings.policy == "reactive" else most - 1
