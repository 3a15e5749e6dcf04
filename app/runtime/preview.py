"""What a round of compaction would do, worked out without doing it."""

from __future__ import annotations

from sqlalchemy import Connection

from app.agent.ladder import Ladder, Round, Target
from app.context.budget import trigger
from app.context.policies import CompactionSettings
from app.db.repositories import sessions
from app.runtime.agents import AgentSetup, load_conversation
from app.runtime.values import CompactionPreview


def preview(
    connection: Connection, session_id: str, settings: CompactionSettings, instructions: str | None, agents: AgentSetup
) -> CompactionPreview:
    """Reads the conversation and measures the context that a round would leave. Raises `NotFoundError`."""
    row = sessions.row(connection, session_id)
    conversation = agents.conversation(load_conversation(connection, session_id), row)
    config = agents.config(row)
    conversation.refresh(config)
    ladder = Ladder(None, conversation, agents.models, lambda model: agents.model_info(model).context_window)
    before = conversation.size
    batch = ladder.prunable(config) if settings.policy == "reactive" else None
    pruned = ladder.pruned(batch)
    round = Round(conversation.round + 1, config, settings, Target(config.budget.usable, before), instructions)
    selection = ladder.asked_selection(round, settings, pruned)
    after = before
    if selection is not None:
        after = ladder.folded(round, selection, pruned).tokens
    cleared = batch.call_ids if batch is not None and selection is not None else ()
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
