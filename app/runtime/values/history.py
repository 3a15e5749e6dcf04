"""A session's past and what its steps send: messages, exports, steps, contexts, tool calls, events, files,
compactions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import ConfigDict, Field, StrictBool, StringConstraints, with_config
from typing_extensions import TypedDict

from app.context.prompts import sections_of
from app.context.tokens import estimate_text
from app.eventlog.log import StreamItem as StreamItem
from app.eventlog.reader import Following as Following
from app.messages import (
    FinishReason,
    Message,
    Timestamp,
    TimestampText,
    ToolCallPart,
    ToolResultPart,
    Usage,
    Value,
)
from app.runtime.values.sessions import Text
from app.sandbox.base import OpenFile
from app.sessions import CompactionEvent, ContextState

EventStream = AsyncIterator[list[StreamItem]]
"""Events in batches: those waiting when the reader asks for more."""


class MessagePage(Value):
    """`next_cursor` is the `after` of the next request; null at the end."""

    items: tuple[Message, ...]
    last_seq: int
    next_cursor: str | None


class ExportPage(Value):
    """A part of the history in a provider's wire format; `next_cursor` as in the history itself."""

    items: tuple[dict[str, Any], ...]
    last_seq: int
    next_cursor: str | None


class StepView(Value):
    """One attempt at a step. `compaction_round` is the last round before it, 0 if none. `duration_ms` is the time of
    the whole step, null while it runs and for an attempt that was retried. Of it, the model took `model_ms`, null while
    it answers and for steps of earlier versions, and calls waited `waiting_ms` for a person or a client."""

    step: int
    attempt: int
    message_id: str
    generation: int
    finish_reason: FinishReason | None
    usage: Usage
    context: ContextState
    compaction_round: int
    started_at: Timestamp
    duration_ms: int | None
    model_ms: int | None = None
    waiting_ms: int = 0


class StepPage(Value):
    items: tuple[StepView, ...]
    last_seq: int
    next_cursor: str | None


class ContextItemView(Value):
    """A message as sent. `reason` says why it differs from the stored one."""

    message: Message
    tokens: int
    reason: str | None


class ToolView(Value):
    name: str
    description: str
    parameters: dict[str, Any]
    tokens: int


class SystemSection(Value):
    """A part of the system text: `instructions` are the server's or the session's own, `environment` says where
    commands run; the others are skills, files of the workspace, and the plan."""

    source: str = Field(examples=["AGENTS.md"])
    tokens: int

    @classmethod
    def all_of(cls, system: str) -> tuple[SystemSection, ...]:
        """The parts of a system text, in order."""
        return tuple(cls(source=source, tokens=estimate_text(text)) for source, text in sections_of(system))


class SystemView(Value):
    text: str
    tokens: int
    sections: tuple[SystemSection, ...] = ()


class ContextView(Value):
    """Exactly what a step sends. `step` is null for the next one, which after an answer has one more message: the one
    that triggers it."""

    session_id: str
    last_seq: int
    step: int | None
    generation: int
    model: str
    system: SystemView
    tools: tuple[ToolView, ...]
    messages: tuple[ContextItemView, ...]
    tokens: int
    limit: int
    usable: int
    source: str


class SearchHit(Value):
    """A place in the history. `call_id` is set for a call and for its result, which has the role `tool`. `ranges` are
    the start and end, in code points, of the query's words in `snippet`, which may leave out parts of the text."""

    message_id: str
    seq: int
    role: Literal["user", "assistant", "tool", "control", "system", "summary"]
    call_id: str | None
    snippet: str
    ranges: tuple[tuple[int, int], ...]


class SearchResult(Value):
    items: tuple[SearchHit, ...]


class ToolCallView(Value):
    """A call and its result; `result` is null while it is open."""

    message_id: str
    call: ToolCallPart
    result_message_id: str | None
    result: ToolResultPart | None


@dataclass(frozen=True, slots=True)
class RawOutput:
    """Raw content to send: a stored file, an open file of a workspace, which the sender closes, or bytes."""

    size: int
    path: Path | None = None
    data: bytes | None = None
    file: OpenFile | None = None
    as_of: datetime | None = None
    """The time of the snapshot that a file of a workspace is from; None if it is the workspace's own."""


class ImageFile(NamedTuple):
    """An image of a message to send."""

    raw: RawOutput
    media_type: str


class WorkspaceArchive(NamedTuple):
    """A tar of a workspace in pieces, which the sender closes; `as_of` as for `RawOutput`."""

    pieces: AsyncIterator[bytes]
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True)
class LogPage:
    """Durable events as stored in the log. `next_cursor` is the `after` of the next request; None at the end of the
    log. A page without events is not necessarily the end."""

    items: tuple[StreamItem, ...]
    last_seq: int
    next_cursor: str | None


@with_config(ConfigDict(extra="forbid"))
class FileView(TypedDict):
    """An entry of a directory. No model, since making and encoding ten thousand of them takes 70 ms longer."""

    path: str
    type: Literal["file", "directory", "symlink", "other"]
    size: int
    modified_at: TimestampText


class FileList(Value):
    path: str
    items: tuple[FileView, ...]
    truncated: bool
    as_of: Timestamp | None = Field(
        None,
        description="The time of the snapshot that was listed, if the workspace is on another machine that does not"
        " answer, or none has it; else null.",
    )


class UnpackedArchive(Value):
    """What an archive has added or replaced: files and links, and the bytes of the files."""

    path: str
    files: int
    bytes: int


class CompactionCreate(Value):
    """Requests a round. `dry_run` only returns what it would do."""

    policy: Literal["reactive", "threshold", "handoff"] | None = Field(
        None, description="If omitted, the session's policy."
    )
    instructions: Annotated[Text, StringConstraints(min_length=1, max_length=10_000)] | None = Field(
        None, description="What the summary should keep, in plain language."
    )
    dry_run: StrictBool = False


class CompactionPreview(Value):
    """What a round would do now. `tokens_after` is measured with a summary made without a model, of about the same
    length as a model's."""

    policy: str
    first_message_id: str | None
    last_message_id: str | None
    messages_compacted: int
    kept_message_ids: tuple[str, ...]
    outputs_pruned: int
    call_ids: tuple[str, ...]
    tokens_before: int
    tokens_after: int
    limit: int
    usable: int
    trigger: int


class CompactionList(Value):
    """All rounds of a session, oldest first."""

    items: tuple[CompactionEvent, ...]
    last_seq: int
