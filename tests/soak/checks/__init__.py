"""The invariants, as functions of what the database holds and what the users know; each yields what does not hold."""

from tests.soak.checks.all import check_deleted, check_killed, check_seen, check_session

__all__ = ["check_deleted", "check_killed", "check_seen", "check_session"]
