"""The ladder: ways to make a context smaller, from the mildest to the harshest, until one is accepted by measure."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from app.agent.conversation import AgentConfig, Conversation
from app.agent.model_calls import ModelCalls
from app.agent.ports import OutputsPruned, RoundCompleted, RungFailed, Sink
from app.agent.summarizer import Summarizer, SummaryFailed, SummaryJob
from app.context.budget import Budget, tail_bounds, trigger
from app.context.facts import compute_facts
from app.context.facts_text import render_facts
from app.context.policies import CompactionSettings
from app.context.projection import Checkpoint
from app.context.pruning import PruneBatch, select_prunable
from app.context.selection import Selection, select
from app.context.shrinking import shrunk
from app.context.summary import compose_summary, prose_of
from app.context.summary_prose import fold
from app.context.tokens import PER_MESSAGE, counted_tokens, estimate_text
from app.errors import InvalidRequestError
from app.llm.base import ModelRequest
from app.messages import CompactionMarkerPart, Message, ReasoningPart, Role, TextPart, Usage, new_id, now
from app.sessions import PruneReason, Rung

RUNGS: tuple[Rung, ...] = ("prune", "summary", "fold", "shrink")

FACTS_SHARE = 0.25
"""Share of usable that facts and old user messages may have together."""

REASONING_ROOM = 4_096
"""Output tokens on top of a summary's cap for a model that has reasoned in this conversation."""

INSTRUCTION_ROOM = 1_000
"""Tokens that asking for a summary takes, with some to spare."""

LEAST_CAP = 256
"""The shortest answer that a summary is asked for in; a third of the policy's cap is enough on a crowded window."""

LEAST_INPUT = 500
INPUT_SHARE = 0.9
"""Of the summariser's window, what a piece of the messages takes at most beside task, previous summary and answer; the
rest is for a wrong estimate."""

ROOMY = 0.75
"""Share of a target that a smaller context is to leave alone: else the very next step would meet the trigger again."""

SUMMARY_SHARE = 0.2
"""Share of such a context that a summary is taken to have, where its cap is larger."""

LEAST_RECENT = 2
"""Messages that `threshold` keeps even where they are large: the last call with its result."""

TASK_TWICE = 500
"""Tokens of a task up to which the summary tells it again, although the task itself stays."""

TASK_STAYS = "(The user's first message, which stands before this summary word for word.)"

SUMMARY_CAP = 4_000
"""Longest summary where the policy sets no cap of its own."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a smaller context must reach, in calibrated tokens: at most `tokens`, and below `before`."""

    tokens: int
    before: int

    def accepts(self, tokens: int) -> bool:
        return tokens <= self.tokens and tokens < self.before


@dataclass(frozen=True, slots=True)
class Round:
    """A round of compaction that is under way."""

    number: int
    config: AgentConfig
    settings: CompactionSettings
    target: Target
    instructions: str | None = None
    started: float = field(default_factory=time.monotonic)

    @property
    def budget(self) -> Budget:
        return self.config.budget

    @property
    def elapsed_ms(self) -> int:
        return int((time.monotonic() - self.started) * 1000)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A context that would be smaller: its checkpoint with the summary, what that stands for, and what it measures."""

    checkpoint: Checkpoint
    summary: Message
    prose: str
    rung: Rung
    covered: tuple[Message, ...]
    tokens: int


class Ladder:
    """Climbs for one conversation. Each rung either gives an accepted candidate or says why not, in an event."""

    def __init__(
        self, sink: Sink | None, conversation: Conversation, models: ModelCalls, window_of: Callable[[str], int]
    ) -> None:
        """`window_of` gives a model's window in tokens. Without a sink candidates can be measured, nothing more."""
        self._given_sink = sink
        self._conversation = conversation
        self._models = models
        self._window_of = window_of

    @property
    def _sink(self) -> Sink:
        assert self._given_sink is not None, "a ladder without a sink climbs nothing"
        return self._given_sink

    def summarizer(self) -> Summarizer:
        """The model calls of a new round."""
        return Summarizer(self._sink, self._models)

    def prunable(self, config: AgentConfig) -> PruneBatch | None:
        """Old outputs that may be cleared now."""
        messages = self._conversation.transcript.messages
        return select_prunable(messages, config.settings, config.budget, self._conversation.pruned)

    def pruned(self, batch: PruneBatch | None) -> frozenset[str]:
        """The calls whose outputs are cleared, with those of a batch."""
        return self._conversation.pruned | frozenset(batch.call_ids if batch is not None else ())

    def selection(
        self, config: AgentConfig, settings: CompactionSettings, pruned: frozenset[str], *, urgent: bool = False
    ) -> Selection | None:
        """What a round would cover now, with the outputs of `pruned` cleared; `urgent`: it must cover something."""
        conversation = self._conversation
        return select(
            conversation.history,
            conversation.checkpoints,
            self._with_room(config, settings),
            config.budget,
            config.model,
            pruned=pruned,
            urgent=urgent,
        )

    def _with_room(self, config: AgentConfig, settings: CompactionSettings) -> CompactionSettings:
        """The settings with a shorter tail where little room is left beside what always stays, as on a small window:
        the next steps are to fit before the next round is due."""
        conversation = self._conversation
        aim = ROOMY * trigger(config.budget, settings) / conversation.calibration.factor
        stays = conversation.generation.fixed_tokens + min(self.cap(settings), int(aim * SUMMARY_SHARE))
        stays += estimate_text(self._facts(config.budget, settings, conversation.round))
        room = max(0, int(aim - stays))
        if settings.policy == "threshold":
            recent = min(settings.recent_messages_to_keep, max(LEAST_RECENT, self._messages_within(room)))
            return settings.model_copy(update={"recent_messages_to_keep": recent})
        least = tail_bounds(config.budget, settings).least
        return settings if room >= least else settings.model_copy(update={"tail_tokens": room})

    def _messages_within(self, tokens: int) -> int:
        """How many of the newest messages fit into so many tokens."""
        count = 0
        for message in reversed(self._conversation.transcript.messages):
            tokens -= counted_tokens(message)
            if tokens < 0:
                break
            count += 1
        return count

    def _facts(self, budget: Budget, settings: CompactionSettings, rounds: int) -> str:
        """What is known for certain of the work, within its share of the context. A long task that stays in the context
        anyway is not told twice."""
        conversation = self._conversation
        facts = compute_facts(conversation.history, conversation.plan, rounds)
        if settings.policy != "handoff" and estimate_text(facts.task) > TASK_TWICE:
            facts = replace(facts, task=TASK_STAYS)
        return render_facts(facts, int(budget.usable * FACTS_SHARE))

    def hopeless(self, round: Round, selection: Selection, pruned: frozenset[str]) -> bool:
        """Whether not even the last rung would do: then there is nothing to ask a model for."""
        *_, least = selection, *shrunk(selection)
        return not round.target.accepts(self.candidate(round, least, "", "shrink", pruned).tokens)

    def asked_selection(self, round: Round, settings: CompactionSettings, pruned: frozenset[str]) -> Selection | None:
        """What a round that somebody asks for would cover. Where nothing is old enough by the policy, it is all that
        the model has seen, provided that this would free anything: whoever asks wants a smaller context."""
        selection = self.selection(round.config, settings, pruned)
        if selection is not None:
            return selection
        selection = self.selection(round.config, settings, pruned, urgent=True)
        if selection is None:
            return None
        return selection if round.target.accepts(self.folded(round, selection, pruned).tokens) else None

    def folded(self, round: Round, selection: Selection, pruned: frozenset[str]) -> Candidate:
        """The context that a summary made without a model would leave."""
        previous = prose_of(selection.previous.text) if selection.previous is not None else None
        prose = fold(selection.covered, previous, self.cap(round.settings))
        return self.candidate(round, selection, prose, "fold", pruned)

    async def climb(
        self,
        round: Round,
        selection: Selection,
        pruned: frozenset[str],
        *,
        start: Rung = "summary",
        summarizer: Summarizer | None = None,
    ) -> tuple[Candidate | None, Usage]:
        """The first accepted candidate, None where none is, and what the attempts have cost. A `summarizer` that is
        given tells the cost of a climb that was cut short."""
        summarizer = summarizer or self.summarizer()
        previous = prose_of(selection.previous.text) if selection.previous is not None else None
        if start == "summary":
            try:
                prose = await summarizer.prose(self.job(round, selection))
            except SummaryFailed as failure:
                await self._failed(round, "summary", failure.code, failure.detail, summarizer.usage, "fold")
            else:
                candidate = self.candidate(round, selection, prose, "summary", pruned)
                if round.target.accepts(candidate.tokens):
                    return candidate, summarizer.usage
                await self._too_large(round, candidate, summarizer.usage, "fold")
        prose = fold(selection.covered, previous, self.cap(round.settings))
        candidate = self.candidate(round, selection, prose, "fold", pruned)
        if start != "shrink":
            if round.target.accepts(candidate.tokens):
                return candidate, summarizer.usage
            await self._too_large(round, candidate, Usage(), "shrink")
        return await self._shrink(round, selection, prose, pruned), summarizer.usage

    async def _shrink(self, round: Round, selection: Selection, prose: str, pruned: frozenset[str]) -> Candidate | None:
        """The first candidate that leaves room to work in; else the smallest, if it is accepted at all."""
        candidate = self.candidate(round, selection, prose, "shrink", pruned)
        for smaller in shrunk(selection):
            candidate = self.candidate(round, smaller, prose, "shrink", pruned)
            if candidate.tokens <= ROOMY * round.target.tokens and round.target.accepts(candidate.tokens):
                return candidate
        if round.target.accepts(candidate.tokens):
            return candidate
        await self._too_large(round, candidate, Usage(), None)
        return None

    def job(self, round: Round, selection: Selection, request: ModelRequest | None = None) -> SummaryJob:
        """How a model is asked for this round's summary: in the conversation itself, which its cache knows, where the
        policy says so and there is room, else from text. A `request` of an earlier moment is taken instead of the next
        one."""
        settings, config = round.settings, round.config
        model = settings.model or config.model
        reasoning = REASONING_ROOM if self._reasons() else 0
        window = self._window(model)
        cap = min(self.cap(settings), max(LEAST_CAP, window // 4))
        previous = prose_of(selection.previous.text) if selection.previous is not None else None
        inside = settings.model is None and settings.policy != "threshold"
        left = window - self._conversation.estimate - reasoning - INSTRUCTION_ROOM
        fits = left >= min(cap, max(LEAST_CAP, cap // 3))
        if inside and fits:
            cap = min(cap, left)
        task = selection.task.text if selection.task is not None else ""
        beside = 2 * cap + reasoning + INSTRUCTION_ROOM + estimate_text(task)
        return SummaryJob(
            settings=settings,
            previous_round=self._conversation.round,
            model=model,
            covered=selection.covered,
            previous=previous,
            task=task,
            max_tokens=cap,
            reasoning_tokens=reasoning,
            input_tokens=max(LEAST_INPUT, int((window - beside) * INPUT_SHARE)),
            prefix=(request or self._conversation.sound_request(config)) if inside and fits else None,
            instructions=round.instructions,
        )

    def _window(self, model: str) -> int:
        """A model's window in tokens, or less where its provider has said so. Raises `SummaryFailed` for a model that
        was taken away since it was chosen."""
        try:
            known = self._window_of(model)
        except InvalidRequestError as error:
            raise SummaryFailed(error.code, error.detail) from error
        learned = self._models.windows.get(model) if self._models.windows is not None else None
        return min(known, learned or known)

    def cap(self, settings: CompactionSettings) -> int:
        return settings.summary_max_tokens or SUMMARY_CAP

    def _reasons(self) -> bool:
        return any(isinstance(part, ReasoningPart) for message in self._conversation.history for part in message.parts)

    def candidate(
        self, round: Round, selection: Selection, prose: str, rung: Rung, pruned: frozenset[str]
    ) -> Candidate:
        """The context that a prose would make, measured."""
        summary = self._summary(round, selection, prose)
        checkpoint = Checkpoint(
            round.number, summary.id, selection.first_seq, selection.last_seq, selection.kept, selection.clips
        )
        checkpoints = [*self._conversation.checkpoints, checkpoint]
        tokens = self._conversation.measure(summary, checkpoints, pruned)
        return Candidate(checkpoint, summary, prose, rung, selection.covered, tokens)

    def _summary(self, round: Round, selection: Selection, prose: str) -> Message:
        """The summary's message, with what is known for certain placed by us. Its seq is given when it is stored."""
        settings, conversation = round.settings, self._conversation
        text = compose_summary(
            settings.policy,
            round.number,
            prose,
            self._facts(round.budget, settings, round.number - 1),
            selection.latest_request.text if selection.latest_request is not None else None,
        )
        part = TextPart(id=new_id(), index=0, text=text, tokens=estimate_text(text))
        marker = CompactionMarkerPart(id=new_id(), index=1, round=round.number)
        return Message(
            id=new_id(),
            seq=conversation.history[-1].seq + 1,
            role=Role.ASSISTANT if settings.policy == "threshold" else Role.USER,
            parts=(part, marker),
            tokens=PER_MESSAGE + part.tokens,
            model=settings.model or round.config.model,
            is_summary=True,
            created_at=now(),
        )

    async def commit(
        self,
        round: Round,
        candidate: Candidate,
        batch: PruneBatch | None,
        usage: Usage,
        refreshed: Callable[[], Awaitable[AgentConfig]],
    ) -> None:
        """Makes a candidate the context: checkpoint, marks, generation and event in one transaction."""
        conversation = self._conversation
        config = await refreshed()
        pruned = self.pruned(batch)
        covered = candidate.covered
        completed = RoundCompleted(
            checkpoint=candidate.checkpoint,
            summary=candidate.summary,
            rung=candidate.rung,
            first_message_id=covered[0].id,
            last_message_id=covered[-1].id,
            messages_compacted=len(covered),
            pruned=batch.call_ids if batch is not None else (),
            tokens_before=round.target.before,
            tokens_after=candidate.tokens,
            prose=candidate.prose,
            usage=usage,
            duration_ms=round.elapsed_ms,
        )
        # The summary gets the seq of its own event, which is the first of the commit.
        conversation.append(candidate.summary)
        checkpoints = [*conversation.checkpoints, candidate.checkpoint]
        opened = conversation.adopt(config, "checkpoint", checkpoints, pruned)
        changes = [] if batch is None else [_pruned("trigger", batch, round.target.before, candidate.tokens)]
        await self._sink.record(completed, *changes, opened)

    async def prune(self, config: AgentConfig, batch: PruneBatch, reason: PruneReason, before: int, after: int) -> None:
        """Clears outputs without a summary."""
        opened = self._conversation.adopt(config, "prune", self._conversation.checkpoints, self.pruned(batch))
        await self._sink.record(_pruned(reason, batch, before, after), opened)

    async def _failed(
        self, round: Round, rung: Rung, code: str, detail: str, usage: Usage, following: Rung | None
    ) -> None:
        await self._sink.record(RungFailed(round.number, rung, code, detail, usage, following))

    async def _too_large(self, round: Round, candidate: Candidate, usage: Usage, following: Rung | None) -> None:
        detail = f"The context would have {candidate.tokens:,} tokens; {round.target.tokens:,} are wanted at most."
        if candidate.tokens >= round.target.before:
            detail = f"The context would have {candidate.tokens:,} tokens, which is not less than before."
        await self._failed(round, candidate.rung, "not_small_enough", detail, usage, following)


def _pruned(reason: PruneReason, batch: PruneBatch, before: int, after: int) -> OutputsPruned:
    return OutputsPruned(reason, batch.call_ids, batch.tools, before, after)
