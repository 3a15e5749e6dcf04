"""Calls of one message: each with exactly one result, in the model's order where it matters, whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from app.agent.approvals import Batch
from app.agent.changes import ResultClosed
from app.agent.interrupt import Interrupt, Stopped, StopReason
from app.agent.tool_executor import MAX_PARALLEL, ToolExecutor, ToolSetup
from app.errors import ToolError
from app.messages import ToolStatus
from app.sandbox.base import Sandbox, Stream
from app.tools.base import Arguments, ToolContext, ToolOutcome
from app.tools.output import OutputLimit
from app.tools.registry import ToolRegistry
from tests.unit.agent.scenes import Nothing
from tests.unit.agent.scenes import call_part as call
from tests.unit.agent.sinks import KeptSink

Raw = bytes


@dataclass
class Scene:
    """Tools that record what runs, and run until they are released."""

    running: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    most: int = 0
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    hold: asyncio.Event = field(default_factory=asyncio.Event)


class Acting:
    description: ClassVar[str] = "Acts."
    arguments: type[Arguments] = Nothing

    def __init__(self, name: str, safe: bool, scene: Scene, act: Callable[[ToolContext], Any] | None = None) -> None:
        self.name, self.parallel_safe, self._scene, self._act = name, safe, scene, act

    async def run(self, args: Arguments, context: ToolContext) -> ToolOutcome:
        scene = self._scene
        scene.running.append(self.name)
        scene.log.append(context.call_id)
        scene.most = max(scene.most, len(scene.running))
        scene.begun.set()
        try:
            context.output.write("stdout", f"{self.name} begins".encode())
            await asyncio.sleep(0)
            if not self.parallel_safe:
                assert scene.running == [self.name], "a tool that is not safe runs alone"
            if self._act is not None:
                await self._act(context)
        finally:
            scene.running.remove(self.name)
        return ToolOutcome(note=f"[{self.name} ends]")


@dataclass
class Kept:
    """A collector that keeps everything the model sees."""

    live: Callable[[Stream, str, int], None]
    limit: OutputLimit
    text: str = ""
    truncated: bool = False
    ref: str | None = None

    @property
    def bytes(self) -> int:
        return len(self.text.partition("[")[0].encode())

    def as_terminal(self) -> None: ...

    def write(self, stream: Stream, data: Raw) -> None:
        text = str(data, "utf-8")
        self.live(stream, text, len(self.text))
        self.text += text

    async def finish(self, note: str = "") -> Kept:
        self.text += note
        return self


def limit_of(calls: int) -> OutputLimit:
    """The more calls there are, the less of each output."""
    return OutputLimit(1_200 // calls)


async def fail(error: Exception) -> None:
    raise error


def make(
    scene: Scene,
    sink: KeptSink,
    sandbox_error: Exception | None = None,
    interrupt: Interrupt | None = None,
) -> ToolExecutor:
    async def sandbox() -> Sandbox:
        if sandbox_error is not None:
            raise sandbox_error
        return cast(Sandbox, object())

    async def set_plan(_: object) -> None: ...

    tools: list[Any] = [
        Acting("safe", True, scene),
        Acting("other", True, scene),
        Acting("alone", False, scene),
        Acting("wrong", True, scene, lambda _: fail(ToolError("Fix this."))),
        Acting("crash", True, scene, lambda _: fail(RuntimeError("secret"))),
        Acting("waits", True, scene, lambda _: scene.hold.wait()),
        Acting("waits_alone", False, scene, lambda _: scene.hold.wait()),
    ]
    setup = ToolSetup(lambda: ToolRegistry(tools), sandbox, lambda _, live, limit: Kept(live, limit), 60, 60, limit_of)
    return ToolExecutor(setup, sink, allowed=lambda: None, set_plan=set_plan, interrupt=interrupt or Interrupt())


def results(sink: KeptSink) -> dict[str, ResultClosed]:
    closed = [change for change in sink.changes if isinstance(change, ResultClosed)]
    by_call = {change.part.call_id: change for change in closed}
    assert len(by_call) == len(closed), "one result per call"
    return by_call


NAMES = ("safe", "other", "alone", "wrong", "crash", "unknown")


@settings(deadline=None)
@given(names=st.lists(st.sampled_from(NAMES), max_size=8))
async def test_every_call_gets_one_result_at_its_index(names: list[str]) -> None:
    scene, sink = Scene(), KeptSink()
    batch = Batch([call(name) for name in names])
    with capture_logs() as logs:
        await make(scene, sink).run(batch)

    assert results(sink).keys() == {one.call_id for one in batch.calls}
    assert [part.name for part in batch.ordered] == names
    assert [part.index for part in batch.ordered] == list(range(len(names)))
    bad = {"wrong", "crash", "unknown"}
    assert [part.status is ToolStatus.ERROR for part in batch.ordered] == [name in bad for name in names]
    assert all(change.message_id == batch.message_id for change in results(sink).values())
    assert len(batch.recorded) == len(names)
    assert [entry["tool"] for entry in logs if entry["log_level"] == "error"] == [
        name for name in names if name == "crash"
    ]
    assert all("secret" not in part.output for part in batch.ordered)
    ran = [one.call_id for one in batch.calls if one.name != "unknown"]
    alone = [one.call_id for one in batch.calls if one.name == "alone"]
    assert sorted(scene.log) == sorted(ran)
    for one in alone:
        assert set(scene.log[: scene.log.index(one)]) == set(ran[: ran.index(one)]), "all calls before it ran first"


async def test_adjacent_safe_calls_run_in_parallel() -> None:
    scene, sink = Scene(), KeptSink()
    await make(scene, sink).run(Batch([call("safe"), call("other"), call("unknown"), call("safe"), call("alone")]))
    assert scene.most == 3


async def test_live_output_belongs_to_the_part_of_its_result() -> None:
    scene, sink = Scene(), KeptSink()
    batch = Batch([call("safe"), call("other")])
    await make(scene, sink).run(batch)
    for part in batch.ordered:
        assert sink.text_of(part.id) == f"{part.name} begins"
        assert part.output == f"{part.name} begins[{part.name} ends]"
        assert part.bytes == len(f"{part.name} begins")
    assert {live.message_id for live, _, _ in sink.lives} == {batch.message_id}


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("unknown", "{}", "There is no tool 'unknown'"),
        ("safe", "[", "Error:"),
        ("safe", '{"x": 1}', "x"),
        ("wrong", "{}", "Error: Fix this."),
        ("crash", "{}", "crash failed inside the service"),
    ],
)
async def test_the_model_reads_what_was_wrong(name: str, arguments: str, said: str) -> None:
    sink = KeptSink()
    batch = Batch([call(name, arguments)])
    with capture_logs():
        await make(Scene(), sink).run(batch)
    [part] = batch.ordered
    assert part.status is ToolStatus.ERROR
    assert said in part.output


@pytest.mark.parametrize(
    ("reason", "status", "said"),
    [
        ("cancel", ToolStatus.CANCELLED, "cancelled by the user"),
        ("interrupt", ToolStatus.CANCELLED, "new message"),
        ("limit", ToolStatus.INTERRUPTED, "limit"),
        ("shutdown", ToolStatus.INTERRUPTED, "restarted"),
    ],
)
async def test_stopped_calls_keep_their_output_and_the_others_do_not_start(
    reason: StopReason, status: ToolStatus, said: str
) -> None:
    scene, sink, interrupt = Scene(), KeptSink(), Interrupt()
    executor = make(scene, sink, interrupt=interrupt)
    batch = Batch([call("safe"), call("alone"), call("waits"), call("waits"), call("waits_alone"), call("safe")])
    guarded = asyncio.create_task(interrupt.guard(executor.run(batch)))
    while scene.running.count("waits") < 2:
        await scene.begun.wait()
        scene.begun.clear()
    interrupt.fire(reason)
    with pytest.raises(Stopped):
        await guarded
    executor.abandon(batch)

    done, alone, one, two, late, never = batch.ordered
    assert (done.status, alone.status) == (ToolStatus.COMPLETED, ToolStatus.COMPLETED)
    assert {part.status for part in (one, two, late, never)} == {status}
    assert one.output == two.output
    assert one.output.startswith("waits begins[")
    assert late.output == never.output
    assert "before it was started" in late.output
    assert all(said in part.output for part in (one, late))
    assert [part.index for part in batch.ordered] == list(range(6))
    assert len(results(sink)) == 6
    assert scene.running == []


async def test_thousands_of_calls_run_a_few_at_a_time() -> None:
    scene, sink = Scene(), KeptSink()
    await make(scene, sink).run(Batch([call("safe") for _ in range(5 * MAX_PARALLEL)]))
    assert scene.most == MAX_PARALLEL
    assert len(results(sink)) == 5 * MAX_PARALLEL


async def test_the_number_of_calls_decides_how_much_of_each_output_is_shown() -> None:
    limits: list[OutputLimit] = []

    def collector(_: str, live: Callable[[Stream, str, int], None], limit: OutputLimit) -> Kept:
        limits.append(limit)
        return Kept(live, limit)

    async def set_plan(_: object) -> None: ...

    async def sandbox() -> Sandbox:
        return cast(Sandbox, object())

    told: list[OutputLimit] = []

    async def note(context: ToolContext) -> None:
        told.append(context.limit)

    tools: list[Any] = [Acting("safe", True, Scene(), note)]
    setup = ToolSetup(lambda: ToolRegistry(tools), sandbox, collector, 60, 60, limit_of)
    executor = ToolExecutor(setup, KeptSink(), allowed=lambda: None, set_plan=set_plan, interrupt=Interrupt())
    for count in (1, 3):
        await executor.run(Batch([call("safe") for _ in range(count)]))
    assert limits == told == [limit_of(1)] + 3 * [limit_of(3)]


async def test_abandoning_finished_calls_does_nothing() -> None:
    sink = KeptSink()
    executor = make(Scene(), sink)
    batch = Batch([call("safe")])
    await executor.run(batch)
    executor.abandon(batch)
    assert [part.status for part in batch.ordered] == [ToolStatus.COMPLETED]
