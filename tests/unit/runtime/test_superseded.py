"""A server that is superseded in the middle of its work does nothing more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from app.llm.base import BlockEnd, Finish, ModelRequest, StreamEvent, TextDelta, ToolArgumentsDelta, ToolCallStart
from app.runtime.owner import recorder
from app.runtime.setup import Fence
from app.sandbox.base import SandboxConfig, Stream
from app.sandbox.host.local import LocalFactory, LocalSandbox
from app.sessions import SandboxSpec, Status
from app.tools import FileOutputStore, OutputCollector, OutputLimit
from tests.unit.runtime.stage import Stage, make_sandboxes, make_setup
from tests.unit.runtime.test_registry import Model, Server


class Caller(Model):
    """Calls a command that leaves a trace, then ends. Its first answer ends when `answers` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.answering, self.answers = asyncio.Event(), asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        self.asked.append([])
        if len(self.asked) == 1:
            yield ToolCallStart(0, "execute_command")
            yield ToolArgumentsDelta(0, '{"command": "echo ran >> runs"}')
            yield BlockEnd(0)
            self.answering.set()
            await self.answers.wait()
            yield Finish("tool_calls")
        else:
            yield TextDelta(0, "done")
            yield BlockEnd(0)
            yield Finish("stop")


class SlowFactory(LocalFactory):
    """Its sandboxes take a while to start."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        self.starting, self.go = asyncio.Event(), asyncio.Event()

    def open(self, config: SandboxConfig) -> LocalSandbox:
        box, start = super().open(config), LocalSandbox.start

        async def slowly() -> None:
            self.starting.set()
            await self.go.wait()
            await start(box)

        box.start = slowly  # type: ignore[method-assign]
        return box


@pytest.fixture
def boxes(tmp_path: Path) -> SlowFactory:
    return SlowFactory(tmp_path)


@pytest.fixture
async def server(stage: Stage, boxes: SlowFactory, tmp_path: Path) -> AsyncIterator[Server]:
    fence, store = Fence(stage.database), FileOutputStore(tmp_path / "outputs")

    def collect(
        session_id: str, call_id: str, live: Callable[[Stream, str, int], None], limit: OutputLimit
    ) -> OutputCollector:
        return OutputCollector(f"{session_id}/{call_id}", limit=limit, max_bytes=1_000, store=store, on_live=live)

    await fence.take()
    model = Caller()
    setup = replace(make_setup(stage, make_sandboxes(boxes), model), fence=fence.check, collector=collect)
    server = Server(stage, setup, model)
    yield server
    await server.close(10)


@pytest.mark.parametrize("taken_over", [None, "starting", "answering"])
async def test_a_call_does_not_run_after_a_takeover(
    stage: Stage,
    server: Server,
    boxes: SlowFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    taken_over: Literal["starting", "answering"] | None,
) -> None:
    """Neither if the server is superseded while the sandbox starts, which takes a while, nor if it was before the call
    was stored: that write is refused, however soon the call would start."""
    model = server.model
    assert isinstance(model, Caller)
    monkeypatch.setattr(recorder, "FRESH_S", 0.0 if taken_over == "starting" else 60.0)
    await stage.change(sandbox=SandboxSpec(kind="local-unsafe").model_dump())
    await server.post("task")
    await asyncio.wait_for(model.answering.wait(), 60)
    if taken_over == "answering":
        await Fence(stage.database).take()
    model.answers.set()
    if taken_over == "starting":
        await asyncio.wait_for(boxes.starting.wait(), 60)
        await Fence(stage.database).take()
    boxes.go.set()
    await server.gone()

    assert (tmp_path / "workspaces" / stage.session_id / "runs").exists() == (taken_over is None)
    status = (await stage.row()).status
    assert status == (Status.RUNNING if taken_over else Status.IDLE), "the other server continues it"
