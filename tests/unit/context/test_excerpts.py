from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.context.clipping import clip_middle, fit_tokens, image_label, most_that_fit, one_line, plural, readable
from app.context.tokens import estimate_text
from app.messages import Role
from tests.unit.context.builders import image, message, text, user

any_text = st.one_of(st.text(max_size=200), st.text("ab\n日本<>/ ", min_size=100, max_size=2_000))


def test_a_clipped_text_keeps_both_ends_and_says_what_is_missing() -> None:
    clipped = clip_middle("a" * 500 + "b" * 1_500 + "c" * 500, 1_000, "; look there")
    assert clipped == "a" * 500 + "\n[… 1,500 characters left out; look there]\n" + "c" * 500


@given(any_text, st.integers(0, 300))
def test_clipping_keeps_the_characters_asked_for(value: str, chars: int) -> None:
    clipped = clip_middle(value, chars)
    if len(value) <= chars:
        assert clipped == value
    else:
        head, tail = value[: chars - chars // 2], value[len(value) - chars // 2 :]
        assert clipped.startswith(head)
        assert clipped.endswith(tail)
        assert f"{len(value) - chars:,} characters left out" in clipped


@given(any_text, st.integers(-3, 600))
def test_a_fitted_text_is_within_its_tokens(value: str, tokens: int) -> None:
    fitted = fit_tokens(value, tokens)
    assert estimate_text(fitted) <= max(0, tokens)
    if estimate_text(value) <= tokens:
        assert fitted == value


@pytest.mark.parametrize("value", ["x" * 2_000_000, "語" * 2_000_000])
def test_a_huge_text_is_fitted_and_fills_most_of_its_room(value: str) -> None:
    assert 900 <= estimate_text(fit_tokens(value, 1_000)) <= 1_000


def test_if_no_note_fits_the_beginning_stays() -> None:
    assert fit_tokens("abcdefgh" * 100, 2) == "abcdefgh"


@given(st.integers(0, 500), st.integers(0, 600))
def test_the_largest_fitting_count_is_found(total: int, limit: int) -> None:
    tried: list[int] = []

    def fits(count: int) -> bool:
        tried.append(count)
        return count <= limit

    assert most_that_fit(total, fits) == min(total, limit)
    assert all(0 < count <= min(total, 2 * limit + 1) for count in tried)


@given(st.text(max_size=300), st.integers(1, 100))
def test_one_line_is_one_printable_line_of_bounded_length(value: str, chars: int) -> None:
    line = one_line(value, chars)
    assert line.isprintable()
    assert len(line) <= chars + 1


def test_one_line_escapes_unprintable_characters() -> None:
    assert one_line("a\nb\x1b[31m\u202ec", 100) == r"a\nb\x1b[31m\u202ec"
    assert one_line("naïve 日本", 100) == "naïve 日本"


def test_images_are_named_with_their_size_if_it_is_known() -> None:
    assert image_label(image(800, 600)) == "[image image/png 800×600]"
    assert image_label(image()) == "[image image/png]"


def test_a_readable_text_names_the_images() -> None:
    assert readable(user(1, "look")) == "look"
    assert readable(message(Role.USER, 1, text("see"), image(8, 6))) == "see\n[image image/png 8×6]"


@pytest.mark.parametrize(("count", "said"), [(0, "0 files"), (1, "1 file"), (1_200, "1,200 files")])
def test_plural(count: int, said: str) -> None:
    assert plural(count, "file") == said
