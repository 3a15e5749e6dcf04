"""The server itself: its models, usage of all sessions, the state of its parts, and logins."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from app.db.repositories.nodes import NodeAddress as NodeAddress
from app.llm.base import Prices as Prices
from app.llm.base import WindowSource
from app.messages import Timestamp, Usage, Value
from app.runtime.values.sessions import Text
from app.sessions import ReasoningEffort

MAX_KEY_CHARS = 1_000


class ModelView(Value):
    """A model and what is known about it. `reasoning_efforts` are those that it accepts, null if unknown; `sees_images`
    is false for one that gets text instead of images, null if unknown."""

    name: str
    provider: str
    context_window: int
    window_source: WindowSource
    max_output_tokens: int | None
    prices: Prices
    key_present: bool
    default: bool
    description: str
    reasoning_efforts: tuple[ReasoningEffort, ...] | None
    sees_images: bool | None = None


class ModelList(Value):
    items: tuple[ModelView, ...]


METADATA = "metadata."
"""Begins the name of a key of metadata in a query."""


class UsageItem(Value):
    """The usage of one group: of a `model` on a `day`, of either alone, or of the sessions with this value of a key of
    their `metadata`. What the groups are not made by is null."""

    model: str | None = None
    day: str | None = None
    metadata: Any = None
    steps: int
    usage: Usage


class UsageReport(Value):
    total: Usage
    items: tuple[UsageItem, ...]


class NodeView(Value):
    """A node of a cluster. `sessions` are those that it owns, which include those that wait for a person; `slots` is
    how many it runs at the same time, 0 for an API node. A node that is `draining` takes no more sessions; one that is
    `lost` has not been seen for ten seconds, and others continue its sessions."""

    id: str
    name: str
    role: Literal["all", "api", "worker"]
    version: str
    status: Literal["ready", "draining", "lost"]
    sessions: int
    slots: int
    started_at: Timestamp
    seen_at: Timestamp


class NodeList(Value):
    """`waiting` is the number of sessions that wait for a worker."""

    items: tuple[NodeView, ...]
    waiting: int


ComponentStatus = Literal["ok", "full", "locked", "unavailable", "unreachable", "failing"]


class Component(Value):
    """The state of a server component, at most a few seconds old. `ok` is whether `status` is `ok`."""

    ok: bool
    status: ComponentStatus
    detail: str


class Readiness(Value):
    """`ready` means that sessions can be stored and commands can run; `degraded` that some component is not `ok`, maybe
    only a provider, which others can replace."""

    ready: bool
    degraded: bool
    components: dict[str, Component]


class LoginCreate(Value):
    """A login with one of the server's API keys."""

    key: Annotated[
        Text,
        StringConstraints(min_length=1, max_length=MAX_KEY_CHARS),
        Field(
            repr=False,
            description="One of the server's API keys.",
            json_schema_extra={"format": "password", "writeOnly": True},
        ),
    ]


@dataclass(frozen=True, slots=True)
class NewLogin:
    """A new login: its token, and how long it is valid."""

    token: str = field(repr=False)
    lasts: timedelta
