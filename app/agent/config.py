"""What a session asks of its agent."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.context.budget import Budget
from app.context.policies import DEFAULT, CompactionSettings
from app.context.tokens import Calibration
from app.llm.base import ToolSchema
from app.sessions import Approval


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """What a session may change between steps. `system` is the system text without the plan; `calibration` is what is
    known of the model's tokenizer; `summary_template` are the operator's sections of a summary, None for the built-in
    ones. `approval` says which calls wait for a person. `echo_reasoning` is set for a model that wants its own
    reasoning back."""

    model: str
    tools: tuple[ToolSchema, ...]
    system: str
    budget: Budget
    calibration: Calibration = field(default_factory=Calibration)
    settings: CompactionSettings = DEFAULT
    temperature: float | None = None
    summary_template: str | None = None
    approval: Approval = field(default_factory=Approval)
    echo_reasoning: bool = False
