"""Runs the calls of one model message: safe ones in parallel, others one by one, each with exactly one collected
result."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Protocol

import structlog
from structlog.contextvars import bind_contextvars

from app.agent.approvals import Batch, NoApprovalGate, denials, result_without_run, which_wait
from app.agent.changes import CallsHeld, CallsReleased, ResultClosed, ResultImage
from app.agent.interrupt import Interrupt, StopReason
from app.agent.protocols import ApprovalGate, LivePart, SandboxSource, Sink
from app.context.tokens import estimate_part
from app.errors import PalimpsestError, SandboxUnavailableError, ToolError
from app.events import PlanItem
from app.images import MAX_IMAGES
from app.messages import ImagePart, ToolCallPart, ToolResultPart, ToolStatus, new_id
from app.sandbox.base import Sandbox, Stream
from app.sessions import Approval, ApprovalEnd
from app.tools.base import NoHistory, OutputSink, SessionHistory, ToolContext, ToolImage, ToolOutcome
from app.tools.output import OutputLimit
from app.tools.registry import ToolRegistry

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


class Collector(OutputSink, Protocol):
    """Collects one call's output as it arrives, then returns what the model sees and where the rest is."""

    async def finish(self, note: str = "") -> CollectedOutput: ...


CollectorFactory = Callable[[str, Callable[[Stream, str, int], None], OutputLimit], Collector]
"""Makes a call's collector from the call id, a callback for the live preview (stream, text, offset) and a limit."""


@dataclass(frozen=True, slots=True)
class ToolSetup:
    """What the calls of a session share. Times are in seconds; `output_limit` maps the number of calls in a message to
    how much of each output the model sees; `env` returns the present variables of commands."""

    registry: ToolRegistry
    sandbox: SandboxSource
    collector: CollectorFactory
    command_timeout_s: float
    max_command_timeout_s: float
    output_limit: Callable[[int], OutputLimit]
    history: SessionHistory = field(default_factory=NoHistory)
    approval_gate: ApprovalGate = field(default_factory=NoApprovalGate)
    env: Callable[[], Mapping[str, str]] = dict


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

    async def hold(self, batch: Batch, message_id: str, approval: Approval) -> None:
        """Holds the calls of a message that need approval. Calls that cannot run anyway, because of their name or
        arguments, need none."""
        if approval.policy == "never":
            return
        checked = [(call, values) for call in batch.calls if (values := self._arguments(call)) is not None]
        # In a thread, since patterns may be slow.
        waits = await asyncio.to_thread(which_wait, [(call.name, values) for call, values in checked], approval)
        held = tuple(call for (call, _), wait in zip(checked, waits, strict=True) if wait)
        batch.held = CallsHeld(message_id, held, approval.timeout_s) if held else None

    def _arguments(self, call: ToolCallPart) -> dict[str, Any] | None:
        """A call's arguments as its tool gets them; None if it cannot run."""
        try:
            _, arguments = self._setup.registry.parse(call.name, call.arguments_text, self._allowed())
        except ToolError:
            return None
        return arguments.model_dump()

    async def run(self, batch: Batch) -> None:
        """Waits until nothing is held, then runs all calls and records each result as it arrives. When cancelled, it
        ends the running calls, whose results are recorded as `cancelled` with their partial output."""
        if batch.held is not None:
            await self._release(batch, batch.held)
        for group in self._groups(batch):
            await batch.stored()
            async with asyncio.TaskGroup() as tasks:
                for index, call in group:
                    tasks.create_task(self._run_one(batch, index, call))

    async def _release(self, batch: Batch, held: CallsHeld) -> None:
        """Waits for all decisions and records the results of denied calls. Committed before any call starts, so that
        after a restart no started call is taken for a waiting one."""
        decisions = await self._setup.approval_gate.decisions(held.message_id)
        denied = [ResultClosed(batch.message_id, part) for part in denials(batch.calls, held, decisions)]
        batch.results |= {result.part.call_id: result.part for result in denied}
        batch.held = None
        recorded = self._sink.record(*denied, CallsReleased(held.message_id))
        if denied:
            batch.recorded.append(recorded)
        # Shielded: a cancellation would otherwise cancel the future itself, which is awaited again.
        await asyncio.shield(recorded)

    def refuse(self, batch: Batch, why: str) -> None:
        """Gives every call an error result that says why it was not run."""
        for index, call in enumerate(batch.calls):
            self._close(batch, result_without_run(index, call, ToolStatus.ERROR, why))

    def abandon(self, batch: Batch) -> None:
        """Gives every call without a result one that says why it did not run, and withdraws pending approvals."""
        if batch.held is not None:
            self._setup.approval_gate.withdraw(_ENDS.get(self._interrupt.reason, "error"))
            batch.held = None
        status, why = _STOPS[self._interrupt.reason]
        note = f"[{why} before it was started]"
        for index, call in enumerate(batch.calls):
            if call.call_id not in batch.results:
                self._close(batch, result_without_run(index, call, status, note))

    def _groups(self, batch: Batch) -> Iterator[list[tuple[int, ToolCallPart]]]:
        """Groups adjacent safe calls; every other call is alone, which keeps the model's order where it matters. Denied
        calls are left out."""
        left = [(index, call) for index, call in enumerate(batch.calls) if call.call_id not in batch.results]
        for safe, run in groupby(left, key=lambda item: self._is_safe(item[1])):
            if safe:
                yield list(run)
            else:
                yield from ([item] for item in run)

    def _is_safe(self, call: ToolCallPart) -> bool:
        try:
            return self._setup.registry.get(call.name, self._allowed()).parallel_safe
        except ToolError:
            return True

    async def _run_one(self, batch: Batch, index: int, call: ToolCallPart) -> None:
        # Each call has its own task, whose log lines carry its id.
        bind_contextvars(call_id=call.call_id)
        started = time.monotonic()
        part_id = new_id()
        live = LivePart("tool_result", batch.message_id, part_id, index, call.call_id, call.name)
        limit = self._setup.output_limit(len(batch.calls))
        collector = self._setup.collector(call.call_id, self._preview(live), limit)
        begun = False
        try:
            async with self._slots:
                begun = True
                outcome = await self._outcome(call, collector, limit)
        except asyncio.CancelledError:
            if begun:
                status, why = _STOPS[self._interrupt.reason]
                outcome = ToolOutcome(status, note=f"[{why}; what it had done until then stays]")
                await self._finish(batch, live, call, collector, outcome, started)
            raise
        finishing = asyncio.ensure_future(self._finish(batch, live, call, collector, outcome, started))
        try:
            await asyncio.shield(finishing)
        except asyncio.CancelledError:
            # The call ended by itself: its result is stored as it is, whatever ends the step now.
            await finishing
            raise

    def _preview(self, live: LivePart) -> Callable[[Stream, str, int], None]:
        return lambda stream, text, _offset: self._sink.live(live, text, stream=stream)

    async def _outcome(self, call: ToolCallPart, collector: Collector, limit: OutputLimit) -> ToolOutcome:
        """Runs the call; exceptions become an error that the model sees and can act on."""
        try:
            tool, arguments = self._setup.registry.parse(call.name, call.arguments_text, self._allowed())
            return await tool.run(arguments, self._context(call, collector, limit))
        except PalimpsestError as error:
            return ToolOutcome(ToolStatus.ERROR, note=f"Error: {error.detail}")
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("tool_crashed", tool=call.name, call_id=call.call_id)
            return ToolOutcome(ToolStatus.ERROR, note=f"Error: {call.name} failed inside the service. Try another way.")

    def _context(self, call: ToolCallPart, collector: Collector, limit: OutputLimit) -> ToolContext:
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
        self._close(batch, part.model_copy(update={"tokens": estimate_part(part)}), output.ref, images)

    def _close(
        self, batch: Batch, part: ToolResultPart, ref: str | None = None, images: Sequence[ResultImage] = ()
    ) -> None:
        batch.results[part.call_id] = part
        batch.images += [image.part for image in images]
        batch.recorded.append(self._sink.record(ResultClosed(batch.message_id, part, ref, tuple(images))))


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


class CollectedOutput(Protocol):
    @property
    def text(self) -> str: ...
    @property
    def truncated(self) -> bool: ...
    @property
    def bytes(self) -> int: ...
    @property
    def ref(self) -> str | None: ...
