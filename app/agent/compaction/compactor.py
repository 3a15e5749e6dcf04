"""Keeps a conversation within its model's window: whether it must become smaller, by which means, and each round up to
its commit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from app.agent.changes import RoundEnded, RoundOpening, RungFailed, SummaryFailed
from app.agent.compaction.background import Background
from app.agent.compaction.ladder import RoundSetup
from app.agent.compaction.rounds import Candidate, RoomResult, Round, Target, covering, prunable
from app.agent.compaction.triggers import (
    Backoff,
    Cooldown,
    Escalation,
    ManualRound,
    Refusal,
    due,
    is_near,
    manual_round,
    manual_selection,
    most,
)
from app.agent.conversation import run_off_loop
from app.agent.interrupt import Stopped
from app.agent.protocols import AgentConfig
from app.context.images import excess
from app.context.selection import Selection
from app.context.shrinking import largest_fixed
from app.errors import ProviderError
from app.messages import Usage
from app.sessions import CompactionReason, PruneReason, Rung

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
        self._escalation = Escalation()
        self._cooldown = Cooldown()
        self._backoff = Backoff()
        self._step = 0
        self._guesses: list[int] = []
        """The rounds made because a refusal may have been about the size, the newest last."""
        self.problem: dict[str, Any] | None = None
        """The error to report after `RoomResult.NONE`."""

    @property
    def unused(self) -> int:
        """See `Background`."""
        return self._background.unused

    def take_usage(self) -> Usage:
        """Usage of its model calls since the last call."""
        return self._maker.take_usage() + self._background.take_usage()

    async def make_room(
        self, config: AgentConfig, step: int, begin: Callable[[], Awaitable[None]], *, cold: bool = False
    ) -> RoomResult:
        """Makes the next request fit, unless the settings leave that to the provider. If only the policy wants a round
        and nothing is old enough for it, the step is made with the context as it is. `begin` is called before anything
        changes. `cold` is a request of which nothing is in the provider's cache, so that clearing old outputs costs
        nothing."""
        self._step = step
        await self._clear_images(config, begin)
        reason = due(self._conversation, config)
        await self._background.discard_unfit(config)
        if reason is None:
            self._cooldown.end()
            if not config.settings.auto:
                return RoomResult.ENOUGH
            if cold:
                await self._clear(config, "model_change", begin)
            await self._background.begin(config)
            return RoomResult.ENOUGH
        if reason == "threshold" and (self._backoff.lasts() or self._cooldown.lasts(self._conversation, config)):
            return RoomResult.ENOUGH
        await begin()
        before = max(self._conversation.estimate, self._conversation.state(config.budget).tokens)
        target = Target(most(config.budget, config.settings), before)
        return await self._make(config, reason, target, must=reason != "threshold")

    async def _clear_images(self, config: AgentConfig, begin: Callable[[], Awaitable[None]]) -> None:
        """Clears the oldest images if there are more than a request may have, whatever the settings are."""
        ids = excess(self._conversation.transcript.images, self._conversation.last)
        if ids:
            await begin()
            await self._sink.record(*await self._conversation.clear_images(config, ids))

    async def after_overflow(self, config: AgentConfig, step: int, *, is_guess: bool = False) -> RoomResult:
        """Makes the context smaller after the provider has refused it, or may have for its size (`is_guess`)."""
        self._step = step
        refused = self._conversation.estimate
        wanted = min(int(refused * OVERFLOW_SHARE), most(config.budget, config.settings))
        return await self._make(config, "provider_overflow", Target(wanted, refused), must=True, is_guess=is_guess)

    def keep_guesses(self) -> None:
        """A request was accepted: the rounds before it have helped."""
        self._guesses.clear()

    async def revert_guesses(self) -> None:
        """The refusal was about something else: the context is again as it was."""
        while self._guesses:
            await self._setup.revert(self._guesses.pop())

    async def manual(self, config: AgentConfig, manual: ManualRound) -> RoomResult:
        """Makes the requested round, whatever the size of the context. If it fails, the run continues with the context
        unchanged."""
        await self.discard()
        await self._setup.know_past()
        conversation, budget = self._conversation, self._setup.budget(config, manual.settings)
        round = await run_off_loop(conversation.rows, manual_round, conversation, config, manual, budget)
        covered = await run_off_loop(conversation.rows, manual_selection, conversation, round)
        if isinstance(covered, Refusal):
            await self._sink.record(RungFailed(manual.number, "summary", *covered, Usage(), None))
            return RoomResult.ENOUGH
        match await self._maker.make(round, covered):
            case Candidate():
                return RoomResult.MADE
            case RoomResult.NONE | RoomResult.AWAY:
                return RoomResult.ENOUGH
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
        batch = await run_off_loop(conversation.rows, prunable, conversation, config.budget, config.settings)
        if batch is None:
            return
        if begin is not None:
            await begin()
        in_force = conversation.in_force.clearing(batch.call_ids)
        after = await run_off_loop(conversation.rows, conversation.measure, in_force, config=config)
        await self._setup.ladder.prune(config, batch, reason, conversation.estimate, after)

    async def discard(self) -> None:
        """Discards the background summary."""
        await self._background.discard()

    async def _make(
        self, config: AgentConfig, reason: CompactionReason, target: Target, *, must: bool, is_guess: bool = False
    ) -> RoomResult:
        """Makes one round from its trigger to its end, by the mildest means that is enough. With `must`, there is
        no next step without it."""
        conversation = self._conversation
        if conversation.fixed(config) >= target.tokens:
            return self._no_room(config) if must else self._none_for_now(config)
        batch = await run_off_loop(conversation.rows, prunable, conversation, config.budget, config.settings)
        round = Round(
            conversation.round + 1,
            config,
            config.settings,
            target,
            batch,
            must=must and not is_guess,
            is_guess=is_guess,
        )
        if await self._prune(round):
            return RoomResult.MADE
        await self._setup.know_past()
        swapped = await self._swap_in(round)
        if swapped is not None:
            return swapped
        covered = await run_off_loop(conversation.rows, covering, conversation, round, must=must)
        if covered is None:
            return self._no_room(config) if must else self._none_for_now(config)
        return await self._open(round, reason, covered, must=must)

    def _none_for_now(self, config: AgentConfig) -> RoomResult:
        """The context fits the window; that the policy wants it smaller is no reason to end the run."""
        self._cooldown.begin(self._conversation, config)
        return RoomResult.ENOUGH

    async def _prune(self, round: Round) -> bool:
        """Clears the round's outputs if that alone is enough."""
        if round.batch is None:
            return False
        in_force = self._conversation.in_force.clearing(round.cleared)
        after = await run_off_loop(self._conversation.rows, self._conversation.measure, in_force, config=round.config)
        if not round.target.accepts(after):
            return False
        await self._setup.ladder.prune(round.config, round.batch, "trigger", round.target.before, after)
        return True

    async def _swap_in(self, round: Round) -> RoomResult | None:
        """Commits the background summary if it fits; None if there is none that does."""
        try:
            ready = await self._background.ready(round)
        except Stopped:
            return RoomResult.STOPPED
        if ready is None:
            return None
        if not await self._maker.commit(ready.round, ready.made):
            return RoomResult.REVERTED
        self._escalation.note(self._step, ready.round.target, ready.made.tokens)
        return RoomResult.MADE

    async def _open(self, round: Round, reason: CompactionReason, covered: Selection, *, must: bool) -> RoomResult:
        """Opens a round, which assigns its number, and carries it out."""
        opening = RoundOpening(reason, round.settings.policy, round.target.before, round.budget.limit)
        opened = replace(round, number=await self._sink.open_round(opening))
        start = "summary" if round.is_guess else self._escalation.first_rung(self._step)
        made = await self._maker.make(opened, covered, start=start)
        room = self._outcome(opened, made, must=must)
        if start != "summary":
            self._escalation.start_over()
        return room

    def _outcome(self, round: Round, made: Candidate | RoomResult, *, must: bool) -> RoomResult:
        """What a round's result means for the step it was made for and for later rounds."""
        match made:
            case Candidate():
                self._escalation.note(self._step, round.target, made.tokens)
                self._backoff.end()
                if round.is_guess:
                    self._guesses.append(round.number)
                return RoomResult.MADE
            case RoomResult.AWAY:
                self._backoff.extend()
                return RoomResult.ENOUGH
            case RoomResult.NONE if must:
                return self._no_room(round.config)
            case RoomResult.NONE:
                self._escalation.note(self._step, round.target, round.target.before)
                return self._none_for_now(round.config)
            case room:
                return room

    def _no_room(self, config: AgentConfig) -> RoomResult:
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
        return RoomResult.NONE


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


class RoundMaker:
    """Makes the rounds of one conversation."""

    def __init__(self, setup: RoundSetup) -> None:
        self._setup = setup
        self._usage = Usage()

    def take_usage(self) -> Usage:
        """Usage of its model calls since the last call."""
        usage, self._usage = self._usage, Usage()
        return usage

    async def make(self, round: Round, covered: Selection, *, start: Rung = "summary") -> Candidate | RoomResult:
        """Takes a round through the ladder: returns the resulting context, or what happened instead. A cancel leaves
        everything unchanged. The notes are read first, so that what is measured is what will be sent; model, tools and
        budget stay those that the round began with."""
        setup = self._setup
        summarizer = setup.ladder.summarizer(round)
        try:
            config = await setup.interrupt.guard(setup.refreshed(round.config), patient=True)
            round = replace(round, config=config)
            climb = setup.ladder.climb(round, covered, summarizer, start=start)
            made = await setup.interrupt.guard(climb, insist=True, patient=True)
        except Stopped:
            await setup.sink.record(RoundEnded(round.number, "cancelled"))
            return RoomResult.STOPPED
        except SummaryFailed:
            return RoomResult.AWAY
        finally:
            self._usage = self._usage + summarizer.usage
        if made is None:
            return RoomResult.NONE
        return made if await self.commit(round, made) else RoomResult.REVERTED

    async def commit(self, round: Round, made: Candidate) -> bool:
        """Makes a candidate the context, and its notes the session's; see `Ladder.commit`. The notes come first: after
        a crash in between, the next step takes them in."""
        await self._setup.taken()
        made = await self._recounted(round, made)
        if not await self._setup.ladder.commit(round, made):
            await self._setup.reread()
            return False
        if made.counted:
            self._setup.conversation.recounted(made.tokens)
        return True

    async def _recounted(self, round: Round, made: Candidate) -> Candidate:
        """The candidate with the provider's own count, if the settings want it. It comes before the commit, so that the
        stored round contains it. A cancel ends only the count: the summary is complete."""
        if round.settings.policy != "handoff" or not round.settings.recount_probe:
            return made
        setup = self._setup
        summarizer = setup.ladder.summarizer(round)
        request = await run_off_loop(setup.conversation.rows, setup.ladder.request, round, made)
        try:
            tokens = await setup.interrupt.guard(summarizer.count(request), insist=True, patient=True)
        except Stopped:
            return made
        finally:
            self._usage = self._usage + summarizer.usage
        return replace(made, tokens=tokens, counted=True) if tokens else made
