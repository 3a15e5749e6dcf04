"""Background commands and their owner: what is stored of them whatever ends the owner, or keeps it from the database.

What they do is in `tests/behavior/test_background_commands.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import Connection, Row

from app.db.repositories import commands as rows
from app.db.repositories import sessions
from app.errors import StaleOwnerError, StorageError
from app.eventlog.log import StreamItem
from app.messages import Role
from app.runtime.command_reading import read_output
from app.runtime.commands import STORE_S
from app.runtime.owner.commands import SessionCommands
from app.runtime.owner.recorder import Recorder
from app.runtime.owner.state import SessionState
from app.runtime.setup import RuntimeSetup
from app.runtime.transactions import commands as transactions
from app.runtime.transactions.commands import End
from app.sandbox.base import BackgroundInput, ExecResult, Sandbox, Stream
from app.tools import FileOutputStore, OutputCollector, OutputLimit
from tests.unit.runtime.stage import Stage, make_sandboxes, make_setup
from tests.unit.runtime.test_registry import Model, Server


@pytest.fixture
async def setup(stage: Stage, tmp_path: Path) -> AsyncIterator[RuntimeSetup]:
    """That of a node, whose commands end with their owner."""
    store = FileOutputStore(tmp_path / "outputs")

    def collect(
        session_id: str, call_id: str, live: Callable[[Stream, str, int], None], limit: OutputLimit
    ) -> OutputCollector:
        return OutputCollector(f"{session_id}/{call_id}", limit=limit, max_bytes=1_000, store=store, on_live=live)

    setup = replace(make_setup(stage, make_sandboxes(), Model()), node="this", collector=collect)
    yield setup
    await setup.commands.aclose()


class Endless:
    """A sandbox whose commands run until they are killed."""

    async def exec(self, command: str, *, stdin: BackgroundInput, **_: Any) -> ExecResult:
        stdin.begun.set()
        await asyncio.Event().wait()
        raise AssertionError


class SlowState(SessionState):
    """Its row is never read."""

    def __init__(self, setup: RuntimeSetup, row: Row[Any]) -> None:
        super().__init__(setup, row)
        self.reading = asyncio.Event()

    async def read(self) -> Row[Any]:
        self.reading.set()
        await asyncio.Event().wait()
        raise AssertionError


def of_owner(setup: RuntimeSetup, session: SessionState) -> SessionCommands:
    return SessionCommands(setup, session, Recorder(setup.database, setup.bus, session.id, session.row.epoch))


async def statuses(stage: Stage) -> list[str]:
    return [row.status for row in await stage.database.read(lambda c: rows.newest(c, stage.session_id, 10))]


async def test_a_first_command_that_is_cancelled_before_it_starts_has_ended(stage: Stage, setup: RuntimeSetup) -> None:
    state = SlowState(setup, await stage.row())
    starting = asyncio.create_task(of_owner(setup, state).start("call", "make", cast(Sandbox, Endless()), {}))
    await state.reading.wait()
    starting.cancel()
    await asyncio.wait({starting})
    await stage.write(lambda _: None)
    assert await statuses(stage) == ["stopped"]


async def test_an_owner_that_leaves_does_not_wait_for_the_database(stage: Stage, setup: RuntimeSetup) -> None:
    is_away = True

    def refuse(_: Connection) -> None:
        if is_away:
            raise StorageError("The database is away.")

    setup = replace(setup, fence=refuse)
    commands = of_owner(setup, SessionState(setup, await stage.row()))
    await commands.start("call", "make", cast(Sandbox, Endless()), {})
    (running,) = setup.commands.of(stage.session_id).values()
    async with asyncio.timeout(2 * STORE_S):
        await commands.leave(hands_over=True)
    assert await statuses(stage) == ["running"]
    is_away = False
    assert running.task is not None
    await running.task
    assert await statuses(stage) == ["interrupted"], "it is stored once the database takes it"


async def test_an_owner_that_was_taken_over_does_not_end_what_the_next_one_has_started(
    stage: Stage, setup: RuntimeSetup
) -> None:
    epoch = await stage.claim()
    await stage.act(lambda c: transactions.started(c, stage.session_id, epoch, "call", "make"))
    with pytest.raises(StaleOwnerError):
        await setup.commands.recover(setup, stage.session_id, epoch - 1)
    assert await statuses(stage) == ["running"]


async def test_the_model_is_told_once_if_its_owner_ends_right_after_that(stage: Stage, setup: RuntimeSetup) -> None:
    await stage.act(lambda c: transactions.started(c, stage.session_id, 0, "call", "make"))
    await stage.act(lambda c: transactions.ended(c, stage.session_id, "call", End("exited", 0)))
    await stage.post("begin")
    await stage.change(status="running")

    def taken_over(items: Sequence[StreamItem]) -> None:
        if any(b"commands have ended" in item.data for item in items):
            stage.observers.clear()
            # Ahead of the owner's next write.
            stage.database.writer.submit(lambda c: sessions.claim(c, stage.session_id), session_id=stage.session_id)

    stage.observers.append(taken_over)
    server = Server(stage, replace(setup, node=None), Model())
    await server.fail()
    assert stage.observers == []
    await server.go_on()
    await server.idle()
    history = await stage.history()
    assert [message.role for message in history] == [Role.USER, Role.CONTROL, Role.ASSISTANT], "and it answers"
    assert "commands have ended" in history[1].text
    await server.close(10)


async def test_pieces_of_an_output_have_whole_characters(setup: RuntimeSetup, tmp_path: Path) -> None:
    text, file = "aé€😀" * 9, tmp_path / "output"
    file.write_bytes(text.encode() + b"\xc3")
    setup = replace(setup, output_path=lambda _: file)
    row = cast(
        Row[Any], SimpleNamespace(session_id="s", call_id="c", status="exited", exit_code=0, bytes=0, remark=None)
    )
    for most in range(4, 20):
        since, read = 0, ""
        while (piece := await read_output(setup, row, since, most)).until < piece.state.bytes:
            read += piece.data.decode()
            since = piece.until
        assert read + piece.data.decode("utf-8", "replace") == f"{text}\ufffd", "only what is incomplete is replaced"
        last = await read_output(setup, row, None, most)
        assert text.endswith(last.data.removesuffix(b"\xc3").decode())
        assert last.until == len(text.encode()) + 1
