from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ContextOverflowError, ProviderError
from app.llm.base import BASE_S, CAP_S, MAX_ATTEMPTS, RETRY_AFTER_CAP_S, delay_s

BUSY = ProviderError("busy", retryable=True)


def test_errors_that_are_not_retryable_are_not_retried() -> None:
    assert delay_s(1, ProviderError("no"), Random(1)) is None
    assert delay_s(1, ContextOverflowError("full"), Random(1)) is None


def test_attempts_are_limited() -> None:
    delays = [delay_s(attempt, BUSY, Random(1)) for attempt in range(1, MAX_ATTEMPTS + 1)]
    assert delays[-1] is None
    assert None not in delays[:-1]
    assert delay_s(1, BUSY, Random(1), max_attempts=1) is None
    assert delay_s(9, BUSY, Random(1), max_attempts=10) is not None


@given(st.integers(1, 200), st.randoms(use_true_random=False))
def test_waits_double_up_to_the_cap_with_jitter_of_a_half(attempt: int, rng: Random) -> None:
    delay = delay_s(attempt, BUSY, rng, max_attempts=1000)
    step = min(BASE_S * 2 ** (attempt - 1), CAP_S)
    assert delay is not None
    assert step / 2 <= delay <= step


def test_jitter_spreads_equal_failures() -> None:
    assert len({delay_s(1, BUSY, Random(seed)) for seed in range(20)}) > 15


@pytest.mark.parametrize(("wish", "low", "high"), [(0.0, 0, 0), (7.0, 7, 7.7), (-3.0, 0, 0)])
def test_the_requested_delay_is_honored(wish: float, low: float, high: float) -> None:
    delay = delay_s(3, ProviderError("busy", retryable=True, retry_after=wish), Random(1))
    assert delay is not None
    assert low <= delay <= high


def test_the_requested_delay_is_capped() -> None:
    assert delay_s(1, ProviderError("busy", retryable=True, retry_after=86_400), Random(1)) == RETRY_AFTER_CAP_S
