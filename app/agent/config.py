"""A session's configuration of its agent."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.context.budget import Budget
from app.context.policies import DEFAULT, CompactionSettings
from app.context.tokens import Calibration
from app.llm.base import ToolSchema
from app.sessions import Approval, ReasoningEffort


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """What a session may change between steps. `system` is the system text without the plan; `calibration` is what is
    known about the model's tokenizer; `summary_template` is the operator's summary template, None for the built-in one.
    `approval` says which calls wait for approval, `reasoning_effort` None is the model's default. `binds_thinking` and
    `echoes_reasoning` are properties of the model; see `ModelInfo`."""

    model: str
    tools: tuple[ToolSchema, ...]
    system: str
    budget: Budget
    calibration: Calibration = field(default_factory=Calibration)
    settings: CompactionSettings = DEFAULT
    temperature: float | None = None
    reasoning_effort: ReasoningEffort | None = None
    summary_template: str | None = None
    approval: Approval = field(default_factory=Approval)
    binds_thinking: bool = False
    echoes_reasoning: bool = False
