"""What a tool is: a name, a schema for its arguments, and a run in a session's sandbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from app.errors import NotFoundError, ToolError
from app.messages import ToolStatus
from app.sandbox.base import Sandbox, Stream
from app.sessions import CommandStatus, PlanItem
from app.tools.output import OutputLimit


class Arguments(BaseModel):
    """Base of every tool's arguments; unknown names are refused, so that the model notices its mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid")


A = TypeVar("A", bound=Arguments, contravariant=True)


class OutputSink(Protocol):
    """Receives a call's output as it comes: keeps head and tail for the model, stores the rest, feeds the live
    preview."""

    def write(self, stream: Stream, data: bytes) -> None: ...

    def as_terminal(self) -> None:
        """Has the model see what is written from now on as a terminal shows it; what is stored stays as it is."""
        ...


@dataclass(frozen=True, slots=True)
class ToolImage:
    """An image that a model is shown: its bytes, and its size in pixels if known. `path` is the workspace file."""

    media_type: str
    data: bytes
    width: int | None = None
    height: int | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class PastOutput:
    """What is kept of a finished call. `path` is the file with its raw output, None if `data` is all of it; `size` is
    how many bytes the call wrote, and `shown` what the model saw when it ended. `images` are those of a message or
    result."""

    name: str
    status: ToolStatus
    exit_code: int | None
    size: int
    shown: str
    data: bytes
    path: Path | None
    images: tuple[ToolImage, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """A search result in the history. `role` is a message's, or `summary`; `call_id` is set for a call and for its
    result, which has the role `tool`."""

    message_id: str
    seq: int
    role: str
    call_id: str | None
    snippet: str


class SessionHistory(Protocol):
    """The session's complete past, whatever the model still sees of it."""

    async def output(self, call_id: str) -> PastOutput:
        """The output of a call, or the text of the message with this id. Raises `NotFoundError` (code `call_not_found`,
        or `output_not_found` if the raw output is no longer stored) and `ConflictError` (code `call_open`) for a call
        without a result."""
        ...

    async def search(self, query: str, *, asked_by: str, limit: int) -> Sequence[Finding]:
        """Places with the words of `query`, best first, from before the message with the call `asked_by`. Any text is a
        valid query."""
        ...


class NoHistory:
    """The past of a session without one."""

    async def output(self, call_id: str) -> PastOutput:
        raise NotFoundError(f"There is no tool call {call_id[:100]}.", code="call_not_found")

    async def search(self, query: str, *, asked_by: str, limit: int) -> Sequence[Finding]:
        return ()


@dataclass(frozen=True, slots=True)
class CommandState:
    """A background command. `bytes` is the size of its output so far; `remark` is what the model should know about it,
    such as the limit that ended it."""

    command_id: str
    status: CommandStatus
    exit_code: int | None
    bytes: int
    remark: str | None = None


@dataclass(frozen=True, slots=True)
class CommandPiece:
    """A piece of a command's output. `since` is its first byte, later than requested if what comes before is not
    stored; `until` is the one after its last."""

    state: CommandState
    data: bytes
    since: int

    @property
    def until(self) -> int:
        return self.since + len(self.data)


class Background(Protocol):
    """The commands that a session runs in the background."""

    async def start(self, call_id: str, command: str, sandbox: Sandbox, env: Mapping[str, str]) -> CommandState:
        """Returns once it runs, or has ended already. Raises `ToolError` if there are too many."""
        ...

    async def output(self, command_id: str, since: int | None, wait_s: float, most: int) -> CommandPiece:
        """At most `most` bytes from `since`, by default the last ones. Waits at most `wait_s` seconds until the command
        has ended or, with `since`, printed more. Raises `ToolError` for an unknown command."""
        ...

    async def stop(self, command_id: str) -> CommandState:
        """Ends a command with all its processes. Raises `ToolError` for an unknown one."""
        ...


class NoBackground:
    """Where nothing can run in the background."""

    async def start(self, call_id: str, command: str, sandbox: Sandbox, env: Mapping[str, str]) -> CommandState:
        raise ToolError("Background commands are not available here.")

    async def output(self, command_id: str, since: int | None, wait_s: float, most: int) -> CommandPiece:
        raise ToolError(f"There is no background command {command_id[:100]}.")

    async def stop(self, command_id: str) -> CommandState:
        raise ToolError(f"There is no background command {command_id[:100]}.")


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a call may use. `sandbox` starts the session's sandbox and returns it; tools that need none do not call it.
    `set_plan` replaces the session's plan. `limit` is how much of `output` the model will see: a tool whose answer can
    be read in parts stays within it, so that no answer is clipped in the middle. `env` are the variables of commands,
    which are the session's secrets. `progress` shows a text only in the live preview."""

    call_id: str
    sandbox: Callable[[], Awaitable[Sandbox]]
    output: OutputSink
    set_plan: Callable[[tuple[PlanItem, ...]], Awaitable[None]]
    command_timeout_s: float
    max_command_timeout_s: float
    history: SessionHistory
    limit: OutputLimit
    env: Mapping[str, str] = field(default_factory=dict)
    progress: Callable[[str], None] = lambda _: None
    background: Background = field(default_factory=NoBackground)


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """How a call ended. Its text went to `context.output`; `note` is appended to what the model sees after clipping, so
    it is never cut (an exit code, a timeout, where the rest is). `images` are shown with it."""

    status: ToolStatus = ToolStatus.COMPLETED
    exit_code: int | None = None
    note: str = ""
    images: tuple[ToolImage, ...] = ()


class Tool(Protocol[A]):
    """One tool. `parallel_safe` calls of one model message may run at the same time."""

    arguments: type[Arguments]

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def parallel_safe(self) -> bool: ...

    async def run(self, args: A, context: ToolContext) -> ToolOutcome:
        """Carries out the call. Raises `ToolError` (or another `PalimpsestError`) for what the model should fix."""
        ...


class WaitingTool:
    """Base of tools that are carried out elsewhere: a call waits for its result, even across restarts, and costs
    nothing meanwhile. `timeout_s` is how long it waits, in seconds; None waits without end."""

    parallel_safe: ClassVar[bool] = True
    """Its calls in one message wait together."""
    name: str
    timeout_s: float | None = None

    async def check(self, args: Arguments) -> None:
        """Raises `ToolError` for a call that cannot be carried out, which then does not wait."""
        raise NotImplementedError

    async def run(self, args: Arguments, context: ToolContext) -> ToolOutcome:
        """Only reached by a call that does not wait: raises `ToolError`, which says why."""
        await self.check(args)
        raise ToolError(f"{self.name} is no longer available.")
