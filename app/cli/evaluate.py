"""`palimpsest eval`: runs an evaluation in this process, without a server, with the configured providers."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import typer

from app.agent.model_calls import ModelCalls
from app.bootstrap import build_providers, default_model, secrets_of
from app.cli.config import load_settings
from app.cli.errors import CANCELLED, COMPLETED, FAILED, CliError, UsageError
from app.cli.evaluation_table import percent, render
from app.cli.rounds import plural
from app.cli.screen import Screen, visible
from app.context.policies import POLICIES, Policy
from app.errors import MissingApiKeyError, UnknownModelError
from app.evaluation import (
    Evaluation,
    Models,
    RecordedHistory,
    Report,
    evaluate,
    load_packaged,
    packaged_names,
    read_history,
    report,
    work_of,
)
from app.evaluation.results import recall
from app.llm.registry import Providers
from app.logs import configure_logging
from app.server import read_prompts
from app.settings import Settings

SCRIPTED = "scripted/"

LINE_CHARS = 79
"""Max length of a progress line, so that it fits one line of a narrow terminal."""

_CLEAR_LINE = "\r\x1b[2K"


def run_evaluation(
    model: str | None,
    judge: str | None,
    policies: str,
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
    chosen = policies_of(policies)
    loaded = [read_history(given) for given in histories] or [load_packaged(name) for name in packaged_names()]
    name = model or default_model(settings)
    template = read_prompts(settings).summary
    evaluation = Evaluation(name, _distinct(loaded), chosen, judge, window, summary_template=template)
    stopped = False
    try:
        asyncio.run(_measure(settings, evaluation, out))
    except KeyboardInterrupt:
        stopped = True
    found = report(name, judge, evaluation.in_order(), scripted=name.startswith(SCRIPTED))
    _write(found, stopped, as_json=as_json, out=out)
    if stopped:
        done, all_rows = len(found.rows), len(work_of(evaluation))
        Screen(sys.stderr).line(f"stopped; {done} of {all_rows} rows are done", fg="yellow")
        return CANCELLED
    return COMPLETED if any(row.complete for row in found.rows) else FAILED


def policies_of(text: str) -> list[Policy]:
    """The named policies, in order, without duplicates. Raises `UsageError`."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in POLICIES]
    if unknown or not names:
        which = f"Unknown policy {unknown[0]!r}" if unknown else "No policy is given"
        raise UsageError(f"{which}; choose from {', '.join(POLICIES)}.", code="unknown_policy")
    return cast(list[Policy], names)


def _distinct(histories: Sequence[RecordedHistory]) -> list[RecordedHistory]:
    """Raises `UsageError` for two with the same name, whose rows could not be told apart."""
    names = [history.name for history in histories]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise UsageError(f"Two histories have the name {twice[0]!r}.", code="same_name")
    return list(histories)


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
            _check_writable(out)
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
    """Shows progress on standard error: on a terminal in one changing line, elsewhere in one line per completed row."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation
        self._total = len(work_of(evaluation))
        self._screen = Screen(sys.stderr)
        self._live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def __call__(self, history: str, policy: str, what: str) -> None:
        row = self._evaluation.rows.get((history, policy))
        place = f"[{len(self._evaluation.rows)}/{self._total}] {history}, {policy}"
        if row is None:
            if self._live:
                self._show(f"{place}: {what}", end="")
            return
        self._show(f"{place}: {row.error or f'{percent(recall(row.answers))} recalled'}", end="\n")

    def clear(self) -> None:
        """Removes the changing line."""
        if self._live:
            self._show("", end="")

    def _show(self, text: str, end: str) -> None:
        if self._live:
            sys.stderr.write(_CLEAR_LINE + visible(text)[:LINE_CHARS] + end)
            sys.stderr.flush()
        else:
            self._screen.line(text, dim=True)


def _write(found: Report, stopped: bool, *, as_json: bool, out: Path | None) -> None:
    document: dict[str, Any] = {**found.public(), "stopped": stopped}
    text = json.dumps(document, indent=2, ensure_ascii=False)
    if out is not None:
        try:
            out.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise _not_written(out, error) from error
    if as_json:
        typer.echo(text)
    elif found.rows:
        typer.echo(visible(render(found)))


def _check_writable(out: Path) -> None:
    """Raises `CliError` before any paid call."""
    try:
        with out.open("a"):
            pass
    except OSError as error:
        raise _not_written(out, error) from error


def _not_written(out: Path, error: OSError) -> CliError:
    return CliError(f"{out} cannot be written: {error.strerror}.", code="not_written")
