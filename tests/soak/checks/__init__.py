"""The invariants, as functions of the database's content and the users' knowledge; each yields its violations."""

from tests.soak.checks.all import check_deleted, check_killed, check_seen, check_session

__all__ = ["check_deleted", "check_killed", "check_seen", "check_session"]
