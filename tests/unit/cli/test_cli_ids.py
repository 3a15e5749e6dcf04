"""Abbreviated ids, as typed and as shown."""

from __future__ import annotations

import pytest

from app.cli.screen import CliError, listed, matching, short, typed
from app.messages import new_id

ONE = "01a20436-270d-740d-8574-6f28e66251d8"
TWO = "01a20436-270d-740d-8574-6f294e0dd993"


@pytest.mark.parametrize(
    ("piece", "found"),
    [
        (ONE, [ONE]),
        ("01a20436-270d", [ONE, TWO]),
        (TWO[:-8], [TWO]),
        ("0dd993", [TWO]),
        ("6f28e66251d8", [ONE]),
        ("270d", []),
    ],
)
def test_an_id_matches_by_its_start_and_by_its_end(piece: str, found: list[str]) -> None:
    assert matching(piece, [ONE, TWO]) == found


def test_typed_ids_may_have_capitals_and_spaces_and_need_four_characters() -> None:
    assert typed(" E66251D8\n", "call") == "e66251d8"
    with pytest.raises(CliError, match=r"Give at least 4 characters of the call's id\.") as caught:
        typed(" 1d8 ", "call")
    assert caught.value.code == "short_id"


def test_ids_of_the_same_time_are_shown_by_their_ends() -> None:
    ids = [new_id() for _ in range(200)]
    shown = [short(each, ids) for each in ids]
    assert [matching(each, ids) for each in shown] == [[each] for each in ids]
    assert short(ONE, [ONE, TWO]) == short(ONE) == "e66251d8"


@pytest.mark.parametrize(
    ("other", "shown"),
    [
        ("01a20436-270d-740d-8574-6f20e66251d8", "8e66251d8"),
        ("e66251d8-270d-740d-8574-6f294e0dd993", "8e66251d8"),
        ("f1a20436-270d-740d-8574-6f28e66251d8", ONE),
    ],
    ids=["ends so too", "begins so", "differs at its beginning alone"],
)
def test_an_ambiguous_end_is_shown_longer(other: str, shown: str) -> None:
    assert short(ONE, [other, ONE]) == shown


def test_a_short_id_is_shown_whole() -> None:
    assert short("c1", ["c1", "c2"]) == "c1"


def test_ten_candidates_are_listed_and_the_others_counted() -> None:
    assert listed(["a", "b"]) == "a, b"
    assert listed([str(number) for number in range(12)]) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"
