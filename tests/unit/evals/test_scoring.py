"""When an answer counts as stating a fact."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.scoring import found, normalised, states

WORDS = st.text(alphabet="abcdefghij0123456789", min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("answer", "fact"),
    [
        ("It is called `moneta.sh`.", "moneta.sh"),
        ("MONETA.SH", "moneta.sh"),
        ("exit status **64**", "64"),
        ("9,000 rows", "9000"),
        ("9000 rows", "9,000"),
        ("it was missing\n  service: stock", "missing service"),
        ("the “printer” server", "printer server"),
        ("team–stock", "team-stock"),
        ("the weather station's book", "weather station"),
        ("柚子のタルトを590円で入れました", "柚子のタルト"),
        ("五百ではなく５９０円です", "590"),
        ("snake_case_name", "snake_case_name"),
        ("7", "7"),
        ("17, then 7", "7"),
    ],
)
def test_a_fact_is_found_however_it_is_formatted(answer: str, fact: str) -> None:
    assert states(answer, [fact])


@pytest.mark.parametrize(
    ("answer", "fact"),
    [
        ("17", "7"),
        ("70", "7"),
        ("myapp.py", "app.py"),
        ("app.pyc", "app.py"),
        ("unknown", "moneta.sh"),
        ("", "x"),
        ("anything", ""),
        ("anything", "`*`"),
        ("the rounding", "round"),
        ("port 82010", "8201"),
    ],
)
def test_a_fact_is_not_found_inside_another_word(answer: str, fact: str) -> None:
    assert not states(answer, [fact])


def test_one_of_several_spellings_is_enough() -> None:
    assert states("We use pints.", ["pint", "pints"])
    assert not states("We use litres.", ["pint", "pints"])


def test_each_fact_is_answered_separately() -> None:
    assert found("S07312 in tonnes", [["S07312"], ["S08112"], ["t", "tonnes"]]) == (True, False, True)


@given(st.lists(WORDS, min_size=1), st.data())
def test_a_word_of_an_answer_is_stated_by_it(words: list[str], data: st.DataObject) -> None:
    answer = " ".join(words)
    assert states(answer, [data.draw(st.sampled_from(words))])


@given(st.lists(WORDS), WORDS)
def test_a_word_missing_from_an_answer_is_not_stated(words: list[str], wanted: str) -> None:
    assert states(" ".join(words), [wanted]) == (wanted in words)


@given(st.text())
def test_normalizing_twice_changes_nothing_more(text: str) -> None:
    once = normalised(text)
    assert normalised(once) == once
