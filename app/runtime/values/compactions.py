"""Rounds of compaction: requests, previews, and the list of all."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StringConstraints

from app.messages import Value
from app.runtime.values.fields import Text
from app.sessions import CompactionEvent


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
