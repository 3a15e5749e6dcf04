"""Replays a long history message by message, as it was made: at each step the policy may compact, round after round.
Needs no model: what the context keeps is looked up in its text, and what it lost is searched for with the tools."""

from __future__ import annotations

from asyncio import sleep
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

from app.agent.changes import Change, OutputsPruned, RoundCompleted, RoundOpening
from app.agent.compaction.compactor import Compactor
from app.agent.compaction.ladder import Ladder, RoundSetup
from app.agent.conversation import Conversation
from app.agent.interrupt import Interrupt
from app.agent.model_calls import ModelCalls
from app.agent.protocols import AgentConfig
from app.agent.record import StoredConversation
from app.context.budget import make_budget
from app.context.policies import CompactionSettings, resolve
from app.context.prompts import SYSTEM_TEMPLATE, render_system
from app.context.tokens import Calibration, estimate_text, estimate_tools
from app.errors import PalimpsestError
from app.llm.base import ModelInfo, Prices
from app.messages import Message, Role, Usage
from app.sessions import Rung
from evals.costs import CacheMeter, TokenPrices
from evals.histories import Fact, Probe, RecordedHistory, plan_of, texts_of
from evals.replay import ENVIRONMENT, RoundNotes, nothing, ready, tools, unchanged
from evals.retention import FactState, Retention
from evals.scoring import found, states
from evals.summarizers import ScriptedSummarizer, Summarizer, text_of

WINDOW_SHARE, SMALLEST_WINDOW = 6, 16_384
"""Without a given window, a history gets a sixth of its own tokens, which takes ten rounds or more."""

PLACES = 5
"""First places of a search, whose full texts are read too."""


class Searcher(Protocol):
    """A history as the tools see it."""

    async def search(self, query: str) -> Sequence[tuple[str, str]]:
        """The places that `history_search` returns, each with its id for `recall` and its line."""
        ...

    async def recall(self, id: str) -> str:
        """What `recall` returns."""
        ...


OpenSearcher = Callable[[Sequence[Message]], AbstractAsyncContextManager[Searcher]]


@dataclass(frozen=True, slots=True)
class GrowthSetup:
    """What to replay, and with what. Without a `window`, each history has its own."""

    histories: Sequence[RecordedHistory]
    policies: Sequence[str]
    summarizers: Sequence[Summarizer]
    window: int | None = None
    prices: TokenPrices = field(default_factory=TokenPrices)
    rows: dict[tuple[str, str, str], Retention] = field(default_factory=dict)
    """The finished rows; filled while `grow` works, so that an aborted evaluation still has results."""

    def places(self) -> list[tuple[str, str, str]]:
        """All rows to fill, as history, policy and summarizer."""
        return [(h.name, p, s) for h in self.histories for p in self.policies for s in self.summarizers]

    def in_order(self) -> list[Retention]:
        return [self.rows[place] for place in self.places() if place in self.rows]


Progress = Callable[[str, str, str, str], None]
"""Called with the history, the policy, the summarizer and a description of the progress."""


async def grow(setup: GrowthSetup, searcher: OpenSearcher, progress: Progress) -> None:
    """Fills the setup's rows."""
    for history in setup.histories:
        messages = history.conversation()
        async with searcher(messages) as open_searcher:
            search = _Search(open_searcher)
            for policy in setup.policies:
                for summarizer in setup.summarizers:
                    place = (history.name, policy, summarizer)
                    replay = _Growth(history, messages, resolve(policy), summarizer, setup)
                    try:
                        await replay.run(partial(progress, *place))
                        row = await replay.row(policy, search)
                    except PalimpsestError as error:
                        row = replay.failed(policy, f"{error.detail} ({error.code})")
                    setup.rows[place] = row
                    progress(*place, row.error or "done")


class Found(NamedTuple):
    """What the tools find for a question: the first places of a search, all of them, and what `recall` adds."""

    first: str
    shown: str
    whole: str


class _Search:
    """Searches once for each question: what it finds does not depend on the policy."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher
        self._found: dict[str, Found] = {}

    async def found(self, question: str) -> Found:
        if question not in self._found:
            places = await self._searcher.search(question)
            whole = [await self._searcher.recall(id) for id, _ in places[:PLACES]]
            lines = [line for _, line in places]
            self._found[question] = Found("\n".join(lines[:PLACES]), "\n".join(lines), "\n".join(whole))
        return self._found[question]


class _Growth:
    """One history under one policy with one summarizer."""

    def __init__(
        self,
        history: RecordedHistory,
        messages: Sequence[Message],
        settings: CompactionSettings,
        summarizer: Summarizer,
        setup: GrowthSetup,
    ) -> None:
        self._history = history
        self._messages = messages
        self._summarizer = summarizer
        self._prices = setup.prices
        self._facts = [(probe, fact) for probe in history.probes for fact in probe.facts]
        self.window = setup.window or window_of(messages)
        # A summary that is prepared in the background depends on timing, and is measured by other tests.
        settings = settings.model_copy(update={"background": False})
        self._meter, self._full = CacheMeter(), _FullContext()
        provider = ScriptedSummarizer(summarizer, [fact for _, fact in self._facts], self._meter)
        calls = ModelCalls(lambda model: (provider, model), lambda *_: 0.0, 1)
        self._config = AgentConfig(
            _MODEL,
            tools(),
            render_system(SYSTEM_TEMPLATE, ENVIRONMENT, history.system_prompt),
            make_budget(_model(self.window), settings),
            settings=settings,
        )
        self._conversation = Conversation(StoredConversation([]), [], Calibration())
        self._notes = _Rounds()
        ladder = Ladder(self._notes, self._conversation, calls, lambda _: self.window)
        self._compactor = Compactor(RoundSetup(self._notes, self._conversation, ladder, Interrupt(), unchanged))
        self._told: set[int] = set()
        self._kept: list[list[bool]] = [[] for _ in self._facts]
        self._steps = self._peak = 0

    async def run(self, tell: Callable[[str], None]) -> None:
        """Adds the messages one by one; before each answer of the model stands a step, which may compact."""
        fixed = estimate_text(self._config.system) + estimate_tools(self._config.tools)
        self._full.add(fixed)
        for message in self._messages:
            if message.role is Role.ASSISTANT:
                await self._step(message, tell)
            history = self._conversation.history
            self._conversation.append(message.model_copy(update={"seq": history[-1].seq + 1 if history else 1}))
            self._full.add(message.tokens)
            self._learn(message)
            if any(call.name == "update_plan" for call in message.tool_calls):
                self._conversation.plan = tuple(plan_of([message]))
        await self._settle()

    async def _step(self, answer: Message, tell: Callable[[str], None]) -> None:
        # A replay waits for nothing: without this it could not be interrupted.
        await sleep(0)
        self._steps += 1
        await self._settle()
        before = len(self._notes.rungs)
        await self._compactor.make_room(self._config, self._steps, nothing)
        await self._settle()
        if len(self._notes.rungs) > before:
            self._look()
            tell(f"step {self._steps}, {len(self._notes.rungs)} rounds")
        self._peak = max(self._peak, self._conversation.estimate)
        self._meter.call(self._conversation.request(self._config), answer.tokens)
        self._full.step(answer.tokens)

    async def _settle(self) -> None:
        await self._conversation.refresh(self._config)
        await self._conversation.settle()

    def _learn(self, message: Message) -> None:
        """Notes which facts have been told so far: only those can be kept."""
        text = "\n".join(texts_of(message))
        self._told.update(self._stated(text, [n for n in range(len(self._facts)) if n not in self._told]))

    def _look(self) -> None:
        """Notes after a round which of the facts told so far are in the context."""
        text = text_of(self._conversation.request(self._config))
        stated = self._stated(text, self._told)
        for number in self._told:
            self._kept[number].append(number in stated)

    def _stated(self, text: str, numbers: Iterable[int]) -> set[int]:
        """Those of the facts that the text states."""
        asked = [*numbers]
        stated = found(text, [self._facts[number][1] for number in asked])
        return {number for number, is_stated in zip(asked, stated, strict=True) if is_stated}

    async def row(self, policy: str, search: _Search) -> Retention:
        text = text_of(self._conversation.request(self._config))
        facts = [
            fact_state(probe, fact, text, await search.found(probe.question), kept)
            for (probe, fact), kept in zip(self._facts, self._kept, strict=True)
        ]
        return self._row(policy).model_copy(update={"facts": tuple(facts)})

    def failed(self, policy: str, error: str) -> Retention:
        """The row of a replay that an error ended."""
        return self._row(policy).model_copy(update={"error": error})

    def _row(self, policy: str) -> Retention:
        usage, summaries = self._meter.usage, self._meter.summaries
        return Retention(
            history=self._history.name,
            policy=policy,
            summarizer=self._summarizer,
            window=self.window,
            steps=self._steps,
            rungs=dict(Counter(self._notes.rungs)),
            tokens=self._conversation.estimate,
            peak=self._peak,
            usage=usage,
            summaries=summaries,
            cost_usd=self._prices.dollars(usage),
            uncompacted_usd=self._prices.dollars(self._full.usage),
            new_tokens=self._full.usage.input_tokens,
        )


class _Rounds(RoundNotes):
    """What all rounds of a replay record: the number of each, and what made the context smaller."""

    def __init__(self) -> None:
        super().__init__()
        self.rungs: list[Rung] = []
        self._opened = 0

    def record(self, *changes: Change) -> Awaitable[int]:
        for change in changes:
            match change:
                case RoundCompleted(rung=rung):
                    self.rungs.append(rung)
                case OutputsPruned(with_round=False):
                    self.rungs.append("prune")
        return super().record(*changes)

    def open_round(self, opening: RoundOpening) -> Awaitable[int]:
        self._opened += 1
        return ready(self._opened)


def fact_state(probe: Probe, fact: Fact, context: str, found: Found, kept: Sequence[bool]) -> FactState:
    """What became of a fact in a context's text; `kept` says for each round whether the fact was in the context."""
    in_context = states(context, fact)
    return FactState(
        kind=probe.kind,
        question=probe.question,
        fact=fact,
        in_context=in_context,
        searched=states(found.first, fact),
        found=states(found.shown, fact) or states(found.whole, fact),
        misleading=not in_context and any(states(context, old) for old in probe.outdated),
        over_rounds=sum(kept) / len(kept) if kept else float(in_context),
    )


class _FullContext:
    """What the same steps would read if nothing was ever compacted, in a window without limit."""

    def __init__(self) -> None:
        self.usage = Usage()
        self._known = self._new = 0

    def add(self, tokens: int) -> None:
        self._new += tokens

    def step(self, written: int) -> None:
        self.usage = self.usage + Usage(input_tokens=self._new, cache_read_tokens=self._known, output_tokens=written)
        self._known, self._new = self._known + self._new, 0


_MODEL = "none/summarizer"


def _model(window: int) -> ModelInfo:
    unknown = Prices(input=None, output=None, cache_read=None, cache_write=None)
    return ModelInfo(_MODEL, "none", window, "setting", None, unknown, True)


def window_of(messages: Sequence[Message]) -> int:
    """The window for a history of these messages."""
    return max(SMALLEST_WINDOW, sum(message.tokens for message in messages) // WINDOW_SHARE)
