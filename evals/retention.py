"""The results of replayed histories: what became of each fact, and sums with their uncertainty."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt
from statistics import mean, stdev
from typing import Any

from app.messages import Usage, Value
from evals.costs import TokenPrices
from evals.histories import Fact, Kind
from evals.results import cached, share

Z = 1.96
"""Standard deviations of a confidence interval of 95%."""


class FactState(Value):
    """What became of one fact: whether the last context states it, whether one of the first places that
    `history_search` returns for its question shows it, and whether it is found by all places and `recall`.
    `misleading` is a context that states only what held before. `over_rounds` is the share of rounds after which the
    fact, once told, was in the context."""

    kind: Kind
    question: str
    fact: Fact
    in_context: bool
    searched: bool
    found: bool
    misleading: bool
    over_rounds: float


class Retention(Value):
    """One history, replayed under one policy with one summarizer. `rungs` counts what made the context smaller;
    `tokens` is the size of the last context and `peak` that of the largest. Costs are in US dollars at the report's
    prices; `uncompacted_usd` is what the same steps cost if nothing is ever compacted, and `new_tokens` are those that
    they then read for the first time: no cache has them, under any policy."""

    history: str
    policy: str
    summarizer: str
    window: int
    steps: int
    rungs: dict[str, int]
    tokens: int
    peak: int
    usage: Usage
    summaries: Usage
    cost_usd: float
    uncompacted_usd: float
    new_tokens: int = 0
    facts: tuple[FactState, ...] = ()
    error: str | None = None

    @property
    def rounds(self) -> int:
        return sum(self.rungs.values())


class Interval(Value):
    """A share with its confidence interval of 95%."""

    share: float
    low: float
    high: float


class RetentionSums(Value):
    """The sums over one policy's rows with one summarizer. Shares are of all facts of all histories: `in_context` at
    the end, `over_rounds` on average after each round, `found` only with the tools, `neither`, `misleading`; `searched`
    is the share that a search shows, whether in the context or not. `cost` is relative to no compaction. `cached` is
    the share of the tokens read that were in the cache, and `at_best` what it would be if only what is read for the
    first time were not."""

    policy: str
    summarizer: str
    histories: int
    facts: int
    rounds: int
    in_context: Interval | None
    over_rounds: Interval | None
    found: float | None
    neither: float | None
    misleading: int
    searched: Interval | None
    cost_usd: float
    cost: float | None
    cached: float | None
    at_best: float | None
    peak: int


class RetentionReport(Value):
    """All rows, and the sums over the histories that every policy finished."""

    prices: TokenPrices
    compared: tuple[str, ...]
    sums: tuple[RetentionSums, ...]
    rows: tuple[Retention, ...]

    def public(self) -> dict[str, Any]:
        """As JSON."""
        return self.model_dump(mode="json")


def retention_report(rows: Sequence[Retention], prices: TokenPrices) -> RetentionReport:
    """Sums the rows by policy and summarizer. Histories that are not finished under all of them are left out, since
    shares of different facts cannot be compared."""
    kinds = tuple(dict.fromkeys((row.policy, row.summarizer) for row in rows))
    done = {(row.history, row.policy, row.summarizer) for row in rows if row.error is None}
    histories = dict.fromkeys(row.history for row in rows)
    compared = tuple(name for name in histories if all((name, *kind) in done for kind in kinds))
    sums = tuple(
        _sums(kind, [row for row in rows if (row.policy, row.summarizer) == kind and row.history in compared])
        for kind in kinds
    )
    return RetentionReport(prices=prices, compared=compared, sums=sums, rows=tuple(rows))


def _sums(kind: tuple[str, str], rows: Sequence[Retention]) -> RetentionSums:
    facts = [fact for row in rows for fact in row.facts]
    uncompacted = sum(row.uncompacted_usd for row in rows)
    cost = sum(row.cost_usd for row in rows)
    usage = sum((row.usage for row in rows), Usage())
    return RetentionSums(
        policy=kind[0],
        summarizer=kind[1],
        histories=len(rows),
        facts=len(facts),
        rounds=sum(row.rounds for row in rows),
        in_context=wilson([fact.in_context for fact in facts]),
        over_rounds=mean_interval([fact.over_rounds for fact in facts]),
        found=share(fact.found and not fact.in_context for fact in facts),
        neither=share(not fact.found and not fact.in_context for fact in facts),
        misleading=sum(fact.misleading for fact in facts),
        searched=wilson([fact.searched for fact in facts]),
        cost_usd=cost,
        cost=cost / uncompacted if uncompacted else None,
        cached=cached(usage),
        at_best=1 - sum(row.new_tokens for row in rows) / usage.prompt_tokens if usage.prompt_tokens else None,
        peak=max((row.peak for row in rows), default=0),
    )


def wilson(facts: Sequence[bool]) -> Interval | None:
    """The share that is true, with Wilson's score interval, which holds for shares near 0 and 1 too."""
    count = len(facts)
    if not count:
        return None
    found = sum(facts) / count
    middle = (found + Z * Z / (2 * count)) / (1 + Z * Z / count)
    reach = Z / (1 + Z * Z / count) * sqrt(found * (1 - found) / count + Z * Z / (4 * count * count))
    return Interval(share=found, low=max(0.0, middle - reach), high=min(1.0, middle + reach))


def mean_interval(values: Iterable[float]) -> Interval | None:
    """The mean of shares of independent facts, with its interval."""
    known = list(values)
    if not known:
        return None
    reach = Z * stdev(known) / sqrt(len(known)) if len(known) > 1 else 0.0
    return Interval(share=mean(known), low=max(0.0, mean(known) - reach), high=min(1.0, mean(known) + reach))
