"""Puts together what a session's agent works with: its step with the tools, and its compactor."""

from __future__ import annotations

from app.agent.compactor import Compactor
from app.agent.conversation import Conversation
from app.agent.interrupt import Interrupt
from app.agent.ladder import Ladder
from app.agent.ports import ApprovalDesk, PlanChanged
from app.agent.step import Step
from app.agent.tool_executor import ToolExecutor, ToolSetup
from app.events import PlanItem
from app.runtime.owned import OwnedSession
from app.runtime.recall import StoredHistory
from app.runtime.recorder import Recorder
from app.runtime.setup import RuntimeSetup


def make_compactor(
    setup: RuntimeSetup, session: OwnedSession, recorder: Recorder, conversation: Conversation, interrupt: Interrupt
) -> Compactor:
    """What makes a conversation's context smaller."""
    agents = setup.agents
    ladder = Ladder(recorder, conversation, agents.models, lambda model: agents.model_info(model).context_window)
    return Compactor(
        recorder,
        conversation,
        ladder,
        interrupt,
        refreshed=session.refreshed,
        taken=session.keep_notes,
        places=agents.places,
    )


def make_step(
    setup: RuntimeSetup,
    session: OwnedSession,
    recorder: Recorder,
    conversation: Conversation,
    interrupt: Interrupt,
    desk: ApprovalDesk,
) -> Step:
    """What calls the model and runs its tools, in the session's sandbox."""

    async def set_plan(items: tuple[PlanItem, ...]) -> None:
        conversation.plan = items
        # Not waited for: it is committed before the call's result, or with it.
        recorder.record(PlanChanged(items))

    def offered() -> list[str]:
        """The tools that the step's model was shown, whatever a change of the session says by now."""
        return [tool.name for tool in conversation.generation.tools]

    agents = setup.agents
    tools = ToolSetup(
        registry=agents.registry,
        sandbox=session.sandbox,
        collector=lambda call_id, live, limit: setup.collector(session.id, call_id, live, limit),
        output_limit=session.output_limit,
        command_timeout_s=agents.command_timeout_s,
        max_command_timeout_s=agents.max_command_timeout_s,
        history=StoredHistory(setup.database, session.id, setup.output_path),
        desk=desk,
    )
    executor = ToolExecutor(tools, recorder, allowed=offered, set_plan=set_plan, interrupt=interrupt)
    return Step(recorder, conversation, agents.models, executor, interrupt)
