"""The conversations that idle sessions keep are few and small, and only of the version that is asked for."""

from __future__ import annotations

from app.agent.conversation import Conversation
from app.agent.record import StoredConversation
from app.context.tokens import Calibration
from app.runtime.kept import KeptConversation, KeptConversations, Version

VERSION = Version(epoch=2, last_seq=40)


def of(size: int) -> KeptConversation:
    return KeptConversation(VERSION, Conversation(StoredConversation([]), (), Calibration()), 0, size)


def test_a_conversation_is_taken_once_and_only_of_its_version() -> None:
    kept = KeptConversations()
    for other in (Version(2, 41), Version(3, 40), Version(2, 39)):
        kept.keep("a", of(10))
        assert kept.take("a", other) is None
        assert kept.take("a", VERSION) is None, "a stale one is dropped"
    mine = of(10)
    kept.keep("a", mine)
    assert kept.take("b", VERSION) is None
    assert kept.take("a", VERSION) is mine
    assert kept.take("a", VERSION) is None
    assert kept.bytes == 0


def test_the_longest_idle_sessions_make_room() -> None:
    kept = KeptConversations(most=3, most_bytes=100)
    for session_id in "abca":
        kept.keep(session_id, of(30))
    assert kept.bytes == 90
    kept.keep("d", of(20))
    assert kept.take("b", VERSION) is None, "four are too many"
    kept.keep("e", of(60))
    assert kept.take("c", VERSION) is None, "and 140 bytes are too many"
    assert kept.take("a", VERSION) is None
    assert (kept.take("d", VERSION), kept.take("e", VERSION)) != (None, None)
    kept.keep("f", of(10))
    kept.keep("g", of(101))
    assert kept.take("g", VERSION) is None, "one alone is too large"
    assert kept.take("f", VERSION) is not None, "and others stay for that"
    assert kept.bytes == 0


def test_a_deleted_session_leaves_nothing() -> None:
    kept = KeptConversations()
    kept.keep("a", of(10))
    kept.drop("a")
    kept.drop("b")
    assert (kept.take("a", VERSION), kept.bytes) == (None, 0)
