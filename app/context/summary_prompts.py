"""The requests for a summary: as text for a separate model, or within the conversation itself."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from itertools import product
from string import Template
from typing import Literal, get_args

from app.context.policies import POLICIES, Policy
from app.context.summary_input import escaped

Profile = Literal["coding", "content"]
"""What a summary focuses on, as in `CompactionSettings.profile`."""

PROFILES: tuple[Profile, ...] = get_args(Profile)

PROSE_SHARE = 0.8
"""Share of the cap that is requested, so that a summary ends before it is cut off: 800 of 1,000 tokens."""


def _packaged(name: str) -> str:
    return files("app.context").joinpath("templates", f"summary_{name}.md").read_text(encoding="utf-8").strip()


_SECTIONS: Mapping[tuple[Policy, Profile], str] = {
    (policy, profile): _packaged(f"{policy}_{profile}") for policy, profile in product(POLICIES, PROFILES)
}
_SYSTEM, _REQUEST, _CONVERSATION, _RULES = (
    Template(_packaged(name)) for name in ("system", "request", "conversation", "rules")
)

_AGENTS: Mapping[Profile, str] = {"coding": "a coding agent", "content": "a content management agent"}

_NOT_REPEATED = "Merge what still holds of it into your summary, once and in its sections; do not quote it as a whole."


def text_request(
    policy: Policy,
    profile: Profile,
    items_text: str,
    previous: str | None,
    instructions: str | None,
    task: str,
    part: tuple[int, int] = (1, 1),
    *,
    max_tokens: int | None = None,
    template: str | None = None,
) -> tuple[str, str]:
    """System text and user message for a summarizer that does not see the conversation.

    `items_text` is a window of `transcript_items`; `part` is its number and the number of windows. `previous` is the
    prose of the summary so far, of an earlier round or of the windows before. `max_tokens` is the answer's cap, and
    `template`, the operator's own sections, replaces the built-in ones. Every text is inserted once and never
    interpreted as a template.
    """
    user = _REQUEST.substitute(
        previous=_previous_block(previous),
        task=escaped(task.strip()) or "(none was given)",
        items=items_text,
        part=_part(part),
        rules=_rules(policy, profile, instructions, max_tokens, template),
    )
    return _SYSTEM.substitute(agent=_AGENTS[profile]), user


def in_conversation_request(
    policy: Policy,
    profile: Profile,
    previous_round: int,
    instructions: str | None,
    *,
    max_tokens: int | None = None,
    template: str | None = None,
) -> str:
    """The message that requests a summary at the end of the conversation, which reuses the cached prefix.

    `previous_round` is the round of the summary in the conversation, 0 without one.
    """
    place = f"The conversation above holds, near its beginning, the summary of compaction round {previous_round}."
    previous = f"{place} {_NOT_REPEATED}\n\n" if previous_round else ""
    return _CONVERSATION.substitute(
        previous=previous, rules=_rules(policy, profile, instructions, max_tokens, template)
    )


def _previous_block(previous: str | None) -> str:
    if previous is None or not previous.strip():
        return ""
    return (
        f"<previous_summary>\n{escaped(previous.strip())}\n</previous_summary>\n"
        f"It stands for what came before the transcript. {_NOT_REPEATED}\n\n"
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
        wishes=f"- For this summary the user wishes:\n<instructions>\n{escaped(wishes)}\n</instructions>"
        if wishes
        else "",
    ).rstrip()
