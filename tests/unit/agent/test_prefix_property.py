"""Random whole sessions, as bytes on the wire: within a generation each request begins with the previous one, and no
thinking block is ever sent after anything but what it was issued after. PALIMPSEST_TEST_LONG=1 takes 10,000 examples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.agent.conversation import Conversation
from app.agent.protocols import AgentConfig
from app.agent.record import StoredConversation
from app.context.checkpoints import Checkpoint, InForce
from app.context.policies import POLICIES, resolve
from app.context.selection import select
from app.context.tokens import Calibration
from app.llm.anthropic import encode_body as encode_anthropic
from app.llm.anthropic import thinking_parameters
from app.llm.base import ModelRequest, ToolSchema
from app.llm.openai_responses import encode_body as encode_responses
from app.llm.openai_wire import PLAIN, WireForm
from app.llm.openai_wire import encode_body as encode_openai
from app.messages import Message, Part, Role
from tests.load import LONG
from tests.provider.anthropic.binding import Prefix, judge, unmarked
from tests.provider.responses.rules import check as check_responses
from tests.provider.settings import Settings
from tests.provider.thinking import SealBook
from tests.unit.agent.changes import now
from tests.unit.context import builders

EXAMPLES = 10_000 if LONG else 100  # four times the default: most operations need others before them
MODELS = ("acme/claude-opus-5-5", "acme/claude-fable-5-1")
TOOLS = tuple(ToolSchema(name, "does it", {"type": "object"}) for name in ("one", "two"))
BUDGET = builders.budget_of(2_000, limit=3_000)

Encode = Callable[[ModelRequest, bool], dict[str, Any]]


def _anthropic(request: ModelRequest, echo: bool) -> dict[str, Any]:
    parameters = thinking_parameters(request, 8_000) | {"max_tokens": 8_000}
    body: dict[str, Any] = orjson.loads(encode_anthropic(request, parameters, "acme"))
    return body


def _openai(request: ModelRequest, echo: bool) -> dict[str, Any]:
    form = WireForm(reasoning_field="reasoning_content") if echo else PLAIN
    body: dict[str, Any] = orjson.loads(encode_openai(request, {}, form))
    return body


def _responses(request: ModelRequest, echo: bool) -> dict[str, Any]:
    body: dict[str, Any] = orjson.loads(encode_responses(request, {}, "acme"))
    return body


@dataclass(frozen=True)
class Format:
    """`encode` also gets whether plain reasoning is echoed; `can_echo` says that a server may ask for that. With
    `reasons_in_items` models reason in items of the Responses API, which are not bound to a prefix."""

    encode: Encode
    can_echo: bool = False
    reasons_in_items: bool = False


FORMATS = {
    "anthropic": Format(_anthropic),
    "openai": Format(_openai),
    "openai-echo": Format(_openai, can_echo=True),
    "responses": Format(_responses, reasons_in_items=True),
}


def flat(body: dict[str, Any]) -> list[bytes]:
    """The request as a sequence of content blocks, without cache breakpoints: what a provider's cache compares."""
    row = [orjson.dumps([key, unmarked(body.get(key))]) for key in ("system", "instructions", "tools")]
    if "input" in body:
        return row + [orjson.dumps(item) for item in body["input"]]
    for message in body["messages"]:
        content = message.get("content")
        blocks = content if isinstance(content, list) else [message]
        row += [orjson.dumps([message["role"], unmarked(block)]) for block in blocks]
    return row


KINDS = ("thinking", "text", "blank", "call", "redacted", "unsigned")
answers = st.lists(st.sampled_from(KINDS), min_size=1, max_size=5)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("step"), answers, st.sampled_from(["whole", "whole", "whole", "interrupted", "voided"])),
        st.tuples(st.sampled_from(["user", "control", "prune", "revert", "reload", "settle", "echo"])),
        st.tuples(st.just("compact"), st.sampled_from(sorted(POLICIES))),
        st.tuples(st.sampled_from(["model", "tools", "system"]), st.integers(0, 1)),
    ),
    min_size=3,
    max_size=25,
)
imports = st.lists(st.tuples(answers, st.sampled_from([*MODELS, None]), st.booleans()), max_size=3)
"""Answers of an import or a fork: their parts, their model, and whether a user's message follows."""


@dataclass
class World:
    """A session and its provider, which remembers what each block was issued after."""

    format: Format
    conversation: Conversation = field(default_factory=lambda: _conversation([]))
    echo: bool = False
    choices: dict[str, int] = field(default_factory=lambda: {"model": 0, "tools": 0, "system": 0})
    book: SealBook = field(default_factory=SealBook)
    seq: int = 1
    made: int = 0
    rounds: int = 0
    last: tuple[str, list[bytes]] | None = None
    stack: list[InForce] = field(default_factory=list)

    @property
    def config(self) -> AgentConfig:
        model, tools, system = (self.choices[name] for name in ("model", "tools", "system"))
        return AgentConfig(
            MODELS[model],
            TOOLS[: tools + 1],
            f"You are agent {system}.",
            BUDGET,
            binds_thinking=not self.format.reasons_in_items,
            echoes_reasoning=self.echo,
        )

    def add(self, role: Role, *parts: Part, **fields: Any) -> Message:
        self.seq += 1
        message = builders.message(role, self.seq, *parts, **fields)
        self.conversation.append(message)
        return message

    def request(self) -> dict[str, Any]:
        """The next request, after everything that a step does before it; checked against what was sent and issued
        before."""
        now(self.conversation.refresh(self.config))
        last = self.conversation.last
        if last is None or last.role is Role.ASSISTANT:
            self.add(Role.CONTROL, builders.text("[go on]"))
        now(self.conversation.settle())
        request = self.conversation.request(self.config)
        named = ModelRequest(**{**_fields(request), "model": _bare(request.model)})
        body = self.format.encode(named, self.echo)
        row, number = flat(body), self.conversation.generation.id
        if self.last is not None and self.last[0] == number:
            assert row[: len(self.last[1])] == self.last[1]
        self.last = (number, row)
        assert judge(body, self.book)[1] == []
        if self.format.reasons_in_items:
            check_responses(body, {}, Settings(), self.book)
        return body

    def bring_in(self, imported: Sequence[tuple[Sequence[str], str | None, bool]]) -> None:
        """Adds a history from before the first generation, whose blocks were issued in another conversation."""
        for kinds, model, asks in imported:
            self._answer(self._parts(kinds, Prefix({}), model or MODELS[0]), model)
            if asks:
                self.add(Role.USER, builders.text("and then"))
        self.conversation = _conversation(self.conversation.history)

    def step(self, kinds: Sequence[str], end: str) -> None:
        standing, _ = judge(self.request(), self.book)
        parts = self._parts(kinds, standing, self.config.model)
        if end == "interrupted":
            parts[-1] = parts[-1].model_copy(update={"interrupted": True, **_unsigned(parts[-1])})
        if end == "voided":
            self.seq += 1
            return
        self._answer(parts, self.config.model)

    def _answer(self, parts: Sequence[Part], model: str | None) -> None:
        answer = self.add(Role.ASSISTANT, *parts, model=model)
        if answer.tool_calls:
            self.add(Role.TOOL, *(builders.result(call.call_id, "x" * 900) for call in answer.tool_calls))

    def _parts(self, kinds: Sequence[str], standing: Prefix, model: str) -> list[Part]:
        self.made += 1
        return [self._part(kind, f"{self.made}.{number}", standing, model) for number, kind in enumerate(kinds)]

    def _item(self, name: str, model: str, *, redacted: bool) -> Part:
        """Reasoning as the Responses API issues it; `redacted` is without a summary."""
        text = "" if redacted else name
        item_id = f"rs_{name}"
        seal = self.book.issue(_bare(model), item_id, text)
        summary = [] if redacted else [{"type": "summary_text", "text": text}]
        item = {"type": "reasoning", "id": item_id, "summary": summary, "encrypted_content": seal}
        return builders.reasoning(text, data=item)

    def _part(self, kind: str, name: str, standing: Prefix, model: str) -> Part:
        match kind:
            case "thinking" | "redacted" if self.format.reasons_in_items:
                return self._item(name, model, redacted=kind == "redacted")
            case "thinking" | "redacted":
                redacted = kind == "redacted"
                seal = self.book.issue("m", name, name, redacted=redacted, prefix=standing.digest)
                shown = {"type": "redacted_thinking", "data": seal}
                data = shown if redacted else {"type": "thinking", "thinking": name, "signature": seal}
                standing.add("assistant", data)
                return builders.reasoning("" if redacted else name, data=data)
            case "unsigned":
                standing.add("assistant", {"type": "thinking", "thinking": name, "signature": ""})
                return builders.reasoning(name)
            case "call":
                standing.add("assistant", {"type": "tool_use", "id": f"theirs-{name}", "name": "one", "input": {}})
                return builders.call(f"ours-{name}", "one", "{}")
        text = " " if kind == "blank" else f"text {name}"
        standing.add("assistant", {"type": "text", "text": text})
        return builders.text(text)

    def compact(self, policy: str) -> None:
        conversation = self.conversation
        if not conversation.has_generation or not conversation.history:
            return
        in_force = conversation.in_force
        chosen = resolve(policy)
        model = conversation.generation.model
        found = select(
            conversation.rows, in_force.checkpoints, chosen, BUDGET, model, pruned=in_force.pruned, urgent=True
        )
        if found is None:
            return
        self.rounds += 1
        role = Role.ASSISTANT if policy == "threshold" else Role.USER
        self.seq += 1
        summary = builders.summary_of(self.rounds, self.seq, role, model=model)
        checkpoint = Checkpoint(self.rounds, summary.id, found.first_seq, found.last_seq, found.kept, found.clips)
        made = in_force.covering(checkpoint)
        expected = conversation.measure(made, summary)
        opened = conversation.draft(self.config, "checkpoint", made)
        conversation.adopt(opened, conversation.shown_by(opened.generation, made, summary), made, summary)
        assert conversation.size <= expected
        self.stack.append(in_force)

    def prune(self) -> None:
        conversation = self.conversation
        if conversation.has_generation:
            calls = [part.call_id for message in conversation.rows for part in message.tool_results]
            made = conversation.in_force.clearing(tuple(calls[:-1]))
            opened = conversation.draft(self.config, "prune", made)
            conversation.adopt(opened, conversation.shown_by(opened.generation, made), made)

    def reload(self) -> None:
        """Rebuilds the generation from what is stored, as after a restart."""
        old = self.conversation
        if old.has_generation and self.last is not None and self.last[0] == old.generation.id:
            self.conversation = Conversation(
                StoredConversation(
                    old.history, old.generation, checkpoints=old.in_force.checkpoints, pruned=old.in_force.pruned
                ),
                (),
                Calibration(),
            )

    def apply(self, operation: tuple[Any, ...]) -> None:
        match operation:
            case ("step", kinds, end):
                self.step(kinds, end)
            case ("user",):
                self.add(Role.USER, builders.text("please"))
            case ("control",):
                self.add(Role.CONTROL, builders.text("[note]"))
            case ("prune",):
                self.prune()
            case ("revert",) if self.stack:
                self.conversation.revert(self.stack.pop())
            case ("reload",):
                self.reload()
            case ("echo",):
                self.echo = self.format.can_echo
            case ("compact", policy):
                self.compact(policy)
            case (("model" | "tools" | "system") as name, value):
                self.choices[name] = value


def _fields(request: ModelRequest) -> dict[str, Any]:
    return {name: getattr(request, name) for name in ModelRequest.__slots__}


def _bare(model: str) -> str:
    """A model's name as its provider knows it."""
    return model.partition("/")[2]


def _conversation(history: Sequence[Message]) -> Conversation:
    return Conversation(StoredConversation(history), (), Calibration())


def _unsigned(part: Part) -> dict[str, Any]:
    return {"provider_data": None} if part.type == "reasoning" else {}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("wire", sorted(FORMATS))
@settings(max_examples=EXAMPLES)
@given(imported=imports, operations=operations)
@pytest.mark.slow
def test_requests_only_grow_and_thinking_keeps_its_position(
    wire: str, imported: list[tuple[list[str], str | None, bool]], operations: list[tuple[Any, ...]]
) -> None:
    world = World(FORMATS[wire])
    world.add(Role.USER, builders.text("the task"))
    world.bring_in(imported)
    for operation in operations:
        world.apply(operation)
    world.request()


@pytest.mark.parametrize("wire", sorted(FORMATS))
def test_these_sessions_do_send_reasoning_back(wire: str) -> None:
    """Otherwise the property would hold trivially for histories without reasoning."""
    world = World(FORMATS[wire])
    world.add(Role.USER, builders.text("the task"))
    world.apply(("echo",))
    world.step(("thinking", "text"), "whole")
    world.add(Role.USER, builders.text("please"))
    world.step(("unsigned", "text"), "whole")
    world.add(Role.USER, builders.text("please"))

    row = b"".join(flat(world.request()))

    assert (b'"thinking":"1.0"' in row) == (wire == "anthropic")
    assert (b'"encrypted_content"' in row) == (wire == "responses")
    assert (b'"reasoning_content":"2.0"' in row) == (wire == "openai-echo")
