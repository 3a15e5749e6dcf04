"""Runs the calls of one model message: safe ones in parallel, others one by one, each with exactly one collected
result."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import structlog
from structlog.contextvars import bind_contextvars

from app.agent.approvals import Batch, Checked, NoCallGate, answered, denials, result_without_run, which_wait
from app.agent.changes import CallsAwaited, CallsHeld, CallsReleased, Change, ResultClosed, ResultImage
from app.agent.interrupt import Interrupt, StopReason
from app.agent.protocols import (
    CallGate,
    ClientAnswer,
    Collector,
    CollectorFactory,
    FileWatch,
    LivePart,
    NoFileWatch,
    SandboxSource,
    Sink,
)
from app.context.tokens import estimate_part
from app.errors import PalimpsestError, SandboxUnavailableError, ToolError
from app.images import MAX_IMAGES
from app.messages import ImagePart, ToolCallPart, ToolResultPart, ToolStatus, new_id
from app.sandbox.base import Sandbox, Stream
from app.sessions import Approval, ApprovalEnd, PlanItem
from app.tools.base import (
    Background,
    NoBackground,
    NoHistory,
    SessionHistory,
    ToolContext,
    ToolImage,
    ToolOutcome,
    WaitingTool,
)
from app.tools.client import ClientTool
from app.tools.delegate import NAME as DELEGATE
from app.tools.output import OutputLimit
from app.tools.registry import AnyTool, ToolRegistry, paths_of

log = structlog.get_logger(__name__)
MAX_PARALLEL = 8
"""Maximum safe calls of one message that run at the same time; a model may request thousands."""
IMAGES_FROM = 1_000
"""Images of a message of results come after all of them, by call: a model makes at most that many calls at once, and a
call has fewer images."""
_STOPS: dict[StopReason | None, tuple[ToolStatus, str]] = {
    "cancel": (ToolStatus.CANCELLED, "cancelled by the user"),
    "interrupt": (ToolStatus.CANCELLED, "cancelled by the user, who has sent a new message"),
    "limit": (ToolStatus.INTERRUPTED, "ended by a limit of the run"),
    "shutdown": (ToolStatus.INTERRUPTED, "interrupted, because the service is being restarted"),
    None: (ToolStatus.INTERRUPTED, "interrupted by an error outside of the call"),
}
"""Status and note of a call that was stopped."""
_ENDS: dict[StopReason | None, ApprovalEnd] = {"cancel": "cancel", "interrupt": "interrupt", "limit": "limit"}
"""How the pending approvals of a stopped step end; without a stop reason the step has failed."""
_UNSTARTED = "before it was started"
_WAITED_FOR_CLIENT = "while it waited for the client, which may have begun"
_WAITED = {DELEGATE: "while its sub-agent worked; the files that it changed stay changed"}
"""When a waiting call was stopped, by its tool."""
Group = list[tuple[int, ToolCallPart]]
"""Calls of a message that run at the same time, each with its place among the calls."""


@dataclass(frozen=True, slots=True)
class ToolSetup:
    """What the calls of a session share. `registry` returns its present tools. Times are in seconds; `output_limit`
    maps the number of calls in a message to how much of each output the model sees; `env` returns the present variables
    of commands, and `files` is notified of those that tools use."""

    registry: Callable[[], ToolRegistry]
    sandbox: SandboxSource
    collector: CollectorFactory
    command_timeout_s: float
    max_command_timeout_s: float
    output_limit: Callable[[int], OutputLimit]
    history: SessionHistory = field(default_factory=NoHistory)
    gate: CallGate = field(default_factory=NoCallGate)
    env: Callable[[], Mapping[str, str]] = dict
    files: FileWatch = field(default_factory=NoFileWatch)
    background: Background = field(default_factory=NoBackground)


class ToolExecutor:
    """Runs batches of calls; may be cancelled at any time, after which `abandon` closes what is left open."""

    def __init__(
        self,
        setup: ToolSetup,
        sink: Sink,
        *,
        allowed: Callable[[], Sequence[str] | None],
        set_plan: Callable[[tuple[PlanItem, ...]], Awaitable[None]],
        interrupt: Interrupt,
    ) -> None:
        self._setup = setup
        self._sink = sink
        self._interrupt = interrupt
        self._slots = asyncio.Semaphore(MAX_PARALLEL)
        self._allowed = allowed
        self._set_plan = set_plan

    def is_for_client(self, name: str) -> bool:
        """Whether a client carries out the calls of a tool."""
        return isinstance(self._tool(name), ClientTool)

    async def begin(self, batch: Batch, approval: Approval) -> list[Change]:
        """Finds out what the calls of a message wait for; returns the changes that are committed with the message.
        Calls that cannot run anyway, because of their name or arguments, need no approval and no client."""
        await self._find_waiting(batch)
        if approval.policy != "never":
            batch.held = await self._hold(batch, approval)
        return [batch.held] if batch.held is not None else self._first_wait(batch)

    async def _hold(self, batch: Batch, approval: Approval) -> CallsHeld | None:
        every = [(call, await self._checked(call)) for call in batch.calls]
        checked = [(call, found) for call, found in every if found is not None]
        # In a thread, since patterns may be slow.
        waits = await asyncio.to_thread(which_wait, [found for _, found in checked], approval)
        held = tuple(call for (call, _), wait in zip(checked, waits, strict=True) if wait)
        return CallsHeld(batch.asked_by, held, approval.timeout_s) if held else None

    async def _checked(self, call: ToolCallPart) -> Checked | None:
        """The tool that a call runs, which one tool may leave to another, and its arguments; None if it cannot run."""
        try:
            tool, arguments = self._setup.registry().parse(call.name, call.arguments_text, self._allowed())
            if isinstance(tool, WaitingTool):
                await tool.check(arguments)
        except ToolError:
            return None
        return tool.name, arguments.model_dump()

    async def _find_waiting(self, batch: Batch) -> None:
        """Sets which calls a client or a sub-agent carries out. Those that wait already do so even if the session has
        lost the tool."""
        batch.waiting = {} if batch.awaited is None else {call.call_id: wait for call, wait in batch.awaited.calls}
        for call in batch.calls:
            tool = self._tool(call.name)
            if not isinstance(tool, WaitingTool) or call.call_id in batch.waiting:
                continue
            if await self._checked(call) is not None:
                batch.waiting[call.call_id] = tool.timeout_s

    async def run(self, batch: Batch) -> None:
        """Waits until nothing is held, then runs all calls and records each result as it arrives. When cancelled, it
        ends the running calls, whose results are recorded as `cancelled` with their partial output."""
        if batch.waiting is None:
            await self._find_waiting(batch)
        if batch.held is not None:
            await self._release(batch, batch.held)
        for group in self._groups(batch):
            await batch.stored()
            if self._waits(batch, group):
                await self._await_results(batch, group)
                continue
            if batch.parked:
                batch.parked = False
                await asyncio.shield(self._sink.record(CallsReleased(batch.asked_by)))
            async with asyncio.TaskGroup() as tasks:
                for index, call in group:
                    tasks.create_task(self._run_one(batch, index, call))

    async def _release(self, batch: Batch, held: CallsHeld) -> None:
        """Waits for all decisions and records the results of denied calls. Committed before any call starts, so that
        after a restart no started call is taken for a waiting one."""
        decisions = await self._setup.gate.decisions(held.message_id)
        denied = [ResultClosed(batch.message_id, part) for part in denials(batch.calls, held, decisions)]
        batch.results |= {result.part.call_id: result.part for result in denied}
        batch.held = None
        recorded = self._sink.record(*denied, CallsReleased(held.message_id), *self._first_wait(batch))
        if denied:
            batch.recorded.append(recorded)
        # Shielded: a cancellation would otherwise cancel the future itself, which is awaited again.
        await asyncio.shield(recorded)

    def _first_wait(self, batch: Batch) -> list[Change]:
        """The change that makes the first calls wait for a client or a sub-agent, if they have to."""
        group = next(self._groups(batch), None)
        return [] if group is None or not self._waits(batch, group) else [self._park(batch, group)]

    def _waits(self, batch: Batch, group: Group) -> bool:
        return group[0][1].call_id in (batch.waiting or ())

    def _park(self, batch: Batch, group: Group) -> CallsAwaited:
        waiting = batch.waiting or {}
        batch.parked = True
        batch.awaited = CallsAwaited(batch.asked_by, tuple((call, waiting[call.call_id]) for _, call in group))
        return batch.awaited

    async def _await_results(self, batch: Batch, group: Group) -> None:
        """Waits for the results of all calls of a group from clients and sub-agents, or until their time is over."""
        if batch.awaited is None:
            # Shielded: a cancellation would otherwise cancel the future itself, which is awaited again.
            await asyncio.shield(self._sink.record(self._park(batch, group)))
        left = {call.call_id: (index, call) for index, call in group}
        while left:
            for call_id, answer in (await self._setup.gate.answers(batch.asked_by, left)).items():
                await self._run_one(batch, *left.pop(call_id), answer)
        batch.awaited = None

    def refuse(self, batch: Batch, why: str) -> None:
        """Gives every call an error result that says why it was not run."""
        for index, call in enumerate(batch.calls):
            self._close(batch, result_without_run(index, call, ToolStatus.ERROR, why))

    def abandon(self, batch: Batch) -> None:
        """Gives every call without a result one that says why it did not run, and ends all waits."""
        waited = {call.call_id for call, _ in batch.awaited.calls} if batch.awaited is not None else set()
        if batch.held is not None or batch.awaited is not None:
            self._setup.gate.withdraw(_ENDS.get(self._interrupt.reason, "error"))
            batch.held = batch.awaited = None
        status, why = _STOPS[self._interrupt.reason]
        for index, call in enumerate(batch.calls):
            if call.call_id not in batch.results:
                is_out = call.call_id in waited
                when = _WAITED.get(call.name, _WAITED_FOR_CLIENT) if is_out else _UNSTARTED
                part = result_without_run(index, call, status, f"[{why} {when}]")
                self._close(batch, part, is_posted=is_out)

    def _groups(self, batch: Batch) -> Iterator[Group]:
        """Groups adjacent safe calls; every other call is alone, which keeps the model's order where it matters. Those
        of a safe group that clients or sub-agents carry out come last, together. Calls with results, as denied
        ones, are left out."""
        left = [(index, call) for index, call in enumerate(batch.calls) if call.call_id not in batch.results]
        for safe, run in groupby(left, key=lambda item: self._is_safe(item[1])):
            if not safe:
                yield from ([item] for item in run)
                continue
            ours: Group = []
            others: Group = []
            for item in run:
                (others if self._waits(batch, [item]) else ours).append(item)
            yield from filter(None, (ours, others))

    def _is_safe(self, call: ToolCallPart) -> bool:
        tool = self._tool(call.name)
        return tool is None or tool.parallel_safe

    def _tool(self, name: str) -> AnyTool | None:
        """A tool that was offered; None if no offered tool has this name."""
        try:
            return self._setup.registry().get(name, self._allowed())
        except ToolError:
            return None

    async def _run_one(self, batch: Batch, index: int, call: ToolCallPart, answer: ClientAnswer | None = None) -> None:
        """Runs a call, or takes the result that it has waited for."""
        # Each call has its own task, whose log lines carry its id.
        bind_contextvars(call_id=call.call_id)
        started = time.monotonic() - (0.0 if answer is None else answer.waited_s)
        part_id = new_id()
        live = LivePart("tool_result", batch.message_id, part_id, index, call.call_id, call.name)
        limit = self._setup.output_limit(len(batch.calls))
        collector = self._setup.collector(call.call_id, self._preview(live), limit)
        begun = False
        try:
            async with self._slots:
                begun = True
                if answer is None:
                    outcome = await self._outcome(call, live, collector, limit)
                else:
                    outcome = answered(answer, collector)
        except asyncio.CancelledError:
            if begun:
                status, why = _STOPS[self._interrupt.reason]
                outcome = ToolOutcome(status, note=f"[{why}; what it had done until then stays]")
                await self._finish(batch, live, call, collector, outcome, started)
            raise
        finishing = asyncio.ensure_future(
            self._finish(batch, live, call, collector, outcome, started, is_posted=answer is not None)
        )
        try:
            await asyncio.shield(finishing)
        except asyncio.CancelledError:
            # The call ended by itself: its result is stored as it is, whatever ends the step now.
            await finishing
            raise

    def _preview(self, live: LivePart) -> Callable[[Stream, str, int], None]:
        return lambda stream, text, _offset: self._sink.live(live, text, stream=stream)

    async def _outcome(
        self, call: ToolCallPart, live: LivePart, collector: Collector, limit: OutputLimit
    ) -> ToolOutcome:
        """Runs the call; exceptions become an error that the model sees and can act on."""
        try:
            tool, arguments = self._setup.registry().parse(call.name, call.arguments_text, self._allowed())
            paths = paths_of(tool, arguments)
            for path in paths:
                await self._setup.files.before(path)
            outcome = await tool.run(arguments, self._context(call, live, collector, limit))
            for path in paths:
                self._setup.files.after(path)
            return outcome
        except PalimpsestError as error:
            return ToolOutcome(ToolStatus.ERROR, note=f"Error: {error.detail}")
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("tool_crashed", tool=call.name, call_id=call.call_id)
            return ToolOutcome(ToolStatus.ERROR, note=f"Error: {call.name} failed inside the service. Try another way.")

    def _context(self, call: ToolCallPart, live: LivePart, collector: Collector, limit: OutputLimit) -> ToolContext:
        return ToolContext(
            call_id=call.call_id,
            sandbox=self._sandbox,
            output=collector,
            set_plan=self._set_plan,
            command_timeout_s=self._setup.command_timeout_s,
            max_command_timeout_s=self._setup.max_command_timeout_s,
            history=self._setup.history,
            limit=limit,
            env=self._setup.env(),
            progress=lambda text: self._sink.live(live, text, stream="stderr"),
            background=self._setup.background,
        )

    async def _sandbox(self) -> Sandbox:
        try:
            return await self._setup.sandbox()
        except SandboxUnavailableError as error:
            raise ToolError(f"The sandbox is not available now: {error.detail}") from error

    async def _finish(
        self,
        batch: Batch,
        live: LivePart,
        call: ToolCallPart,
        collector: Collector,
        outcome: ToolOutcome,
        started: float,
        *,
        is_posted: bool = False,
    ) -> None:
        output = await collector.finish(outcome.note)
        part = ToolResultPart(
            id=live.part_id,
            index=live.index,
            call_id=call.call_id,
            name=call.name,
            output=output.text,
            status=outcome.status,
            truncated=output.truncated,
            bytes=output.bytes,
            exit_code=outcome.exit_code,
            duration_ms=round((time.monotonic() - started) * 1000),
        )
        log.debug("tool_ended", status=part.status, duration_ms=part.duration_ms, bytes=part.bytes)
        images = [
            await asyncio.to_thread(_result_image, image, IMAGES_FROM * (live.index + 1) + number, call.call_id)
            for number, image in enumerate(outcome.images[:MAX_IMAGES])
        ]
        part = part.model_copy(update={"tokens": estimate_part(part)})
        self._close(batch, part, output.ref, images, is_posted=is_posted)

    def _close(
        self,
        batch: Batch,
        part: ToolResultPart,
        ref: str | None = None,
        images: Sequence[ResultImage] = (),
        *,
        is_posted: bool = False,
    ) -> None:
        batch.results[part.call_id] = part
        batch.images += [image.part for image in images]
        closed = ResultClosed(batch.message_id, part, ref, is_posted, tuple(images))
        batch.recorded.append(self._sink.record(closed))


def _result_image(image: ToolImage, index: int, call_id: str) -> ResultImage:
    part = ImagePart(
        id=new_id(),
        index=index,
        media_type=image.media_type,
        digest=hashlib.sha256(image.data).hexdigest(),
        bytes=len(image.data),
        width=image.width,
        height=image.height,
        path=image.path,
        of_call=call_id,
    )
    return ResultImage(part.model_copy(update={"tokens": estimate_part(part)}), image.data)
