"""The environment of a step: a scripted provider, tools that act, a conversation, a message source."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, cast

from app.agent.changes import Change
from app.agent.compaction.compactor import Compactor
from app.agent.compaction.ladder import Ladder, RoundSetup
from app.agent.compaction.triggers import ManualRound
from app.agent.conversation import Conversation
from app.agent.interrupt import Interrupt
from app.agent.limits import Progress, RunRules
from app.agent.loop import AgentLoop, RunResult, RunStart
from app.agent.model_calls import ModelCalls
from app.agent.protocols import AgentConfig
from app.agent.record import StoredConversation
from app.agent.step import Step, StepResult
from app.agent.tool_executor import ToolExecutor, ToolSetup
from app.context.budget import Budget
from app.context.tokens import Calibration, counted_tokens
from app.errors import ProviderError
from app.llm.base import (
    BlockEnd,
    Finish,
    ModelRequest,
    Provider,
    StopReason,
    StreamEvent,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallStart,
    UsageReport,
)
from app.messages import Message, Role, TextPart, ToolCallPart, Usage, new_id, now
from app.sandbox.base import Sandbox, Stream
from app.sessions import Limits, PlanItem
from app.tools.base import Arguments, ToolContext, ToolOutcome
from app.tools.output import OutputLimit
from app.tools.registry import ToolRegistry
from tests.unit.agent.sinks import KeptSink

MODEL = "acme/one"
BUDGET = Budget(limit=100_000, output_reserve=8_000, safety_buffer=2_000, usable=90_000, source="catalog")


class Mark(Enum):
    """Points in a reply where the model does something other than write."""

    HANGS = "hangs"
    """Signals that it was reached, and writes no more until it is cancelled."""
    DEAF = "deaf"
    """Like `HANGS`, but loses the first cancellation, as an HTTP client may while it connects."""


Reply = Sequence[StreamEvent | Exception | Mark | Callable[[], object]]
"""What the model does in one call. An exception is raised and a function called when it is reached: something that
happens elsewhere meanwhile."""


class Script:
    """A provider that plays its replies in turn and keeps the requests that it got."""

    name = "acme"

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[ModelRequest] = []
        self.sent: list[list[Message]] = []
        self.reached = asyncio.Event()
        self.open = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        self.requests.append(request)
        self.sent.append(list(request.messages))
        assert self.replies, "the script has a reply for each call"
        self.open += 1
        try:
            for item in self.replies.pop(0):
                await asyncio.sleep(0)
                if isinstance(item, Exception):
                    raise item
                if isinstance(item, Mark):
                    await self._hang(item)
                elif callable(item):
                    item()
                else:
                    yield item
        finally:
            self.open -= 1

    async def _hang(self, mark: Mark) -> None:
        self.reached.set()
        if mark is Mark.DEAF:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        await asyncio.Event().wait()

    async def aclose(self) -> None: ...


def usage(read: int = 100, wrote: int = 10, cost_usd: float | None = None, **tokens: int) -> UsageReport:
    return UsageReport(Usage(input_tokens=read, output_tokens=wrote, cost_usd=cost_usd, **tokens))


def text(value: str = "Well.", block: int = 0) -> list[StreamEvent]:
    return [TextDelta(block, value), BlockEnd(block)]


def call(name: str, block: int = 1, arguments: str = "{}") -> list[StreamEvent]:
    return [ToolCallStart(block, name), ToolArgumentsDelta(block, arguments), BlockEnd(block)]


def says(value: str = "Well.", report: UsageReport | None = None, finish: StopReason = "stop") -> Reply:
    """A reply of only text."""
    return [*text(value), report or usage(), Finish(finish)]


def calls(*names: str, report: UsageReport | None = None, finish: StopReason = "tool_calls") -> Reply:
    """A reply of only calls."""
    asked = [event for block, name in enumerate(names) for event in call(name, block)]
    return [*asked, report or usage(), Finish(finish)]


def call_part(name: str = "act", arguments: str = "{}") -> ToolCallPart:
    """A complete call, as it is stored."""
    return ToolCallPart(id=new_id(), index=0, call_id=new_id(), name=name, arguments_text=arguments)


def code_of(result: StepResult | RunResult) -> str | None:
    return result.error["code"] if result.error is not None else None


def passing(detail: str = "Busy.", *, after_s: float = 0.0) -> ProviderError:
    """A transient error."""
    return ProviderError(detail, code="provider_overloaded", retryable=True, retry_after=after_s)


def price(model: str, used: Usage) -> float | None:
    """A dollar per thousand tokens in, two per thousand out."""
    return (used.prompt_tokens + 2 * used.output_tokens) / 1000 if model == MODEL else None


def user(value: str = "Please.", seq: int = 0) -> Message:
    part = TextPart(id=new_id(), index=0, text=value)
    bare = Message(id=new_id(), seq=seq, role=Role.USER, parts=(part,), created_at=now())
    return bare.model_copy(update={"tokens": counted_tokens(bare)})


SYSTEM = "You are an agent."


def config(model: str = MODEL, **changes: Any) -> AgentConfig:
    values: dict[str, Any] = {"tools": (), "system": SYSTEM, "budget": BUDGET, "temperature": 0.5}
    return AgentConfig(model=model, **{**values, **changes})


def conversation(*history: Message) -> Conversation:
    return Conversation(StoredConversation(history or [user()]), (), Calibration(1.0))


async def turns() -> None:
    """Lets everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


class Nothing(Arguments):
    pass


class Acting:
    """A tool that does one thing; safe to run in parallel unless stated otherwise."""

    description: ClassVar[str] = "Acts."
    arguments: type[Arguments] = Nothing

    def __init__(self, name: str, act: Callable[[ToolContext], Any], *, safe: bool = True) -> None:
        self.name, self.parallel_safe, self._act = name, safe, act

    async def run(self, args: Arguments, context: ToolContext) -> ToolOutcome:
        outcome = await self._act(context)
        return outcome if isinstance(outcome, ToolOutcome) else ToolOutcome()


@dataclass
class Output:
    """A collector without a limit; `storing` is awaited before the output is complete, like a store."""

    text: str = ""
    truncated: bool = False
    ref: str | None = None
    storing: Callable[[], Any] | None = None
    live: Callable[[Stream, str, int], None] = lambda *_: None

    @property
    def bytes(self) -> int:
        return len(self.text.encode())

    def as_terminal(self) -> None: ...

    def write(self, stream: Stream, data: bytes) -> None:  # type: ignore[valid-type]
        shown = data.decode()  # type: ignore[attr-defined]
        self.live(stream, shown, len(self.text))
        self.text += shown

    async def finish(self, note: str = "") -> Output:
        if self.storing is not None:
            await self.storing()
        self.text += note
        return self


@dataclass
class Scene:
    """A session running a script; what happens is recorded in `sink`. The tools are `good`, which writes `done`,
    `wrong`, which crashes, and `hangs` and `hangs_alone`, which set `begun` and do not end."""

    script: Script
    conversation: Conversation = field(default_factory=conversation)
    sink: KeptSink = field(default_factory=KeptSink)
    interrupt: Interrupt = field(default_factory=Interrupt)
    max_attempts: int = 3
    cost_usd: Callable[[str, Usage], float | None] = price
    resolve: Callable[[str], tuple[Provider, str]] | None = None
    collector: Callable[[], Output] = Output
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    def rng_again(self) -> random.Random:
        """The generator of the retries, from its start."""
        return random.Random(7)

    def step(self) -> Step:
        resolve = self.resolve or (lambda _: (self.script, "one-2026"))
        models = ModelCalls(resolve, self.cost_usd, self.max_attempts, self.rng_again())
        return Step(self.sink, self.conversation, models, self._tools(), self.interrupt)

    def compactor(self) -> Compactor:
        """A compactor that never has to act in windows of this size."""

        models = ModelCalls(self.resolve or (lambda _: (self.script, "one-2026")), self.cost_usd, self.max_attempts)
        ladder = Ladder(self.sink, self.conversation, models, lambda _: 128_000)
        return Compactor(RoundSetup(self.sink, self.conversation, ladder, self.interrupt, unchanged))

    async def run(self, number: int = 1, settings: AgentConfig | None = None) -> StepResult:
        """One step, its generation begun as in the loop."""
        settings = settings or config()
        opened = await self.conversation.refresh(settings)
        return await self.step().run(number, settings, [opened] if opened is not None else [])

    async def run_until(self, reached: asyncio.Event, do: Callable[[], None]) -> StepResult:
        """One step; calls `do` once `reached` is set."""
        running = asyncio.create_task(self.run())
        async with asyncio.timeout(60):
            await reached.wait()
            do()
            return await running

    async def run_until_recorded(self, kind: type[Change], do: Callable[[], None]) -> StepResult:
        """One step; calls `do` once a change of this kind is recorded."""
        running = asyncio.create_task(self.run())
        async with asyncio.timeout(60):
            await self.sink.until(kind)
            do()
            return await running

    def _tools(self) -> ToolExecutor:
        async def good(context: ToolContext) -> None:
            context.output.write("stdout", b"done")

        async def wrong(_: ToolContext) -> None:
            raise RuntimeError("secret")

        async def hangs(context: ToolContext) -> None:
            context.output.write("stdout", b"half")
            self.begun.set()
            await asyncio.Event().wait()

        tools: list[Any] = [Acting("good", good), Acting("wrong", wrong), Acting("hangs", hangs)]
        return executor([*tools, Acting("hangs_alone", hangs, safe=False)], self.sink, self.interrupt, self.collector)


def executor(
    tools: Sequence[Any],
    sink: KeptSink,
    interrupt: Interrupt,
    collector: Callable[[], Output] = Output,
    *,
    allowed: Callable[[], Sequence[str] | None] = lambda: None,
    set_plan: Callable[[tuple[PlanItem, ...]], Any] | None = None,
    sandbox: Callable[[], Any] | None = None,
) -> ToolExecutor:
    async def nothing(_: object) -> None: ...

    async def empty() -> Sandbox:
        return cast(Sandbox, object())

    setup = ToolSetup(
        lambda: ToolRegistry(tools),
        sandbox or empty,
        lambda _, live, limit: _shown(collector(), live),
        60,
        600,
        lambda _: LIMIT,
    )
    return ToolExecutor(setup, sink, allowed=allowed, set_plan=set_plan or nothing, interrupt=interrupt)


LIMIT = OutputLimit(30_000)


def _shown(output: Output, live: Callable[[Stream, str, int], None]) -> Output:
    output.live = live
    return output


@dataclass
class Post:
    """A message source: `send` adds messages, which `deliver` returns all at once, after those up to seq `after`."""

    sink: KeptSink
    pending: list[Message] = field(default_factory=list)
    looked: int = 0
    after: int = 0

    def send(self, *values: str) -> None:
        self.pending += [user(value) for value in values]

    @property
    def waiting(self) -> bool:
        return bool(self.pending)

    async def deliver(self) -> Sequence[Message]:
        self.looked += 1
        given, self.pending = self.pending, []
        seq = self.after + len(self.sink.changes)
        return [message.model_copy(update={"seq": seq}) for message in given]


async def unchanged(settings: AgentConfig) -> AgentConfig:
    """There are no notes."""
    return settings


@dataclass
class SteadySession:
    """A session with nothing to prepare. By default, no manual round was requested."""

    config: Callable[[], AgentConfig]
    limits: Callable[[], Limits]
    requested: Callable[[], Awaitable[ManualRound | None]] | None

    async def prepare(self, conversation: Conversation) -> None:
        """Everything is known."""

    async def before_end(self) -> None:
        """Nobody else changes it."""

    async def manual_round(self, conversation: Conversation) -> ManualRound | None:
        return None if self.requested is None else await self.requested()


def loop_of(
    scene: Scene,
    post: Post,
    *,
    limits: Callable[[], Limits] = Limits,
    settings: Callable[[], AgentConfig] = config,
    progress: Progress | None = None,
    continues: bool = True,
    elapsed_s: float = 0.0,
    last_step_s: float = 0.0,
    manual_round: Callable[[], Awaitable[ManualRound | None]] | None = None,
) -> AgentLoop:
    return AgentLoop(
        scene.sink,
        SteadySession(settings, limits, manual_round),
        post,
        scene.conversation,
        scene.step(),
        scene.interrupt,
        scene.compactor(),
        RunStart(progress or Progress(0, 0, Usage(), 0.0), continues, elapsed_s),
        RunRules(last_step_s),
    )
