"""The demo's script: what the scripted model says and does next, a pure function of the messages that it is sent. Its
summaries and answers are lines that it finds there by plain text search."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from app.messages import FinishReason, Message, Role, ToolCallPart, ToolResultPart, ToolStatus

_PROGRAM = """\
#!/bin/sh
# Turns a title into a slug: lower case, words joined by single hyphens.
slug=$(printf '%s' "$1" | tr 'A-Z' 'a-z' | tr -c 'a-z0-9' '-')
echo "$slug"
"""
_TEST = """\
#!/bin/sh
# Compares slugs with what they should be; the exit status is the number of failures.
failures=0

check() {
    actual=$(sh ./slugify.sh "$1")
    if [ "$actual" = "$2" ]; then
        echo "ok    $1"
    else
        echo "FAIL  $1: expected $2, got $actual"
        failures=$((failures + 1))
    fi
}

check "Hello World" "hello-world"
check "Rock & Roll" "rock-roll"
check "  Ready, Steady, Go!  " "ready-steady-go"

echo "$failures failed"
exit "$failures"
"""
_STEPS = ("Look at the workspace", "Write slugify.sh and its test", "Run the test", "Fix what fails")
HOW_TO_GET_A_MODEL = (
    "For real work, give the server a key (`OPENAI_API_KEY` or `ANTHROPIC_API_KEY`) or your own provider"
    " (`PALIMPSEST_PROVIDERS`), and choose a model such as `openai/gpt-5` for the session."
)

SUMMARY_MARKS = ("about to be replaced by a summary", "<transcript>")
"""Texts in requests for a summary, inside the conversation and separate from it."""
QUESTION = re.compile(r"<question>\n(.*)\n</question>\s*\Z", re.DOTALL)
"""A question about the conversation, in the last message of a request."""
LABEL = "(Found by plain text search, by a scripted demo that understands nothing.)"
LINE_CHARS = 300
SUMMARY_LINES = 8
"""Lines in each section of a summary."""
ANSWER_LINES = 4
MOST_LINES = 50_000
_DELIMITER = re.compile(r"^\s*</?(?:item|transcript|task|notes|previous_summary)\b[^>]*>\s*$")
_WORD = re.compile(r"[^\W_]+(?:[._/-][^\W_]+)*")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_PATH = re.compile(r"(?<![\w/.-])(?:[\w-]+/)*[\w-]+\.[a-z]{1,5}(?![\w/])")
_SECTIONS = (
    ("Decisions", re.compile(r"\b(decide|decision|instead|use |keep|must|never|rather|agreed)", re.IGNORECASE)),
    ("Errors and Resolutions", re.compile(r"\b(error|fail|exception|traceback|denied|not found)", re.IGNORECASE)),
    ("Next Step", re.compile(r"\b(next|then|remaining|todo|still to)\b", re.IGNORECASE)),
)
_PLAIN = frozenset(
    re.findall(
        r"\w+",
        "a about all an and any are as at be been by can did do does for from had has have how i in into is it its last"
        " may name now of on or our out say shall she should so still than that the their them then there these they"
        " this to under up us was we were what when where which while who whom whose why will with work would you your",
    )
)
"""Words that do not identify a question's subject."""


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """One response of the scripted model."""

    text: str
    calls: tuple[ScriptedCall, ...] = ()
    reasoning: str = ""
    searched: bool = False
    """Whether the text was found in the messages rather than written in advance."""


def _plan(done: int) -> ScriptedCall:
    def status(index: int) -> str:
        return "completed" if index < done else "in_progress" if index == done else "pending"

    items = [{"text": text, "status": status(index)} for index, text in enumerate(_STEPS)]
    return ScriptedCall("update_plan", {"items": items})


_STAGES: tuple[Reply, ...] = (
    Reply(
        "This is a scripted demo, not a real model: every word was written in advance, but the tools, the sandbox and"
        " the event stream are real. I will write a small shell program with a bug in it, test it and fix it. First, a"
        " plan and a look at the workspace.",
        (_plan(0), ScriptedCall("list_directory", {"path": "."})),
    ),
    Reply(
        "Now the program, which turns titles into slugs, and a test for it.",
        (
            ScriptedCall("write_file", {"path": "slugify.sh", "content": _PROGRAM}),
            ScriptedCall("write_file", {"path": "test.sh", "content": _TEST}),
        ),
    ),
    Reply(
        "Both are written. Let's see whether the test passes.",
        (_plan(2), ScriptedCall("execute_command", {"command": "sh test.sh"})),
    ),
    Reply(
        "The test failed. I will read the program again.",
        (
            ScriptedCall("read_file", {"path": "slugify.sh"}),
            ScriptedCall("search_files", {"pattern": "tr -c", "path": "."}),
        ),
        reasoning="There are two hyphens in a row, and one at the end: each character that is not a letter becomes a"
        " separate hyphen. tr has to squeeze them, and the ends need trimming.",
    ),
    Reply(
        "Every other character becomes a separate hyphen. `tr -s` squeezes repeats, and `sed` trims both ends.",
        (
            ScriptedCall(
                "edit_file",
                {
                    "path": "slugify.sh",
                    "old_text": "tr -c 'a-z0-9' '-')",
                    "new_text": "tr -cs 'a-z0-9' '-' | sed -e 's/^-//' -e 's/-$//')",
                },
            ),
        ),
    ),
    Reply(
        "Now the test again, and then the program itself.",
        (_plan(3), ScriptedCall("execute_command", {"command": "sh test.sh && sh slugify.sh 'Palimpsest: a Demo'"})),
    ),
    Reply("All tests pass. One last look at the workspace.", (_plan(4), ScriptedCall("list_directory", {"path": "."}))),
)
_DONE = Reply(
    "Done: `slugify.sh` turns titles into slugs and `test.sh` proves it; the first version left double hyphens, the"
    f" second does not. This was a scripted demo, not a real model. {HOW_TO_GET_A_MODEL}"
)
_MEANT_TO_FAIL = {"sh test.sh": range(1, 4)}
"""The exit statuses that the script expects: the number of the test's failures. A shell that cannot run the test exits
with another one."""
_QUOTE_CHARS = 200
_STOPPED = (ToolStatus.CANCELLED, ToolStatus.INTERRUPTED)


def next_reply(messages: Sequence[Message], tools: frozenset[str]) -> Reply:
    """What the scripted model answers to these messages, given these tools.

    The stage is derived from the calls and results in the messages, so it survives restarts, forks and compaction. A
    call that was cancelled or interrupted is repeated; one that failed ends the demo. A request for a summary, or a
    question about the conversation, is answered by a text search.
    """
    if (prose := prose_for(messages)) is not None:
        return Reply(prose, searched=True)
    if not tools:
        return Reply(_without_tools(messages))
    if _is_over(messages):
        return Reply(
            f"I am a scripted demo, not a real model; I only know one task, and it is over. {HOW_TO_GET_A_MODEL}"
        )
    if failure := _failure(messages):
        return Reply(
            "That did not go as scripted, so the demo ends here and its task is not done."
            f" {failure}\n\n{HOW_TO_GET_A_MODEL}"
        )
    stage = _next_stage(messages)
    reply = _STAGES[stage] if stage < len(_STAGES) else _DONE
    if missing := [call.name for call in reply.calls if call.name not in tools]:
        return Reply(
            f"The script needs the tool `{missing[0]}`, which this session does not have. {HOW_TO_GET_A_MODEL}"
        )
    return Reply(_greeting(messages) + reply.text, reply.calls, reply.reasoning)


def _is_over(messages: Sequence[Message]) -> bool:
    """Whether a response without calls has ended the task; a truncated one has not."""
    return any(
        message.role is Role.ASSISTANT
        and not message.is_summary
        and not message.tool_calls
        and message.finish_reason in (None, FinishReason.STOP)
        and not any(getattr(part, "interrupted", False) for part in message.parts)
        for message in messages
    )


def _next_stage(messages: Sequence[Message]) -> int:
    """One after the last stage whose calls have run. If compaction has hidden them all, the task counts as finished."""
    results = {result.call_id: result for message in messages for result in message.tool_results}
    for index in reversed(range(len(_STAGES))):
        for message in reversed(messages):
            if _is_stage(message, index):
                stopped = any(_was_stopped(results.get(call.call_id)) for call in message.tool_calls)
                return index if stopped else index + 1
    return len(_STAGES) if any(message.is_summary for message in messages) else 0


def _is_stage(message: Message, index: int) -> bool:
    wanted = [(call.name, call.arguments) for call in _STAGES[index].calls]
    return [(call.name, call.arguments) for call in message.tool_calls] == wanted


def _was_stopped(result: ToolResultPart | None) -> bool:
    return result is None or result.status in _STOPPED


def _since_last_answer(messages: Sequence[Message]) -> Sequence[Message]:
    last = max((i for i, message in enumerate(messages) if message.role is Role.ASSISTANT), default=-1)
    return messages[last + 1 :]


def _greeting(messages: Sequence[Message]) -> str:
    """Quotes what the user has said since the last response; the demo cannot act on it, and says so."""
    news = _since_last_answer(messages)
    quotes = [_quote(m.text) for m in news if m.role is Role.USER and not m.is_summary]
    if not quotes:
        return ""
    if len(news) == len(messages):
        return f"You asked: {' '.join(quotes)}\n\n"
    return f"You said: {' '.join(quotes)} A script cannot act on that, but it got the message and continues.\n\n"


def _quote(text: str) -> str:
    text = " ".join(text.split())
    return f"“{text if len(text) <= _QUOTE_CHARS else text[:_QUOTE_CHARS] + '…'}”"


def _failure(messages: Sequence[Message]) -> str | None:
    """The newest call with an unexpected result, and that result: the beginning of a command's output, but an error in
    full, since it says how to fix it."""
    commands = {call.call_id: call.arguments for message in messages for call in message.tool_calls}
    for message in _since_last_answer(messages):
        for result in message.tool_results:
            if result.status in (ToolStatus.ERROR, ToolStatus.DENIED):
                return f"`{result.name}` ended with {result.status.value}:\n\n{result.output.strip()}"
            if _failed(result, commands):
                return f"`{result.name}` ended with exit status {result.exit_code}: {_quote(result.output)}"
    return None


def _failed(result: ToolResultPart, commands: dict[str, dict[str, Any] | str]) -> bool:
    arguments = commands.get(result.call_id)
    command = arguments.get("command") if isinstance(arguments, dict) else None
    return bool(result.exit_code) and result.exit_code not in _MEANT_TO_FAIL.get(str(command), ())


def _without_tools(messages: Sequence[Message]) -> str:
    """Answers a request without tools, such as one for a summary; the demo can only count."""
    calls = sum(len(message.tool_calls) for message in messages)
    return (
        f"This is a scripted demo, not a real model, so it can only count: {len(messages)} messages with {calls} tool"
        f" calls came before this answer. {HOW_TO_GET_A_MODEL}"
    )


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    place: int
    words: frozenset[str]


def prose_for(messages: Sequence[Message]) -> str | None:
    """The answer if the last message is a control message that asks for a summary or about the conversation, else
    None."""
    if not messages or messages[-1].role is not Role.CONTROL:
        return None
    asked = messages[-1].text
    if match := QUESTION.search(asked):
        return answer(match[1], messages[:-1])
    if "<transcript>" in asked:
        return summary(_part(asked, "transcript").splitlines())
    if any(mark in asked for mark in SUMMARY_MARKS):
        return summary(_spoken(messages[:-1]))
    return None


def _part(text: str, tag: str) -> str:
    return text.partition(f"<{tag}>")[2].rpartition(f"</{tag}>")[0]


def answer(question: str, messages: Sequence[Message]) -> str:
    """The lines that share the most rare words with the question, in their original order."""
    lines = [_Line(text, place, _words(text)) for place, text in enumerate(_shortened(_all_lines(messages)))]
    wanted = _words(question) - _PLAIN
    counts = Counter(word for line in lines for word in line.words & wanted)

    def weight(line: _Line) -> float:
        hits = sum(math.log(1 + len(lines) / counts[word]) for word in line.words & wanted)
        return hits / math.sqrt(8 + len(line.words))

    best = sorted((line for line in lines if line.words & wanted), key=weight, reverse=True)[:ANSWER_LINES]
    if not best:
        return f"unknown {LABEL}"
    return "\n".join([*(line.text for line in sorted(best, key=lambda line: line.place)), LABEL])


def summary(lines: Iterable[str]) -> str:
    """A summary: for each heading the newest lines with one of its words, and the paths that occur."""
    known = list(_shortened(lines))
    paths = list(dict.fromkeys(path for line in known for path in _PATH.findall(line)))
    blocks = [f"### Completed Work\n{LABEL}", "Files named: " + (", ".join(paths[:40]) or "none.")]
    for heading, words in _SECTIONS:
        matching = list(dict.fromkeys(line for line in known if words.search(line)))[-SUMMARY_LINES:]
        blocks.append(f"### {heading}\n" + ("\n".join(f"- {line}" for line in matching) or "None."))
    return "\n\n".join(blocks)


def _words(text: str) -> frozenset[str]:
    """Lowercase words, truncated so that forms of one word match; characters of scripts without spaces are paired."""
    found = {word[:6] if word.isalpha() else word for word in _WORD.findall(text.lower()) if not _CJK.search(word)}
    found |= {part[:6] for word in list(found) for part in re.split(r"[._/-]", word) if len(part) > 2}
    pairs = {a + b for a, b in pairwise(text) if _CJK.match(a) and _CJK.match(b)}
    return frozenset(found | pairs)


def _all_lines(messages: Sequence[Message]) -> Iterable[str]:
    for message in messages:
        yield from message.text.splitlines()
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                yield f"{part.name} {part.arguments_text}"
            elif isinstance(part, ToolResultPart):
                yield from part.output.splitlines()


def _spoken(messages: Sequence[Message]) -> Iterable[str]:
    """Messages' texts, and the ends of tool outputs, where errors usually are."""
    for message in messages:
        yield from message.text.splitlines()
        for result in message.tool_results:
            yield from result.output.splitlines()[-10:]


def _shortened(lines: Iterable[str]) -> Iterable[str]:
    for line in list(lines)[-MOST_LINES:]:
        text = " ".join(line.split())
        if len(text) > 2 and not _DELIMITER.match(line):
            yield text[:LINE_CHARS]
