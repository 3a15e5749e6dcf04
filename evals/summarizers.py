"""Summarizers that need no model, the worst and the best one: what a context keeps lies between them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Literal

from app.context.tokens import estimate_text
from app.llm.base import BlockEnd, Finish, ModelRequest, StreamEvent, TextDelta
from evals.costs import CacheMeter
from evals.histories import Fact, texts_of
from evals.scoring import states

Summarizer = Literal["junk", "oracle"]
JUNK = "The work went on as planned."


class ScriptedSummarizer:
    """A provider whose only answers are summaries. `junk` writes a sentence without any fact; `oracle` knows the
    `facts` that will be asked for, and writes down those that are in its request. Its calls are counted by `meter`."""

    name = "summarizer"

    def __init__(self, kind: Summarizer, facts: Sequence[Fact], meter: CacheMeter) -> None:
        self._kind = kind
        self._facts = facts
        self._meter = meter

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        text = JUNK if self._kind == "junk" else self._known(request)
        self._meter.call(request, estimate_text(text), summary=True)
        yield TextDelta(0, text)
        yield BlockEnd(0)
        yield Finish("stop")

    def _known(self, request: ModelRequest) -> str:
        read = text_of(request)
        known = [spelling for fact in self._facts if (spelling := stated(read, fact)) is not None]
        return "\n".join(["### Facts to keep", *(f"- {text}" for text in known or ["none yet"])])

    async def aclose(self) -> None:
        """Nothing is open."""


def text_of(request: ModelRequest) -> str:
    """All texts of a request."""
    return "\n".join([request.system, *(text for message in request.messages for text in texts_of(message))])


def stated(text: str, fact: Fact) -> str | None:
    """The first spelling of a fact that a text has."""
    return next((spelling for spelling in fact if states(text, (spelling,))), None)
