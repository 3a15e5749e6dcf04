"""The ladder: ways to make a context smaller, from the mildest to the harshest, until one is accepted by measure; and
what the rounds of one conversation are made with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from app.agent.changes import GenerationOpened, OutputsPruned, RoundCompleted, RungCode, RungFailed, SummaryFailed
from app.agent.compaction.rounds import ROOMY, BackgroundSlots, Candidate, Round, candidate, folded, shortest
from app.agent.compaction.summarizer import Summarizer
from app.agent.compaction.summary_jobs import SummaryJob, summary_job, summary_model
from app.agent.conversation import Conversation, run_off_loop
from app.agent.interrupt import Interrupt
from app.agent.model_calls import ModelCalls
from app.agent.protocols import AgentConfig, Sink
from app.context.budget import Budget
from app.context.checkpoints import InForce
from app.context.policies import CompactionSettings
from app.context.selection import Selection
from app.context.shrinking import PruneBatch, shrunk
from app.errors import InvalidRequestError
from app.llm.base import ModelRequest
from app.messages import Usage
from app.sessions import PruneReason, Rung


class Ladder:
    """The ladder of one conversation. Each rung either gives an accepted candidate or reports in an event why not."""

    def __init__(
        self, sink: Sink, conversation: Conversation, models: ModelCalls, window_of: Callable[[str], int]
    ) -> None:
        """`window_of` gives a model's window in tokens, including what was learned from refusals."""
        self._sink = sink
        self._conversation = conversation
        self._models = models
        self._window_of = window_of

    def summarizer(self, round: Round) -> Summarizer:
        """The summarizer for a round. A context that must be smaller waits as long as a step would; a refusal that may
        mean something else waits for nothing."""
        if round.is_guess:
            return Summarizer(self._sink, self._models, round.number, max_attempts=1)
        if round.must or round.is_manual:
            return Summarizer(self._sink, self._models, round.number, max_attempts=self._models.max_attempts)
        return Summarizer(self._sink, self._models, round.number)

    async def climb(
        self, round: Round, selection: Selection, summarizer: Summarizer, *, start: Rung = "summary"
    ) -> Candidate | None:
        """The first accepted candidate, or None. The `summarizer` knows the cost of all attempts, including those of a
        cancelled climb. No model is asked if a round only clips messages. Raises `SummaryFailed` if the summarizer's
        provider is away and the round could wait."""
        if start == "summary" and selection.covered:
            summarized = await self._summarized(round, selection, summarizer)
            if summarized is not None:
                return summarized
        if round.is_guess and not summarizer.has_answer:
            return None
        without_model = await run_off_loop(self._conversation.rows, folded, self._conversation, round, selection)
        if start != "shrink":
            if round.target.accepts(without_model.tokens):
                return without_model
            await self._too_large(round, without_model, Usage(), "shrink")
        return await self._shrunk(round, selection, without_model.prose)

    async def _summarized(self, round: Round, selection: Selection, summarizer: Summarizer) -> Candidate | None:
        """The context with a model's summary, if there is one and it is accepted. No model is asked if even the
        shortest summary would not be accepted."""
        least = await run_off_loop(self._conversation.rows, shortest, self._conversation, round, selection)
        if not round.target.accepts(least.tokens):
            await self._too_large(round, least, Usage(), "fold", "Even with the shortest summary the context")
            return None
        try:
            window = self._window(summary_model(round))
            job = await run_off_loop(self._conversation.rows, summary_job, self._conversation, round, selection, window)
            prose = await summarizer.prose(job)
        except SummaryFailed as failure:
            is_over = round.is_guess and not summarizer.has_answer
            can_wait = failure.is_away and not (round.must or round.is_guess)
            following: Rung | None = None if is_over or can_wait else "fold"
            await self._failed(round, "summary", failure.code, failure.detail, summarizer.usage, following)
            if can_wait:
                raise
            return None
        made = await self._candidate(round, selection, prose, "summary")
        if round.target.accepts(made.tokens):
            return made
        await self._too_large(round, made, summarizer.usage, "fold")
        return None

    async def _shrunk(self, round: Round, selection: Selection, prose: str) -> Candidate | None:
        """The first candidate that leaves room to work in; else the smallest, if it is accepted at all."""
        made = await self._candidate(round, selection, prose, "shrink")
        for smaller in shrunk(selection):
            made = await self._candidate(round, smaller, prose, "shrink")
            if made.tokens <= ROOMY * round.target.tokens and round.target.accepts(made.tokens):
                return made
        if round.target.accepts(made.tokens):
            return made
        await self._too_large(round, made, Usage(), None)
        return None

    async def _candidate(self, round: Round, selection: Selection, prose: str, rung: Rung) -> Candidate:
        return await run_off_loop(self._conversation.rows, candidate, self._conversation, round, selection, prose, rung)

    def job(self, round: Round, selection: Selection, request: ModelRequest | None = None) -> SummaryJob:
        """How a model is asked for this round's summary; see `summary_job`. Raises `SummaryFailed` if the model has
        been removed since it was chosen."""
        return summary_job(self._conversation, round, selection, self._window(summary_model(round)), request)

    def _window(self, model: str) -> int:
        """A model's window in tokens, as used for budgets."""
        try:
            return self._window_of(model)
        except InvalidRequestError as error:
            raise SummaryFailed.by(error) from error

    async def commit(self, round: Round, made: Candidate) -> bool:
        """Makes a candidate the context: checkpoint, marks, generation and event in one transaction. If a round that it
        builds on was reverted meanwhile, the candidate is discarded, the conversation takes over what is in force, and
        the result is false."""
        conversation = self._conversation
        batch = round.batch_beside(made.covered)
        cleared = batch.call_ids if batch is not None else ()
        in_force, opened = self._draft(round, made)
        marks = [] if batch is None else [self._marks_of_round(round, batch)]
        stored = await self._sink.complete_round(self._completed(round, made, cleared), *marks, opened)
        if isinstance(stored, InForce):
            conversation.revert(stored)
            return False
        summary = made.summary.model_copy(update={"seq": stored})
        shown = await run_off_loop(conversation.history, conversation.shown_by, opened.generation, in_force, summary)
        conversation.adopt(opened, shown, in_force, summary)
        return True

    def request(self, round: Round, made: Candidate) -> ModelRequest:
        """The next request as it would be with this candidate."""
        in_force, opened = self._draft(round, made)
        return self._conversation.drafted_request(round.config, opened.generation, in_force, made.summary)

    def _draft(self, round: Round, made: Candidate) -> tuple[InForce, GenerationOpened]:
        """What would be in force with this candidate, and the generation that it begins."""
        batch = round.batch_beside(made.covered)
        in_force = self._conversation.in_force.covering(made.checkpoint)
        in_force = in_force.clearing(batch.call_ids if batch is not None else ())
        return in_force, self._conversation.draft(round.config, "checkpoint", in_force)

    def _marks_of_round(self, round: Round, batch: PruneBatch) -> OutputsPruned:
        """The marks that go with a summary, with the tokens that they free themselves."""
        before = round.target.before
        saved = self._conversation.calibration.apply(batch.tokens_saved)
        return replace(_marks("trigger", batch, before, before - saved), with_round=True)

    def _completed(self, round: Round, made: Candidate, cleared: tuple[str, ...]) -> RoundCompleted:
        return RoundCompleted(
            checkpoint=made.checkpoint,
            base=self._conversation.in_force.rounds,
            summary=made.summary,
            rung=made.rung,
            first_message_id=made.covered[0].id if made.covered else None,
            last_message_id=made.covered[-1].id if made.covered else None,
            messages_compacted=len(made.covered),
            pruned=cleared,
            tokens_before=round.target.before,
            tokens_after=made.tokens,
            counted=made.counted,
            prose=made.prose,
            duration_ms=round.elapsed_ms,
        )

    async def prune(self, config: AgentConfig, batch: PruneBatch, reason: PruneReason, before: int, after: int) -> None:
        """Clears outputs without a summary."""
        in_force = self._conversation.in_force.clearing(batch.call_ids)
        opened = self._conversation.draft(config, "prune", in_force)
        shown = await run_off_loop(self._conversation.rows, self._conversation.shown_by, opened.generation, in_force)
        await self._sink.record(_marks(reason, batch, before, after), opened)
        self._conversation.adopt(opened, shown, in_force)

    async def _failed(
        self, round: Round, rung: Rung, code: RungCode, detail: str, usage: Usage, following: Rung | None
    ) -> None:
        await self._sink.record(RungFailed(round.number, rung, code, detail, usage, following))

    async def _too_large(
        self, round: Round, made: Candidate, usage: Usage, following: Rung | None, what: str = "The context"
    ) -> None:
        detail = f"{what} would have {made.tokens:,} tokens, more than the target of {round.target.tokens:,}."
        if made.tokens >= round.target.before:
            detail = f"{what} would have {made.tokens:,} tokens, which is not less than before."
        await self._failed(round, made.rung, "not_small_enough", detail, usage, following)


def _marks(reason: PruneReason, batch: PruneBatch, before: int, after: int) -> OutputsPruned:
    return OutputsPruned(reason, batch.call_ids, batch.tools, before, after)


async def _nothing() -> None:
    """Do nothing: there are no notes, and the whole history was read."""


async def _no_round(_: int) -> None:
    """Do nothing: there is no stored round."""


@dataclass(frozen=True, slots=True)
class RoundSetup:
    """One per conversation. `refreshed` returns a configuration with the workspace's notes read again, which a new
    checkpoint takes into its system text; `taken` is awaited when one does. `budget_of` divides a model's window by
    settings other than the session's; without it only the session's are used. `background_slots` are the slots for
    background summaries. `know_past` is awaited before a round is prepared, which needs parts of the history that no
    step does, `reread` after a round that was overtaken by a revert, and `revert` for a round that has not helped."""

    sink: Sink
    conversation: Conversation
    ladder: Ladder
    interrupt: Interrupt
    refreshed: Callable[[AgentConfig], Coroutine[Any, Any, AgentConfig]]
    taken: Callable[[], Awaitable[None]] = _nothing
    budget_of: Callable[[str, CompactionSettings], Budget] | None = None
    background_slots: BackgroundSlots = field(default_factory=BackgroundSlots)
    know_past: Callable[[], Awaitable[None]] = _nothing
    reread: Callable[[], Awaitable[None]] = _nothing
    revert: Callable[[int], Awaitable[None]] = _no_round

    def budget(self, config: AgentConfig, settings: CompactionSettings) -> Budget:
        """The budget of the configuration's model under these settings."""
        if settings == config.settings or self.budget_of is None:
            return config.budget
        return self.budget_of(config.model, settings)
