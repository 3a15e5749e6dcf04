"""What a summary states without a model: computed from a history's messages, calls and results, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from app.context.excerpts import readable
from app.events import PlanItem
from app.messages import Message, Role, ToolCallPart, ToolResultPart, ToolStatus

WORKSPACE = "/workspace"

FileUse = Literal["read", "written", "edited"]

_FILE_TOOLS: dict[str, FileUse] = {"read_file": "read", "write_file": "written", "edit_file": "edited"}

_FAILED = frozenset({ToolStatus.ERROR, ToolStatus.CANCELLED, ToolStatus.INTERRUPTED})


@dataclass(frozen=True, slots=True)
class FileFact:
    """How often a file was read, written whole and edited, by the file tools. `path` is relative to the workspace, or
    absolute outside it."""

    path: str
    read: int = 0
    written: int = 0
    edited: int = 0


@dataclass(frozen=True, slots=True)
class FailedCommand:
    """A shell command that failed `times` times. `exit_code` and `status` are those of the last failure;
    `succeeded_later` says whether the very same command has succeeded since."""

    command: str
    status: ToolStatus
    exit_code: int | None
    times: int = 1
    succeeded_later: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """`requests` are the user's messages after the task, newest last; `files` and `failed_commands` have the newest
    first; `calls` are completed calls per tool, the most used first; `rounds` is the number of compactions."""

    task: str = ""
    requests: tuple[str, ...] = ()
    files: tuple[FileFact, ...] = ()
    failed_commands: tuple[FailedCommand, ...] = ()
    calls: tuple[tuple[str, int], ...] = ()
    plan: tuple[PlanItem, ...] = ()
    rounds: int = 0


def compute_facts(history: Sequence[Message], plan: Sequence[PlanItem], rounds: int) -> Facts:
    """The facts of a history, which is the whole of it and not what a context shows.

    A call counts as done where its result completed. Voided attempts and summaries do not count, nor do results whose
    call is missing. Denied commands never ran and are not among the failed ones.
    """
    tally = _Tally()
    requests: list[str] = []
    for message in lived(history):
        if message.role is Role.USER and (request := readable(message)).strip():
            requests.append(request)
    for call, result in ended_calls(history):
        tally.add(call, result)
    return Facts(
        task=requests[0] if requests else "",
        requests=tuple(requests[1:]),
        files=tuple(reversed(tally.files.values())),
        failed_commands=tuple(reversed(tally.failed.values())),
        calls=tuple(tally.calls.most_common()),
        plan=tuple(plan),
        rounds=rounds,
    )


def lived(history: Sequence[Message]) -> Iterator[Message]:
    """The messages that took place: no voided attempts, no summaries, no system rows."""
    return (m for m in history if m.voided_at is None and not m.is_summary and m.role is not Role.SYSTEM)


def ended_calls(history: Sequence[Message]) -> Iterator[tuple[ToolCallPart, ToolResultPart]]:
    """Each call with the first result that follows it, in order of the results."""
    open_calls: dict[str, ToolCallPart] = {}
    for message in lived(history):
        for result in message.tool_results:
            if (call := open_calls.pop(result.call_id, None)) is not None:
                yield call, result
        open_calls.update((call.call_id, call) for call in message.tool_calls)


def failed(result: ToolResultPart) -> bool:
    """Whether a command failed: it ended with an exit code other than 0, or was ended before it could."""
    return result.status in _FAILED or (result.status is ToolStatus.COMPLETED and bool(result.exit_code))


@dataclass(slots=True)
class _Tally:
    """Insertion order is order of last use: what is used again moves to the end."""

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
    """One name for the spellings of a path (`./a`, `/workspace/a`, `a`). `..` stays as it is: behind a link it may lead
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
