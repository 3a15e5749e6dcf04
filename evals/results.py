"""The results of an evaluation: answers, rows, and sums over them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, get_args

from app.messages import Usage, Value
from app.sessions import Rung
from evals.histories import KINDS, Kind

BASELINE = "full"
"""The row of the full context."""

RUNGS: tuple[Rung, ...] = get_args(Rung)


class Answer(Value):
    """One probe and its answer. `found` says for each fact whether the answer contains its words, `judged` whether the
    judge finds it there; null without a judge, or if the verdict could not be parsed."""

    kind: Kind
    question: str
    facts: tuple[tuple[str, ...], ...]
    answer: str
    found: tuple[bool, ...]
    judged: tuple[bool, ...] | None = None


class Row(Value):
    """One history under one policy, or the full context. Tokens are estimates of the whole request; `window` is the one
    that the round was made for, and `rung` what made the context smaller. `error` says why answers are missing; `notes`
    are rungs that failed."""

    history: str
    policy: str
    tokens_before: int
    tokens_after: int
    window: int
    rung: Rung | None = None
    messages_compacted: int = 0
    outputs_pruned: int = 0
    compaction: Usage = Usage()
    probing: Usage = Usage()
    judging: Usage = Usage()
    notes: tuple[str, ...] = ()
    answers: tuple[Answer, ...] = ()
    error: str | None = None
    summary: str | None = None

    @property
    def complete(self) -> bool:
        return self.error is None and bool(self.answers)


class Sums(Value):
    """The sums over one policy's rows. A recall is the share of facts that were found, null without any; `rungs` says
    how many contexts each rung made smaller, from mildest to harshest; `cached` is the share of the summary requests'
    tokens that the provider read from its cache, null if no model was asked."""

    policy: str
    rows: int
    failed: int
    recall: dict[str, float | None]
    overall: float | None
    judged: float | None
    rungs: dict[Rung, int]
    tokens_before: int
    tokens_after: int
    compaction: Usage
    cached: float | None


class Report(Value):
    """All rows, in order, and the sums of each policy over the histories that every policy finished."""

    model: str
    judge: str | None
    kinds: tuple[str, ...] = KINDS
    scripted: bool = False
    histories: tuple[str, ...]
    compared: tuple[str, ...]
    policies: tuple[Sums, ...]
    rows: tuple[Row, ...]

    def public(self) -> dict[str, Any]:
        """As JSON."""
        return self.model_dump(mode="json")


def report(model: str, judge: str | None, rows: Sequence[Row], *, scripted: bool) -> Report:
    """Sums the rows. Means over different histories cannot be compared, so histories that a policy did not finish are
    left out of all sums; failures of the baseline count only for the baseline."""
    histories = tuple(dict.fromkeys(row.history for row in rows))
    policies = tuple(dict.fromkeys(row.policy for row in rows))
    unfinished = {row.history for row in rows if row.policy != BASELINE and not row.complete}
    compared = tuple(name for name in histories if name not in unfinished)
    sums = tuple(_sums(policy, [row for row in rows if row.policy == policy], compared) for policy in policies)
    return Report(
        model=model,
        judge=judge,
        scripted=scripted,
        histories=histories,
        compared=compared,
        policies=sums,
        rows=tuple(rows),
    )


def _sums(policy: str, rows: Sequence[Row], compared: Sequence[str]) -> Sums:
    counted = [row for row in rows if row.complete and row.history in compared]
    answers = [answer for row in counted for answer in row.answers]
    compaction = sum((row.compaction for row in counted), Usage())
    return Sums(
        policy=policy,
        rows=len(counted),
        failed=sum(1 for row in rows if not row.complete),
        recall={kind: recall(answer for answer in answers if answer.kind == kind) for kind in KINDS},
        overall=recall(answers),
        judged=share(fact for answer in answers for fact in answer.judged or ()),
        rungs={rung: n for rung in RUNGS if (n := sum(row.rung == rung for row in counted))},
        tokens_before=sum(row.tokens_before for row in counted),
        tokens_after=sum(row.tokens_after for row in counted),
        compaction=compaction,
        cached=cached(compaction),
    )


def recall(answers: Iterable[Answer]) -> float | None:
    """The share of facts that the answers state; None without a fact."""
    return share(fact for answer in answers for fact in answer.found)


def share(facts: Iterable[bool]) -> float | None:
    """The share that is true; None without any."""
    known = list(facts)
    return sum(known) / len(known) if known else None


def cached(usage: Usage) -> float | None:
    """The share of the tokens read that came from the provider's cache; None if nothing was read."""
    return usage.cache_read_tokens / usage.prompt_tokens if usage.prompt_tokens else None
