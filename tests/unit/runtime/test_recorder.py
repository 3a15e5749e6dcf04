"""The recorder: commits in order, publishes after the commit, stores partial text, and stops at its first failure."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import Connection
from structlog.testing import capture_logs

from app.agent.changes import (
    AttemptVoided,
    ControlAdded,
    GenerationOpened,
    PartClosed,
    PlanChanged,
    ResponseClosed,
    ResultClosed,
    StepClosed,
    StepOpened,
)
from app.agent.conversation import control_message
from app.agent.protocols import LivePart
from app.context.prompts import Generation
from app.context.validator import Repair
from app.db.engine import Database
from app.db.repositories import messages, parts, sessions, steps
from app.errors import StaleOwnerError
from app.eventlog.bus import Bus
from app.eventlog.log import EventLog, StreamItem
from app.messages import FinishReason, TextPart, ToolCallPart, ToolResultPart, ToolStatus, Usage, new_id, now
from app.runtime.owner.recorder import FLUSH_S, Recorder
from app.sessions import ContextState, PlanItem, Status
from tests.unit.db.rows import add_session, new_database

GENERATION = Generation(new_id(), 1, "m", "system", (), 1, "created")


class Owned:
    """A session with an owner's recorder."""

    def __init__(self, database: Database, session_id: str) -> None:
        self.database, self.session_id, self.bus = database, session_id, Bus()
        self.channel = self.bus.channel(session_id)
        self.channel.running = True
        self.recorder = Recorder(database, self.bus, session_id, 1)
        self.message_id = new_id()

    def opened(self, attempt: int = 1) -> StepOpened:
        return StepOpened(1, attempt, self.message_id, "m", 1, ContextState())

    def part(self, text: str = "whole", index: int = 0) -> TextPart:
        return TextPart(id=new_id(), index=index, text=text, tokens=1)

    def live(self, part: TextPart, text: str) -> None:
        self.recorder.live(LivePart("text", self.message_id, part.id, part.index), text)

    async def events(self) -> list[StreamItem]:
        return list(await EventLog(self.database).after(self.session_id, 0))

    async def stored(self) -> list[str]:
        """The texts of the message's parts, as stored."""
        history = await self.database.read(lambda c: messages.history(c, self.session_id))
        return [part.text for message in history for part in message.parts if isinstance(part, TextPart)]


class Held:
    """Blocks the writer, so that writes submitted meanwhile become one batch; `release_in` releases it by a timer."""

    def __init__(self, database: Database, session_id: str) -> None:
        self._go = threading.Event()
        self._held = threading.Event()
        self._done = database.writer.submit(self._wait, session_id=session_id)

    def _wait(self, _: Connection) -> None:
        self._held.set()
        self._go.wait(30)

    async def begin(self) -> None:
        await asyncio.to_thread(self._held.wait, 30)

    def release_in(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._go.set)


@pytest.fixture
async def owned(tmp_path: Path) -> AsyncIterator[Owned]:
    async with new_database(tmp_path) as database:
        session_id = await database.writer.write(lambda c: add_session(c, status=Status.RUNNING))
        await database.writer.write(lambda c: sessions.claim(c, session_id))
        owned = Owned(database, session_id)
        yield owned
        owned.recorder.close()


async def test_each_change_becomes_its_rows_and_its_event(owned: Owned) -> None:
    record = owned.recorder.record
    text, call = owned.part(), ToolCallPart(id=new_id(), index=1, call_id=new_id(), name="x", arguments_text="{}")
    result = ToolResultPart(
        id=new_id(), index=0, call_id=call.call_id, name="x", output="out", status=ToolStatus.COMPLETED, tokens=2
    )
    usage = Usage(input_tokens=3, output_tokens=4)
    tool_message = new_id()
    step_end = StepClosed(1, 1, owned.message_id, "m", FinishReason.TOOL_CALLS, usage, ContextState(tokens=9), 5)
    seqs = [
        await record(GenerationOpened(GENERATION)),
        await record(owned.opened()),
        await record(PartClosed(owned.message_id, text), PartClosed(owned.message_id, call)),
        await record(ResponseClosed(1, 1, owned.message_id, FinishReason.TOOL_CALLS, Usage(), 7)),
        await record(ResultClosed(tool_message, result, "ref")),
        await record(PlanChanged((PlanItem(text="do"),))),
        await record(step_end, ControlAdded(control_message("resume"))),
    ]

    assert seqs == [0, 1, 2, 0, 4, 5, 6]
    types = [item.type for item in await owned.events()]
    assert types == [
        "step.started",
        "text.completed",
        "tool.call",
        "tool.result",
        "plan.updated",
        "step.finished",
        "message.created",
    ]
    assert [item.type for item in owned.channel.recent] == types
    history = await owned.database.read(lambda c: messages.history(c, owned.session_id))
    assert [(m.role, m.seq, m.tokens) for m in history] == [
        ("assistant", 1, 7),
        ("tool", 4, history[1].tokens),
        ("control", 7, control_message("resume").tokens),
    ]
    assert history[0].tool_calls[0].status is ToolStatus.COMPLETED
    row = await owned.database.read(lambda c: sessions.row(c, owned.session_id))
    assert (row.usage["input_tokens"], row.run_usage["output_tokens"], row.run_steps) == (3, 4, 1)
    assert (row.plan, row.last_seq, row.generation) == ([{"text": "do", "status": "pending"}], 7, 1)
    step = await owned.database.read(lambda c: steps.last_attempt(c, owned.session_id, 1))
    assert step is not None
    assert (step.finish_reason, step.duration_ms, step.opened_seq) == ("tool_calls", 5, 1)


async def test_live_text_is_shown_at_once_and_stored_soon(owned: Owned) -> None:
    await owned.recorder.record(owned.opened())
    part = owned.part("Hälfte 😀 ganz")
    owned.live(part, "Hälfte ")
    owned.live(part, "😀")
    [delta] = owned.channel.deltas({})
    assert orjson.loads(delta.data)["text"] == "Hälfte 😀"

    held = Held(owned.database, owned.session_id)
    held.release_in(FLUSH_S + 0.1)
    await owned.database.writer.write(lambda _: None, session_id=owned.session_id)
    await owned.database.writer.write(lambda _: None, session_id=owned.session_id)
    assert await owned.stored() == ["Hälfte 😀"], "a crash would only lose later text"
    await owned.recorder.record(PartClosed(owned.message_id, part))
    assert await owned.stored() == ["Hälfte 😀 ganz"]
    assert owned.channel.parts == {}
    assert await owned.database.read(lambda c: parts.open_parts(c, owned.session_id)) == []


async def test_texts_are_stored_at_the_same_instants_only_where_they_share_a_commit(owned: Owned) -> None:
    await owned.recorder.record(owned.opened())
    loop = asyncio.get_running_loop()
    begun = loop.time()
    owned.live(owned.part(), "some")
    assert owned.recorder._flush_timer is not None
    at = owned.recorder._flush_timer.when()
    if owned.database.writer.has_one_lane:
        assert round(at / FLUSH_S, 6).is_integer()
    else:
        assert begun + FLUSH_S <= at <= loop.time() + FLUSH_S


@pytest.mark.parametrize("end", ["closed", "voided"])
async def test_a_late_flush_does_not_reopen_a_part(owned: Owned, end: str) -> None:
    """The timer fires between the commit that ends a part and its publication."""
    await owned.recorder.record(owned.opened())
    part = owned.part()
    held = Held(owned.database, owned.session_id)
    await held.begin()
    owned.live(part, "who")
    ending = (
        PartClosed(owned.message_id, part)
        if end == "closed"
        else AttemptVoided(1, 1, owned.message_id, Usage(), 10, "overloaded", "Overloaded")
    )
    ended = owned.recorder.record(ending)
    held.release_in(FLUSH_S + 0.1)
    await ended
    await owned.database.writer.write(lambda _: None, session_id=owned.session_id)

    assert await owned.stored() == (["whole"] if end == "closed" else [])
    assert await owned.database.read(lambda c: parts.open_parts(c, owned.session_id)) == []


async def test_voiding_closes_what_was_stored_of_the_attempt(owned: Owned) -> None:
    await owned.recorder.record(owned.opened())
    part = owned.part()
    owned.live(part, "who")
    held = Held(owned.database, owned.session_id)
    held.release_in(FLUSH_S + 0.1)
    await owned.database.writer.write(lambda _: None, session_id=owned.session_id)
    await owned.database.writer.write(lambda _: None, session_id=owned.session_id)
    await owned.recorder.record(AttemptVoided(1, 1, owned.message_id, Usage(), 10, "overloaded", "Overloaded"))

    assert await owned.database.read(lambda c: parts.open_parts(c, owned.session_id)) == []
    assert owned.channel.parts == {}
    [message] = await owned.database.read(lambda c: messages.history(c, owned.session_id))
    assert message.voided_at is not None


async def test_after_a_failure_nothing_more_is_written_even_in_the_same_batch(owned: Owned) -> None:
    await owned.recorder.record(owned.opened())

    def broken(_: Connection) -> tuple[None, list[StreamItem]]:
        raise ValueError("broken")

    held = Held(owned.database, owned.session_id)
    await held.begin()
    writes: list[asyncio.Future[Any]] = [
        owned.recorder.record(ControlAdded(control_message("resume"))),
        owned.recorder.submit(broken),
        owned.recorder.record(ControlAdded(control_message("resume"))),
    ]
    held.release_in(0)
    results = await asyncio.gather(*writes, return_exceptions=True)
    assert results[0] == 2
    assert [str(result) for result in results[1:]] == ["broken", "broken"]
    with pytest.raises(ValueError, match="broken"):
        await owned.recorder.record(ControlAdded(control_message("resume")))
    assert [item.seq for item in await owned.events()] == [1, 2]


async def test_a_stale_owner_writes_nothing_and_publishes_nothing(owned: Owned) -> None:
    await owned.recorder.record(owned.opened())
    await owned.database.writer.write(lambda c: sessions.claim(c, owned.session_id), session_id=owned.session_id)
    part = owned.part()
    with pytest.raises(StaleOwnerError):
        await owned.recorder.record(PartClosed(owned.message_id, part))
    assert [item.type for item in await owned.events()] == ["step.started"]
    assert [item.type for item in owned.channel.recent] == ["step.started"]
    assert await owned.stored() == []


async def test_a_stale_owner_stores_no_late_text(owned: Owned) -> None:
    """The new owner has closed open parts; late text would reopen one, and it would never be closed."""
    await owned.recorder.record(owned.opened())
    await owned.database.writer.write(lambda c: sessions.claim(c, owned.session_id), session_id=owned.session_id)
    owned.live(owned.part(), "who")
    held = Held(owned.database, owned.session_id)
    held.release_in(FLUSH_S + 0.1)
    await owned.database.writer.write(lambda _: None, session_id=owned.session_id)
    await owned.database.writer.write(lambda _: None, session_id=owned.session_id)

    assert await owned.stored() == []
    assert await owned.database.read(lambda c: parts.open_parts(c, owned.session_id)) == []


async def test_texts_of_sessions_that_share_commits_are_one_write(owned: Owned) -> None:
    database = owned.database
    second_id = await database.writer.write(lambda c: add_session(c, status=Status.RUNNING))
    await database.writer.write(lambda c: sessions.claim(c, second_id), session_id=second_id)
    second = Owned(database, second_id)
    await owned.recorder.record(owned.opened())
    await second.recorder.record(second.opened())
    long_ago = now() - timedelta(hours=1)
    await database.writer.write(lambda c: sessions.change(c, second_id, updated_at=long_ago), session_id=second_id)
    written = database.writer.writes
    for one in (owned, second):
        one.live(one.part(), "who")
        one.recorder._flush()
    await asyncio.sleep(0)
    assert database.writer.waiting == (1 if database.writer.has_one_lane else 2)
    await database.writer.write(lambda _: None, session_id=owned.session_id)
    await database.writer.write(lambda _: None, session_id=second_id)
    assert database.writer.writes == written + (3 if database.writer.has_one_lane else 4)
    assert [await owned.stored(), await second.stored()] == [["who"], ["who"]]
    assert (await database.read(lambda c: sessions.row(c, second_id))).updated_at > long_ago
    second.recorder.close()


async def test_a_text_that_cannot_be_stored_does_not_keep_others_from_it(owned: Owned) -> None:
    await owned.recorder.record(owned.opened())
    broken = parts.Unfinished(owned.session_id, 1, owned.message_id, owned.part().model_copy(update={"text": "\ud800"}))
    with capture_logs() as logs:
        owned.database.writer.gather(parts.put_unfinished, [broken], session_id=owned.session_id)
        owned.live(owned.part(), "who")
        owned.recorder._flush()
        for _ in range(3):
            await owned.database.writer.write(lambda _: None, session_id=owned.session_id)
    assert await owned.stored() == ["who"]
    assert [said["event"] for said in logs] == ["gathered_rows_not_stored"]


async def test_cancelling_a_waiter_does_not_undo_its_write(owned: Owned) -> None:
    waiting = owned.recorder.record(owned.opened())
    waiting.cancel()
    assert await owned.recorder.record(ControlAdded(control_message("resume"))) == 2
    assert [item.type for item in owned.channel.recent] == ["step.started", "message.created"]


async def test_repairs_are_reported_once_they_are_stored(owned: Owned) -> None:
    heard: list[Repair] = []
    recorder = Recorder(owned.database, owned.bus, owned.session_id, 1, heard.extend)
    repairs = (Repair("missing_result", "m1", "c1", "no result"), Repair("first_message", "m0", None, "began"))
    with capture_logs() as logs:
        written = recorder.record(GenerationOpened(GENERATION, repairs=repairs))
        assert heard == []
        await written
    assert heard == [*repairs]
    [said] = logs
    assert (said["event"], said["repairs"]) == ("context_repaired", {"missing_result": 1, "first_message": 1})
    stored = await owned.database.read(lambda c: steps.repairs(c, owned.session_id))
    assert tuple(Repair(**repair) for repair in stored) == repairs
    later = replace(GENERATION, id=new_id(), number=2)
    await recorder.record(GenerationOpened(later))
    assert len(heard) == 2
