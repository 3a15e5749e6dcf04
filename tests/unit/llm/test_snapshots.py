"""Snapshots among the deltas of a stream: nothing is shown twice, and no ordinary delta is lost."""

from __future__ import annotations

import json
import time
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ProviderError
from app.llm.snapshots import MAX_ARGUMENTS_CHARS, Arguments, GrowingText


def told(*pieces: str, whole: str | None = None) -> str:
    growing = GrowingText()
    shown = "".join(growing.add(piece) for piece in pieces)
    return shown + (growing.settle() if whole is None else growing.complete(whole) + growing.settle())


def called(*pieces: str, whole: str | None = None) -> str:
    arguments = Arguments()
    shown = "".join(arguments.add(piece) for piece in pieces)
    return shown + ("" if whole is None else arguments.complete(whole)) + arguments.end()


LONG = "A sentence that nobody writes twice in a row."


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["The", "The answer", "The answer is", "The answer is 42."], "The answer is 42."),
        (["The answer", "The answer is 42."], "The answer is 42."),
        (["The", "The answer", "The answer is 42.", "The answer is 42."], "The answer is 42."),
        (["The", "The answer is", "The answer is 42.", " More."], "The answer is 42. More."),
        ([LONG[:9], LONG[9:], LONG], LONG),
        ([LONG[:9], LONG[9:], LONG + " And more."], LONG + " And more."),
    ],
)
def test_text_that_holds_everything_so_far_is_told_once(pieces: list[str], text: str) -> None:
    assert told(*pieces) == text


@pytest.mark.parametrize(
    "pieces",
    [
        ["ha", "ha"],
        ["ha", "ha", "ha", "ha"],
        ["no", "nope"],
        ["1", "10", "100"],
        ["-", "--", " x"],
        ["=", "==", "===="],
        ["    ", "    return", "\n"],
        ["0000", "0000\n", "0000\n"],
        ["The", "The answer", " of the", " The"],
        [LONG, LONG],
        [LONG[:9], LONG[9:], LONG, " Once more."],
    ],
)
def test_ordinary_deltas_may_repeat_or_begin_alike(pieces: list[str]) -> None:
    assert told(*pieces) == "".join(pieces)


@given(st.lists(st.text(alphabet="ab", min_size=1, max_size=2), max_size=8))
def test_short_deltas_of_few_letters_are_never_lost(pieces: list[str]) -> None:
    assert told(*pieces) == "".join(pieces)


@given(st.lists(st.text(min_size=1, max_size=20), min_size=4, max_size=8))
def test_long_enough_snapshots_are_told_once(pieces: list[str]) -> None:
    head = "A beginning: "
    assert told(head, *accumulate([head + pieces[0], *pieces[1:]])) == head + "".join(pieces)


@pytest.mark.parametrize(
    ("pieces", "whole", "text"),
    [
        (["all ", "done"], "all done", "all done"),
        (["all ", "done"], "all done now", "all done now"),
        (["all ", "done"], "done", "all done"),
        (["ha", "ha"], "haha", "haha"),
        (["ha", "ha"], "ha", "ha"),
        ([], "all done", "all done"),
    ],
)
def test_a_complete_text_adds_only_the_rest(pieces: list[str], whole: str, text: str) -> None:
    assert told(*pieces, whole=whole) == text


@pytest.mark.parametrize(
    ("pieces", "last", "text"),
    [
        (["Hello ", "world"], "Hello world", "Hello world"),
        (["Hello"], "Hello", "Hello"),
        ([LONG[:35]], LONG[:35], LONG[:35]),
        (["ha", "ha"], "haha", "haha"),
        (["The", "The answer", "The answer is this"], "The answer is this", "The answer is this"),
        (["ha", "ha", "ha"], "ha", "hahahaha"),
        (["Hello ", "world"], "world", "Hello worldworld"),
        ([], "Hello", "Hello"),
    ],
)
def test_a_last_piece_that_repeats_everything_adds_nothing(pieces: list[str], last: str, text: str) -> None:
    growing = GrowingText()
    shown = "".join(growing.add(piece) for piece in pieces)
    assert shown + growing.add(last, is_last=True) + growing.settle() == text


def test_arguments_after_a_placeholder_are_shown_while_they_grow() -> None:
    arguments = Arguments()
    assert [arguments.add(piece) for piece in ("null", '{"a":', '"b"}')] == ["", '{"a":', '"b"}']


A = '{"path": "a.txt", "content": "{\\"b\\": 1}"}'
NESTED = ['{"a":', '{"a":1}', "}"]
QUOTED = json.dumps(A)


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([A[:9], A[:20], A], A),
        ([A[:1], A[:2], A[:9], A[:20], A], A),
        (list(accumulate(A)), A),
        ([A, A], A),
        ([A[:9], A[9:], A], A),
        ([A[:9], A[9:], json.dumps(json.loads(A), indent=1)], A),
        ([*A, A], A),
        (["{}", A], A),
        (["null", A], A),
        (["null", "", A[:9], A[9:]], A),
        (["null", QUOTED], A),
        (["{}" + A], A),
        (["{}" + A[:9], A[9:]], A),
        ([" null " + A], A),
        (["{} ", "{}", A], A),
        (["null"], "null"),
        (["null", "x"], "nullx"),
        (["{}", A[:9], A[9:]], A),
        (["", " ", A], A),
        (["{}"], "{}"),
        (["{}", "{}"], "{}"),
        ([QUOTED], A),
        (list(QUOTED), A),
        ([QUOTED, QUOTED], A),
        (list(accumulate(QUOTED)), A),
        ([json.dumps(QUOTED)], A),
        (['""'], ""),
        (NESTED, "".join(NESTED)),
        (['{"a":', '{"a":', '{"a":1}}}'], '{"a":{"a":{"a":1}}}'),
        (['{"a":"', "ha", "ha", "ha", '"}'], '{"a":"hahaha"}'),
        (['{"a":1}', '{"b":2}'], '{"a":1}{"b":2}'),
        (['{"a"', ":"], '{"a":'),
        ([A[:20], A[20:40], A[:40]], A[:40]),
        (['{"a', '{"a":', '{"a": ['], '{"a": ['),
        (['{"a', '{"a":'], '{"a{"a":'),
        (["[1", "]"], "[1]"),
        (["not json"], "not json"),
    ],
)
def test_arguments_are_what_makes_an_object(pieces: list[str], text: str) -> None:
    assert called(*pieces) == text


@pytest.mark.parametrize(
    ("pieces", "whole", "text"),
    [
        ([A[:9], A[9:]], A, A),
        ([A[:9]], A, A),
        ([], A, A),
        ([], "", ""),
        ([A], '{"other": 1}', A),
        ([A[:9]], '{"other": 1}', A[:9]),
    ],
)
def test_complete_arguments_add_only_the_rest(pieces: list[str], whole: str, text: str) -> None:
    assert called(*pieces, whole=whole) == text


@given(
    st.dictionaries(
        st.text(max_size=3),
        st.recursive(st.text(max_size=5), lambda v: st.lists(v) | st.dictionaries(st.text(max_size=2), v)),
        max_size=4,
    ),
    st.lists(st.integers(0, 60), max_size=8),
)
def test_any_object_in_any_pieces_is_itself(value: dict[str, object], cuts: list[int]) -> None:
    text = json.dumps(value)
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    assert called(*(text[start:end] for start, end in pairwise(places))) == text


def test_an_object_sent_as_a_value_replaces_the_one_before() -> None:
    arguments = Arguments()
    assert arguments.add('{"a":1}', is_value=True) + arguments.add('{"a":1,"b":2}', is_value=True) == ""
    assert arguments.end() == '{"a":1,"b":2}'


def test_arguments_are_shown_while_they_grow() -> None:
    arguments = Arguments()
    assert [arguments.add(piece) for piece in ('{"a":', '"b', '"}')] == ['{"a":', '"b', '"}']
    growing = Arguments()
    assert "".join(growing.add(piece) for piece in list(accumulate(A))[:20]) == A[:20]


def test_endless_arguments_are_an_error() -> None:
    for first in ('{"a":"', '"{'):
        with pytest.raises(ProviderError, match="too large"):
            called(first, *["x" * (MAX_ARGUMENTS_CHARS // 4)] * 5)


@pytest.mark.parametrize("make", [GrowingText, Arguments])
def test_many_small_pieces_take_linear_time(make: type[GrowingText] | type[Arguments]) -> None:
    """If each piece were compared with everything before, this would take a minute."""
    text = make()
    started = time.process_time()
    for piece in ["{" * 100_000, *["{"] * 200_000, "}" * 100_000, *["{", "}"] * 50_000]:
        text.add(piece)
    assert time.process_time() - started < 5
