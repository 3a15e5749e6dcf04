"""The queue's transactions: what is accepted, in which order it is delivered, and what can no longer be changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.agent.changes import ControlAdded
from app.agent.conversation import control_message
from app.context.tokens import PER_MESSAGE, estimate_text
from app.errors import ConflictError, NotFoundError, PalimpsestError, QueueFullError, StaleOwnerError
from app.messages import Message, Role, new_id
from app.runtime.dispatch import Started
from app.runtime.owner.recorder import Recorder
from app.runtime.transactions import queue
from app.runtime.transactions.queue import StoredMessages
from app.runtime.values.queue import QueueAdd, QueuedMessage, QueueEdit, QueueReceipt
from app.sessions import QueueMode, Status
from tests.unit.db.rows import add_session, new_database
from tests.unit.runtime.stage import Stage

STEER, FOLLOW_UP, INTERRUPT = QueueMode.STEER, QueueMode.FOLLOW_UP, QueueMode.INTERRUPT


async def enqueue(
    stage: Stage, content: str, mode: QueueMode = STEER, id: str | None = None, limit: int = 100
) -> tuple[QueueReceipt, bool, Started | None]:
    body = QueueAdd(content=content, mode=mode, id=id)
    return await stage.act(lambda c: queue.enqueue(c, stage.session_id, body, limit=limit))


async def edit(stage: Stage, id: str, **fields: Any) -> QueuedMessage:
    return await stage.act(lambda c: queue.edit(c, stage.session_id, id, QueueEdit(**fields)))


async def withdraw(stage: Stage, id: str) -> None:
    await stage.act(lambda c: queue.withdraw(c, stage.session_id, id))


async def deliver(stage: Stage, *, first: bool = False, epoch: int | None = None) -> list[Message]:
    epoch = (await stage.row()).epoch if epoch is None else epoch
    return (await stage.act(lambda c: queue.deliver(c, stage.session_id, epoch, first=first))).messages


# accepting


async def test_a_message_starts_an_idle_session_in_its_own_transaction(stage: Stage) -> None:
    receipt, is_new, _ = await enqueue(stage, "hello")
    queued, running = await stage.log()
    assert is_new
    assert (receipt.position, receipt.mode, receipt.status) == (1, STEER, "pending")
    assert (queued.seq, queued.type) == (1, "message.queued")
    assert queued.data["message_id"] == receipt.id
    assert (queued.data["content"], queued.data["mode"], queued.data["position"]) == ("hello", "steer", 1)
    assert (running.seq, running.type, running.data["trigger"]) == (2, "session.running", "message")
    row = await stage.row()
    assert (row.status, row.last_seq, row.run_trigger) == (Status.RUNNING, 2, "message")


async def test_a_message_to_a_running_session_waits_and_releases_a_held_queue(stage: Stage) -> None:
    await stage.change(status=Status.RUNNING, queue_held=True, run_steps=3)
    await enqueue(stage, "hello")
    assert await stage.types() == ["message.queued"]
    row = await stage.row()
    assert (row.queue_held, row.run_steps) == (False, 3)


async def test_a_place_is_the_place_in_delivery_order(stage: Stage) -> None:
    modes = [FOLLOW_UP, STEER, INTERRUPT, FOLLOW_UP, STEER]
    places = [(await enqueue(stage, str(number), mode))[0].position for number, mode in enumerate(modes)]
    assert places == [1, 1, 2, 4, 3]
    assert await stage.pending() == ["1", "2", "4", "0", "3"]
    items, last_seq = await queue.read_queue(stage.database, stage.session_id)
    assert [(item.content, item.position) for item in items] == [("1", 1), ("2", 2), ("4", 3), ("0", 4), ("3", 5)]
    assert last_seq == (await stage.row()).last_seq == 6


async def test_a_full_queue_accepts_only_retries(stage: Stage) -> None:
    known = await stage.post("one", id=new_id())
    await stage.post("two")
    last_seq = (await stage.row()).last_seq
    with pytest.raises(QueueFullError) as caught:
        await enqueue(stage, "three", limit=2)
    assert caught.value.extra == {"limit": 2}
    receipt, is_new, _ = await enqueue(stage, "one", id=known, limit=2)
    assert (receipt.id, receipt.position, is_new) == (known, 1, False)
    assert (await stage.row()).last_seq == last_seq
    await withdraw(stage, known)
    assert (await enqueue(stage, "three", limit=2))[1]


async def test_long_messages_fill_the_queue_earlier_when_added_and_when_edited(stage: Stage) -> None:
    first, *_, last = [(await enqueue(stage, text))[0].id for text in ("first", "a", "b", "c")]
    await edit(stage, first, content="x" * (queue.MAX_WAITING_CHARS - 2))
    last_seq = (await stage.row()).last_seq
    with pytest.raises(QueueFullError) as caught:
        await enqueue(stage, "d")
    assert caught.value.extra == {"limit": queue.MAX_WAITING_CHARS}
    assert (await edit(stage, last, content="as the others have no more")).content == "as the others have no more"
    await edit(stage, first, content="x" * (queue.MAX_WAITING_CHARS - 1))
    with pytest.raises(QueueFullError):
        await edit(stage, last, content="but now they have, by one character")
    assert (await edit(stage, last, content="shorter", mode=FOLLOW_UP)).content == "shorter"
    assert (await stage.row()).last_seq == last_seq + 3
    await withdraw(stage, first)
    assert (await enqueue(stage, "d"))[1]


# repeating


async def _deliver(stage: Stage, _: str) -> None:
    await deliver(stage)


async def _edit(stage: Stage, id: str) -> None:
    await edit(stage, id, content="edited", mode=FOLLOW_UP)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (None, (1, STEER, "pending")),
        (_edit, (1, FOLLOW_UP, "pending")),
        (withdraw, (0, STEER, "withdrawn")),
        (_deliver, (0, STEER, "delivered")),
    ],
)
async def test_a_retry_gets_the_receipt_and_changes_nothing(
    stage: Stage, change: Callable[[Stage, str], Awaitable[None]] | None, expected: tuple[int, QueueMode, str]
) -> None:
    id = await stage.post("hello", id=new_id())
    if change is not None:
        await change(stage, id)
    before = await stage.log()
    receipt, is_new, _ = await enqueue(stage, "hello", INTERRUPT, id)
    assert not is_new
    assert (receipt.position, receipt.mode, receipt.status) == expected
    assert await stage.log() == before
    for content in ("other", "edited"):
        with pytest.raises(ConflictError) as caught:
            await enqueue(stage, content, id=id)
        assert caught.value.code == "id_in_use"


async def test_the_id_of_another_message_cannot_be_used(stage: Stage) -> None:
    message = control_message("resume")
    await stage.commit(ControlAdded(message))
    with pytest.raises(ConflictError) as caught:
        await enqueue(stage, "hello", id=message.id)
    assert caught.value.code == "id_in_use"


# editing and withdrawing


@pytest.mark.parametrize(
    ("asked", "content", "mode", "position"),
    [
        ({"content": "new"}, "new", STEER, 1),
        ({"mode": FOLLOW_UP}, "first", FOLLOW_UP, 2),
        ({"content": "new", "mode": INTERRUPT}, "new", INTERRUPT, 1),
    ],
)
async def test_an_edit_changes_only_its_fields_and_keeps_the_order(
    stage: Stage, asked: dict[str, Any], content: str, mode: QueueMode, position: int
) -> None:
    id = await stage.post("first")
    await stage.post("second")
    edited = await edit(stage, id, **asked)
    assert (edited.id, edited.content, edited.mode, edited.position) == (id, content, mode, position)
    event = (await stage.log())[-1]
    assert event.type == "message.edited"
    assert [event.data[name] for name in ("message_id", "content", "mode", "position")] == [id, content, mode, position]
    await edit(stage, id, mode=STEER)
    assert await stage.pending() == [content, "second"]


async def test_withdrawing_removes_one_message(stage: Stage) -> None:
    kept, gone = await stage.post("kept"), await stage.post("gone", FOLLOW_UP)
    await withdraw(stage, gone)
    event = (await stage.log())[-1]
    assert (event.type, event.data["message_id"], event.data["mode"]) == ("message.withdrawn", gone, "follow_up")
    assert [message.id for message in await deliver(stage)] == [kept]


CHANGES: list[Callable[[Stage, str], Awaitable[Any]]] = [withdraw, _edit]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("ending", [withdraw, _deliver])
async def test_a_message_that_is_not_pending_cannot_be_changed(
    stage: Stage, change: Callable[[Stage, str], Awaitable[Any]], ending: Callable[[Stage, str], Awaitable[None]]
) -> None:
    id = await stage.post("hello")
    await ending(stage, id)
    before = await stage.log()
    with pytest.raises(ConflictError) as caught:
        await change(stage, id)
    assert caught.value.code == "message_not_pending"
    assert await stage.log() == before


@pytest.mark.parametrize("change", CHANGES)
async def test_an_unknown_message_cannot_be_changed(
    stage: Stage, change: Callable[[Stage, str], Awaitable[Any]]
) -> None:
    nobody = Stage(stage.database, new_id(), stage.path)
    for where, code in ((stage, "message_not_found"), (nobody, "session_not_found")):
        with pytest.raises(NotFoundError) as caught:
            await change(where, new_id())
        assert caught.value.code == code


# delivering


@pytest.mark.parametrize(
    ("modes", "first", "due"),
    [
        ([], True, []),
        ([STEER, STEER], False, [0, 1]),
        ([FOLLOW_UP, INTERRUPT, STEER], False, [1, 2]),
        ([FOLLOW_UP, INTERRUPT, STEER], True, [1, 2]),
        ([FOLLOW_UP, FOLLOW_UP], False, []),
        ([FOLLOW_UP, FOLLOW_UP], True, [0]),
    ],
)
async def test_a_delivery_takes_all_steers_or_one_follow_up(
    stage: Stage, modes: list[QueueMode], first: bool, due: list[int]
) -> None:
    for number, mode in enumerate(modes):
        await stage.post(f"text {number}", mode)
    before = (await stage.row()).last_seq
    delivered = await deliver(stage, first=first)
    assert [message.text for message in delivered] == [f"text {number}" for number in due]
    assert await stage.pending() == [f"text {number}" for number in range(len(modes)) if number not in due]
    assert await stage.history() == delivered
    news = await stage.log(before)
    assert [event.seq for event in news] == list(range(before + 1, before + 1 + 2 * len(due)))
    assert [event.type for event in news] == ["message.dequeued", "message.created"] * len(due)
    for place, message in enumerate(delivered):
        dequeued, created = news[2 * place : 2 * place + 2]
        assert (dequeued.data["message_id"], dequeued.data["mode"]) == (message.id, modes[due[place]])
        assert (created.seq, created.data["message"]["id"]) == (message.seq, message.id)
        assert (message.role, message.tokens) == (Role.USER, PER_MESSAGE + estimate_text(message.text))


async def test_a_stale_owner_delivers_nothing(stage: Stage) -> None:
    epoch = await stage.claim()
    await stage.post("hello")
    await stage.claim()
    before = await stage.log()
    with pytest.raises(StaleOwnerError):
        await deliver(stage, epoch=epoch)
    assert (await stage.pending(), await stage.history(), await stage.log()) == (["hello"], [], before)


async def test_a_run_reads_the_queue_when_rung_and_takes_a_follow_up_only_at_its_start(stage: Stage) -> None:
    box = StoredMessages(Recorder(stage.database, stage.bus, stage.session_id, 0), stage.session_id, 0, stage.row)
    one, two = await stage.post("one", FOLLOW_UP), await stage.post("two", FOLLOW_UP)
    assert box.waiting
    assert [message.id for message in await box.deliver()] == [one]
    assert not box.waiting
    assert await box.deliver() == []
    box.ring()
    assert box.waiting
    box.begin_run(takes_follow_up=False)
    assert await box.deliver() == []
    box.begin_run(takes_follow_up=True)
    assert box.waiting
    assert [message.id for message in await box.deliver()] == [two]
    assert box.delivered == {one, two}


MODES = st.sampled_from(list(QueueMode))
MOVES = st.one_of(
    st.tuples(st.just("post"), MODES),
    st.tuples(st.just("edit"), st.integers(0, 9), MODES),
    st.tuples(st.just("withdraw"), st.integers(0, 9)),
    st.tuples(st.just("deliver"), st.booleans()),
)


@settings(max_examples=30)
@given(moves=st.lists(MOVES, max_size=25))
async def test_any_sequence_keeps_order_and_leaves_no_gap_in_the_log(
    tmp_path_factory: pytest.TempPathFactory, moves: list[tuple[Any, ...]]
) -> None:
    folder = tmp_path_factory.mktemp("queue")
    async with new_database(folder) as database:
        stage = Stage(database, await database.writer.write(add_session), folder / "test.db")
        ids: list[str] = []
        modes: dict[str, QueueMode] = {}
        history: list[str] = []

        def waiting(*, late: bool) -> list[str]:
            return [id for id in ids if id in modes and (modes[id] is FOLLOW_UP) is late]

        for name, *arguments in moves:
            if name == "post":
                ids.append(await stage.post("text", arguments[0]))
                modes[ids[-1]] = arguments[0]
            elif name == "deliver":
                due = waiting(late=False) or (waiting(late=True)[:1] if arguments[0] else [])
                assert [message.id for message in await deliver(stage, first=arguments[0])] == due
                history += due
                modes = {id: mode for id, mode in modes.items() if id not in due}
            elif arguments[0] < len(ids):
                id = ids[arguments[0]]
                try:
                    await (withdraw(stage, id) if name == "withdraw" else edit(stage, id, mode=arguments[1]))
                except PalimpsestError:
                    assert id not in modes
                else:
                    modes = (
                        {**modes, id: arguments[1]} if name == "edit" else {i: m for i, m in modes.items() if i != id}
                    )
            items, last_seq = await queue.read_queue(database, stage.session_id)
            assert [item.id for item in items] == waiting(late=False) + waiting(late=True)
            assert [event.seq for event in await stage.log()][-1:] == ([last_seq] if last_seq else [])
        assert [message.id for message in await stage.history()] == history
        log = await stage.log()
        assert [event.seq for event in log] == list(range(1, len(log) + 1))
