"""Changes of a conversation that read all of it: the work runs off the event loop, so that it does not block other
sessions, and its result is taken over on the loop."""

from __future__ import annotations

from app.agent.apart import apart
from app.agent.changes import GenerationOpened
from app.agent.config import AgentConfig
from app.agent.conversation import Conversation
from app.context.checkpoints import InForce
from app.errors import Reshape
from app.messages import Message


async def refresh(conversation: Conversation, config: AgentConfig) -> GenerationOpened | None:
    """Like `Conversation.refresh`."""
    opened = conversation.due_generation(config)
    if opened is not None:
        work = conversation.shown_by
        shown = await apart(conversation.known, work, opened.generation, conversation.in_force)
        conversation.begin(opened, shown, config)
    return opened


async def settle(conversation: Conversation) -> GenerationOpened | None:
    """Like `Conversation.settle`; of a sound conversation only new messages are checked."""
    if conversation.transcript.is_sound():
        return None
    return conversation.take_mended(*await apart(conversation.rows, conversation.mended))


async def reshape(conversation: Conversation, config: AgentConfig, wanted: Reshape) -> list[GenerationOpened]:
    """Begins the generation of `Conversation.reshaped`, repaired: earlier repairs are applied again."""
    opened = conversation.reshaped(config, wanted)
    shown = await apart(conversation.history, conversation.shown_by, opened.generation, conversation.in_force)
    conversation.begin(opened, shown, config)
    repaired = await settle(conversation)
    return [opened] if repaired is None else [opened, repaired]


async def adopt(
    conversation: Conversation, opened: GenerationOpened, in_force: InForce, summary: Message | None = None
) -> None:
    """Like `Conversation.adopt`."""
    shown = await apart(conversation.history, conversation.shown_by, opened.generation, in_force, summary)
    conversation.adopt(opened, in_force, summary, shown=shown)
