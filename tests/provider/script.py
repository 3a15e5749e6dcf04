"""The vocabulary for scripting the model's answers: frozen values, played in order by the server.

    Reply(Reasoning("hm"), Text("hello", chunks=5), ToolCall("execute_command", {"command": "ls"}))
    Reply(Text("half of "), Gate("middle"), Text("it"), Reset())
    HttpError(429, headers={"retry-after": "1"})

Controls that stand before the first content act before the response's headers are sent, `Begin()` sends the headers at
its own place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from tests.provider.records import RecordedRequest

UsageStyle = Literal["last_chunk", "choice", "never"]
"""Where a stream reports usage: in its own last chunk, in the last chunk's `choices[0]`, or nowhere."""


@dataclass(frozen=True, slots=True)
class Text:
    """Text of the answer, sent in `chunks` pieces of about equal length. `phase` is what the Responses format calls it:
    `commentary` or `final_answer`."""

    text: str
    chunks: int = 1
    phase: str | None = None


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Reasoning text. In the OpenAI format it goes out under `name`; in Anthropic's it is a signed thinking block, or
    an encrypted one where `redacted`."""

    text: str
    chunks: int = 1
    name: Literal["reasoning_content", "reasoning"] = "reasoning_content"
    redacted: bool = False


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call. `arguments` is an object, or raw text that need not be JSON. `chunks` pieces carry the arguments;
    `whole` puts id, name and arguments into one chunk instead. `id` is invented unless given, so two calls can be given
    the same one; `omit_id` leaves it out and `repeat_id` sends it with every piece. `pause` is played after the first
    piece of the arguments. `extra` are more fields of the call, such as a signature."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    chunks: int = 1
    whole: bool = False
    id: str | None = None
    omit_id: bool = False
    repeat_id: bool = False
    pause: Control | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def arguments_text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True, slots=True, init=False)
class Interleaved:
    """Calls whose deltas take turns, as parallel calls do on some servers."""

    calls: tuple[ToolCall, ...]

    def __init__(self, *calls: ToolCall) -> None:
        object.__setattr__(self, "calls", calls)


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes put on the wire as they are, between two events."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Delay:
    """A pause of `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hang:
    """Nothing more is sent until the client leaves."""


@dataclass(frozen=True, slots=True)
class Gate:
    """The answer waits here until the test opens the gate with this name. A gate once opened stays open."""

    name: str


@dataclass(frozen=True, slots=True)
class Begin:
    """Sends the headers and the opening event now, before any content."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Drops the connection: `rst` with a TCP reset, `close` with an orderly close but no terminating chunk."""

    how: Literal["rst", "close"] = "rst"


@dataclass(frozen=True, slots=True)
class EndWithoutFinish:
    """Ends the response properly as HTTP, but without a finish reason, usage or closing event."""


@dataclass(frozen=True, slots=True)
class StreamError:
    """An error event in the stream, which ends it. An answer that is not streamed becomes a 500."""

    type: str = "overloaded_error"
    message: str = "Overloaded"
    code: str | None = None


@dataclass(frozen=True, slots=True)
class HttpError:
    """An answer with an error status instead of a stream. Without a `body` it is the provider's usual one for the
    status; `b""` is an empty one. In a `Reply` it must stand before any content."""

    status: int
    body: Mapping[str, Any] | bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


Control: TypeAlias = Delay | Hang | Gate | Begin | Reset | EndWithoutFinish | StreamError | HttpError
Content: TypeAlias = Text | Reasoning | ToolCall | Interleaved | Raw


@dataclass(frozen=True, slots=True)
class Tokens:
    """Usage to report instead of what was counted; None keeps the count. `input` excludes cached tokens."""

    input: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None
    reasoning: int | None = None


@dataclass(frozen=True, slots=True, init=False)
class Reply:
    """One answer. `finish` is a neutral reason (`stop`, `tool_calls`, `length`, `content_filter`, `refusal`,
    `context_overflow`), put into the format's own word, or a literal one of the provider; unless given it follows from
    whether there are calls. `pace` is the number of events per second; None is as fast as possible."""

    parts: tuple[Content | Control, ...]
    finish: str | None
    usage: Tokens
    usage_style: UsageStyle | None
    pace: float | None

    def __init__(
        self,
        *parts: Content | Control | str,
        finish: str | None = None,
        usage: Tokens | None = None,
        usage_style: UsageStyle | None = None,
        pace: float | None = None,
    ) -> None:
        object.__setattr__(self, "parts", tuple(Text(p) if isinstance(p, str) else p for p in parts))
        object.__setattr__(self, "finish", finish)
        object.__setattr__(self, "usage", usage or Tokens())
        object.__setattr__(self, "usage_style", usage_style)
        object.__setattr__(self, "pace", pace)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """All calls, in order of their index."""
        grouped = (p.calls if isinstance(p, Interleaved) else (p,) for p in self.parts)
        return tuple(call for group in grouped for call in group if isinstance(call, ToolCall))

    @property
    def finish_reason(self) -> str:
        return self.finish or ("tool_calls" if self.calls else "stop")

    @property
    def text(self) -> str:
        return "".join(p.text for p in self.parts if isinstance(p, Text))

    @property
    def reasoning(self) -> str:
        return "".join(p.text for p in self.parts if isinstance(p, Reasoning))


Answer: TypeAlias = Reply | HttpError
Responder: TypeAlias = Callable[[RecordedRequest], Answer]
Scripted: TypeAlias = Answer | Responder
"""What a script holds: a fixed answer, or a function of the request that is asked when its turn comes."""

DONE = Reply(Text("done"))
"""The answer of an exhausted script."""


def pieces(text: str, count: int) -> Iterator[str]:
    """`text` in at most `count` non-empty pieces of about equal length; empty text is one empty piece."""
    count = max(1, min(count, len(text)))
    yield from (text[at * len(text) // count : (at + 1) * len(text) // count] for at in range(count))


def as_reply(answer: Answer) -> Reply:
    return answer if isinstance(answer, Reply) else Reply(answer)


def sequence(answers: Sequence[Scripted]) -> Iterator[Scripted]:
    """The answers in order, then `done` forever."""
    yield from answers
    while True:
        yield DONE
