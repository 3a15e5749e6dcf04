"""What a summary states without a model: computed only from a history's messages, calls and results."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from app.context.actions import Command, Touched, actions_of
from app.context.clipping import readable
from app.context.selection import task_of
from app.context.telling import Sentence, error_line, outcome_line, sentences
from app.messages import Message, Role, ToolCallPart, ToolResultPart, ToolStatus
from app.sessions import PlanItem

MAX_COMMANDS = 300
"""Commands whose outcomes are kept; beyond that, those that never failed are forgotten first."""
MAX_SENTENCES = 400
"""Sentences of the agent that are kept, the newest."""
COMMAND_KEY_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class FileFact:
    """How often the file tools read, wrote and edited a file. `path` is relative to the workspace, or absolute outside
    it; `change` is the last edit in short."""

    path: str
    read: int = 0
    written: int = 0
    edited: int = 0
    change: str = ""

    @property
    def changed(self) -> bool:
        return bool(self.written or self.edited)


@dataclass(frozen=True, slots=True)
class CommandFact:
    """A shell command that ran `runs` times and failed `failures` times. `status` and `exit_code` are those of the last
    failure, and `error` is its telling line. `passes` says whether the last run succeeded, and `outcome` is that run's
    telling line."""

    command: str
    runs: int = 1
    failures: int = 0
    status: ToolStatus = ToolStatus.COMPLETED
    exit_code: int | None = None
    error: str = ""
    passes: bool = True
    outcome: str = ""


class UserRequest(NamedTuple):
    """One of the user's messages, with its images as labels."""

    message_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Facts:
    """`requests` are the user's messages except the task, newest last; `files`, the changed ones, and `commands`, those
    that failed or ran more than once, are newest first; `sentences` are the agent's own that tell most, newest last;
    `calls` are completed calls per tool, most used first; `rounds` is the number of compactions. `searchable` says
    whether the model has `history_search`, which finds what did not fit."""

    task: str = ""
    requests: tuple[UserRequest, ...] = ()
    files: tuple[FileFact, ...] = ()
    commands: tuple[CommandFact, ...] = ()
    sentences: tuple[Sentence, ...] = ()
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
        self._sentences: deque[Sentence] = deque(maxlen=MAX_SENTENCES)

    def take(self, fresh: Sequence[Message]) -> None:
        """Takes in the history's next messages."""
        for message in lived(fresh):
            if message.role is Role.USER and readable(message).strip():
                self._asked.append(message)
            if message.role is Role.ASSISTANT:
                self._sentences.extend(sentences(message.text))
            for call, result in _ended(message, self._open_calls):
                self._tally.add(call, result)

    def facts(self, plan: Sequence[PlanItem], rounds: int, task_id: str | None = None) -> Facts:
        """The facts so far. `task_id` is the message with the session's task; if it is not there, the first request is
        the task."""
        task, tally = task_of(self._asked, task_id), self._tally
        return Facts(
            task=readable(task) if task is not None else "",
            requests=tuple(UserRequest(m.id, readable(m)) for m in self._asked if m is not task),
            files=tuple(file for file in reversed(tally.files.values()) if file.changed),
            commands=tuple(known for known in reversed(tally.commands.values()) if known.failures or known.runs > 1),
            sentences=tuple(self._sentences),
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


@dataclass(slots=True)
class _Tally:
    """Insertion order is order of last use: an item used again moves to the end."""

    files: dict[str, FileFact] = field(default_factory=dict)
    commands: dict[str, CommandFact] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)

    def add(self, call: ToolCallPart, result: ToolResultPart) -> None:
        if result.status is ToolStatus.COMPLETED:
            self.calls[call.name] += 1
        for action in actions_of(call, result):
            match action:
                case Command():
                    self._add_command(action, result)
                case Touched():
                    self._add_file(action)

    def _add_file(self, touched: Touched) -> None:
        known = self.files.pop(touched.path, FileFact(touched.path))
        count = {touched.use: getattr(known, touched.use) + 1}
        self.files[touched.path] = replace(known, **count, change=touched.change or known.change)

    def _add_command(self, ran: Command, result: ToolResultPart) -> None:
        key = ran.text[:COMMAND_KEY_CHARS]
        known = self.commands.pop(key, CommandFact(key, runs=0))
        known = replace(known, runs=known.runs + 1, passes=not ran.failed)
        if ran.failed:
            self.commands[key] = replace(
                known,
                failures=known.failures + 1,
                status=result.status,
                exit_code=ran.exit_code,
                error=error_line(result.output),
                outcome="",
            )
        else:
            self.commands[key] = replace(known, outcome=outcome_line(result.output))
        if len(self.commands) > MAX_COMMANDS:
            del self.commands[self._least_telling()]

    def _least_telling(self) -> str:
        return next((key for key, known in self.commands.items() if not known.failures), next(iter(self.commands)))
