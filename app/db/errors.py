"""What a database said when it refused something."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError


def reason(error: DBAPIError) -> str:
    """What the database said, in its first line and without a period; later lines only guess at the cause."""
    return (str(error.orig).strip().splitlines() or ["no reason given"])[0].rstrip(".")
