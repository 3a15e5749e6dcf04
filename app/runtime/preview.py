"""What a round of compaction would do, worked out without doing it."""

from __future__ import annotations

from sqlalchemy import Connection

from app.agent.candidates import folded
from app.agent.coverage import asked_selection, prunable
from app.agent.rounds import Round, Target
from app.agent.triggers import most
from app.context.budget import trigger
from app.context.policies import CompactionSettings
from app.db.repositories import sessions
from app.runtime.agents import AgentSetup, load_conversation
from app.runtime.values.compactions import CompactionPreview


def preview(
    connection: Connection, session_id: str, settings: CompactionSettings, instructions: str | None, agents: AgentSetup
) -> CompactionPreview:
    """Reads the conversation and measures the context that a round would leave. Raises `NotFoundError`."""
    row = sessions.row(connection, session_id)
    conversation = agents.conversation(load_conversation(connection, session_id), row)
    config = agents.config(row)
    conversation.refresh(config)
    before = conversation.size
    batch = prunable(conversation, config.budget, settings)
    target = Target(most(config.budget, settings), before)
    round = Round(conversation.round + 1, config, settings, target, batch, instructions)
    selection = asked_selection(conversation, round)
    after = folded(conversation, round, selection).tokens if selection is not None else before
    marks = round.batch_beside(selection.covered) if selection is not None else None
    cleared = marks.call_ids if marks is not None else ()
    return CompactionPreview(
        policy=settings.policy,
        first_message_id=selection.covered[0].id if selection is not None else None,
        last_message_id=selection.covered[-1].id if selection is not None else None,
        messages_compacted=len(selection.covered) if selection is not None else 0,
        kept_message_ids=selection.kept if selection is not None else (),
        outputs_pruned=len(cleared),
        call_ids=cleared,
        tokens_before=before,
        tokens_after=after,
        limit=config.budget.limit,
        usable=config.budget.usable,
        trigger=trigger(config.budget, settings),
    )
