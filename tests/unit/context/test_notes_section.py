"""AGENTS.md and MEMORY.md in the system text: bounded, in tags that they cannot close, equal for equal notes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.context.prompts import NOTE_CHARS, Notes, clip_head, render_notes
from app.context.tokens import estimate_text

texts = st.text(st.sampled_from("ab \n漢😀<>/file"), max_size=400)


@given(texts, st.integers(0, 120))
def test_a_head_is_whole_lines_and_as_long_as_possible(text: str, tokens: int) -> None:
    head = clip_head(text, tokens)
    assert text.startswith(head)
    assert estimate_text(head) <= tokens
    if head != text:
        rest = text[len(head) :]
        line, ended, _ = rest.partition("\n")
        assert estimate_text(text) > tokens
        if head.endswith("\n") or not head:
            assert estimate_text(head + line + ended) > tokens
        else:
            assert "\n" not in head, "only a first line is cut"
            assert estimate_text(head + rest[0]) > tokens


@given(texts, texts, st.integers(0, 2000))
def test_a_file_cannot_end_its_own_section(agents: str, memory: str, usable: int) -> None:
    rendered = render_notes(Notes(agents, memory), usable)
    shown = [text for text in (agents, memory) if text.strip()]
    assert rendered.count("<file name=") == len(shown) + sum(
        clip_head(text, usable // 10).count("<file name=") for text in shown
    )
    assert rendered.count("</file") == len(shown)
    assert rendered == render_notes(Notes(agents, memory), usable)


def test_each_note_has_a_tenth_and_says_how_to_read_the_rest() -> None:
    notes = Notes("a line of forty characters, more or less\n" * 1000, "short\n")
    rendered = render_notes(notes, 10_000)
    assert estimate_text(rendered) < 1200
    assert "[This is the beginning of AGENTS.md; read the rest with `read_file`.]" in rendered
    assert rendered.endswith('<file name="MEMORY.md">\nshort\n</file>')


@pytest.mark.parametrize("notes", [Notes(), Notes(" \n", "\n")])
def test_without_notes_there_is_no_section(notes: Notes) -> None:
    assert render_notes(notes, 100_000) == ""


@given(texts, texts)
def test_notes_survive_storage(agents: str, memory: str) -> None:
    notes = Notes(agents, memory)
    stored = notes.dump()
    assert Notes.load(stored) == notes
    assert (stored is None) == (not agents and not memory)


def test_the_beginning_of_a_huge_note_is_kept_and_marked() -> None:
    notes = Notes.load(Notes("x" * (NOTE_CHARS + 5)).dump())
    assert notes.agents == "x" * NOTE_CHARS
    assert "[This is the beginning of AGENTS.md" in render_notes(notes, 10_000_000)
