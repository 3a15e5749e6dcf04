"""`palimpsest eval`: measures on this machine, without a server, with the providers of the settings; results as a
table."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import typer

from app.agent.model_calls import ModelCalls
from app.bootstrap import build_providers, default_model, secrets_of
from app.cli import screen
from app.cli.eval_table import ProgressLine, check_writable, percent, table, write_report
from app.cli.screen import CANCELLED, COMPLETED, FAILED, Screen, UsageError, visible
from app.cli.startup import load_settings
from app.cli.view import plural
from app.context.policies import POLICIES, Policy
from app.errors import MissingApiKeyError, UnknownModelError
from app.llm.registry import Providers
from app.logs import configure_logging
from app.messages import Usage
from app.server import read_prompts
from app.sessions import Rung
from app.settings import Settings
from evals import (
    BASELINE,
    KINDS,
    LONG_HISTORIES,
    Evaluation,
    Models,
    RecordedHistory,
    Report,
    Row,
    evaluate,
    load_packaged,
    packaged_names,
    read_history,
    report,
    work_of,
)
from evals.results import Sums, cached, recall, share

SCRIPTED = "scripted/"

_HEADINGS = {"task": "task", "files": "files", "decisions": "decis.", "errors": "errors", "next_step": "next"}
NO_MODEL = (
    "The scripted demo only searches text: these figures show that the evaluation works, not how well a model does."
)


def run_evaluation(
    model: str | None,
    judge: str | None,
    policies: str | None,
    histories: Sequence[str],
    window: int | None,
    *,
    as_json: bool,
    out: Path | None,
) -> int:
    """Runs the evaluation and prints the report; returns the exit status. Ctrl-C ends it and prints what is done."""
    settings = load_settings()
    # The rows report problems already; do not log them too.
    configure_logging("warning", settings.log_format, secrets_of(settings))
    chosen = cast(list[Policy], policies_of(policies))
    loaded = read_histories(histories, [name for name in packaged_names() if name not in LONG_HISTORIES])
    name = model or default_model(settings)
    template = read_prompts(settings).summary
    evaluation = Evaluation(name, loaded, chosen, judge, window, summary_template=template)
    stopped = False
    try:
        asyncio.run(_measure(settings, evaluation, out))
    except KeyboardInterrupt:
        stopped = True
    found = report(name, judge, evaluation.in_order(), scripted=name.startswith(SCRIPTED))
    write_report({**found.public(), "stopped": stopped}, out=out, as_json=as_json)
    if found.rows and not as_json:
        typer.echo(visible(render(found)))
    if stopped:
        done, all_rows = len(found.rows), len(work_of(evaluation))
        Screen(sys.stderr).line(f"stopped; {done} of {all_rows} rows are done", fg="yellow")
        return CANCELLED
    return COMPLETED if any(row.complete for row in found.rows) else FAILED


def policies_of(text: str | None, known: Sequence[str] = POLICIES) -> list[str]:
    """The named policies, in order, without duplicates; all `known` ones for None. Raises `UsageError`."""
    if text is None:
        return list(known)
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        which = f"Unknown policy {unknown[0]!r}" if unknown else "No policy is given"
        raise UsageError(f"{which}; choose from {', '.join(known)}.", code="unknown_policy")
    return names


def read_histories(given: Sequence[str], usual: Sequence[str]) -> list[RecordedHistory]:
    """The given histories, or the packaged ones of `usual`. Raises `InvalidHistoryError`, and `UsageError` for two with
    the same name, whose rows could not be told apart."""
    histories = [read_history(name) for name in given] or [load_packaged(name) for name in usual]
    names = [history.name for history in histories]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise UsageError(f"Two histories have the name {twice[0]!r}.", code="same_name")
    return histories


def _announcement(evaluation: Evaluation) -> str:
    """The number of rounds and questions, since each question is a model call with a full context."""
    rounds = len(evaluation.histories) * len(evaluation.policies)
    questions = sum(len(history.probes) for history in evaluation.histories) * (1 + len(evaluation.policies))
    judged = f", each answer judged by {evaluation.judge}" if evaluation.judge else ""
    return f"{plural(rounds, 'round')} and {plural(questions, 'question')} for {evaluation.model}{judged}"


async def _measure(settings: Settings, evaluation: Evaluation, out: Path | None) -> None:
    """Checks models and output file, announces the number of calls, and runs the evaluation."""
    providers = await asyncio.to_thread(build_providers, settings)
    models = Models(
        ModelCalls(providers.resolve, providers.catalog.cost, settings.provider_max_attempts), providers.info
    )
    progress = Progress(evaluation)
    try:
        models_asked = [model for model in (evaluation.model, evaluation.judge) if model is not None]
        _check_models(providers, models_asked)
        if out is not None:
            check_writable(out)
        Screen(sys.stderr).line(_announcement(evaluation), dim=True)
        for model in models_asked:
            await providers.ask_window(model)
        await evaluate(evaluation, models, progress)
    finally:
        progress.clear()
        await providers.aclose()


def _check_models(providers: Providers, models: Sequence[str]) -> None:
    """Raises `UsageError` for an unknown model, or one whose provider has no key."""
    for model in models:
        try:
            providers.resolve(model)
        except UnknownModelError as error:
            raise UsageError(error.detail, code="unknown_model") from error
        except MissingApiKeyError as error:
            raise UsageError(error.detail, code="missing_api_key") from error


class Progress:
    """Shows progress on standard error, a line for each completed row."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation
        self._total = len(work_of(evaluation))
        self._line = ProgressLine()

    def __call__(self, history: str, policy: str, what: str) -> None:
        row = self._evaluation.rows.get((history, policy))
        place = f"[{len(self._evaluation.rows)}/{self._total}] {history}, {policy}"
        if row is None:
            self._line.change(f"{place}: {what}")
        else:
            self._line.end(f"{place}: {row.error or f'{percent(recall(row.answers))} recalled'}")

    def clear(self) -> None:
        """Removes the changing line."""
        self._line.clear()


def render(report: Report) -> str:
    """The totals by policy, all rows, and the problems."""
    judged = report.judge is not None
    blocks = [f"Recall of {report.model} after one round of compaction"]
    if report.scripted:
        blocks.append(NO_MODEL)
    blocks.append(
        f"Total ({_compared(report)})\n{table(_titles(judged), [_sum_cells(s, judged) for s in report.policies])}"
    )
    for history in report.histories:
        rows = [row for row in report.rows if row.history == history]
        blocks.append(f"{history}\n{table(_titles(judged), [_row_cells(row, judged) for row in rows])}")
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
    figures = f"{usage.prompt_tokens:,} in · {usage.output_tokens:,} out · {screen.money(usage.cost_usd)}"
    return [f"{before:,} → {after:,}", figures, percent(cached(usage))]


def _problems(report: Report) -> Iterator[str]:
    for row in report.rows:
        for note in row.notes:
            yield f"{row.history}, {_name(row.policy)}: {note}"
        if row.error is not None:
            yield f"{row.history}, {_name(row.policy)}: {row.error}"
