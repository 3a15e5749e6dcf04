"""Owners of sessions: one at a time, created when there is work, retried after failures, parked after repeated ones.

Owners are real ones on a real database. They crash if the session's row has an invalid plan.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from app.agent.conversation import Conversation
from app.db.repositories import sessions
from app.eventlog.log import EventLog, StreamItem
from app.eventlog.reader import follow
from app.llm.base import BlockEnd, Finish, ModelRequest, StreamEvent, TextDelta, UsageReport
from app.messages import Role, Usage, new_id
from app.runtime.owner.state import SessionState
from app.runtime.registry import MAX_CRASHES, Registry
from app.runtime.setup import RuntimeSetup
from app.runtime.transactions import lifecycle, queue
from app.runtime.values.queue import QueueAdd
from app.sandbox.host.local import LocalFactory
from app.sessions import Outcome, QueueMode, Status
from app.tools.masking import Masking
from tests.databases import opened
from tests.unit.runtime.stage import Logged, Stage, logged, make_sandboxes, make_setup


class Model:
    """Answers each request with one word; `hold` blocks answers, and cancellation is ignored `stubborn` times."""

    name = "model"

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.stubborn = 0
        self._go, self._reached = asyncio.Event(), asyncio.Event()
        self._go.set()

    def hold(self) -> None:
        self._go.clear()
        self._reached.clear()

    def go(self) -> None:
        self._go.set()

    async def reached(self) -> None:
        """A request waits for its answer."""
        async with asyncio.timeout(60):
            await self._reached.wait()

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        self.asked.append([message.text for message in request.messages if message.role is Role.USER])
        yield TextDelta(0, "an ")
        self._reached.set()
        while not self._go.is_set():
            try:
                await self._go.wait()
            except asyncio.CancelledError:
                self.stubborn -= 1
                if self.stubborn < 0:
                    raise
        yield TextDelta(0, "answer")
        yield BlockEnd(0)
        yield UsageReport(Usage(input_tokens=1, output_tokens=1))
        yield Finish("stop")

    async def aclose(self) -> None:
        """Nothing is open."""


class Server:
    """A session on a server: its registry, its model, and their observable state."""

    def __init__(self, stage: Stage, setup: RuntimeSetup, model: Model) -> None:
        self.stage, self.setup, self.model, self.id = stage, setup, model, stage.session_id
        self.registry = Registry(setup)
        self._kept_away: AbstractAsyncContextManager[object] | None = None

    def wake(self) -> None:
        self.registry.wake(self.id)

    async def post(self, content: str, mode: QueueMode = QueueMode.STEER) -> str:
        """Queues a message and notifies its owner, like the service."""
        message_id = await self.stage.post(content, mode)
        self.wake()
        return message_id

    async def idle(self) -> list[Logged]:
        """Returns the session's events once it is idle and has nothing to deliver."""
        log = EventLog(self.stage.database)
        async with (
            asyncio.timeout(60),
            follow(log, self.stage.bus, self.id, after=0, until_idle=True) as batches,
        ):
            assert batches is not None
            return logged([item async for batch in batches for item in batch if item.seq is not None])

    async def gone(self) -> None:
        """Waits until no owner is left and the last one's writes are committed."""
        async with asyncio.timeout(60):
            while len(self.registry):  # noqa: ASYNC110 - the owner may wait for another process
                # A command has the processor only while nothing of the server needs it.
                await asyncio.sleep(0.002)
        await self.stage.write(lambda _: None)

    async def close(self, grace_s: float) -> None:
        await self.registry.aclose(grace_s)
        await self.stage.write(lambda _: None)
        assert len(self.registry) == 0
        await self.gone()

    async def go_on(self) -> None:
        """Wakes the session once, and allows retries again."""
        kept_away, self._kept_away = self._kept_away, None
        if kept_away is None:
            self.wake()
        else:
            await kept_away.__aexit__(None, None, None)

    async def fail(self, times: int = 1) -> None:
        """Creates owners that crash at once, one after the other; timed retries are turned off, so they can be
        counted."""
        for _ in range(times):
            await self.go_on()
            await self.gone()
            self._kept_away = self.registry.without_owner(self.id)
            await self._kept_away.__aenter__()

    async def break_session(self) -> None:
        await self.stage.change(plan=[{"nonsense": True}])

    async def repair_session(self) -> None:
        await self.stage.change(plan=[])

    def next_life(self) -> Server:
        return Server(self.stage, self.setup, self.model)


@pytest.fixture
async def server(stage: Stage, tmp_path: Path) -> AsyncIterator[Server]:
    model = Model()
    server = Server(stage, make_setup(stage, make_sandboxes(LocalFactory(tmp_path)), model), model)
    yield server
    model.go()
    await server.close(10)


def of_type(events: Sequence[Logged], *types: str) -> list[dict[str, Any]]:
    return [event.data for event in events if event.type in types]


def triggers(events: Sequence[Logged]) -> list[str]:
    return [data["trigger"] for data in of_type(events, "session.running")]


# waking


async def test_an_owner_does_its_work_and_ends(server: Server) -> None:
    await server.post("hello")
    assert len(server.registry) == 1
    events = await server.idle()
    assert [data["outcome"] for data in of_type(events, "session.idle")] == ["completed"]
    await server.gone()
    assert server.model.asked == [["hello"]]
    assert len(server.stage.bus) == 0, "nobody follows it"
    assert server.registry._entries == {}, "nothing is left to remember"


async def test_an_owner_is_freed_without_garbage_collection(server: Server) -> None:
    """It holds megabytes if its messages are large, and the garbage collector counts only objects."""
    gc.collect()
    gc.disable()
    try:
        server.model.hold()
        await server.post("hello")
        await server.model.reached()
        owner = weakref.ref(server.registry._entries[server.id].owner)
        server.model.go()
        await server.idle()
        await server.gone()
        for _ in range(100):
            await asyncio.sleep(0)
        assert owner() is None
    finally:
        gc.enable()


def reachable(root: object) -> Iterator[object]:
    """All objects that are in memory because of this one, apart from code."""
    seen: set[int] = set()
    left = [root]
    while left:
        found = left.pop()
        if id(found) not in seen and not isinstance(found, type | ModuleType):
            seen.add(id(found))
            yield found
            left += (found.__closure__ or ()) if isinstance(found, FunctionType) else gc.get_referents(found)


async def test_the_conversation_that_an_owner_leaves_keeps_no_secrets(server: Server) -> None:
    await server.post("hello")
    await server.idle()
    await server.gone()
    kept = list(reachable(server.setup.kept))
    assert any(isinstance(found, Conversation) for found in kept)
    assert not [found for found in kept if isinstance(found, Masking | SessionState)]


async def test_waking_a_session_with_an_owner_creates_no_second_one(server: Server) -> None:
    server.model.hold()
    await server.post("hello")
    await server.model.reached()
    for _ in range(3):
        server.wake()
    assert len(server.registry) == 1
    assert (await server.stage.row()).epoch == 1
    server.model.go()
    await server.idle()
    await server.gone()
    assert (await server.stage.row()).epoch == 2, "one more has checked, since the first was woken"
    assert server.model.asked == [["hello"]]


async def test_an_owner_without_work_leaves_no_trace(server: Server) -> None:
    await server.fail()
    server.registry.wake(new_id())
    await server.gone()
    assert await server.stage.log() == []
    assert (await server.stage.row()).status == Status.IDLE


async def test_sessions_do_not_wait_for_each_other(server: Server) -> None:
    server.model.hold()
    await server.post("hello")
    await server.model.reached()
    other = Stage(server.stage.database, new_id(), server.stage.path)
    row = await server.stage.row()
    values = {**row._mapping, "id": other.session_id, "status": Status.IDLE, "last_seq": 0, "epoch": 0}
    await other.database.writer.write(lambda c: sessions.add(c, **values))
    await other.post("other")
    server.registry.wake(other.session_id)
    assert len(server.registry) == 2
    server.model.go()
    await server.gone()
    assert sorted(server.model.asked) == [["hello"], ["other"]]


async def test_a_message_after_the_owner_s_last_check_gets_the_next_owner(stage: Stage, server: Server) -> None:
    late = new_id()

    def on_commit(items: Sequence[StreamItem]) -> None:
        """At the commit that ends the run, before its owner is notified."""
        if any(item.type == "session.idle" for item in items) and not asked:
            body = QueueAdd(content="late", id=late)
            asked.append(
                stage.database.writer.submit(
                    lambda c: queue.enqueue(c, stage.session_id, body, limit=9),
                    lambda result: stage.bus.publish(stage.session_id, result[1]),
                    session_id=stage.session_id,
                )
            )
            assert len(server.registry) == 1, "the owner is still there"
            server.wake()

    asked: list[asyncio.Future[Any]] = []
    stage.observers.append(on_commit)
    await server.post("hello")
    await server.gone()
    assert len(asked) == 1
    assert (await stage.row()).outcome == Outcome.COMPLETED
    assert server.model.asked == [["hello"], ["hello", "late"]]


# ringing and interrupting


@pytest.mark.parametrize("tell", [Registry.ring, Registry.wake])
async def test_a_current_run_checks_the_queue_when_notified(
    server: Server, tell: Callable[[Registry, str], None]
) -> None:
    server.model.hold()
    await server.post("hello")
    await server.model.reached()
    await server.stage.post("more")
    tell(server.registry, server.id)
    server.model.go()
    events = await server.idle()
    assert triggers(events) == ["message"], "the same run has delivered it"
    assert server.model.asked == [["hello"], ["hello", "more"]]


async def test_a_ring_creates_no_owner_but_an_interrupt_does(server: Server) -> None:
    await server.stage.post("hello")
    await server.stage.act(lambda c: lifecycle.cancel(c, server.id, clear_queue=False))
    server.registry.ring(server.id)
    assert len(server.registry) == 0
    server.registry.interrupt(server.id, "cancel")
    assert len(server.registry) == 1
    events = await server.idle()
    assert [data["outcome"] for data in of_type(events, "session.idle")] == ["cancelled"]
    assert (server.model.asked, await server.stage.pending()) == ([], ["hello"])


async def test_an_interrupt_ends_the_current_step(server: Server) -> None:
    server.model.hold()
    await server.post("hello")
    await server.model.reached()
    server.registry.interrupt(server.id, "cancel")
    events = await server.idle()
    assert [data["finish_reason"] for data in of_type(events, "step.finished")] == ["cancelled"]
    assert [data["outcome"] for data in of_type(events, "session.idle")] == ["cancelled"]


async def test_an_interrupt_during_the_claim_reaches_the_owner(server: Server) -> None:
    await server.post("hello")
    server.registry.interrupt(server.id, "cancel")
    assert server.registry.model_of(server.id) is None, "no owner is made yet"
    events = await server.idle()
    assert [data["outcome"] for data in of_type(events, "session.idle")] == ["cancelled", "completed"]
    assert server.model.asked == [["hello"]]


async def test_an_interrupting_message_that_was_delivered_has_no_effect(server: Server) -> None:
    server.model.hold()
    message_id = await server.post("now", QueueMode.INTERRUPT)
    await server.model.reached()
    server.registry.interrupt(server.id, "interrupt", message_id)
    server.model.go()
    events = await server.idle()
    assert [data["finish_reason"] for data in of_type(events, "step.finished")] == ["stop"]


# without an owner


async def test_without_an_owner_nothing_runs_and_afterward_it_continues(server: Server) -> None:
    server.model.hold()
    await server.post("hello")
    await server.model.reached()
    async with server.registry.without_owner(server.id):
        assert len(server.registry) == 0
        await server.gone()
        server.model.go()
        await server.post("more")
        server.registry.interrupt(server.id, "interrupt")
        assert len(server.registry) == 0
        [finished] = of_type(await server.stage.log(), "step.finished")
        assert finished["finish_reason"] == "interrupted"
        assert (await server.stage.row()).status == Status.RUNNING
    events = await server.idle()
    assert triggers(events) == ["message", "recovery"]
    assert server.model.asked == [["hello"], ["hello", "more"]]


async def test_a_session_deleted_meanwhile_stays_deleted(server: Server) -> None:
    server.model.hold()
    await server.post("hello")
    await server.model.reached()
    async with server.registry.without_owner(server.id):
        await server.stage.write(lambda c: sessions.remove(c, server.id))
    await server.gone()
    assert await server.stage.database.read(lambda c: sessions.find(c, server.id)) is None
    assert len(server.model.asked) == 1


async def test_after_a_failed_deletion_an_owner_may_be_created_again(server: Server) -> None:
    async def deletion() -> None:
        async with server.registry.without_owner(server.id):
            await server.stage.post("hello")
            raise OSError("no such luck")

    with pytest.raises(OSError, match="luck"):
        await deletion()
    assert triggers(await server.idle()) == ["message"]


# crashes


async def test_a_crashed_owner_is_replaced_after_a_delay(server: Server) -> None:
    await server.break_session()
    await server.post("hello")
    await server.gone()
    assert (await server.stage.row()).status == Status.RUNNING
    await server.repair_session()
    events = await server.idle()
    assert [data["outcome"] for data in of_type(events, "session.idle")] == ["completed"]


async def test_a_session_that_crashes_every_owner_is_parked_with_its_queue(server: Server) -> None:
    await server.break_session()
    await server.stage.post("hello")
    await server.fail(MAX_CRASHES - 1)
    assert await server.stage.types() == ["message.queued", "session.running"]
    await server.fail()
    [idle] = of_type(await server.idle(), "session.idle")
    assert (idle["outcome"], idle["error"]["code"]) == ("interrupted", "internal_error")
    row = await server.stage.row()
    assert (row.status, row.queue_held, row.epoch) == (Status.IDLE, True, MAX_CRASHES + 1)
    assert (await server.stage.pending(), server.model.asked) == (["hello"], [])

    await server.stage.act(lambda c: lifecycle.resume(c, server.id))
    await server.fail(MAX_CRASHES - 1)
    assert (await server.stage.row()).status == Status.RUNNING, "the count was reset"
    await server.repair_session()
    await server.go_on()
    await server.idle()
    assert (await server.stage.row()).outcome == Outcome.COMPLETED
    assert server.model.asked == [["hello"]]


async def test_a_parked_session_uses_no_memory(server: Server) -> None:
    await server.break_session()
    await server.stage.post("hello")
    await server.fail(MAX_CRASHES)
    assert (await server.stage.row()).status == Status.IDLE
    assert len(server.stage.bus) == 0


async def test_only_crashes_in_a_row_count(server: Server) -> None:
    for content in ("one", "two"):
        await server.break_session()
        await server.stage.post(content)
        await server.fail(MAX_CRASHES - 1)
        await server.repair_session()
        await server.go_on()
        await server.idle()
        await server.gone()
    assert [data["outcome"] for data in of_type(await server.stage.log(), "session.idle")] == ["completed"] * 2


async def test_a_refusing_database_is_not_a_crash_and_is_retried(server: Server) -> None:
    await server.stage.post("hello")
    with opened(server.stage.path) as other:
        other.exec_driver_sql("alter table message_parts rename to away")
    await server.fail(2 * MAX_CRASHES)
    await server.go_on()
    await server.gone()
    with opened(server.stage.path) as other:
        other.exec_driver_sql("alter table away rename to message_parts")
    row = await server.stage.row()
    assert (row.status, server.model.asked) == (Status.RUNNING, [])
    events = await server.idle()
    assert [data["outcome"] for data in of_type(events, "session.idle")] == ["completed"]


async def test_an_owner_that_was_fenced_off_leaves_the_session_to_the_other(server: Server) -> None:
    server.model.hold()
    await server.post("hello")
    await server.model.reached()
    before = await server.stage.log()
    await server.stage.claim()
    server.model.go()
    await server.gone()
    assert await server.stage.log() == before
    assert (await server.stage.row()).status == Status.RUNNING


# closing


async def test_closing_parks_runs_and_the_next_start_continues_them(server: Server) -> None:
    server.model.hold()
    await server.post("hello")
    await server.model.reached()
    await server.close(10)
    log = await server.stage.log()
    assert (log[-1].type, log[-1].data["finish_reason"]) == ("step.finished", "interrupted")
    [text] = of_type(log, "text.completed")
    assert (text["text"], text["interrupted"]) == ("an ", True)
    server.wake()
    assert len(server.registry) == 0, "a stopping server starts nothing"

    server.model.go()
    life = server.next_life()
    life.wake()
    events = await life.idle()
    await life.close(10)
    [recovered] = of_type(events, "session.recovered")
    assert (recovered["interrupted_step"], recovered["closed_calls"]) == (1, [])
    assert [data["step"] for data in of_type(events, "step.finished")] == [1, 2]


async def test_runs_that_exceed_the_grace_period_are_cut_off_as_in_a_crash(server: Server) -> None:
    server.model.hold()
    server.model.stubborn = 1
    await server.post("hello")
    await server.model.reached()
    await server.close(0)
    assert server.model.stubborn == -1
    assert of_type(await server.stage.log(), "step.finished") == []

    server.model.go()
    life = server.next_life()
    life.wake()
    events = await life.idle()
    await life.close(10)
    [recovered] = of_type(events, "session.recovered")
    assert recovered["interrupted_step"] == 1
    assert [data["finish_reason"] for data in of_type(events, "step.finished")] == ["interrupted", "stop"]


async def test_closing_without_runs_keeps_a_crashed_session_for_the_next_start(server: Server) -> None:
    await server.break_session()
    await server.post("hello")
    await server.gone()
    await server.close(0)
    await server.repair_session()
    life = server.next_life()
    life.wake()
    await life.idle()
    await life.close(10)
    assert server.model.asked == [["hello"]]
