"""`history_search`: searches the session's own past for words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from app.tools.base import Arguments, Finding, ToolContext, ToolOutcome
from app.tools.text import CleanText

MAX_FINDINGS = 20
MAX_SNIPPET_CHARS = 500


class HistorySearchArguments(Arguments):
    query: CleanText = Field(
        min_length=1,
        max_length=500,
        description='Words; "several words" in quotes stand together. No operators.',
    )


class HistorySearch:
    name: ClassVar[str] = "history_search"
    description: ClassVar[str] = (
        "Searches the whole session, messages and tool calls with their results, for what is no longer in your "
        f"context: an exact instruction, a decision, a file name, an error. At most {MAX_FINDINGS} places, best first."
    )
    parallel_safe: ClassVar[bool] = True
    arguments: type[Arguments] = HistorySearchArguments

    async def run(self, args: HistorySearchArguments, context: ToolContext) -> ToolOutcome:
        findings = await context.history.search(args.query, asked_by=context.call_id, limit=MAX_FINDINGS)
        context.output.write("stdout", render_findings(findings).encode())
        if not findings:
            return ToolOutcome(note="[nothing found; try fewer or other words]")
        more = "; there may be more, so add words to narrow it" if len(findings) == MAX_FINDINGS else ""
        return ToolOutcome(note=f"[best first{more}]")


def render_findings(findings: Sequence[Finding]) -> str:
    """A heading and a snippet for each place."""
    return "".join(f"{_heading(finding)}\n{_snippet(finding.snippet)}\n\n" for finding in findings)


def _heading(finding: Finding) -> str:
    call = f", call {finding.call_id}" if finding.call_id is not None else ""
    return f"## {finding.role}, seq {finding.seq}, message {finding.message_id}{call}"


def _snippet(text: str) -> str:
    """The text on one line, so that it cannot look like a heading."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_SNIPPET_CHARS else f"{line[:MAX_SNIPPET_CHARS]}…"
