"""`palimpsest eval --junk` and `--oracle`: long histories replayed round by round, without a model; results as a
table."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import typer

from app.cli.eval_search import open_searcher
from app.cli.eval_table import ProgressLine, check_writable, percent, table, write_report
from app.cli.evaluate import policies_of, read_histories
from app.cli.screen import CANCELLED, COMPLETED, FAILED, Screen, UsageError, visible
from app.logs import configure_logging
from evals import (
    LONG_HISTORIES,
    POLICY_NAMES,
    SET_ASIDE,
    GrowthSetup,
    Interval,
    RetentionReport,
    RetentionSums,
    Summarizer,
    grow,
    retention_report,
)

_TITLES = [
    *("", "summaries", "rounds", "in context", "each round", "found", "neither", "misleading", "search", "cost"),
    *("cached", "at best", "largest"),
]
_EXPLANATION = """\
In context: facts that the last context states, with the 95% interval; each round: the mean after every round.
Found: only by history_search or recall. Search: among its first five places, whether in the context or not.
Cost: of all steps and summaries, relative to no compaction, at ${input:g} / ${cached:g} / ${output:g} per million
tokens read, read from the cache, and written. Cached: of the tokens read; at best: if only what is read for the first
time were not. Summaries are {summaries}."""
_SUMMARIES = {"junk": "junk (no facts)", "oracle": "an oracle's (every fact shown to it)"}


def setup_of(
    summarizers: Sequence[str], policies: str | None, histories: Sequence[str], window: int | None, model: str | None
) -> GrowthSetup:
    """What the options ask for. Raises `UsageError`."""
    if model is not None:
        raise UsageError("--junk and --oracle call no model; leave out --model and --judge.", code="unused_model")
    return GrowthSetup(
        read_histories(histories, LONG_HISTORIES),
        policies_of(policies, POLICY_NAMES),
        cast(list[Summarizer], list(summarizers)),
        window,
    )


def run_growth(setup: GrowthSetup, *, as_json: bool, out: Path | None) -> int:
    """Replays the histories and prints the report; returns the exit status. Ctrl-C ends it and prints what is done."""
    configure_logging("warning", "console")
    if out is not None:
        check_writable(out)
    stopped, line = False, ProgressLine()
    try:
        asyncio.run(grow(setup, open_searcher, _Progress(setup, line)))
    except KeyboardInterrupt:
        stopped = True
    line.clear()
    found = retention_report(setup.in_order(), setup.prices)
    write_report({**found.public(), "stopped": stopped}, out=out, as_json=as_json)
    if found.rows and not as_json:
        typer.echo(visible(render_growth(found)))
    if stopped:
        done, every = len(found.rows), len(setup.places())
        Screen(sys.stderr).line(f"stopped; {done} of {every} replays are done", fg="yellow")
        return CANCELLED
    return COMPLETED if any(row.error is None for row in found.rows) else FAILED


class _Progress:
    """Shows which replay is at which step."""

    def __init__(self, setup: GrowthSetup, line: ProgressLine) -> None:
        self._setup = setup
        self._line = line

    def __call__(self, history: str, policy: str, summarizer: str, what: str) -> None:
        done = len(self._setup.rows)
        text = f"[{done}/{len(self._setup.places())}] {history}, {policy}, {summarizer}: {what}"
        row = self._setup.rows.get((history, policy, summarizer))
        if row is None:
            self._line.change(text)
        else:
            self._line.end(text)


def render_growth(report: RetentionReport) -> str:
    """The totals, each history's rows, and the replays that failed."""
    kinds = dict.fromkeys(sums.summarizer for sums in report.sums)
    blocks = [
        _EXPLANATION.format(**report.prices.model_dump(), summaries=" and ".join(_SUMMARIES[kind] for kind in kinds))
    ]
    total = f"Total ({plural_histories(len(report.compared))}, {report.sums[0].facts} facts)"
    blocks.append(f"{total}\n{table(_TITLES, [_cells(sums) for sums in report.sums])}")
    for name in dict.fromkeys(row.history for row in report.rows):
        rows = [row for row in report.rows if row.history == name]
        aside = ", held out: not used for tuning" if name in SET_ASIDE else ""
        title = f"{name} (window {rows[0].window:,}, {rows[0].steps} steps{aside})"
        own = retention_report(rows, report.prices).sums
        blocks.append(f"{title}\n{table(_TITLES, [_cells(sums) for sums in own])}")
    blocks += [f"{row.history}, {row.policy}, {row.summarizer}: {row.error}" for row in report.rows if row.error]
    return "\n\n".join(blocks)


def plural_histories(count: int) -> str:
    return "1 history" if count == 1 else f"{count} histories"


def _cells(sums: RetentionSums) -> list[str]:
    if not sums.facts:
        return [sums.policy, "no history is finished under every policy"]
    return [
        sums.policy,
        sums.summarizer,
        str(sums.rounds),
        _interval(sums.in_context),
        percent(sums.over_rounds.share if sums.over_rounds else None),
        percent(sums.found),
        percent(sums.neither),
        str(sums.misleading),
        percent(sums.searched.share if sums.searched else None),
        percent(sums.cost),
        percent(sums.cached),
        percent(sums.at_best),
        f"{sums.peak:,}",
    ]


def _interval(value: Interval | None) -> str:
    """`83% (76–88)`."""
    if value is None:
        return "–"
    return f"{percent(value.share)} ({round(100 * value.low)}–{round(100 * value.high)})"
