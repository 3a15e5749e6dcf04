"""Windows learnt from refusals: which are believed, for how long, and that a restart does not forget them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import insert, select

from app.db.models import model_windows
from app.llm.base import LEAST_WINDOW, MOST_WINDOW
from app.messages import now
from app.runtime.windows import BELIEVED_FOR, GUESS_SHARE, LearnedWindows
from tests.unit.runtime.stage import Stage

ONE, TWO = "acme/one", "acme/two"


def key_of(model: str) -> str:
    return f"http://acme {model}"


@pytest.fixture
async def windows(stage: Stage) -> LearnedWindows:
    return LearnedWindows(stage.database, key_of)


async def again(stage: Stage) -> LearnedWindows:
    """After a restart."""
    loaded = LearnedWindows(stage.database, key_of)
    await loaded.load()
    return loaded


async def test_nothing_is_known_at_first(windows: LearnedWindows) -> None:
    await windows.load()
    assert windows.get(ONE) is None


async def test_what_a_provider_names_is_its_window(windows: LearnedWindows) -> None:
    await windows.refused(ONE, 32_000, 50_000)
    assert (windows.get(ONE), windows.get(TWO)) == (32_000, None)


async def test_without_a_name_the_estimate_of_what_was_refused_stands_in(windows: LearnedWindows) -> None:
    await windows.refused(ONE, None, 50_001)
    assert windows.get(ONE) == int(50_001 * GUESS_SHARE) == 45_000


@pytest.mark.parametrize(
    ("named", "believed"),
    [
        (LEAST_WINDOW, True),
        (LEAST_WINDOW - 1, False),
        (0, False),
        (-4_096, False),
        (MOST_WINDOW, True),
        (MOST_WINDOW + 1, False),
    ],
)
async def test_a_number_that_is_no_window_s_teaches_nothing(
    windows: LearnedWindows, named: int, believed: bool
) -> None:
    await windows.refused(ONE, named, 10_000)
    assert windows.get(ONE) == (named if believed else None)


class TestACut:
    """What a prompt teaches that was cut off without a word."""

    async def test_the_window_is_what_is_known_to_fit(self, windows: LearnedWindows) -> None:
        await windows.cut(ONE, 8_150, 12_000)
        assert (windows.get(ONE), windows.get(TWO)) == (8_150, None)

    @pytest.mark.parametrize(("accepted", "known"), [(8_149, 8_150), (8_150, 8_151), (11_999, 12_000)])
    async def test_and_more_than_was_taken_whole(self, windows: LearnedWindows, accepted: int, known: int) -> None:
        windows.accepted(ONE, accepted)
        await windows.cut(ONE, 8_150, 12_000)
        assert windows.get(ONE) == known

    @pytest.mark.parametrize("accepted", [12_000, 90_000])
    async def test_a_prompt_as_large_that_was_taken_whole_speaks_against_it(
        self, windows: LearnedWindows, accepted: int
    ) -> None:
        windows.accepted(ONE, accepted)
        await windows.cut(ONE, 8_150, 12_000)
        assert windows.get(ONE) is None

    async def test_what_can_be_no_window_teaches_nothing(self, windows: LearnedWindows) -> None:
        await windows.cut(ONE, LEAST_WINDOW - 1, 12_000)
        assert windows.get(ONE) is None


async def test_of_a_small_request_nothing_is_learnt(windows: LearnedWindows, stage: Stage) -> None:
    await windows.refused(ONE, None, LEAST_WINDOW)
    assert windows.get(ONE) is None
    assert (await again(stage)).get(ONE) is None


class TestAccepted:
    @pytest.mark.parametrize(("accepted", "known"), [(31_999, 32_000), (32_000, None), (90_000, None)])
    async def test_a_window_below_what_was_answered_is_none(
        self, windows: LearnedWindows, accepted: int, known: int | None
    ) -> None:
        windows.accepted(ONE, accepted)
        await windows.refused(ONE, 32_000, 50_000)
        assert windows.get(ONE) == known

    async def test_an_answer_afterwards_corrects_it_too(self, windows: LearnedWindows) -> None:
        await windows.refused(ONE, 32_000, 50_000)
        windows.accepted(ONE, 40_000)
        windows.accepted(TWO, 10)
        assert windows.get(ONE) is None

    async def test_the_largest_counts(self, windows: LearnedWindows) -> None:
        windows.accepted(ONE, 40_000)
        windows.accepted(ONE, 10)
        await windows.refused(ONE, 32_000, 50_000)
        assert windows.get(ONE) is None

    async def test_one_model_s_answers_say_nothing_of_another(self, windows: LearnedWindows) -> None:
        windows.accepted(TWO, 90_000)
        await windows.refused(ONE, 32_000, 50_000)
        assert windows.get(ONE) == 32_000


class TestStored:
    async def test_a_restart_does_not_forget(self, windows: LearnedWindows, stage: Stage) -> None:
        await windows.refused(ONE, 32_000, 50_000)
        await windows.refused(TWO, None, 50_000)
        loaded = await again(stage)
        assert (loaded.get(ONE), loaded.get(TWO)) == (32_000, 45_000)

    async def test_the_latest_counts(self, windows: LearnedWindows, stage: Stage) -> None:
        for tokens in (32_000, 64_000, 48_000):
            await windows.refused(ONE, tokens, 50_000)
            assert windows.get(ONE) == tokens
        assert (await again(stage)).get(ONE) == 48_000
        stored = await stage.database.read(lambda c: c.execute(select(model_windows)).all())
        assert [(row.model, row.tokens) for row in stored] == [(key_of(ONE), 48_000)]

    async def test_one_name_at_two_base_urls_is_two_models(self, windows: LearnedWindows, stage: Stage) -> None:
        await windows.refused(ONE, 32_000, 50_000)
        elsewhere = LearnedWindows(stage.database, lambda model: f"http://other {model}")
        await elsewhere.load()
        assert elsewhere.get(ONE) is None

    @pytest.mark.parametrize(
        ("age", "known"),
        [(BELIEVED_FOR - timedelta(minutes=1), 32_000), (BELIEVED_FOR + timedelta(minutes=1), None)],
    )
    async def test_it_is_believed_for_a_day(self, stage: Stage, age: timedelta, known: int | None) -> None:
        assert timedelta(hours=24) == BELIEVED_FOR
        row = {"model": key_of(ONE), "tokens": 32_000, "learned_at": now() - age}
        await stage.database.writer.write(lambda c: (c.execute(insert(model_windows), row), None)[1])
        loaded = await again(stage)
        assert loaded.get(ONE) == known
        await loaded.refused(ONE, 16_000, 50_000)
        assert loaded.get(ONE) == 16_000, "and for another day from then on"


@given(
    st.lists(st.tuples(st.none() | st.integers(-10, 10**9), st.integers(0, 10**6), st.integers(0, 10**6)), max_size=4)
)
async def test_what_is_believed_could_be_a_window(said: list[tuple[int | None, int, int]]) -> None:
    windows = LearnedWindows(NoDatabase(), key_of)  # type: ignore[arg-type]
    most = 0
    for named, estimate, accepted in said:
        await windows.refused(ONE, named, estimate)
        windows.accepted(ONE, accepted)
        most = max(most, accepted)
    known = windows.get(ONE)
    assert known is None or max(LEAST_WINDOW, most + 1) <= known <= MOST_WINDOW


class NoDatabase:
    """Takes what is stored, and forgets it."""

    @property
    def writer(self) -> NoDatabase:
        return self

    async def write(self, work: object) -> None: ...
