"""The results of an evaluation as a table for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from app.cli import amounts
from app.evaluation import BASELINE, KINDS, Report, Row
from app.evaluation.results import Sums, cached, recall, share
from app.messages import Usage
from app.sessions import Rung

_HEADINGS = {"task": "task", "files": "files", "decisions": "decis.", "errors": "errors", "next_step": "next"}

NO_MODEL = (
    "The scripted demo only searches text: these figures show that the evaluation works, not how well a model does."
)


def render(report: Report) -> str:
    """The totals by policy, all rows, and the problems."""
    judged = report.judge is not None
    blocks = [f"Recall of {report.model} after one round of compaction"]
    if report.scripted:
        blocks.append(NO_MODEL)
    blocks.append(f"Total ({_compared(report)})\n{_table([_sum_cells(s, judged) for s in report.policies], judged)}")
    for history in report.histories:
        rows = [row for row in report.rows if row.history == history]
        blocks.append(f"{history}\n{_table([_row_cells(row, judged) for row in rows], judged)}")
    problems = list(_problems(report))
    if problems:
        blocks.append("\n".join(["Problems", *(f"  {line}" for line in problems)]))
    return "\n\n".join(blocks)


def _compared(report: Report) -> str:
    count, total = len(report.compared), len(report.histories)
    if count == total:
        return f"{total} histor{'y' if total == 1 else 'ies'}"
    return f"{count} of {total} histories: those that every policy completed"


def _titles(judged: bool) -> list[str]:
    judge = ["judge"] if judged else []
    return ["", *(_HEADINGS[kind] for kind in KINDS), "all", *judge, "rung", "tokens", "round cost", "cached"]


def _sum_cells(sums: Sums, judged: bool) -> list[str]:
    if not sums.rows:
        return [sums.policy, "no history"]
    return [
        _name(sums.policy),
        *(percent(sums.recall[kind]) for kind in KINDS),
        percent(sums.overall),
        *([percent(sums.judged)] if judged else []),
        _rungs(sums.rungs),
        *_costs(sums.policy, sums.tokens_before, sums.tokens_after, sums.compaction),
    ]


def _row_cells(row: Row, judged: bool) -> list[str]:
    if not row.complete:
        return [_name(row.policy), "failed, see below"]
    return [
        _name(row.policy),
        *(percent(recall(answer for answer in row.answers if answer.kind == kind)) for kind in KINDS),
        percent(recall(row.answers)),
        *([percent(share(fact for answer in row.answers for fact in answer.judged or ()))] if judged else []),
        row.rung or "–",
        *_costs(row.policy, row.tokens_before, row.tokens_after, row.compaction),
    ]


def _name(policy: str) -> str:
    return "full context" if policy == BASELINE else policy


def _rungs(rungs: Mapping[Rung, int]) -> str:
    """`summary`, or `prune 2, summary 4` if histories differ; a dash if nothing was compacted."""
    if len(rungs) <= 1:
        return next(iter(rungs), "–")
    return ", ".join(f"{rung} {count}" for rung, count in rungs.items())


def _costs(policy: str, before: int, after: int, usage: Usage) -> list[str]:
    if policy == BASELINE:
        return [f"{before:,}", "–", "–"]
    if not usage.total_tokens:
        return [f"{before:,} → {after:,}", "no model call", "–"]
    figures = f"{usage.prompt_tokens:,} in · {usage.output_tokens:,} out · {amounts.money(usage.cost_usd)}"
    return [f"{before:,} → {after:,}", figures, percent(cached(usage))]


def percent(value: float | None) -> str:
    """`83%`; a dash for None."""
    return "–" if value is None else f"{round(100 * value)}%"


def _table(rows: Sequence[Sequence[str]], judged: bool) -> str:
    """Columns as wide as their contents; the first is left-aligned, figures are right-aligned."""
    titles = _titles(judged)
    whole = [titles, *(row for row in rows if len(row) == len(titles))]
    widths = [max(len(row[column]) for row in whole) for column in range(len(titles))]
    widths[0] = max(widths[0], *(len(row[0]) for row in rows), 12)
    return "\n".join(_line(row, widths) for row in [titles, *rows])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    if len(row) < len(widths):
        return f"  {row[0]:<{widths[0]}}  {row[1]}"
    cells = [f"{row[0]:<{widths[0]}}", *(f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))]
    return "  " + "  ".join(cells).rstrip()


def _problems(report: Report) -> Iterator[str]:
    for row in report.rows:
        for note in row.notes:
            yield f"{row.history}, {_name(row.policy)}: {note}"
        if row.error is not None:
            yield f"{row.history}, {_name(row.policy)}: {row.error}"
