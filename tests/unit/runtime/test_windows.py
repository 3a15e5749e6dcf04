"""Windows learned from refusals: which are trusted, for how long, and that they survive a restart."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import insert, select, update

from app.context.policies import DEFAULT
from app.db.models import model_windows
from app.llm.base import LEAST_WINDOW, MOST_WINDOW, UNKNOWN_PRICES, ModelInfo, WindowSource
from app.messages import now
from app.runtime.learned_models import GUESS_SHARE, WINDOWS_BELIEVED_FOR, LearnedWindows
from tests.unit.runtime.stage import Stage, make_sandboxes, make_setup

ONE, TWO = "acme/one", "acme/two"

LISTED = ModelInfo(ONE, "acme", 128_000, "catalog", None, UNKNOWN_PRICES, key_present=True)


def key_of(model: str) -> str:
    return f"http://acme {model}"


def info_of(model: str) -> ModelInfo:
    return LISTED


@pytest.fixture
async def windows(stage: Stage) -> LearnedWindows:
    return LearnedWindows(stage.database, key_of, info_of)


async def again(stage: Stage, info: ModelInfo = LISTED) -> LearnedWindows:
    """The windows after a restart, with `info` known of every model."""
    loaded = LearnedWindows(stage.database, key_of, lambda _: info)
    await loaded.load()
    return loaded


async def test_nothing_is_known_at_first(windows: LearnedWindows) -> None:
    await windows.load()
    assert windows.get(ONE) is None


async def test_a_window_named_by_the_provider_is_used(windows: LearnedWindows) -> None:
    await windows.refused(ONE, 32_000, 50_000)
    assert (windows.get(ONE), windows.get(TWO)) == (32_000, None)


async def test_what_another_node_learns_is_loaded_and_nothing_newer_forgotten(stage: Stage) -> None:
    one, two = (LearnedWindows(stage.database, key_of, info_of) for _ in range(2))
    await one.refused(ONE, 32_000, 50_000)
    await one.refused(TWO, 16_000, 50_000)
    older = {"tokens": 8_000, "learned_at": now() - timedelta(seconds=1)}
    await stage.write(lambda c: c.execute(update(model_windows).where(model_windows.c.model == key_of(TWO)), older))
    await two.load()
    await one.load()
    assert (two.get(ONE), two.get(TWO), one.get(TWO)) == (32_000, 8_000, 16_000)


async def test_without_a_named_window_the_estimate_is_used(windows: LearnedWindows) -> None:
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
async def test_an_implausible_number_is_ignored(windows: LearnedWindows, named: int, believed: bool) -> None:
    await windows.refused(ONE, named, 10_000)
    assert windows.get(ONE) == (named if believed else None)


class TestTruncation:
    """What is learned from a silently truncated prompt."""

    async def test_the_window_is_what_is_known_to_fit(self, windows: LearnedWindows) -> None:
        await windows.cut(ONE, 8_150, 12_000)
        assert (windows.get(ONE), windows.get(TWO)) == (8_150, None)

    @pytest.mark.parametrize(("accepted", "known"), [(8_149, 8_150), (8_150, 8_151), (11_999, 12_000)])
    async def test_the_window_is_larger_than_an_accepted_prompt(
        self, windows: LearnedWindows, accepted: int, known: int
    ) -> None:
        windows.accepted(ONE, accepted)
        await windows.cut(ONE, 8_150, 12_000)
        assert windows.get(ONE) == known

    @pytest.mark.parametrize("accepted", [12_000, 90_000])
    async def test_an_accepted_prompt_of_that_size_contradicts_it(self, windows: LearnedWindows, accepted: int) -> None:
        windows.accepted(ONE, accepted)
        await windows.cut(ONE, 8_150, 12_000)
        assert windows.get(ONE) is None

    async def test_an_implausible_window_is_ignored(self, windows: LearnedWindows) -> None:
        await windows.cut(ONE, LEAST_WINDOW - 1, 12_000)
        assert windows.get(ONE) is None


async def test_nothing_is_learned_from_a_small_request(windows: LearnedWindows, stage: Stage) -> None:
    await windows.refused(ONE, None, LEAST_WINDOW)
    assert windows.get(ONE) is None
    assert (await again(stage)).get(ONE) is None


class TestAccepted:
    @pytest.mark.parametrize(("accepted", "known"), [(31_999, 32_000), (32_000, None), (90_000, None)])
    async def test_a_window_below_an_accepted_prompt_is_dropped(
        self, windows: LearnedWindows, accepted: int, known: int | None
    ) -> None:
        windows.accepted(ONE, accepted)
        await windows.refused(ONE, 32_000, 50_000)
        assert windows.get(ONE) == known

    async def test_a_later_answer_corrects_it_too(self, windows: LearnedWindows) -> None:
        await windows.refused(ONE, 32_000, 50_000)
        windows.accepted(ONE, 40_000)
        windows.accepted(TWO, 10)
        assert windows.get(ONE) is None

    async def test_the_largest_counts(self, windows: LearnedWindows) -> None:
        windows.accepted(ONE, 40_000)
        windows.accepted(ONE, 10)
        await windows.refused(ONE, 32_000, 50_000)
        assert windows.get(ONE) is None

    async def test_one_model_s_answers_do_not_affect_another(self, windows: LearnedWindows) -> None:
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
        elsewhere = LearnedWindows(stage.database, lambda model: f"http://other {model}", info_of)
        await elsewhere.load()
        assert elsewhere.get(ONE) is None

    @pytest.mark.parametrize(
        ("age", "known"),
        [(WINDOWS_BELIEVED_FOR - timedelta(minutes=1), 32_000), (WINDOWS_BELIEVED_FOR + timedelta(minutes=1), None)],
    )
    async def test_it_is_trusted_for_a_day(self, stage: Stage, age: timedelta, known: int | None) -> None:
        assert timedelta(hours=24) == WINDOWS_BELIEVED_FOR
        against = {"known_tokens": LISTED.context_window, "known_source": LISTED.window_source}
        row = {"model": key_of(ONE), "tokens": 32_000, "learned_at": now() - age, **against}
        await stage.database.writer.write(lambda c: (c.execute(insert(model_windows), row), None)[1])
        loaded = await again(stage)
        assert loaded.get(ONE) == known
        await loaded.refused(ONE, 16_000, 50_000)
        assert loaded.get(ONE) == 16_000, "and for another day from then on"


def known(tokens: int, source: WindowSource) -> ModelInfo:
    return replace(LISTED, context_window=tokens, window_source=source)


class TestANewKnownWindow:
    """A window set by the operator or reported by the server after another one was learned from a refusal."""

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            pytest.param(known(128_000, "assumed"), known(64_000, "setting"), id="set"),
            pytest.param(known(128_000, "assumed"), known(128_000, "setting"), id="set to what was assumed"),
            pytest.param(known(40_000, "setting"), known(64_000, "setting"), id="set higher"),
            pytest.param(known(64_000, "setting"), known(40_000, "setting"), id="set lower"),
            pytest.param(known(128_000, "assumed"), known(64_000, "server"), id="reported"),
            pytest.param(known(40_000, "server"), known(64_000, "server"), id="reported anew"),
        ],
    )
    async def test_takes_precedence(self, stage: Stage, before: ModelInfo, after: ModelInfo) -> None:
        info = before
        windows = LearnedWindows(stage.database, key_of, lambda _: info)
        await windows.refused(ONE, 32_000, 50_000)
        assert (windows.get(ONE), (await again(stage, before)).get(ONE)) == (32_000, 32_000)
        info = after
        assert windows.get(ONE) is None
        assert (await again(stage, after)).get(ONE) is None
        await windows.refused(ONE, 16_000, 50_000)
        assert windows.get(ONE) == (await again(stage, after)).get(ONE) == 16_000, "a later refusal is learned again"

    async def test_the_same_report_after_a_restart_changes_nothing(self, stage: Stage) -> None:
        reported = known(64_000, "server")
        windows = LearnedWindows(stage.database, key_of, lambda _: reported)
        await windows.refused(ONE, 32_000, 50_000)
        assert (await again(stage, known(128_000, "assumed"))).get(ONE) is None
        assert (await again(stage, reported)).get(ONE) == 32_000

    async def test_a_window_learned_against_an_unknown_one_is_not_trusted(self, stage: Stage) -> None:
        row = {"model": key_of(ONE), "tokens": 32_000, "learned_at": now()}
        await stage.database.writer.write(lambda c: (c.execute(insert(model_windows), row), None)[1])
        loaded = await again(stage)
        assert loaded.get(ONE) is None
        await loaded.refused(ONE, 32_000, 50_000)
        assert loaded.get(ONE) == 32_000


@pytest.mark.parametrize(
    ("named", "window"),
    [
        pytest.param(32_000, (32_000, "learned"), id="smaller"),
        pytest.param(1_000_000, (1_000_000, "learned"), id="larger"),
        pytest.param(0, (128_000, "assumed"), id="none"),
    ],
)
async def test_the_reported_window_is_the_one_used_for_budgets(
    stage: Stage, named: int, window: tuple[int, str]
) -> None:
    setup, model = make_setup(stage, make_sandboxes()), "openai/my-own"
    agents = setup.agents
    await agents.windows.refused(model, named, 50_000)
    budget = agents.budget(model, DEFAULT)
    assert agents.window(model) == (budget.limit, budget.source) == window


@given(
    st.lists(st.tuples(st.none() | st.integers(-10, 10**9), st.integers(0, 10**6), st.integers(0, 10**6)), max_size=4)
)
async def test_a_trusted_window_is_always_plausible(said: list[tuple[int | None, int, int]]) -> None:
    windows = LearnedWindows(NoDatabase(), key_of, info_of)  # type: ignore[arg-type]
    most = 0
    for named, estimate, accepted in said:
        await windows.refused(ONE, named, estimate)
        windows.accepted(ONE, accepted)
        most = max(most, accepted)
    known = windows.get(ONE)
    assert known is None or max(LEAST_WINDOW, most + 1) <= known <= MOST_WINDOW


class NoDatabase:
    """Accepts writes and discards them."""

    @property
    def writer(self) -> NoDatabase:
        return self

    async def write(self, work: object) -> None: ...
