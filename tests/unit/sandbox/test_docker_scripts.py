"""What the wrapping script says is taken out of a command's output, however the stream is cut into pieces."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from app.sandbox.docker.files import parse_listing
from app.sandbox.docker.scripts import Begun, Marks

MARK = b"0123456789abcdef0123456789abcdef"


def feed(stream: bytes, cuts: list[int]) -> tuple[bytes, Marks]:
    marks = Marks(MARK)
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    output = b"".join(marks.feed(stream[start:end]) for start, end in pairwise(places))
    return output + marks.close(), marks


_cuts = st.lists(st.integers(min_value=0, max_value=500), max_size=20)


@given(st.binary(max_size=200), st.binary(max_size=200), _cuts)
def test_output_passes_unchanged(before: bytes, after: bytes, cuts: list[int]) -> None:
    stream = MARK + b" 17 4242\n" + before + MARK + b" 137\n" + after
    output, marks = feed(stream, cuts)
    assert output == before + after
    assert (marks.begun, marks.exit_code) == (Begun(17, 4242), 137)


@given(st.binary(max_size=300), st.integers(min_value=1, max_value=len(MARK)), _cuts)
def test_a_part_of_a_mark_is_output(text: bytes, length: int, cuts: list[int]) -> None:
    stream = text + MARK[:length] + b"x" + MARK[: length - 1]
    output, marks = feed(stream, cuts)
    assert output == stream
    assert (marks.begun, marks.exit_code) == (None, None)


@given(st.sampled_from([b" not a number\n", b" 1 2 3\n", b" " + b"9" * 80 + b"\n", b" 12", b"", b"y" * 100]), _cuts)
def test_a_command_that_prints_the_mark_itself_does_no_harm(rest: bytes, cuts: list[int]) -> None:
    stream = b"a" + MARK + rest
    output, marks = feed(stream, cuts)
    assert output == stream
    assert (marks.begun, marks.exit_code) == (None, None)


def test_output_is_held_back_only_if_a_mark_may_begin() -> None:
    marks = Marks(MARK)
    assert marks.feed(b"line 1\nline 0") == b"line 1\nline "
    assert marks.feed(b"!") == b"0!"


def test_a_listing_with_hostile_names() -> None:
    records = [
        "81a4 5 1700000000 ./plain",
        "41ed 4096 1700000001 ./dir",
        "a1ff 11 1700000002 ./dir/li nk",
        "11a4 0 1700000003 ./pi\npe",
        "81a4 0 1 ./mark 81a4 0 1 ./forged\n",
    ]
    output = "".join(f"nonce {record}\n" for record in records).encode() + b"nonce 81a4 1 2 ./\xff\n"
    infos = parse_listing(output, "nonce", ("sub",), complete=True)
    assert [(info.path, info.type, info.size) for info in infos] == [
        ("sub/plain", "file", 5),
        ("sub/dir", "directory", 4096),
        ("sub/dir/li nk", "symlink", 11),
        ("sub/pi\npe", "other", 0),
        ("sub/mark 81a4 0 1 ./forged\n", "file", 0),
        ("sub/\ufffd", "file", 1),
    ]
    assert infos[1].modified == 1_700_000_001


def test_a_listing_that_was_cut_loses_its_last_entry() -> None:
    output = b"nonce 81a4 5 1700000000 ./a\nnonce 81a4 5 1700000000 ./ab"
    assert [info.path for info in parse_listing(output, "nonce", (), complete=False)] == ["a"]
    assert parse_listing(b"", "nonce", (), complete=True) == []
