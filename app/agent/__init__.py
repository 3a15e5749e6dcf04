"""The agent: `loop` repeats `step`; a step is one model call and the tool calls that it asked for. What happens goes
into the sink of `ports`; who is above is not known here."""

from app.agent.changes import Change
from app.agent.conversation import AgentConfig, Conversation
from app.agent.interrupt import Interrupt
from app.agent.loop import AgentLoop, RunResult
from app.agent.ports import Sink

__all__ = ["AgentConfig", "AgentLoop", "Change", "Conversation", "Interrupt", "RunResult", "Sink"]
