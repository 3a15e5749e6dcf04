"""Keeps a conversation within its model's window: decides when and how to make it smaller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from app.agent.apart import apart
from app.agent.asked import ManualRound, Refusal, asked_round, asked_selection
from app.agent.changes import RoundOpening, RungFailed
from app.agent.conversation import AgentConfig
from app.agent.coverage import covering, prunable
from app.agent.interrupt import Stopped
from app.agent.lull import Lull
from app.agent.pace import Pace
from app.agent.prepared import Background
from app.agent.round_maker import RoundMaker
from app.agent.round_setup import RoundSetup
from app.agent.rounds import Candidate, Room, Round, Target
from app.agent.triggers import due, is_near, most
from app.context.selection import Selection
from app.context.shrinking import largest_fixed
from app.errors import ProviderError
from app.messages import Usage
from app.sessions import CompactionReason, PruneReason

LARGER_WINDOW = (
    "or use a larger window: another model, a local server started with one (`-c 8192` for llama.cpp), or, if the"
    " model's real window is larger, its `context_window` in PALIMPSEST_MODELS."
)

OVERFLOW_SHARE = 0.9
"""The next request may have this share of a refused request's own estimate: even with a wrong estimator this ends."""


class Compactor:
    """Compacts one conversation."""

    def __init__(self, setup: RoundSetup, *, unused: int = 0) -> None:
        """`unused`: see `Background`."""
        self._setup = setup
        self._sink = setup.sink
        self._conversation = setup.conversation
        self._maker = RoundMaker(setup)
        self._background = Background(setup, unused=unused)
        self._pace = Pace()
        self._lull = Lull()
        self._step = 0
        self.problem: dict[str, Any] | None = None
        """The error to report after `Room.NONE`."""

    def take_usage(self) -> Usage:
        """Usage of its model calls since the last call."""
        return self._maker.take_usage() + self._background.take_usage()

    async def make_room(
        self, config: AgentConfig, step: int, begin: Callable[[], Awaitable[None]], *, cold: bool = False
    ) -> Room:
        """Makes the next request fit, unless the settings leave that to the provider. If only the policy wants a round
        and nothing is old enough for it, the step is made with the context as it is. `begin` is called before anything
        changes. `cold` is a request of which nothing is in the provider's cache, so that clearing old outputs costs
        nothing."""
        self._step = step
        reason = due(self._conversation, config)
        await self._background.discard_unfit(config)
        if reason is None:
            self._lull.end()
            if not config.settings.auto:
                return Room.ENOUGH
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
        """Makes the requested round, whatever the size of the context. If it fails, the run continues with the context
        unchanged."""
        await self.discard()
        await self._setup.know_past()
        conversation, budget = self._conversation, self._setup.budget(config, asked.settings)
        round = await apart(conversation.rows, asked_round, conversation, config, asked, budget)
        covered = await apart(conversation.rows, asked_selection, conversation, round)
        if isinstance(covered, Refusal):
            await self._sink.record(RungFailed(asked.number, "summary", *covered, Usage(), None))
            return Room.ENOUGH
        match await self._maker.make(round, covered):
            case Candidate():
                return Room.MADE
            case Room.NONE:
                return Room.ENOUGH
            case room:
                return room

    async def end_of_run(self, config: AgentConfig) -> None:
        """Clears old outputs if a trigger is near, and discards a background summary, now that no step waits for it."""
        await self.discard()
        conversation = self._conversation
        if not conversation.has_generation or conversation.generation.rounds != conversation.in_force.rounds:
            # After a revert the context is measured again before the next step.
            return
        if is_near(conversation, config):
            await self._clear(config, "run_end")

    async def _clear(
        self, config: AgentConfig, reason: PruneReason, begin: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Clears old outputs if that is worthwhile, though nothing has to be smaller; `begin` is called before."""
        conversation = self._conversation
        batch = await apart(conversation.rows, prunable, conversation, config.budget, config.settings)
        if batch is None:
            return
        if begin is not None:
            await begin()
        in_force = conversation.in_force.clearing(batch.call_ids)
        after = await apart(conversation.rows, conversation.measure, in_force, config=config)
        await self._setup.ladder.prune(config, batch, reason, conversation.estimate, after)

    async def discard(self) -> None:
        """Discards the background summary."""
        await self._background.discard()

    async def _make(self, config: AgentConfig, reason: CompactionReason, target: Target, *, must: bool) -> Room:
        """Makes one round from its trigger to its end, by the mildest means that is enough. With `must`, there is
        no next step without it."""
        conversation = self._conversation
        if conversation.fixed(config) >= target.tokens:
            return self._no_room(config) if must else self._none_for_now(config)
        batch = await apart(conversation.rows, prunable, conversation, config.budget, config.settings)
        round = Round(conversation.round + 1, config, config.settings, target, batch)
        if await self._prune(round):
            return Room.MADE
        await self._setup.know_past()
        swapped = await self._swap_in(round)
        if swapped is not None:
            return swapped
        covered = await apart(conversation.rows, covering, conversation, round, must=must)
        if covered is None:
            return self._no_room(config) if must else self._none_for_now(config)
        return await self._open(round, reason, covered, must=must)

    def _none_for_now(self, config: AgentConfig) -> Room:
        """The context fits the window; that the policy wants it smaller is no reason to end the run."""
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
        await self._setup.ladder.prune(round.config, round.batch, "trigger", round.target.before, after)
        return True

    async def _swap_in(self, round: Round) -> Room | None:
        """Commits the background summary if it fits; None if there is none that does."""
        try:
            ready = await self._background.ready(round)
        except Stopped:
            return Room.STOPPED
        if ready is None:
            return None
        if not await self._maker.commit(ready.round, ready.made):
            return Room.REVERTED
        self._pace.note(self._step, ready.round.target, ready.made.tokens)
        return Room.MADE

    async def _open(self, round: Round, reason: CompactionReason, covered: Selection, *, must: bool) -> Room:
        """Opens a round, which assigns its number, and carries it out."""
        opening = RoundOpening(reason, round.settings.policy, round.target.before, round.budget.limit)
        opened = replace(round, number=await self._sink.open_round(opening))
        start = self._pace.first_rung(self._step)
        made = await self._maker.make(opened, covered, start=start)
        room = self._outcome(opened, made, must=must)
        if start != "summary":
            self._pace.start_over()
        return room

    def _outcome(self, round: Round, made: Candidate | Room, *, must: bool) -> Room:
        """What a round's result means for the step it was made for and for later rounds."""
        match made:
            case Candidate():
                self._pace.note(self._step, round.target, made.tokens)
                return Room.MADE
            case Room.NONE if must:
                return self._no_room(round.config)
            case Room.NONE:
                self._pace.note(self._step, round.target, round.target.before)
                return self._none_for_now(round.config)
            case room:
                return room

    def _no_room(self, config: AgentConfig) -> Room:
        """Reports which part is too large, since nothing can be made smaller anymore."""
        tokens, limit = self._conversation.estimate, config.budget.limit
        conversation = self._conversation
        messages, history = conversation.transcript.messages, conversation.history
        name, size = largest_fixed(conversation.generation, messages, history, conversation.task_id)
        error = ProviderError(
            f"The context of about {tokens:,} tokens does not fit the model's window of {limit:,}, and cannot be made"
            f" smaller: the largest part is the {name} with about {size:,} tokens. {_advice(name)}",
            code="context_too_large",
        )
        self.problem = {**error.problem(), "tokens": tokens, "limit": limit, "part": name, "part_tokens": size}
        return Room.NONE


def _advice(part: str) -> str:
    """How to make the context fit, by its largest part."""
    match part:
        case "tool schemas":
            shorter = "Name fewer `tools` in the session"
        case "system prompt":
            shorter = "Use a shorter system prompt, AGENTS.md and MEMORY.md included"
        case _:
            shorter = "Shorten it"
    return f"{shorter}, {LARGER_WINDOW}"
