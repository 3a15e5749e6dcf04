"""The computed facts as text, within a budget: the task and the newest items, the rest as counts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from app.context.clipping import CHARS_PER_TOKEN, clip_middle, fit_tokens, most_that_fit, one_line, plural
from app.context.facts import CommandFact, Facts, FileFact, UserRequest
from app.context.prompts import plan_lines
from app.context.tokens import estimate_text
from app.messages import ToolStatus
from app.sessions import PlanItem

REQUEST_CHARS = (1_000_000, 10_000, 2_000)
"""Characters of one user message that are repeated verbatim: as many as there is room for with all messages."""
BLOCK_CHARS = 600
"""From this length on, a block of a message is taken for something pasted, which is clipped before what a person
wrote."""
SENTENCE_TOKENS = 1_440
SENTENCE_SHARE = 0.3
"""Maximum room for the agent's own sentences, in tokens and as a share of the facts: a third of what all of them
take."""

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

_BLOCKS = re.compile(r"(?<=\n\n)|(?=^```)", re.MULTILINE)
"""Between the blocks of a message: paragraphs, and fenced code."""

_List = Literal["requests", "plan", "failed", "files", "sentences", "repeated"]

_ORDER: tuple[tuple[_List, int | None], ...] = (
    ("requests", 1),
    ("plan", None),
    ("failed", FIRST_FAILURES),
    ("files", FIRST_FILES),
    ("requests", None),
    ("sentences", None),
    ("repeated", FIRST_FAILURES),
    ("files", None),
    ("failed", None),
)
"""Which list gets room next, and up to how many of its items; None is all of them."""

_Counts = Mapping[_List, int]
"""How many items of each list are shown, or exist."""

_NOUNS: Mapping[_List, str] = {
    "requests": "user message",
    "files": "changed file",
    "failed": "failed command",
    "plan": "plan item",
}
"""The lists that must be complete, or say what they leave out."""

_NONE: _Counts = {"requests": 0, "plan": 0, "failed": 0, "files": 0, "sentences": 0, "repeated": 0}


def render_facts(facts: Facts, budget_tokens: int, roomy_tokens: int | None = None) -> str:
    """The facts as Markdown of at most `budget_tokens` estimated tokens. Long user messages are repeated in full only
    while the whole has at most `roomy_tokens`; None is the budget.

    The task comes first and in full, unless it alone exceeds the budget. Then user messages, plan, failed commands,
    changed files and the agent's own sentences get room, newest first; what does not fit is counted in one line. Equal
    facts give equal text; with a budget of 0 there is none.
    """

    def fits(text: str) -> bool:
        return estimate_text(text) <= budget_tokens

    if not fits(_Text(facts).render(facts.task, _NONE)):
        return _task_alone(facts, fits) or _with_clipped_task(facts, budget_tokens, fits)

    def is_roomy(text: str) -> bool:
        return estimate_text(text) <= min(budget_tokens, budget_tokens if roomy_tokens is None else roomy_tokens)

    text = _Text(facts, _request_chars(facts, is_roomy), _most_telling(facts, budget_tokens))
    shown = _NONE
    for name, limit in _ORDER:
        shown = _extended(text, shown, name, limit, fits)
    return text.render(facts.task, shown)


def _request_chars(facts: Facts, is_roomy: Callable[[str], bool]) -> int:
    """The most characters of each user message with which all of them have room, next to the newest of the rest."""
    first = {**_NONE, "requests": len(facts.requests), "plan": len(facts.plan)}
    first |= {"failed": FIRST_FAILURES, "files": FIRST_FILES}
    wider = (chars for chars in REQUEST_CHARS if is_roomy(_Text(facts, chars).render(facts.task, first)))
    return next(wider, REQUEST_CHARS[-1])


def _most_telling(facts: Facts, budget_tokens: int) -> tuple[int, ...]:
    """The indices of the most informative sentences that fit in their budget, best first; newer ones win ties."""
    room = min(SENTENCE_TOKENS, int(SENTENCE_SHARE * budget_tokens))
    places = sorted(range(len(facts.sentences)), key=lambda place: (-facts.sentences[place].score, -place))
    chosen: list[int] = []
    told: set[str] = set()
    for place in places:
        text = facts.sentences[place].text
        tokens = estimate_text(text) + 2
        if text in told or tokens > room:
            continue
        told.add(text)
        chosen.append(place)
        room -= tokens
    return tuple(chosen)


def _task_alone(facts: Facts, fits: Callable[[str], bool]) -> str | None:
    texts = (_task_section(facts.task), facts.task)
    return next((text for text in texts if facts.task and fits(text)), None)


def _with_clipped_task(facts: Facts, budget: int, fits: Callable[[str], bool]) -> str:
    text = _Text(facts)

    def shortened(chars: int) -> str:
        where = f"{_REST_OF_TASK}{_SEARCH_ONE if facts.searchable else ''}"
        return text.render(clip_middle(facts.task, chars, where), _NONE)

    most = min(len(facts.task), CHARS_PER_TOKEN * max(0, budget))
    chars = most_that_fit(most, lambda count: fits(shortened(count)))
    return shortened(chars) if chars else fit_tokens(facts.task or text.render("", _NONE), budget)


def _extended(text: _Text, shown: _Counts, name: _List, limit: int | None, fits: Callable[[str], bool]) -> _Counts:
    total = text.totals[name]

    def fitting(count: int) -> bool:
        return fits(text.render(text.facts.task, {**shown, name: count}))

    count = most_that_fit(total if limit is None else min(total, limit), fitting)
    # More items can take less room, because they are no longer listed as left out: a count that fitted is not lowered.
    return {**shown, name: max(count, shown[name])}


class _Text:
    """The facts' text with any number of items of each list. `request_chars` are the most of one user message, and
    `telling` are the places of the sentences to choose from, the best first."""

    def __init__(self, facts: Facts, request_chars: int = REQUEST_CHARS[-1], telling: Sequence[int] = ()) -> None:
        self.facts = facts
        self._requests = [_shortened(request, request_chars) for request in facts.requests]
        self._telling = telling
        self._failed = [command for command in facts.commands if command.failures]
        self._repeated = [command for command in facts.commands if not command.failures]
        self.totals: _Counts = {
            "requests": len(facts.requests),
            "plan": len(facts.plan),
            "failed": len(self._failed),
            "files": len(facts.files),
            "sentences": len(telling),
            "repeated": len(self._repeated),
        }

    def render(self, task: str, shown: _Counts) -> str:
        """The text with so many items of each list."""
        facts = self.facts
        sections = (
            _task_section(task),
            _requests_section(self._requests, shown["requests"]),
            _files_section(facts.files[: shown["files"]]),
            _commands_section("### Failed commands, newest first", self._failed[: shown["failed"]]),
            _commands_section("### Last results of other commands, newest first", self._repeated[: shown["repeated"]]),
            self._sentences_section(shown["sentences"]),
            _plan_section(facts.plan, shown["plan"]),
            "\n".join(filter(None, (_counts(facts), self._left_out(shown)))),
        )
        return "\n\n".join(filter(None, sections))

    def _sentences_section(self, shown: int) -> str:
        if not shown:
            return ""
        lines = (f"- {self.facts.sentences[place].text}" for place in sorted(self._telling[:shown]))
        return "\n".join(("### Your own findings and decisions along the way, oldest first", *lines))

    def _left_out(self, shown: _Counts) -> str:
        rest = [(self.totals[name] - shown[name], noun) for name, noun in _NOUNS.items()]
        named = [plural(count, noun) for count, noun in rest if count]
        search = _SEARCH_MANY if self.facts.searchable else ""
        return f"Not shown for lack of room: {', '.join(named)}{search}." if named else ""


def _task_section(task: str) -> str:
    return f"### Original Task\n{task}" if task else ""


def _requests_section(texts: Sequence[str], shown: int) -> str:
    if not shown:
        return ""
    total = len(texts)
    entries = (f"[user message {n + 1} of {total}]\n{texts[n]}" for n in range(total - shown, total))
    return "\n".join(("### User messages, oldest first (where they disagree, the later one counts)", *entries))


def _shortened(request: UserRequest, chars: int) -> str:
    """A message of about `chars` characters at most: pasted blocks are clipped first, the longest before others."""
    text, excess = request.text, len(request.text) - chars
    if excess <= 0:
        return text
    rest = _REST_OF_REQUEST.format(message_id=request.message_id)
    blocks = _BLOCKS.split(text)
    for place in sorted(range(len(blocks)), key=lambda place: -len(blocks[place])):
        size = len(blocks[place])
        if excess <= 0 or size < BLOCK_CHARS:
            break
        blocks[place] = clip_middle(blocks[place], max(BLOCK_CHARS // 2, size - excess), rest)
        excess -= size - len(blocks[place])
    return clip_middle("".join(blocks), chars + len(rest) + 100, rest)


def _files_section(files: Sequence[FileFact]) -> str:
    if not files:
        return ""
    lines = (f"- {one_line(file.path, PATH_CHARS)}: {_changes(file)}" for file in files)
    return "\n".join(("### Changed files, last changed first (commands may have changed others)", *lines))


def _changes(file: FileFact) -> str:
    counts = [
        f"{verb} {n} times" if n > 1 else verb for n, verb in ((file.written, "written"), (file.edited, "edited")) if n
    ]
    return ", ".join(counts) + (f"; last: {file.change}" if file.change else "")


def _commands_section(heading: str, commands: Sequence[CommandFact]) -> str:
    if not commands:
        return ""
    return "\n".join(
        (heading, *(f"- {one_line(known.command, COMMAND_CHARS)}: {_outcome(known)}" for known in commands))
    )


def _outcome(known: CommandFact) -> str:
    if not known.failures:
        return f"{known.runs:,} times, last: {known.outcome or 'no output'}"
    ended = str(known.status) if known.status is not ToolStatus.COMPLETED else ""
    code = f"exit code {known.exit_code}" if known.exit_code is not None else ""
    times = f"failed {known.failures:,} times" if known.failures > 1 else ""
    now = f"passes now: {known.outcome or 'no output'}" if known.passes else ""
    error = f"{', '.join(filter(None, (ended, code, times)))}: {known.error}".removesuffix(": ")
    return "; ".join(filter(None, (error, now)))


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
