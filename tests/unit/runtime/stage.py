"""One session on a real database, the changes of its steps, and a setup to run it with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import orjson
from sqlalchemy import Connection, Row

from app.agent.changes import (
    AttemptVoided,
    Change,
    GenerationOpened,
    PartClosed,
    ResponseClosed,
    ResultClosed,
    StepClosed,
    StepOpened,
)
from app.agent.model_calls import ModelCalls
from app.agent.protocols import Collector
from app.context.prompts import SYSTEM_TEMPLATE, Generation
from app.context.tokens import PER_MESSAGE, estimate_part, estimate_text
from app.db.engine import Database
from app.db.repositories import messages, queue, sessions
from app.db.repositories.parts import Unfinished, put_unfinished
from app.eventlog.bus import Bus
from app.eventlog.log import EventLog, StreamItem
from app.llm.base import Provider, ToolSchema
from app.llm.catalog import Catalog
from app.llm.registry import ProviderConfig, Providers
from app.messages import (
    CompactionMarkerPart,
    FinishReason,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolStatus,
    Usage,
    new_id,
    now,
)
from app.runtime.agents import AgentSetup
from app.runtime.learned_models import LearnedWindows
from app.runtime.sandboxes.policy import SandboxPolicy
from app.runtime.sandboxes.pool import Sandboxes
from app.runtime.setup import RuntimeSetup
from app.runtime.transactions import queue as inbox
from app.runtime.transactions.changes import commit_changes
from app.runtime.values.queue import QueueAdd
from app.sandbox.base import SandboxFactory, SandboxLimits, Stream
from app.sessions import ContextState, Network, QueueMode
from app.tools.output import OutputLimit
from app.tools.registry import ToolRegistry, default_tools

T = TypeVar("T")
Transaction = Callable[[Connection], tuple[T, list[StreamItem]]]

GENERATION = Generation(new_id(), 1, "scripted/demo", "system", (ToolSchema("run", "Runs.", {}),), 1)
CONTEXT = ContextState(tokens=7, limit=100, usable=90)
USAGE = Usage(input_tokens=10, cache_read_tokens=2, output_tokens=5, cost_usd=0.25)


class Logged(NamedTuple):
    """A stored event."""

    seq: int
    type: str
    data: dict[str, Any]


def logged(items: Sequence[StreamItem]) -> list[Logged]:
    return [Logged(item.seq or 0, item.type, orjson.loads(item.data)) for item in items]


class Stage:
    """A session, with helpers to write and read it."""

    def __init__(self, database: Database, session_id: str, path: Path) -> None:
        self.database, self.session_id, self.path = database, session_id, path
        self.observers: list[Callable[[Sequence[StreamItem]], None]] = []
        self.bus = Bus(self._observe)

    def _observe(self, items: Sequence[StreamItem]) -> None:
        for observe in self.observers:
            observe(items)

    async def act(self, work: Transaction[T]) -> T:
        """Commits a write and publishes its events, as the service does."""
        value, _ = await self.database.writer.write(
            work, lambda result: self.bus.publish(self.session_id, result[1]), session_id=self.session_id
        )
        return value

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Commits a write to the session without events."""
        return await self.database.writer.write(work, session_id=self.session_id)

    async def claim(self) -> int:
        """Takes the session over; returns the new owner's epoch."""
        row = await self.write(lambda c: sessions.claim(c, self.session_id))
        assert row is not None
        return int(row.epoch)

    async def change(self, **fields: Any) -> None:
        await self.write(lambda c: sessions.change(c, self.session_id, **fields))

    async def commit(self, *changes: Change) -> int:
        """Commits changes as the session's owner does."""
        return await self.act(
            lambda c: commit_changes(c, self.session_id, sessions.row(c, self.session_id).epoch, changes)
        )

    async def write_open(self, message_id: str, *parts: Part) -> None:
        """Stores open parts."""
        epoch = await self.write(lambda c: sessions.row(c, self.session_id).epoch)
        written = [Unfinished(self.session_id, epoch, message_id, part) for part in parts]
        await self.write(lambda c: put_unfinished(c, written))

    async def post(self, content: str, mode: QueueMode = QueueMode.STEER, id: str | None = None) -> str:
        """Queues a message; returns its id."""
        body = QueueAdd(content=content, mode=mode, id=id)
        receipt, *_ = await self.act(lambda c: inbox.enqueue(c, self.session_id, body, limit=100))
        return receipt.id

    async def row(self) -> Row[Any]:
        return await self.database.read(lambda c: sessions.row(c, self.session_id))

    async def log(self, after: int = 0) -> list[Logged]:
        return logged(await EventLog(self.database).after(self.session_id, after, limit=10_000))

    async def types(self, after: int = 0) -> list[str]:
        return [event.type for event in await self.log(after)]

    async def history(self) -> list[Message]:
        return await self.database.read(lambda c: messages.history(c, self.session_id))

    async def pending(self) -> list[str]:
        """The contents of the queue, in delivery order."""
        return [row.content for row in await self.database.read(lambda c: queue.pending(c, self.session_id))]


@dataclass(frozen=True)
class Attempt:
    """One attempt at a step, and its possible changes."""

    step: int = 1
    number: int = 1
    usage: Usage = USAGE
    message_id: str = field(default_factory=new_id)
    context: ContextState = CONTEXT

    @property
    def opened(self) -> StepOpened:
        return StepOpened(self.step, self.number, self.message_id, "scripted/demo", 1, self.context)

    def wrote(self, *parts: TextPart | ReasoningPart | ToolCallPart) -> list[PartClosed]:
        return [PartClosed(self.message_id, part) for part in parts]

    def answered(self, reason: FinishReason = FinishReason.STOP, tokens: int = 9) -> ResponseClosed:
        return ResponseClosed(self.step, self.number, self.message_id, reason, self.usage, tokens)

    def voided(self) -> AttemptVoided:
        return AttemptVoided(self.step, self.number, self.message_id, self.usage, 10, "overloaded", "Overloaded")

    def closed(self, reason: FinishReason = FinishReason.STOP) -> StepClosed:
        return StepClosed(
            self.step, self.number, self.message_id, "scripted/demo", reason, self.usage, self.context, duration_ms=5
        )

    def whole(self, text: str = "done") -> list[Change]:
        """A step with a final answer, from its start to its end."""
        return [self.opened, *self.wrote(text_part(text)), self.answered(), self.closed()]


def text_part(text: str, index: int = 0) -> TextPart:
    return TextPart(id=new_id(), index=index, text=text, tokens=estimate_text(text))


def call_part(index: int = 0, name: str = "run") -> ToolCallPart:
    part = ToolCallPart(id=new_id(), index=index, call_id=new_id(), name=name, arguments_text='{"a": 1}')
    return part.model_copy(update={"tokens": estimate_part(part)})


def result_of(call: ToolCallPart, message_id: str, index: int = 0, output: str = "out", **fields: Any) -> ResultClosed:
    part = ToolResultPart(
        id=new_id(),
        index=index,
        call_id=call.call_id,
        name=call.name,
        output=output,
        status=ToolStatus.COMPLETED,
        tokens=3,
        **fields,
    )
    return ResultClosed(message_id, part)


def message_tokens(*parts: Part) -> int:
    return PER_MESSAGE + sum(part.tokens for part in parts)


def summary_of(round: int) -> Message:
    text = text_part("What happened.")
    marker = CompactionMarkerPart(id=new_id(), index=1, round=round)
    return Message(
        id=new_id(),
        seq=0,
        role=Role.USER,
        parts=(text, marker),
        tokens=message_tokens(text),
        model="scripted/demo",
        is_summary=True,
        created_at=now(),
    )


GENERATION_OPENED = GenerationOpened(GENERATION)


def make_sandboxes(
    *factories: SandboxFactory,
    network: Network | None = None,
    idle_s: float = 60,
    wait_s: float = 10,
    most: int = 100,
    expected: Sequence[str] = (),
) -> Sandboxes:
    policy = SandboxPolicy(
        "image", network, SandboxLimits(memory_mb=1024, cpus=2.0, pids=128), idle_s, wait_s=wait_s, most=most
    )
    return Sandboxes({factory.kind: factory for factory in factories}, policy, expected)


def make_setup(stage: Stage, sandboxes: Sandboxes, model: Provider | None = None) -> RuntimeSetup:
    """The setup that owners share. `model` is used for every model; without it there are the demo, and OpenAI without a
    key."""
    providers = Providers(
        [ProviderConfig("scripted", "scripted"), ProviderConfig("openai", "openai", "http://127.0.0.1:1/v1")], Catalog()
    )
    agents = AgentSetup(
        models=ModelCalls(
            providers.resolve if model is None else lambda name: (model, name), lambda *_: 0.0, max_attempts=1
        ),
        model_info=providers.info,
        ask_window=providers.ask_window,
        registry=ToolRegistry(default_tools()),
        template=SYSTEM_TEMPLATE,
        command_timeout_s=10,
        max_command_timeout_s=60,
        output_chars=1000,
        windows=LearnedWindows(stage.database, lambda model: model, providers.info),
    )
    return RuntimeSetup(stage.database, stage.bus, sandboxes, agents, _no_call)


def _no_call(session_id: str, call_id: str, live: Callable[[Stream, str, int], None], limit: OutputLimit) -> Collector:
    raise AssertionError("no tool is called in these tests")
