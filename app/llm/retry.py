"""How long to wait before a failed model call is retried."""

from __future__ import annotations

from random import Random

from app.errors import ProviderError

MAX_ATTEMPTS = 5
BASE_S = 1.0
"""The first wait, before jitter; each later one is twice as long."""
CAP_S = 30.0
"""The longest wait by backoff alone."""
RETRY_AFTER_CAP_S = 120.0
"""The longest wait that a provider can request; a run should not pause for an hour because of one header."""


def delay_s(
    attempt: int,
    error: ProviderError,
    rng: Random,
    *,
    max_attempts: int = MAX_ATTEMPTS,
    base_s: float = BASE_S,
) -> float | None:
    """Seconds to wait after attempt number `attempt` (from 1) failed with `error`, or None to give up.

    Exponential backoff with jitter between half and all of the step. A provider's `retry_after` is honored up to
    `RETRY_AFTER_CAP_S`, plus up to a tenth, so that sessions with the same `retry_after` do not all retry at once.
    """
    if not error.retryable or attempt >= max_attempts:
        return None
    if error.retry_after is not None:
        wish = min(max(error.retry_after, 0.0), RETRY_AFTER_CAP_S)
        return min(wish * (1 + rng.random() / 10), RETRY_AFTER_CAP_S)
    step = min(base_s * 2.0 ** min(attempt - 1, 30), CAP_S)
    return step * (0.5 + rng.random() / 2)
