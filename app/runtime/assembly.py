"""Assembles a session's agent: its conversation with the compactor, and its step with the tools."""

from __future__ import annotations

import asyncio

from app.agent.apart import apart
from app.agent.changes import PlanChanged
from app.agent.compactor import Compactor
from app.agent.conversation import Conversation
from app.agent.interrupt import Interrupt
from app.agent.ladder import Ladder
from app.agent.ports import ApprovalDesk
from app.agent.round_setup import RoundSetup
from app.agent.step import Step
from app.agent.tool_executor import ToolExecutor, ToolSetup
from app.events import PlanItem
from app.runtime.agents import StoredConversation
from app.runtime.owned import OwnedSession
from app.runtime.reading import read_again, read_past
from app.runtime.recall import StoredHistory
from app.runtime.recorder import Recorder
from app.runtime.setup import RuntimeSetup
from app.sandbox.base import Sandbox


async def open_conversation(
    setup: RuntimeSetup, session: OwnedSession, recorder: Recorder, stored: StoredConversation, interrupt: Interrupt
) -> tuple[Conversation, Compactor]:
    """A session's stored conversation, and the compactor that keeps it within its window."""
    agents = setup.agents
    conversation = await apart(stored.history, agents.conversation, stored, session.row)
    last_seq = stored.history[-1].seq if stored.history else 0

    async def know_past() -> None:
        if conversation.lacks_past:
            conversation.know(await setup.database.read(lambda c: read_past(c, session.id, last_seq)))

    async def reread() -> None:
        conversation.revert(*await setup.database.read(lambda c: read_again(c, session.id)))

    rounds = RoundSetup(
        recorder,
        conversation,
        Ladder(recorder, conversation, agents.models, lambda model: agents.window(model)[0]),
        interrupt,
        session.refreshed,
        session.keep_notes,
        agents.budget,
        agents.places,
        know_past,
        reread,
    )
    return conversation, Compactor(rounds, unused=stored.unused)


def make_step(
    setup: RuntimeSetup,
    session: OwnedSession,
    recorder: Recorder,
    conversation: Conversation,
    interrupt: Interrupt,
    desk: ApprovalDesk,
) -> Step:
    """The step, which calls the model and runs its tools in the session's sandbox."""

    async def set_plan(items: tuple[PlanItem, ...]) -> None:
        conversation.plan = items
        # Not awaited: it is committed before the call's result, or with it.
        recorder.record(PlanChanged(items))

    async def sandbox() -> Sandbox:
        """The sandbox. Checks ownership again when it is ready, which may be long after the call was stored as started:
        if this server was frozen meanwhile, another one has already closed the call and reported that to the model."""
        ready = await session.sandbox()
        if not await setup.holds_database():
            interrupt.fire("shutdown")
            # An interrupt ends the call here.
            await asyncio.Event().wait()
        return ready

    def offered() -> list[str]:
        """The tools offered to the step's model, even if the session was changed since."""
        return [tool.name for tool in conversation.generation.tools]

    agents = setup.agents
    tools = ToolSetup(
        registry=agents.registry,
        sandbox=sandbox,
        collector=lambda call_id, live, limit: setup.collector(session.id, call_id, live, limit),
        output_limit=session.output_limit,
        command_timeout_s=agents.command_timeout_s,
        max_command_timeout_s=agents.max_command_timeout_s,
        history=StoredHistory(setup.database, session.id, setup.output_path),
        desk=desk,
    )
    executor = ToolExecutor(tools, recorder, allowed=offered, set_plan=set_plan, interrupt=interrupt)
    return Step(recorder, conversation, agents.models, executor, interrupt)
