"""Replays histories under policies and asks the probes, a few histories in parallel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from app.context.policies import Policy
from app.errors import PalimpsestError
from app.messages import Message, Usage
from evals.histories import Probe, RecordedHistory
from evals.probing import ask, judge
from evals.replay import Models, Replay, RoundResult
from evals.results import BASELINE, Answer, Row
from evals.scoring import found

MAX_PARALLEL = 3
"""Histories in parallel: enough to hide a provider's latency, few enough for a local model and most rate limits."""

Progress = Callable[[str, str, str], None]
"""Called with the history, the policy and a description of the progress."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What to measure. `window` is the window that rounds are made for; with None it is, for each history and policy,
    one that the history has just filled. `summary_template` replaces the sections of a summary."""

    model: str
    histories: Sequence[RecordedHistory]
    policies: Sequence[Policy]
    judge: str | None = None
    window: int | None = None
    parallel: int = MAX_PARALLEL
    summary_template: str | None = None
    rows: dict[tuple[str, str], Row] = field(default_factory=dict)
    """The finished rows; filled while `evaluate` works, so that an aborted evaluation still has results."""

    def in_order(self) -> list[Row]:
        """The finished rows, by history and policy."""
        return [self.rows[place] for place in work_of(self) if place in self.rows]


def work_of(evaluation: Evaluation) -> list[tuple[str, str]]:
    """All rows to fill, as history and policy."""
    return [(history.name, policy) for history in evaluation.histories for policy in (BASELINE, *evaluation.policies)]


async def evaluate(evaluation: Evaluation, models: Models, progress: Progress) -> None:
    """Fills the evaluation's rows. Errors of a model are recorded in their row; those of the caller, such as an unknown
    model, are raised as `PalimpsestError`."""
    for name in filter(None, (evaluation.model, evaluation.judge)):
        models.info(name)
        models.calls.resolve(name)
    places = asyncio.Semaphore(evaluation.parallel)

    async def one(history: RecordedHistory) -> None:
        async with places:
            await _History(evaluation, models, progress, history).measure()

    async with asyncio.TaskGroup() as group:
        for history in evaluation.histories:
            group.create_task(one(history))


class _History:
    """One history under all policies.

    The full context comes first, so that the provider has it cached when a round asks for a summary in the
    conversation, as it would after an agent's own last step.
    """

    def __init__(self, evaluation: Evaluation, models: Models, progress: Progress, history: RecordedHistory) -> None:
        self._evaluation = evaluation
        self._models = models
        self._progress = progress
        self._history = history

    async def measure(self) -> None:
        messages = await asyncio.to_thread(self._history.conversation)
        await self._baseline(messages)
        for policy in self._evaluation.policies:
            await self._policy(policy, messages)

    async def _baseline(self, messages: Sequence[Message]) -> None:
        replay = await Replay.of(self._history, messages, self._evaluation.model, self._models)
        row = Row(
            history=self._history.name,
            policy=BASELINE,
            tokens_before=replay.tokens,
            tokens_after=replay.tokens,
            window=replay.window,
        )
        if not replay.fits:
            detail = f"The full context of about {replay.tokens:,} tokens does not fit the window of {replay.window:,}."
            self._finish(row.model_copy(update={"error": detail}))
            return
        await self._probe(row, replay)

    async def _policy(self, policy: Policy, messages: Sequence[Message]) -> None:
        replay = await Replay.of(
            self._history,
            messages,
            self._evaluation.model,
            self._models,
            policy=policy,
            window=self._evaluation.window,
            summary_template=self._evaluation.summary_template,
        )
        before = replay.tokens
        self._tell(policy, f"compacting: {before:,} tokens in a window of {replay.window:,}")
        result = await replay.compact()
        row = _row(self._history.name, policy, before, replay, result)
        if row.error is not None:
            self._finish(row)
            return
        self._tell(policy, f"{row.rung}: {row.tokens_before:,} → {row.tokens_after:,} tokens")
        await self._probe(row, replay)

    async def _probe(self, row: Row, replay: Replay) -> None:
        """Asks all probes one by one: the provider has the context cached for each, and no question helps with another.
        Questions left unanswered because of an error are not in the row."""
        answers: list[Answer] = []
        probing, judging = Usage(), Usage()
        error: str | None = None
        probes = self._history.probes
        for number, probe in enumerate(probes, 1):
            self._tell(row.policy, f"question {number} of {len(probes)}")
            try:
                reply = await ask(self._models.calls, replay.request(), probe)
                probing += reply.usage
                judged, cost = await self._judge(probe, reply.text)
                judging += cost
            except PalimpsestError as failure:
                error = f"{failure.detail} ({failure.code})"
                break
            answers.append(
                Answer(
                    kind=probe.kind,
                    question=probe.question,
                    facts=probe.facts,
                    answer=reply.text,
                    found=found(reply.text, probe.facts),
                    judged=judged,
                )
            )
        update = {"answers": tuple(answers), "probing": probing, "judging": judging, "error": error}
        self._finish(row.model_copy(update=update))

    async def _judge(self, probe: Probe, answer: str) -> tuple[tuple[bool, ...] | None, Usage]:
        if self._evaluation.judge is None:
            return None, Usage()
        return await judge(self._models.calls, self._evaluation.judge, probe, answer)

    def _finish(self, row: Row) -> None:
        self._evaluation.rows[row.history, row.policy] = row
        self._tell(row.policy, row.error or "done")

    def _tell(self, policy: str, what: str) -> None:
        self._progress(self._history.name, policy, what)


def _row(history: str, policy: str, before: int, replay: Replay, result: RoundResult) -> Row:
    return Row(
        history=history,
        policy=policy,
        tokens_before=before,
        tokens_after=replay.tokens,
        window=replay.window,
        rung=result.rung,
        messages_compacted=result.messages_compacted,
        outputs_pruned=result.outputs_pruned,
        compaction=result.usage,
        notes=tuple(f"{failure.rung}: {failure.detail} ({failure.code})" for failure in result.failures),
        error=f"No round was made. {result.problem}" if result.rung is None else None,
        summary=result.summary,
    )
