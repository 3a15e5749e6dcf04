"""What a tool is: a name, a schema for its arguments, and a run in a session's sandbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from app.events import PlanItem
from app.messages import ToolStatus
from app.sandbox.base import Sandbox, Stream


class Arguments(BaseModel):
    """Base of every tool's arguments; unknown names are refused, so that the model learns of its slip."""

    model_config = ConfigDict(frozen=True, extra="forbid")


A = TypeVar("A", bound=Arguments, contravariant=True)


class OutputSink(Protocol):
    """Takes a call's output as it comes: keeps head and tail for the model, stores the rest, feeds the live preview."""

    def write(self, stream: Stream, data: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a call may use. `sandbox` gives the session's sandbox, started; a tool that needs none works without.
    `set_plan` replaces the session's plan."""

    call_id: str
    sandbox: Callable[[], Awaitable[Sandbox]]
    output: OutputSink
    set_plan: Callable[[tuple[PlanItem, ...]], Awaitable[None]]
    command_timeout_s: float
    max_command_timeout_s: float


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """How a call ended. Its text went to `context.output`; `note` is appended to what the model sees, after the clip,
    so it is never cut (an exit code, a time-out, where the rest is)."""

    status: ToolStatus = ToolStatus.COMPLETED
    exit_code: int | None = None
    note: str = ""


class Tool(Protocol[A]):
    """One tool. `parallel_safe` calls of one model message may run at the same time."""

    name: ClassVar[str]
    description: ClassVar[str]
    parallel_safe: ClassVar[bool]
    arguments: type[Arguments]

    async def run(self, args: A, context: ToolContext) -> ToolOutcome:
        """Carries the call out. Raises `ToolError` (or another `PalimpsestError`) for what the model should mend."""
        ...
