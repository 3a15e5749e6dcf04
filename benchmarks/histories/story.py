"""The vocabulary for writing recorded sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evals import Probe
from evals.histories import Kind
from tests.provider import Reply, Text, ToolCall


@dataclass(frozen=True, slots=True)
class Turn:
    """A user message and the model's answers, reply by reply. A turn that is `cut` is ended by a limit after its last
    reply, whose calls have run: the history then ends in the middle of the work."""

    user: str
    replies: tuple[Reply, ...]
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Story:
    """A session from its task to its current state, with questions about it."""

    name: str
    about: str
    turns: tuple[Turn, ...]
    probes: tuple[Probe, ...]


def turn(user: str, *replies: Reply, cut: bool = False) -> Turn:
    return Turn(user, replies, cut)


def step(text: str, *calls: ToolCall) -> Reply:
    """A sentence and the calls of one step."""
    return Reply(Text(text), *calls)


def sh(command: str) -> ToolCall:
    return ToolCall("execute_command", {"command": command})


def write(path: str, content: str) -> ToolCall:
    return ToolCall("write_file", {"path": path, "content": content})


def edit(path: str, old: str, new: str) -> ToolCall:
    return ToolCall("edit_file", {"path": path, "old_text": old, "new_text": new})


def read(path: str) -> ToolCall:
    return ToolCall("read_file", {"path": path})


def search(pattern: str, path: str = ".") -> ToolCall:
    return ToolCall("search_files", {"pattern": pattern, "path": path})


def plan(done: int, *items: str) -> ToolCall:
    """A plan whose first `done` items are completed and whose next one is in progress."""

    def status(index: int) -> str:
        return "completed" if index < done else "in_progress" if index == done else "pending"

    entries: list[dict[str, Any]] = [{"text": text, "status": status(index)} for index, text in enumerate(items)]
    return ToolCall("update_plan", {"items": entries})


def probe(kind: Kind, question: str, *facts: str | tuple[str, ...], outdated: str | None = None) -> Probe:
    """A question; a fact is a text, or several accepted spellings. `outdated` is what the user had said before."""
    return Probe(
        kind=kind,
        question=question,
        facts=tuple((fact,) if isinstance(fact, str) else fact for fact in facts),
        outdated=() if outdated is None else ((outdated,),),
    )
