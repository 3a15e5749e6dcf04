"""The result of an attempt, and what follows: the delivery as it is then, and whether its webhook is disabled."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from app.db.repositories.webhooks import DELIVERED, FAILED, PENDING, StoredDelivery

ATTEMPT_S = 15.0
"""Seconds that one attempt may take, from the look-up of the name to the end of the response."""

RETRIED_FOR = timedelta(days=3)
FIRST_RETRY_S = 1.0
LAST_RETRY_S = 900.0
"""Seconds between two attempts, at first and at most: they double. A receiver that has been away for hours gets what
it missed within a quarter of an hour."""

GONE = 410
"""Standard Webhooks: the receiver wants no more."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of an attempt: the response's status, or the reason for none. `retry_after_s` is the receiver's
    wish."""

    duration_ms: int
    status: int | None = None
    error: str | None = None
    retry_after_s: float = 0.0

    @property
    def is_delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def backoff_s(attempts: int, chance: float) -> float:
    """Seconds until the next attempt after this many. `chance`, from 0 to 1, spreads the retries of many sessions."""
    return float(min(FIRST_RETRY_S * 2 ** min(attempts - 1, 30), LAST_RETRY_S) * (0.75 + 0.5 * chance))


def after_attempt(
    delivery: StoredDelivery, attempt: Attempt, at: datetime, chance: float
) -> tuple[StoredDelivery, str | None]:
    """The delivery after an attempt that ended at this time, and the reason to disable its webhook, if there is one."""
    done = delivery._replace(
        attempts=delivery.attempts + 1,
        response_status=attempt.status,
        error=attempt.error,
        duration_ms=attempt.duration_ms,
        attempted_at=at,
        next_attempt_at=None,
        expires_at=None,
    )
    if attempt.is_delivered:
        return done._replace(status=DELIVERED), None
    if attempt.status == GONE:
        return done._replace(status=FAILED), "The receiver answered with status 410: it accepts no more events."
    if delivery.once:
        return done._replace(status=FAILED), None
    expires_at = delivery.expires_at or at + RETRIED_FOR
    if at >= expires_at:
        return done._replace(status=FAILED), f"Deliveries failed for {RETRIED_FOR.days} days. {attempt.error}"
    waits = timedelta(seconds=max(backoff_s(done.attempts, chance), attempt.retry_after_s))
    return done._replace(status=PENDING, next_attempt_at=min(at + waits, expires_at), expires_at=expires_at), None
