"""How `history_search` shows its results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.messages import new_id
from app.tools.base import Finding, NoHistory
from app.tools.recall import FOUND, MAX_CHARS, MAX_FINDINGS, MAX_SNIPPET_CHARS, HistorySearch, render_findings
from tests.unit.tools.workbench import DirectorySandbox, Workbench


class Findings(NoHistory):
    def __init__(self, count: int) -> None:
        self._count = count
        self.asked: list[tuple[str, str]] = []

    async def search(self, query: str, *, asked_by: str, limit: int) -> Sequence[Finding]:
        self.asked.append((query, asked_by))
        return [Finding(f"m{n}", n, "tool", f"c{n}", f"text {n}") for n in range(min(self._count, limit))]


@pytest.mark.parametrize(
    ("count", "note"),
    [
        (0, "[nothing found; try fewer or other words]"),
        (500, "[best first; recall(call_id) with an id from here returns the whole text]"),
    ],
)
async def test_findings_are_counted(tmp_path: Path, count: int, note: str) -> None:
    history = Findings(count)
    bench = Workbench(DirectorySandbox(tmp_path), tmp_path, history=history)
    text, outcome = await bench.run(HistorySearch(), query="a\x00b")
    assert outcome.note == note
    assert text.count("\n") == min(count, MAX_FINDINGS)
    assert history.asked == [("a\ufffdb", "call")]


@given(st.text())
def test_a_place_is_one_line_of_bounded_length(snippet: str) -> None:
    place, line = render_findings([Finding("m1", 7, "user", None, snippet)]).split("\n")[0].split(": ", 1)
    assert place == "m1 (user, seq 7)"
    assert len(line) <= MAX_SNIPPET_CHARS


def test_a_call_is_named_for_recall() -> None:
    assert render_findings([Finding("m1", 7, "tool", "c1", "x")]) == "c1 (tool, seq 7): x\n"


@given(st.lists(st.text(max_size=1_300), min_size=1, max_size=MAX_FINDINGS), st.integers(1, 10_000_000))
def test_a_search_returns_at_most_1500_characters_whatever_it_finds(snippets: list[str], seq: int) -> None:
    found = [Finding(new_id(), seq, "assistant", None, snippet) for snippet in snippets]
    text = render_findings(found)
    assert len(text) + len(FOUND) <= MAX_CHARS == 1_500
    assert text.startswith(found[0].message_id)
    if all(len(snippet) <= 100 for snippet in snippets):
        assert text.count("\n") == len(found)
