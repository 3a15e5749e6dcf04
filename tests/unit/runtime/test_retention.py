"""The sweep checks a session twice: one that has started running since it was found is kept."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from sqlalchemy import Connection

from app.agent.changes import ResultClosed
from app.db.repositories import deliveries, sessions, webhooks
from app.db.repositories.webhooks import StoredWebhook
from app.messages import FinishReason, new_id, now
from app.sessions import Status
from tests.unit.runtime.stage import GENERATION_OPENED, Attempt, Stage, call_part, result_of

LATER = now() + timedelta(days=1)


async def test_a_session_that_started_running_since_it_was_found_is_kept(stage: Stage) -> None:
    assert await stage.database.read(lambda c: sessions.old_sessions(c, LATER, 10)) == [stage.session_id]
    assert await stage.database.read(lambda c: sessions.is_old(c, stage.session_id, LATER))
    await stage.post("go on")
    assert not await stage.database.read(lambda c: sessions.is_old(c, stage.session_id, LATER))


async def test_a_session_with_activity_since_it_was_found_is_kept(stage: Stage) -> None:
    before = (await stage.row()).updated_at + timedelta(seconds=1)
    assert await stage.database.read(lambda c: sessions.is_old(c, stage.session_id, before))
    await stage.change(updated_at=now() + timedelta(minutes=1))
    assert not await stage.database.read(lambda c: sessions.is_old(c, stage.session_id, before))


async def test_a_session_is_kept_until_webhooks_have_its_events(stage: Stage) -> None:
    def is_old(connection: Connection) -> tuple[bool, bool]:
        found = sessions.old_sessions(connection, LATER, 10)
        return found == [stage.session_id], sessions.is_old(connection, stage.session_id, LATER)

    at, ids = now(), (new_id(), new_id())
    for webhook_id in ids:
        made = StoredWebhook(webhook_id, "https://x.test", None, None, {}, "s", "active", None, None, at, at)
        await stage.database.writer.write(partial(webhooks.add, webhook=made))
    assert await stage.database.read(is_old) == (True, True)  # they only get later events
    await stage.post("task")
    await stage.change(status=Status.IDLE)
    assert await stage.database.read(is_old) == (False, False)
    head = (await stage.row()).last_seq
    await stage.database.writer.write(lambda c: deliveries.advance(c, ids[0], {stage.session_id: head}))
    assert await stage.database.read(is_old) == (False, False)
    await stage.database.writer.write(lambda c: webhooks.disable(c, ids[1], "gone", at))
    assert await stage.database.read(is_old) == (True, True)


async def with_output(stage: Stage) -> list[sessions.StoredOutput]:
    """The old outputs of an idle session that has one."""
    attempt, call = Attempt(), call_part()
    await stage.post("task")
    result = result_of(call, new_id()).part
    await stage.commit(
        GENERATION_OPENED,
        attempt.opened,
        *attempt.wrote(call),
        attempt.answered(FinishReason.TOOL_CALLS),
        ResultClosed(new_id(), result, "key"),
        attempt.closed(FinishReason.TOOL_CALLS),
    )
    await stage.change(status=Status.IDLE)
    return await stage.database.read(lambda c: sessions.old_outputs(c, LATER, 10))


async def test_outputs_of_a_session_that_started_running_since_are_kept(stage: Stage) -> None:
    found = await with_output(stage)
    assert [output.key for output in found] == ["key"]
    await stage.change(status=Status.RUNNING)
    assert await stage.database.writer.write(lambda c: sessions.mark_swept(c, found, now())) == []
    await stage.change(status=Status.IDLE)
    assert await stage.database.writer.write(lambda c: sessions.mark_swept(c, found, now())) == ["key"]


async def test_an_output_that_several_nodes_remove_keeps_its_first_time(stage: Stage) -> None:
    found = await with_output(stage)
    first = now()
    for at in (first, first + timedelta(seconds=1)):
        assert await stage.database.writer.write(partial(sessions.mark_swept, outputs=found, at=at)) == ["key"]
    assert await stage.database.read(lambda c: sessions.swept_since(c, first)) == ["key"]
    assert await stage.database.read(lambda c: sessions.swept_since(c, first + timedelta(milliseconds=1))) == []
