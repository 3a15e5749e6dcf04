"""The agent: `loop` repeats `step`; a step is one model call plus the tool calls it requested. Everything that happens
is recorded in the sink defined in `ports`; this package knows nothing of the layers above it."""

from app.agent.changes import Change
from app.agent.conversation import AgentConfig, Conversation
from app.agent.interrupt import Interrupt
from app.agent.loop import AgentLoop, RunResult
from app.agent.ports import Sink

__all__ = ["AgentConfig", "AgentLoop", "Change", "Conversation", "Interrupt", "RunResult", "Sink"]
