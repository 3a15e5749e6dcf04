"""Statements that other code relies on: gapless seqs, fences, totals, times and JSON."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Table

from app.db.columns import Json, UtcTime
from app.db.engine import Database
from app.db.models import approvals, client_calls
from app.db.repositories import costs, events, messages, parts, queue, sessions, steps
from app.db.repositories.events import StoredEvent
from app.errors import NotFoundError, StaleOwnerError
from app.messages import Message, Role, TextPart, ToolCallPart, ToolStatus, Usage, new_id, now
from app.sessions import ContextState, QueueMode, Status
from tests.unit.db.rows import add_session, new_database


async def append(database: Database, session_id: str, epoch: int | None = None, count: int = 1) -> int:
    """Appends events; returns the seq of the first."""

    def write(connection: Connection) -> int:
        first = events.lock(connection, session_id, now(), epoch=epoch).last_seq + 1
        stored = [StoredEvent(seq, "test", "{}") for seq in range(first, first + count)]
        events.append(connection, session_id, stored)
        return first

    return await database.writer.write(write)


async def test_seqs_have_no_gaps_whoever_appends(database: Database) -> None:
    session_id = await database.writer.write(add_session)
    other = await database.writer.write(add_session)
    appended = ((1, None), (3, 0), (2, None), (0, 0), (1, 0))
    assert [await append(database, session_id, epoch, count) for count, epoch in appended] == [1, 2, 5, 7, 7]
    assert await append(database, other) == 1


async def test_a_stale_owner_appends_nothing(database: Database) -> None:
    session_id = await database.writer.write(add_session)
    row = await database.writer.write(lambda c: sessions.claim(c, session_id))
    assert row is not None
    assert row.epoch == 1
    assert await append(database, session_id, 1) == 1
    await database.writer.write(lambda c: sessions.claim(c, session_id))
    for count in (0, 1):
        with pytest.raises(StaleOwnerError):
            await append(database, session_id, 1, count)
    assert await append(database, session_id, 2) == 2
    stored = await database.read(lambda c: events.after(c, session_id, 0, 10, 99))
    assert [event.seq for event in stored] == [1, 2]


async def test_a_deleted_session_gives_no_seq_and_has_no_rows(database: Database) -> None:
    session_id = await database.writer.write(add_session)
    await append(database, session_id)
    await database.writer.write(lambda c: sessions.remove(c, session_id))
    with pytest.raises(NotFoundError) as caught:
        await append(database, session_id)
    assert caught.value.code == "session_not_found"
    with pytest.raises(StaleOwnerError):
        await append(database, session_id, epoch=0)
    assert await database.read(lambda c: events.after(c, session_id, 0, 10, 99)) == []
    assert await database.writer.write(lambda c: sessions.claim(c, session_id)) is None
    with pytest.raises(NotFoundError):
        await database.read(lambda c: sessions.row(c, session_id))


async def test_the_log_is_read_in_pages(database: Database) -> None:
    session_id = await database.writer.write(add_session)
    stored = [StoredEvent(n, "test", f'{{"n":{n}}}') for n in range(1, 11)]
    await database.writer.write(lambda c: events.append(c, session_id, stored))

    async def page(after: int, limit: int, most: int, offset: int = 0) -> list[tuple[int, bytes, bool]]:
        found = await database.read(lambda c: events.after(c, session_id, after, limit, most, offset))
        assert all((piece.type, piece.offset) == ("test", offset) for piece in found)
        return [(piece.seq, piece.data, piece.is_last) for piece in found]

    whole = [(event.seq, event.data.encode(), True) for event in stored]
    assert await page(0, 4, 1000) == whole[:4]
    assert await page(4, 100, 1000) == whole[4:]
    assert await page(10, 4, 1000) == []
    assert await page(0, 100, 3 * len(stored[0].data) + 1) == whole[:3]
    assert await page(0, 100, 4) == [(1, b'{"n"', False)], "an event that is too large by itself"
    assert await page(0, 100, 4, offset=4) == [(1, b":1}", True)]
    await database.writer.write(lambda c: events.append(c, session_id, []))


async def test_steers_come_before_follow_ups_in_order_of_acceptance(database: Database) -> None:
    session_id = await database.writer.write(add_session)
    modes = [QueueMode.FOLLOW_UP, QueueMode.STEER, QueueMode.INTERRUPT, QueueMode.FOLLOW_UP, QueueMode.STEER]
    ids = [new_id() for _ in modes]

    def fill(connection: Connection) -> None:
        for ordinal, (id, mode) in enumerate(zip(ids, modes, strict=True), 1):
            queue.add(connection, session_id, queue.Accepted(id, ordinal, mode, str(ordinal), "", now()))

    await database.writer.write(fill)
    order = [row.content for row in await database.read(lambda c: queue.pending(c, session_id))]
    assert order == ["2", "3", "5", "1", "4"]
    assert await database.read(lambda c: [queue.position(c, session_id, id) for id in ids]) == [4, 1, 2, 5, 3]
    await database.writer.write(lambda c: queue.set_status(c, session_id, ids[1:2], queue.DELIVERED))
    assert await database.read(lambda c: queue.position(c, session_id, ids[1])) == 0
    assert await database.read(lambda c: queue.counts(c, [session_id, new_id()])) == {session_id: 4}


async def test_an_open_part_is_replaced_by_the_complete_one(database: Database) -> None:
    session_id = await database.writer.write(add_session)
    message = Message(id=new_id(), seq=1, role=Role.ASSISTANT, parts=(), created_at=now())
    part = ToolCallPart(id=new_id(), index=0, call_id=new_id(), name="x", arguments_text='{"a": ')
    whole = part.model_copy(update={"arguments_text": '{"a":  1}', "tokens": 3})

    await database.writer.write(lambda c: messages.add(c, session_id, message))
    await database.writer.write(lambda c: parts.put(c, session_id, message.id, part, closed=False))
    [open_part] = await database.read(lambda c: parts.open_parts(c, session_id))
    assert open_part.id == part.id
    await database.writer.write(lambda c: parts.put(c, session_id, message.id, whole, closed=True))
    await database.writer.write(lambda c: parts.start_calls(c, session_id, message.id))
    [stored] = await database.read(lambda c: messages.history(c, session_id))
    assert stored.parts == (whole.model_copy(update={"status": ToolStatus.RUNNING}),)
    assert stored.tool_calls[0].arguments_text == '{"a":  1}', "unchanged, for the prompt cache"
    assert await database.read(lambda c: parts.open_parts(c, session_id)) == []
    [call] = await database.read(lambda c: parts.open_calls(c, session_id))
    assert call.call_id == part.call_id
    await database.writer.write(lambda c: messages.void(c, session_id, message.id, now()))
    assert await database.read(lambda c: parts.open_calls(c, session_id)) == [], "a void call needs no result"
    assert await database.read(lambda c: messages.is_voided(c, session_id, message.id))


@pytest.mark.parametrize("waiting", [approvals, client_calls], ids=str)
@pytest.mark.sqlite
async def test_calls_that_wait_are_found_without_reading_all_parts(database: Database, waiting: Table) -> None:
    query = parts.with_calls(waiting).params(sid="x")

    def plan(connection: Connection) -> list[str]:
        statement = query.compile(connection, compile_kwargs={"literal_binds": True})
        return [row.detail for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}")]

    steps_of_plan = await database.read(plan)
    assert steps_of_plan[0].startswith(f"SEARCH {waiting} "), steps_of_plan


async def test_history_is_cut_at_both_ends(database: Database) -> None:
    session_id = await database.writer.write(add_session)

    def fill(connection: Connection) -> None:
        for seq in range(1, 8):
            part = TextPart(id=new_id(), index=0, text=str(seq))
            message = Message(id=new_id(), seq=seq, role=Role.USER, parts=(part,), created_at=now())
            messages.add(connection, session_id, message)

    await database.writer.write(fill)

    async def texts(**bounds: int) -> str:
        return "".join(m.text for m in await database.read(lambda c: messages.history(c, session_id, **bounds)))

    assert await texts() == "1234567"
    assert await texts(after=2, before=6) == "345"
    assert await texts(after=2, limit=3) == "345"


usages = st.builds(
    Usage,
    input_tokens=st.integers(0, 10**9),
    output_tokens=st.integers(0, 10**9),
    cost_usd=st.none() | st.floats(0, 100),
)


@settings(max_examples=20)
@given(spent=st.lists(st.tuples(st.sampled_from(["a/x", "b/y"]), usages), min_size=1, max_size=8))
async def test_usage_adds_up_by_day_and_model(
    tmp_path_factory: pytest.TempPathFactory, spent: list[tuple[str, Usage]]
) -> None:
    async with new_database(tmp_path_factory.mktemp("usage")) as database:
        for model, usage in spent:
            await database.writer.write(
                lambda c, m=model, u=usage: costs.add(c, day="2026-01-01", model=m, usage=u)  # type: ignore[misc]
            )
        rows = {row.model: row for row in await database.read(lambda c: costs.by_day(c, costs.ALL_DAYS))}
        assert rows.keys() == {model for model, _ in spent}
        for name, row in rows.items():
            own = [usage for model, usage in spent if model == name]
            assert row.steps == len(own)
            assert row.usage.model_copy(update={"cost_usd": None}) == sum(own, Usage(cost_usd=None))
            priced = [usage.cost_usd for usage in own if usage.cost_usd is not None]
            assert row.usage.cost_usd == (pytest.approx(sum(priced)) if len(priced) == len(own) else None)


async def test_attempts_are_found_by_step(database: Database) -> None:
    session_id = await database.writer.write(add_session)

    def opened(connection: Connection) -> None:
        for step, attempt in ((1, 1), (1, 2), (2, 1)):
            steps.open_attempt(
                connection,
                session_id,
                step=step,
                attempt=attempt,
                message_id=new_id(),
                generation=1,
                opened_seq=10 * step + attempt,
                model="m",
                context=ContextState(),
                compaction_round=0,
                started_at=now(),
            )

    await database.writer.write(opened)
    last = await database.read(lambda c: steps.last_attempt(c, session_id, 1))
    assert last is not None
    assert last.attempt == 2

    def used(connection: Connection) -> None:
        for attempt, cost in ((1, 0.25), (2, None)):
            usage = Usage(output_tokens=10, cost_usd=cost)
            steps.end_answer(connection, session_id, step=1, attempt=attempt, usage=usage, at=now())

    await database.writer.write(used)
    assert await database.read(lambda c: steps.usage_of(c, session_id, 1)) == Usage(output_tokens=20, cost_usd=None)
    assert await database.read(lambda c: steps.usage_of(c, session_id, 2)) == Usage()
    assert await database.read(lambda c: steps.known_cost_usd(c, session_id)) == 0.25
    assert await database.read(lambda c: steps.known_cost_usd(c, "other")) == 0.0
    assert await database.read(lambda c: steps.count(c, session_id)) == 3


async def test_sessions_are_found_by_status_and_the_database_has_one_id(database: Database) -> None:
    idle = await database.writer.write(add_session)
    busy = await database.writer.write(lambda c: add_session(c, status=Status.RUNNING))
    assert set(await database.read(sessions.ids)) == {idle, busy}
    assert await database.read(lambda c: sessions.ids(c, status=Status.RUNNING)) == [busy]
    first = await database.writer.write(sessions.instance_id)
    assert await database.writer.write(sessions.instance_id) == first


@given(seconds=st.floats(0, 7e9))
def test_times_keep_their_milliseconds(seconds: float) -> None:
    at = datetime.fromtimestamp(seconds, UTC)
    column = UtcTime()
    back = column.process_result_value(column.process_bind_param(at, None), None)  # type: ignore[arg-type]
    assert back is not None
    assert abs(back - at) <= timedelta(milliseconds=0.5)
    assert back.microsecond % 1000 == 0


@given(value=st.recursive(st.none() | st.booleans() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)))
@pytest.mark.slow
def test_json_round_trips(value: object) -> None:
    column = Json()
    assert column.process_result_value(column.process_bind_param(value, None), None) == value  # type: ignore[arg-type]
