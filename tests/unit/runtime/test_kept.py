"""The conversations that idle sessions keep are few and small, and only of the version that is asked for."""

from __future__ import annotations

import asyncio
from pathlib import Path

from sqlalchemy import Connection

from app.agent.conversation import Conversation
from app.agent.record import StoredConversation
from app.context.tokens import Calibration
from app.eventlog.log import StreamItem
from app.runtime.kept import KeptConversation, KeptConversations, Version
from app.sandbox.host.local import LocalFactory
from tests.unit.runtime.stage import Stage, make_sandboxes, make_setup

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
    kept = KeptConversations(most=3)
    for session_id in "abca":
        kept.keep(session_id, of(30))
    assert kept.bytes == 90
    kept.keep("d", of(5))
    assert kept.take("b", VERSION) is None, "four are too many"
    assert kept.bytes == 65
    assert all(kept.take(session_id, VERSION) is not None for session_id in "cad")
    assert kept.bytes == 0


def test_large_conversations_make_room() -> None:
    kept = KeptConversations(most_bytes=100)
    for session_id in "abcd":
        kept.keep(session_id, of(25))
    kept.keep("e", of(10))
    assert kept.take("a", VERSION) is None, "110 bytes are too many"
    assert kept.bytes == 85
    kept.keep("f", of(26))
    assert kept.take("f", VERSION) is None, "more than a quarter"
    assert kept.bytes == 85, "and others stay for that"


def test_a_deleted_session_leaves_nothing() -> None:
    kept = KeptConversations()
    kept.keep("a", of(10))
    kept.drop("a")
    kept.drop("b")
    assert (kept.take("a", VERSION), kept.bytes) == (None, 0)


async def test_what_others_have_committed_is_known_before_later_commits(stage: Stage, tmp_path: Path) -> None:
    """As an owner must know of a revert before it knows that its last write has followed it."""
    setup = make_setup(stage, make_sandboxes(LocalFactory(tmp_path)))
    known: list[str] = []

    def work(_: Connection) -> tuple[None, list[StreamItem]]:
        return None, []

    await asyncio.gather(
        setup.write(stage.session_id, work, committed=lambda: known.append("revert")),
        setup.database.writer.write(work, lambda _: known.append("end of a run"), session_id=stage.session_id),
    )
    assert known == ["revert", "end of a run"]
