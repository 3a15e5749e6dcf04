"""The server itself: its models, what all sessions have used, whether its parts answer."""

from __future__ import annotations

from typing import Literal

from app.messages import Usage, Value
from app.sessions import ReasoningEffort


class PricesView(Value):
    """US dollars per million tokens; null where unknown."""

    input: float | None
    output: float | None
    cache_read: float | None
    cache_write: float | None


class ModelView(Value):
    """A model and what is known of it. `reasoning_efforts` are those that it takes, null where they are not known."""

    name: str
    provider: str
    context_window: int
    window_source: Literal["setting", "catalog", "server", "assumed"]
    max_output_tokens: int | None
    prices: PricesView
    key_present: bool
    default: bool
    description: str
    reasoning_efforts: tuple[ReasoningEffort, ...] | None


class ModelList(Value):
    items: tuple[ModelView, ...]


class UsageByModel(Value):
    model: str
    day: str
    steps: int
    usage: Usage


class UsageReport(Value):
    total: Usage
    items: tuple[UsageByModel, ...]


ComponentStatus = Literal["ok", "full", "locked", "unavailable", "unreachable", "failing"]


class Component(Value):
    """A part that the server stands on, as it was found within the last seconds. `ok` is false where `status` is
    another than `ok`."""

    ok: bool
    status: ComponentStatus
    detail: str


class Readiness(Value):
    """`ready` says that sessions can be stored and commands can run; `degraded` that some part is not `ok`, which may
    be a provider that others can stand in for."""

    ready: bool
    degraded: bool
    components: dict[str, Component]
