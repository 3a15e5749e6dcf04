"""How a model is asked for a summary: the covered messages as delimited text in windows, or in the conversation
itself."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import product
from string import Template
from typing import Literal, get_args

from app.context.clipping import clip_middle, fit_tokens, image_label, one_line, plural
from app.context.facts import lived
from app.context.policies import POLICIES, Policy
from app.context.tokens import estimate_text
from app.messages import ImagePart, Message, Part, TextPart, ToolCallPart, ToolResultPart

RESULT_CHARS = 2_000
"""Characters of one tool result, and of one call's arguments, that a summarizer reads if they do not all fit its window
with more."""
ATTRIBUTE_CHARS = 100
_DELIMITERS = re.compile(r"<(?=\W{0,8}(?:item|transcript|task|previous_summary|instructions)\b)", re.IGNORECASE)
"""The `<` of anything like one of these delimiters, even with blanks or invisible characters in it."""
_ITEM = re.compile(r"(<item [^>]*>\n)(.*)(\n</item>)", re.DOTALL)

Profile = Literal["coding", "content"]
"""What a summary focuses on, as in `CompactionSettings.profile`."""
PROFILES: tuple[Profile, ...] = get_args(Profile)
PROSE_SHARE = 0.8
"""Share of the cap that is requested, so that a summary ends before it is cut off: 800 of 1,000 tokens."""


def escaped(text: str) -> str:
    """The text with `&lt;` for the `<` of these delimiters, so that nothing inside an item can close it. Everything
    else is unchanged: code is easier to read that way, and costs less."""
    return _DELIMITERS.sub("&lt;", text)


def transcript_items(messages: Sequence[Message], chars: int = RESULT_CHARS) -> list[str]:
    """One delimited text for each text, call, result and image, numbered from 1; a result names its call's number.

    Results and arguments are clipped to `chars` characters. Left out are reasoning, voided attempts, messages that say
    nothing, and summaries, which a summarizer gets separately.
    """
    writer = _Writer(chars)
    return [item for message in lived(messages) for part in message.parts for item in writer.write(message, part)]


def windows(items: Sequence[str], max_tokens: int) -> list[str]:
    """The items joined into texts of at most `max_tokens` estimated tokens, in order. An item that is larger is clipped
    inside its delimiters. Raises `ValueError` if `max_tokens` is below 1."""
    if max_tokens < 1:
        raise ValueError("a window needs at least one token")
    joined: list[list[str]] = []
    used = max_tokens
    for item in items:
        fitted = _clipped_item(item, max_tokens)
        # One more for the line break: estimates round up, so their sum is never below that of the whole.
        tokens = estimate_text(fitted) + 1
        if used + tokens > max_tokens:
            joined.append([])
            used = -1
        joined[-1].append(fitted)
        used += tokens
    return ["\n".join(window) for window in joined]


@dataclass(slots=True)
class _Writer:
    """Numbers the items; `calls` has the number of each call, `chars` is the most of a result or of arguments."""

    chars: int
    written: int = 0
    calls: dict[str, int] = field(default_factory=dict)

    def write(self, message: Message, part: Part) -> Iterator[str]:
        match part:
            case TextPart() if part.text.strip():
                yield self._item(part.text, kind=str(message.role))
            case ImagePart():
                yield self._item(image_label(part), kind="image")
            case ToolCallPart():
                self.calls[part.call_id] = self.written + 1
                yield self._item(clip_middle(part.arguments_text, self.chars), kind="tool_call", tool=part.name)
            case ToolResultPart():
                yield self._result(part)

    def _result(self, part: ToolResultPart) -> str:
        of = self.calls.get(part.call_id)
        code = {} if part.exit_code is None else {"exit_code": str(part.exit_code)}
        answers = {} if of is None else {"of": str(of)}
        return self._item(
            clip_middle(part.output, self.chars),
            kind="tool_result",
            **answers,
            tool=part.name,
            status=str(part.status),
            **code,
        )

    def _item(self, content: str, **attributes: str) -> str:
        self.written += 1
        named = "".join(f' {name}="{_attribute(value)}"' for name, value in attributes.items())
        return f'<item n="{self.written}"{named}>\n{escaped(content)}\n</item>'


def _attribute(value: str) -> str:
    return html.escape(one_line(value, ATTRIBUTE_CHARS))


def _clipped_item(item: str, max_tokens: int) -> str:
    if estimate_text(item) <= max_tokens:
        return item
    parts = _ITEM.fullmatch(item)
    if parts is None:
        return fit_tokens(item, max_tokens)
    head, content, end = parts.groups()
    room = max_tokens - estimate_text(head + end)
    return f"{head}{fit_tokens(content, room)}{end}" if room > 0 else fit_tokens(item, max_tokens)


def _packaged(name: str) -> str:
    return files("app.context").joinpath("templates", f"summary_{name}.md").read_text(encoding="utf-8").strip()


_SYSTEM, _REQUEST, _CONVERSATION, _RULES = (
    Template(_packaged(name)) for name in ("system", "request", "conversation", "rules")
)

_SECTIONS: Mapping[tuple[Policy, Profile], str] = {
    (policy, profile): _packaged(f"{policy}_{profile}") for policy, profile in product(POLICIES, PROFILES)
}
_NEWER = "Newer messages, which are not in the transcript,"
_AGENTS: Mapping[Profile, str] = {"coding": "a coding agent", "content": "a content management agent"}
_MERGED = "Merge what still holds of it into your summary, each fact once and in its section; do not copy it whole."


def text_request(
    policy: Policy,
    profile: Profile,
    items_text: str,
    previous: str | None,
    instructions: str | None,
    task: str,
    part: tuple[int, int] = (1, 1),
    *,
    tail: int = 0,
    max_tokens: int | None = None,
    template: str | None = None,
) -> tuple[str, str]:
    """System text and user message for a summarizer that does not see the conversation.

    `items_text` is a window of `transcript_items`; `part` is its number and the number of windows. `previous` is the
    prose of the summary so far, of an earlier round or of the windows before. `tail` is the number of messages after
    the transcript, which stay. `max_tokens` is the answer's cap, and `template`, the operator's own sections, replaces
    the built-in ones. Every text is inserted once and never interpreted as a template.
    """
    user = _REQUEST.substitute(
        previous=_previous_block(previous),
        task=escaped(task.strip()) or "(none was given)",
        items=items_text,
        part=_part(part),
        stays=f"{_stays(policy, _NEWER if tail else '')}\n\n",
        rules=_rules(policy, profile, instructions, max_tokens, template),
    )
    return _SYSTEM.substitute(agent=_AGENTS[profile]), user


def in_conversation_request(
    policy: Policy,
    profile: Profile,
    previous_round: int,
    instructions: str | None,
    *,
    tail: int = 0,
    max_tokens: int | None = None,
    template: str | None = None,
) -> str:
    """The message that requests a summary at the end of the conversation, which reuses the cached prefix.

    `previous_round` is the round of the summary in the conversation, 0 without one; `tail` is the number of its newest
    messages that stay.
    """
    place = f"Near the beginning of the conversation is the summary of compaction round {previous_round}."
    previous = f"{place} {_MERGED}\n\n" if previous_round else ""
    newest = f"The last {plural(tail, 'message')}" if tail > 1 else "The last message" if tail else ""
    rules = _rules(policy, profile, instructions, max_tokens, template)
    return _CONVERSATION.substitute(previous=previous, stays=_stays(policy, newest), rules=rules)


def _stays(policy: Policy, newest: str) -> str:
    """What the agent still sees next to the summary; `newest` names the messages of the tail, if there is one."""
    if policy == "handoff":
        return "No message stays except user messages without an answer; the summary will end with the latest request."
    stays = f"{newest} and the user's task and latest message" if newest else "The user's task and latest message"
    return f"{stays} stay as they are; do not copy them."


def _previous_block(previous: str | None) -> str:
    if previous is None or not previous.strip():
        return ""
    return (
        f"<previous_summary>\n{escaped(previous.strip())}\n</previous_summary>\n"
        f"It covers what came before the transcript. {_MERGED}\n\n"
    )


def _part(part: tuple[int, int]) -> str:
    number, total = part
    if total < 2:
        return ""
    later = " More of it follows in later requests, so what looks unfinished here may not be." if number < total else ""
    return f"This transcript is part {number} of {total}.{later}\n\n"


def _rules(
    policy: Policy, profile: Profile, instructions: str | None, max_tokens: int | None, template: str | None
) -> str:
    length = "" if max_tokens is None else f"- At most {max(1, int(max_tokens * PROSE_SHARE)):,} tokens.\n"
    wishes = (instructions or "").strip()
    return _RULES.substitute(
        sections=_SECTIONS[policy, profile] if template is None else template,
        length=length,
        wishes=f"- The user's wishes for this summary:\n<instructions>\n{escaped(wishes)}\n</instructions>"
        if wishes
        else "",
    ).rstrip()
