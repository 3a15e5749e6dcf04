"""How searches are read, which passages come first, and what is shown of them."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.db.fulltext import Passage, folded_words
from app.db.ranking import (
    PASSAGE_CHARS,
    SNIPPETS_CHARS,
    Query,
    best,
    highlights,
    pairs,
    passages,
    shown,
    snippet,
    terms_of,
)

LOG = "".join(f"payment {n} of the bank booked in {n % 9} ms\n" for n in range(30))


def query(text: str) -> Query:
    terms = terms_of(text)
    return Query(terms, [1] * len(terms))


def place(id: int, text: str, role: str = "tool", call_id: str | None = None) -> Passage:
    return Passage(id, f"m{id}", id, role, call_id, text)


def ranked(asked: Query, *found: Passage) -> list[int]:
    everything = 2 ** len(asked.terms) - 1
    return [passage.id for passage in best(asked, [(passage, everything) for passage in found])]


@given(st.text(st.sampled_from("ab \n数é"), max_size=6_000))
def test_passages_are_the_whole_text(text: str) -> None:
    found = list(passages(text))
    assert "".join(found) == text
    assert all(len(passage) <= PASSAGE_CHARS for passage in found)
    assert all(passage for passage in found[:-1])


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("What did the check of dunlin say first?", ["check", "dunlin"]),
        ("to be or not", ["to", "be", "or", "not"]),
        ('"decided on" port 8080', ["decided on", "port", "8080"]),
        ("where is src/app.py?", ["src/app.py", "src", "app", "py"]),
        ("お店の名前は", ["お店", "店の", "の名", "名前", "前は"]),
        ("สิทธิ์", ["สิ", "ิท", "ทธ", "ธิ"]),
        (" -- ! ", []),
    ],
)
def test_a_query_has_terms(text: str, terms: list[str]) -> None:
    assert [term.text for term in terms_of(text)] == terms


LETTERS = "aeinost.-_\"' 8éกิ์ကို店の名・"


@given(st.text(st.sampled_from(LETTERS), max_size=30), st.text(st.sampled_from(LETTERS), max_size=200))
@example("x-ation", "A - b. Migration")
@example("ations", "migrations - none")
@example("ကို", "ကို ကိုယ်")
def test_any_query_finds_places_within_any_text(words: str, text: str) -> None:
    for start, end in highlights(words, text):
        assert 0 <= start < end <= len(text)
    asked = query(words)
    assert ranked(asked, place(1, text)) == [1]
    assert all(folded_words(pair) for pair in pairs(text))
    snippet(asked, text, 60)


def test_scripts_without_spaces_have_pairs() -> None:
    assert pairs("in 数据库 or ตก") == ["数据", "据库", "ตก"]


def test_user_and_agent_come_before_outputs() -> None:
    asked = query("bank")
    assert ranked(asked, place(1, "the bank"), place(2, "the bank", "assistant"), place(3, "the bank", "user")) == [
        3,
        2,
        1,
    ]


def test_words_near_each_other_and_exact_texts_come_first() -> None:
    asked = query("why does gannet retry")
    far = f"gannet is slow. {'It is. ' * 30} retry later."
    assert ranked(asked, place(1, "gannet must retry."), place(2, far)) == [1, 2]
    asked = query("in app/core.py")
    assert ranked(asked, place(2, "app core py"), place(1, "app/core.py")) == [1, 2]


def test_a_message_and_a_call_are_one_place() -> None:
    asked = query("bank")
    assert ranked(asked, place(1, "bank", call_id="c"), place(2, "bank bank error", call_id="c")) == [2]


def test_a_snippet_shows_the_line_unlike_the_others() -> None:
    text = f"{LOG}Closed: the fee of the bank is 1.25\n{LOG}"
    assert "Closed: the fee of the bank is 1.25" in snippet(query("bank"), text, 120)
    assert snippet(query("bank"), "  a\n bank ", 100) == "a bank"


@pytest.mark.parametrize(("room", "text"), [(20, "The bank!"), (60, "Paid by a bank. The fee.Of a bank; … The bank!")])
def test_a_snippet_has_whole_lines_and_sentences(room: int, text: str) -> None:
    lines = f"{'word ' * 30}\n\nPaid by a bank. \t\n The fee.Of a bank; sent?\nThe bank! {'word ' * 30}"
    assert snippet(query('bank "the bank"'), lines, room) == text


@given(st.text(max_size=3_000), st.integers(60, 500))
def test_a_snippet_has_a_bounded_length(text: str, room: int) -> None:
    assert len(snippet(query("bank payment 7"), text, room)) <= room + 2


def test_places_that_differ_only_in_numbers_are_shown_once() -> None:
    asked = query("payment")
    alike = [place(n, f"payment {n} was booked") for n in range(20)]
    other = [place(100 + n, f"payment by {chr(97 + n) * 3}. {'word ' * 200}") for n in range(20)]
    found = shown(asked, [*alike, *other], 8)
    assert [passage.id for passage, _ in found] == [0, *range(100, 107)]
    assert sum(len(text) for _, text in found) <= SNIPPETS_CHARS + 16


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [
        ("port", "Ports, a port and a report.", ["Ports", "port"]),
        ("cafe", "The café, the cafe\u0301s, a CAFÉ", ["café", "cafe\u0301s", "CAFÉ"]),
        ('"not found"', "found: not found", ["not found"]),
        ("src/app.py", "In src/app.py, app and src", ["src/app.py", "app", "src"]),
        ("eport", "A report.", ["eport"]),
        ("nothing", "A report.", []),
        ("?!", "What?!", ["?!"]),
        ("東京", "旅行は東京から", ["東京"]),
    ],
)
def test_the_words_of_a_query_are_found_in_a_snippet(query: str, text: str, found: list[str]) -> None:
    assert [text[start:end] for start, end in highlights(query, text)] == found
