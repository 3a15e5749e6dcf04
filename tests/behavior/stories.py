"""Random model scripts: texts, reasoning, valid and invalid calls, transient failures, and user actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import strategies as st

from tests.provider import Answer, Gate, HttpError, Interleaved, Reasoning, Reply, Reset, StreamError, Text, ToolCall

Deed = Literal["nothing", "steer", "follow_up", "interrupt", "cancel"]
"""What a user does while a step stands at its gate."""

DEEDS: tuple[Deed, ...] = ("nothing", "steer", "follow_up", "interrupt", "cancel")

texts = st.text(st.sampled_from('ab 😀𝒳é\u0301漢\n"\\{'), min_size=1, max_size=80).filter(lambda t: bool(t.strip()))
chunks = st.integers(1, 15)


def _call(name: str, arguments: dict[str, Any] | str) -> st.SearchStrategy[ToolCall]:
    return st.builds(ToolCall, st.just(name), st.just(arguments), chunks=chunks)


calls = st.one_of(
    _call("list_directory", {"path": "."}),
    _call("read_file", {"path": "missing.txt"}),
    texts.flatmap(lambda text: _call("write_file", {"path": "a.txt", "content": text})),
    _call("execute_command", {"command": "printf 'a😀\\n'; printf b >&2; exit 3"}),
    texts.flatmap(lambda text: _call("update_plan", {"items": [{"text": text}]})),
    _call("no_such_tool", {"x": "y"}),
    _call("read_file", {"path": 5}),
    _call("read_file", '{"path": '),
    _call("write_file", "[1, 2]"),
)
failures: st.SearchStrategy[Answer] = st.one_of(
    st.builds(lambda text, n: Reply(Text(text, chunks=n), StreamError()), texts, chunks),
    st.builds(lambda text: Reply(Reasoning(text, chunks=3), Text(text, chunks=2), Reset()), texts),
    st.just(HttpError(429, headers={"retry-after": "0"})),
)


@dataclass(frozen=True)
class Turn:
    """One step: the attempts that fail first, then the answer; `deed` is the user's action while the answer waits at
    its gate."""

    failures: tuple[Answer, ...]
    reasoning: str | None
    text: str | None
    chunks: int
    calls: tuple[ToolCall, ...]
    interleaved: bool
    deed: Deed

    def answers(self, gate: str) -> list[Answer]:
        parts: list[Any] = [Reasoning(self.reasoning, chunks=self.chunks)] if self.reasoning else []
        text = self.text or ("x" if not self.calls or self.deed != "nothing" else None)
        if text:
            parts.append(Text(text, chunks=self.chunks))
        if self.deed != "nothing":
            parts += [Gate(gate), Text("after 😀", chunks=2)]
        if self.interleaved and len(self.calls) > 1:
            parts.append(Interleaved(*self.calls))
        else:
            parts += self.calls
        return [*self.failures, Reply(*parts)]


@dataclass(frozen=True)
class Story:
    """A whole conversation; `name` is in its task and selects its script."""

    name: str
    turns: tuple[Turn, ...]
    model: str

    @property
    def answers(self) -> list[Answer]:
        return [answer for place, turn in enumerate(self.turns) for answer in turn.answers(self.gate(place))]

    def gate(self, place: int) -> str:
        return f"{self.name}-{place}"


def turns(deeds: Sequence[Deed] = ("nothing",)) -> st.SearchStrategy[Turn]:
    return st.builds(
        Turn,
        # A failed attempt costs real seconds of waiting, so they are rare.
        failures=st.one_of(st.just(()), st.just(()), st.tuples(failures)),
        reasoning=st.none() | texts,
        text=st.none() | texts,
        chunks=chunks,
        calls=st.lists(calls, max_size=3).map(tuple),
        interleaved=st.booleans(),
        deed=st.sampled_from(deeds),
    )
