"""What a summary states without a model: computed only from a history's messages, calls and results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from app.context.clipping import readable
from app.context.selection import task_of
from app.events import PlanItem
from app.messages import Message, Role, ToolCallPart, ToolResultPart, ToolStatus

WORKSPACE = "/workspace"

FileUse = Literal["read", "written", "edited"]

_FILE_TOOLS: dict[str, FileUse] = {"read_file": "read", "write_file": "written", "edit_file": "edited"}

_FAILED = frozenset({ToolStatus.ERROR, ToolStatus.CANCELLED, ToolStatus.INTERRUPTED})


@dataclass(frozen=True, slots=True)
class FileFact:
    """How often the file tools read, wrote and edited a file. `path` is relative to the workspace, or absolute outside
    it."""

    path: str
    read: int = 0
    written: int = 0
    edited: int = 0


@dataclass(frozen=True, slots=True)
class FailedCommand:
    """A shell command that failed `times` times. `exit_code` and `status` are those of the last failure;
    `succeeded_later` says whether the identical command has succeeded since."""

    command: str
    status: ToolStatus
    exit_code: int | None
    times: int = 1
    succeeded_later: bool = False


class UserRequest(NamedTuple):
    """One of the user's messages, with its images as labels."""

    message_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Facts:
    """`requests` are the user's messages except the task, newest last; `files` and `failed_commands` are newest first;
    `calls` are completed calls per tool, most used first; `rounds` is the number of compactions. `searchable` says
    whether the model has `history_search`, which finds what did not fit."""

    task: str = ""
    requests: tuple[UserRequest, ...] = ()
    files: tuple[FileFact, ...] = ()
    failed_commands: tuple[FailedCommand, ...] = ()
    calls: tuple[tuple[str, int], ...] = ()
    plan: tuple[PlanItem, ...] = ()
    rounds: int = 0
    searchable: bool = True

    def without(self, message_ids: Container[str]) -> Facts:
        """The facts without those requests, as they are shown elsewhere."""
        return replace(self, requests=tuple(r for r in self.requests if r.message_id not in message_ids))


class Ledger:
    """The facts of a growing history: each message is read once. The history must be complete, not just what a context
    shows. A call counts if its result completed. Voided attempts, summaries and results without a call do not count;
    denied commands never ran and do not count as failed."""

    def __init__(self) -> None:
        self._asked: list[Message] = []
        self._open_calls: dict[str, ToolCallPart] = {}
        self._tally = _Tally()

    def take(self, fresh: Sequence[Message]) -> None:
        """Takes in the history's next messages."""
        for message in lived(fresh):
            if message.role is Role.USER and readable(message).strip():
                self._asked.append(message)
            for call, result in _ended(message, self._open_calls):
                self._tally.add(call, result)

    def facts(self, plan: Sequence[PlanItem], rounds: int, task_id: str | None = None) -> Facts:
        """The facts so far. `task_id` is the message with the session's task; if it is not there, the first request is
        the task."""
        task, tally = task_of(self._asked, task_id), self._tally
        return Facts(
            task=readable(task) if task is not None else "",
            requests=tuple(UserRequest(m.id, readable(m)) for m in self._asked if m is not task),
            files=tuple(reversed(tally.files.values())),
            failed_commands=tuple(reversed(tally.failed.values())),
            calls=tuple(tally.calls.most_common()),
            plan=tuple(plan),
            rounds=rounds,
        )


def lived(history: Sequence[Message]) -> Iterator[Message]:
    """The messages that took place: without voided attempts, summaries and system rows."""
    return (m for m in history if m.voided_at is None and not m.is_summary and m.role is not Role.SYSTEM)


def ended_calls(history: Sequence[Message]) -> Iterator[tuple[ToolCallPart, ToolResultPart]]:
    """Each call with the first result that follows it, in order of the results."""
    open_calls: dict[str, ToolCallPart] = {}
    for message in lived(history):
        yield from _ended(message, open_calls)


def _ended(message: Message, open_calls: dict[str, ToolCallPart]) -> Sequence[tuple[ToolCallPart, ToolResultPart]]:
    """The open calls that the message's results complete; the message's own calls become open."""
    ended = [(open_calls.pop(r.call_id), r) for r in message.tool_results if r.call_id in open_calls]
    open_calls.update((call.call_id, call) for call in message.tool_calls)
    return ended


def failed(result: ToolResultPart) -> bool:
    """Whether a command failed: it ended with an exit code other than 0, or was stopped before it ended."""
    return result.status in _FAILED or (result.status is ToolStatus.COMPLETED and bool(result.exit_code))


@dataclass(slots=True)
class _Tally:
    """Insertion order is order of last use: an item used again moves to the end."""

    files: dict[str, FileFact] = field(default_factory=dict)
    failed: dict[str, FailedCommand] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)

    def add(self, call: ToolCallPart, result: ToolResultPart) -> None:
        completed = result.status is ToolStatus.COMPLETED
        if completed:
            self.calls[call.name] += 1
        if call.name == "execute_command" and (command := _text_argument(call, "command")):
            self._add_command(command, result)
        elif completed and (use := _FILE_TOOLS.get(call.name)) and (path := _text_argument(call, "path")):
            self._add_file(workspace_path(path), use)

    def _add_file(self, path: str, use: FileUse) -> None:
        known = self.files.pop(path, FileFact(path))
        match use:
            case "read":
                self.files[path] = replace(known, read=known.read + 1)
            case "written":
                self.files[path] = replace(known, written=known.written + 1)
            case "edited":
                self.files[path] = replace(known, edited=known.edited + 1)

    def _add_command(self, command: str, result: ToolResultPart) -> None:
        if failed(result):
            earlier = self.failed.pop(command, None)
            times = earlier.times + 1 if earlier else 1
            self.failed[command] = FailedCommand(command, result.status, result.exit_code, times)
        elif result.status is ToolStatus.COMPLETED and command in self.failed:
            self.failed[command] = replace(self.failed[command], succeeded_later=True)


def workspace_path(path: str) -> str:
    """One name for all spellings of a path (`./a`, `/workspace/a`, `a`). `..` is kept: behind a link it may lead
    elsewhere."""
    steps = [step for step in path.split("/") if step not in ("", ".")]
    if not path.startswith("/"):
        return "/".join(steps) or "."
    absolute = f"/{'/'.join(steps)}"
    return absolute.removeprefix(f"{WORKSPACE}/") if absolute != WORKSPACE else "."


def _text_argument(call: ToolCallPart, name: str) -> str | None:
    arguments = call.arguments
    value = arguments.get(name) if isinstance(arguments, dict) else None
    return value if isinstance(value, str) else None
