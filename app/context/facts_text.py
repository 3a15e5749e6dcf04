"""The computed facts as text, within a budget: the task and the newest items, the rest as counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from app.context.clipping import CHARS_PER_TOKEN, clip_middle, fit_tokens, most_that_fit, one_line, plural
from app.context.facts import Facts, FailedCommand, FileFact, UserRequest
from app.context.prompts import plan_lines
from app.context.tokens import estimate_text
from app.events import PlanItem
from app.messages import ToolStatus

REQUEST_CHARS = 2_000
"""Characters of one user message that are repeated verbatim."""

COMMAND_CHARS = 200
PATH_CHARS = 300
"""A path can have 4,096 characters; those that people write are far shorter."""

NAMED_TOOLS = 8
FIRST_FILES = 20
FIRST_FAILURES = 5
"""Files and failed commands that come before older user messages: the newest are what the work is about."""

_SEARCH_MANY, _SEARCH_ONE = "; `history_search` finds them", "; `history_search` finds the whole"
_REST_OF_TASK = ", since the task alone is larger than its room"
_REST_OF_REQUEST = '; recall("{message_id}") returns the whole'

_List = Literal["requests", "plan", "failed", "files"]

_ORDER: tuple[tuple[_List, int | None], ...] = (
    ("requests", 1),
    ("plan", None),
    ("failed", FIRST_FAILURES),
    ("files", FIRST_FILES),
    ("requests", None),
    ("files", None),
    ("failed", None),
)
"""Which list gets room next, and up to how many of its items; None is all of them."""

_Counts = Mapping[_List, int]
"""How many items of each list are shown, or exist."""

_NOUNS: Mapping[_List, str] = {
    "requests": "user message",
    "files": "file",
    "failed": "failed command",
    "plan": "plan item",
}

_NONE: _Counts = {"requests": 0, "plan": 0, "failed": 0, "files": 0}


def render_facts(facts: Facts, budget_tokens: int) -> str:
    """The facts as Markdown of at most `budget_tokens` estimated tokens.

    The task comes first and in full, unless it alone exceeds the budget. Then user messages, files, failed commands and
    plan get room, newest first; what does not fit is counted in one line. Equal facts give equal text; with a budget of
    0 there is none.
    """

    def fits(text: str) -> bool:
        return estimate_text(text) <= budget_tokens

    if not fits(_render(facts, facts.task, _NONE)):
        return _task_alone(facts, fits) or _with_clipped_task(facts, budget_tokens, fits)
    shown = _NONE
    for name, limit in _ORDER:
        shown = _extended(facts, shown, name, limit, fits)
    return _render(facts, facts.task, shown)


def _task_alone(facts: Facts, fits: Callable[[str], bool]) -> str | None:
    texts = (_task_section(facts.task), facts.task)
    return next((text for text in texts if facts.task and fits(text)), None)


def _with_clipped_task(facts: Facts, budget: int, fits: Callable[[str], bool]) -> str:
    def shortened(chars: int) -> str:
        return _render(
            facts, clip_middle(facts.task, chars, f"{_REST_OF_TASK}{_SEARCH_ONE if facts.searchable else ''}"), _NONE
        )

    most = min(len(facts.task), CHARS_PER_TOKEN * max(0, budget))
    chars = most_that_fit(most, lambda count: fits(shortened(count)))
    return shortened(chars) if chars else fit_tokens(facts.task or _render(facts, "", _NONE), budget)


def _extended(facts: Facts, shown: _Counts, name: _List, limit: int | None, fits: Callable[[str], bool]) -> _Counts:
    total = _totals(facts)[name]

    def fitting(count: int) -> bool:
        return fits(_render(facts, facts.task, {**shown, name: count}))

    count = most_that_fit(total if limit is None else min(total, limit), fitting)
    # More items can take less room, because they are no longer listed as left out: a count that fitted is not lowered.
    return {**shown, name: max(count, shown[name])}


def _totals(facts: Facts) -> _Counts:
    return {
        "requests": len(facts.requests),
        "plan": len(facts.plan),
        "failed": len(facts.failed_commands),
        "files": len(facts.files),
    }


def _render(facts: Facts, task: str, shown: _Counts) -> str:
    sections = (
        _task_section(task),
        _requests_section(facts, shown["requests"]),
        _files_section(facts.files[: shown["files"]]),
        _failed_section(facts.failed_commands[: shown["failed"]]),
        _plan_section(facts.plan, shown["plan"]),
        "\n".join(filter(None, (_counts(facts), _left_out(facts, shown)))),
    )
    return "\n\n".join(filter(None, sections))


def _task_section(task: str) -> str:
    return f"### Original Task\n{task}" if task else ""


def _requests_section(facts: Facts, shown: int) -> str:
    if not shown:
        return ""
    requests = facts.requests
    total = len(requests)
    entries = (
        f"[user message {number} of {total}]\n{_shortened(requests[number - 1])}"
        for number in range(total, total - shown, -1)
    )
    return "\n".join(("### Earlier user messages, newest first", *entries))


def _shortened(request: UserRequest) -> str:
    return clip_middle(request.text, REQUEST_CHARS, _REST_OF_REQUEST.format(message_id=request.message_id))


def _files_section(files: tuple[FileFact, ...]) -> str:
    if not files:
        return ""
    rows = (f"| {_cell(file.path)} | {file.read} | {file.written} | {file.edited} |" for file in files)
    head = "### Files, last used first (file tools only: commands may have changed others)"
    return "\n".join((head, "| path | read | written | edited |", "| --- | --- | --- | --- |", *rows))


def _cell(path: str) -> str:
    return one_line(path, PATH_CHARS).replace("|", "\\|")


def _failed_section(commands: tuple[FailedCommand, ...]) -> str:
    if not commands:
        return ""
    lines = (f"- {_failure(command)}: {one_line(command.command, COMMAND_CHARS)}" for command in commands)
    return "\n".join(("### Failed commands, newest first", *lines))


def _failure(command: FailedCommand) -> str:
    ended = str(command.status) if command.status is not ToolStatus.COMPLETED else ""
    code = f"exit code {command.exit_code}" if command.exit_code is not None else ""
    times = f"failed {command.times:,} times" if command.times > 1 else ""
    later = "succeeded later" if command.succeeded_later else ""
    return ", ".join(filter(None, (ended, code, times, later)))


def _plan_section(plan: tuple[PlanItem, ...], shown: int) -> str:
    """Open items get room before completed ones; all keep their order."""
    if not shown:
        return ""
    by_need = sorted(range(len(plan)), key=lambda index: plan[index].status == "completed")
    lines = plan_lines([plan[index] for index in sorted(by_need[:shown])])
    return f"### Plan ([x] is done, [>] in progress)\n{lines}"


def _counts(facts: Facts) -> str:
    calls = [f"{one_line(name, 100)} {count:,}" for name, count in facts.calls[:NAMED_TOOLS]]
    if others := sum(count for _, count in facts.calls[NAMED_TOOLS:]):
        calls.append(f"other tools {others:,}")
    lines = (
        f"Completed tool calls: {', '.join(calls)}." if calls else "",
        f"Compaction rounds: {facts.rounds}." if facts.rounds else "",
    )
    return "\n".join(filter(None, lines))


def _left_out(facts: Facts, shown: _Counts) -> str:
    rest = [(total - shown[name], _NOUNS[name]) for name, total in _totals(facts).items()]
    named = [plural(count, noun) for count, noun in rest if count]
    return f"Not shown for lack of room: {', '.join(named)}{_SEARCH_MANY if facts.searchable else ''}." if named else ""
