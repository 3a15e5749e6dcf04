"""Dry run of a manual round of compaction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row

from app.agent.apart import apart
from app.agent.asked import ManualRound, Refusal, asked_round, asked_selection
from app.agent.candidates import folded
from app.agent.changes import RoundOpening
from app.agent.conversation import Conversation
from app.agent.rounds import Round
from app.context.budget import trigger
from app.context.policies import CompactionSettings
from app.context.prompts import Notes
from app.context.selection import Selection
from app.db.engine import Database
from app.db.repositories import sessions
from app.runtime.agents import AgentSetup, StoredConversation, load_conversation
from app.runtime.notes import are_due as notes_are_due
from app.runtime.values.compactions import CompactionPreview


async def opening(
    database: Database, session_id: str, settings: CompactionSettings, agents: AgentSetup, notes: Notes | None
) -> RoundOpening:
    """How a round would start, measured in the same way as by the session's owner: the whole request, including system
    text and tools. Additions of a running step are not included, so that such a round completes with more
    `tokens_before`. `notes` are the workspace's, for a session without a context. Raises `NotFoundError`."""
    row, stored = await database.read(lambda c: _read(c, session_id))
    _, round = await apart(stored.history, _conversation, row, stored, ManualRound(0, settings), agents, notes)
    return RoundOpening("manual", settings.policy, round.target.before, round.budget.limit)


async def preview(
    database: Database, session_id: str, asked: ManualRound, agents: AgentSetup, notes: Notes | None
) -> CompactionPreview:
    """Reads the whole conversation and measures the context after a round. `notes` are the workspace's current notes,
    which a round puts into the system text; None if they cannot be read. Raises `NotFoundError`."""
    row, stored = await database.read(lambda c: _read(c, session_id, whole=True))
    return await apart(stored.history, _preview, row, stored, asked, agents, notes)


def _read(connection: Connection, session_id: str, *, whole: bool = False) -> tuple[Row[Any], StoredConversation]:
    """Reads everything from the database first: the rest takes long, and other readers wait for the connection."""
    return sessions.row(connection, session_id), load_conversation(connection, session_id, whole=whole)


def _preview(
    row: Row[Any], stored: StoredConversation, asked: ManualRound, agents: AgentSetup, notes: Notes | None
) -> CompactionPreview:
    conversation, round = _conversation(row, stored, asked, agents, notes)
    covered = asked_selection(conversation, round)
    if isinstance(covered, Refusal):
        return _result(round, None, round.target.before)
    system = agents.system(row, round.config.budget, notes)
    made = replace(round, config=replace(round.config, system=system))
    return _result(round, covered, folded(conversation, made, covered).tokens)


def _conversation(
    row: Row[Any], stored: StoredConversation, asked: ManualRound, agents: AgentSetup, notes: Notes | None
) -> tuple[Conversation, Round]:
    conversation = agents.conversation(stored, row)
    first = notes_are_due(row, has_generation=stored.generation is not None)
    config = agents.config(row, notes if first else None)
    conversation.refresh(config)
    numbered = replace(asked, number=conversation.round + 1)
    return conversation, asked_round(conversation, config, numbered, agents.budget(row.model, asked.settings))


def _result(round: Round, covered: Selection | None, after: int) -> CompactionPreview:
    marks = round.batch_beside(covered.covered) if covered is not None else None
    cleared = marks.call_ids if marks is not None else ()
    return CompactionPreview(
        policy=round.settings.policy,
        first_message_id=covered.covered[0].id if covered is not None else None,
        last_message_id=covered.covered[-1].id if covered is not None else None,
        messages_compacted=len(covered.covered) if covered is not None else 0,
        kept_message_ids=covered.kept if covered is not None else (),
        outputs_pruned=len(cleared),
        call_ids=cleared,
        tokens_before=round.target.before,
        tokens_after=after,
        limit=round.budget.limit,
        usable=round.budget.usable,
        trigger=trigger(round.budget, round.settings),
    )
