"""Secrets in output: found in every form, at every border of pieces, and nothing else is changed."""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tools.masking import MaskedStream, Masking

CANARY = 'c4nary/+ "tök=en?>!(~'
SECRETS = {"TOKEN": CANARY, "PASSWORD": "aaaaaaaab", "OTHER": "ababababc"}


def written(value: str, before: bytes) -> list[bytes]:
    """Twelve forms of a value, with something in front of it."""
    whole = before + value.encode() + b"!tail"
    return [
        whole,
        b64encode(whole),
        urlsafe_b64encode(whole),
        before + quote(value, safe="").encode(),
        before + quote(value).encode(),
        before + quote_plus(value).encode(),
        before + quote(value, safe="!*'()").encode(),
        before + re.sub("%..", lambda found: found[0].lower(), quote(value, safe="")).encode(),
        before + json.dumps(value).encode(),
        before + json.dumps(value, ensure_ascii=False).encode(),
        before + value.encode().hex().encode(),
        before + value.encode().hex().upper().encode(),
    ]


def masked(data: bytes, cuts: list[int]) -> bytes:
    stream = MaskedStream(Masking(SECRETS))
    ends = sorted(min(cut, len(data)) for cut in cuts)
    pieces = [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]
    return b"".join(map(stream.feed, pieces)) + stream.feed(b"", final=True)


@pytest.mark.slow
def test_every_form_is_masked_wherever_it_is_cut() -> None:
    for before in (b"", b"x", b"xy", b"xyz"):
        for data in written(CANARY, before):
            results = {masked(data, [cut]) for cut in range(len(data) + 1)}
            assert len(results) == 1, data
            assert results.pop().count(b"[secret TOKEN]") == 1, data


def test_the_whole_of_base64_but_its_borders_is_masked() -> None:
    left = masked(b64encode(b"user:" + CANARY.encode()), []).replace(b"[secret TOKEN]", b"")
    assert len(left) <= len(b64encode(b"user:")) + 4


@given(st.text("abx"), st.lists(st.sampled_from([*SECRETS, "a", "ab", "x"]), max_size=12), st.lists(st.integers(0, 99)))
def test_pieces_do_not_matter_and_no_secret_is_left(start: str, words: list[str], cuts: list[int]) -> None:
    data = (start + "".join(SECRETS.get(word, word) for word in words)).encode()
    found = masked(data, cuts)
    for value in SECRETS.values():
        assert value.encode() not in found
    if not any(value.encode() in data for value in SECRETS.values()):
        assert found == data


def test_a_secret_is_masked_without_the_line_break_at_its_end() -> None:
    masking = Masking({"KEY": "abcdefgh12\n"})
    assert masking.text("abcdefgh12, abcdefgh12\n") == "[secret KEY], [secret KEY]"
    assert masking.text(b64encode(b"abcdefgh12").decode()).startswith("[secret KEY]")


def test_a_patch_is_masked_line_by_line() -> None:
    key = "-----BEGIN KEY-----\nabcdefgh1234\nxy\n-----END KEY-----\n"
    patch = "@@ -0,0 +1,5 @@\n" + "".join(f"+{line}\n" for line in ("first", *key.splitlines()))
    assert Masking({"KEY": key}, by_line=True).text(patch) == (
        "@@ -0,0 +1,5 @@\n+first\n+[secret KEY]\n+[secret KEY]\n+xy\n+[secret KEY]\n"
    )
    assert Masking({"KEY": key}, by_line=True).text(b64encode(key.encode()).decode()).startswith("[secret KEY]")


def test_an_end_that_cannot_be_a_secret_is_not_held_back() -> None:
    stream = MaskedStream(Masking(SECRETS))
    assert stream.feed(b"ready> ") == b"ready> "
    assert stream.feed(b"aaa") == b""
    assert stream.feed(b"x") == b"aaax"
    assert Masking(SECRETS).text(f"a {CANARY} b") == "a [secret TOKEN] b"
    assert Masking({}).text("as it is") == "as it is"
