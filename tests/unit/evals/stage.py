"""Small histories, and a model that answers by a function."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from typing import Any

from app.agent.model_calls import ModelCalls
from app.errors import UnknownModelError
from app.llm.base import (
    MAX_ATTEMPTS,
    UNKNOWN_PRICES,
    Finish,
    ModelInfo,
    ModelRequest,
    StreamEvent,
    TextDelta,
    UsageReport,
)
from app.messages import Usage
from evals import Models, Probe, RecordedHistory

MODEL = "acme/one"

SUMMARY = (
    "### Completed Work\n| file | done |\n| --- | --- |\n| alpha.sh | written |\n\n### Next Step\nWrite omega.txt."
)

Answerer = Callable[[ModelRequest], str]


def asks_for_summary(request: ModelRequest) -> bool:
    last = request.messages[-1].text
    return "about to be replaced by a summary" in last or "<transcript>" in last


def knows_all(request: ModelRequest) -> str:
    """Writes a fixed summary, and answers with everything in its context."""
    if asks_for_summary(request):
        return SUMMARY
    return "\n".join(message.text for message in request.messages[:-1])


class Model:
    """A provider that answers by a function; exceptions of the function are raised."""

    name = "acme"

    def __init__(self, answer: Answerer = knows_all, *, cached: int = 0) -> None:
        self.answer = answer
        self.requests: list[ModelRequest] = []
        self._cached = cached

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        self.requests.append(request)
        text = self.answer(request)
        yield TextDelta(0, text)
        yield UsageReport(Usage(input_tokens=100, cache_read_tokens=self._cached, output_tokens=10, cost_usd=None))
        yield Finish("stop")

    async def aclose(self) -> None:
        """Nothing is open."""

    @property
    def summaries(self) -> list[ModelRequest]:
        return [request for request in self.requests if asks_for_summary(request)]

    @property
    def probes(self) -> list[ModelRequest]:
        return [request for request in self.requests if "<question>" in request.messages[-1].text]


def models(model: Model, *, window: int = 128_000, cost: float | None = 0.01) -> Models:
    """The only model, under `MODEL`."""

    def info(name: str) -> ModelInfo:
        if name.partition("/")[0] != "acme":
            raise UnknownModelError(f"There is no model {name!r}.")
        return ModelInfo(name, "acme", window, "catalog", None, UNKNOWN_PRICES, True)

    calls = ModelCalls(
        lambda name: (model, info(name).name.partition("/")[2]), lambda *_: cost, MAX_ATTEMPTS, random.Random(7)
    )
    return Models(calls, info)


def probe(question: str = "What was to be written?", *facts: str, kind: str = "task") -> Probe:
    return Probe.model_validate(
        {"kind": kind, "question": question, "facts": [[fact] for fact in facts or ("alpha.sh",)]}
    )


def messages(steps: int = 30) -> list[dict[str, Any]]:
    """A task, steps with a call each, and a plan in the first step, in OpenAI's format."""
    made: list[dict[str, Any]] = [{"role": "user", "content": "Write alpha.sh for the harbour."}]
    for number in range(steps):
        name, arguments = ("update_plan", '{"items":[{"text":"Write omega.txt","status":"in_progress"}]}')
        if number:
            name, arguments = "execute_command", f'{{"command":"echo step {number}"}}'
        call = {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
        made.append({"role": "assistant", "content": f"Step {number}.", "tool_calls": [call]})
        made.append({"role": "tool", "tool_call_id": f"c{number}", "content": f"output {number} " + "word " * 120})
    return made


def history(name: str = "small", *, steps: int = 30, probes: tuple[Probe, ...] = ()) -> RecordedHistory:
    return RecordedHistory(name=name, format="openai", messages=tuple(messages(steps)), probes=probes or (probe(),))
