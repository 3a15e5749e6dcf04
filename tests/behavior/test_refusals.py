"""Refusals that no list explains: whatever the provider dislikes, and however it says so, the session continues, and
the model is not asked in that way again."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.behavior.checks import assert_sound
from tests.behavior.conftest import StartServer
from tests.behavior.harness import ANTHROPIC, OPENAI, RESPONSES, Client, of_type
from tests.behavior.long_task import asks_for_summary
from tests.behavior.packed import packed
from tests.behavior.pictures import image, png, text
from tests.load import LONG
from tests.provider import Answer, FakeProvider, HttpError, Reasoning, RecordedRequest, Reply, Text, ToolCall
from tests.provider.images import images_of

WIRES = {"openai": OPENAI, "anthropic": ANTHROPIC, "responses": f"{RESPONSES.partition('/')[0]}/gpt-5.2"}
SEEDS = range(20) if LONG else range(2)
STATUSES = (400, 404, 413, 422, 500, 502)
MOST_REFUSED = 24
"""The remedies for one request, with the retries of server errors and the switches of endpoints in between."""
STEPS = 5
OUTPUT_CHARS = 9_000
NOW = {"retry-after": "0"}
SIGNATURE = {"sealed_by": {"them": "c2VhbA=="}}
SCHEMA = {"type": "object", "properties": {"what": {"type": "string"}}}
LOOK_UP = {"type": "client", "name": "look_up", "description": "Looks something up.", "parameters": SCHEMA}
TOOLS = ["execute_command", "read_file", LOOK_UP]
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PARAMETERS = {
    "openai": ("stream_options", "max_tokens", "reasoning_effort"),
    "anthropic": ("output_config",),
    "responses": ("prompt_cache_key", "max_output_tokens"),
}
WORDS = (
    *("zork", "blim", "quux", "frob", "the", "a", "request", "was", "unhappy", "about"),
    *("gizmo", "number", "seven", "of", "sector", "nine", "and", "gave", "up"),
)
NAMED = {
    "too long": ("The prompt of this conversation is beyond the limit.", "input exceeds what fits", "输入过长"),
    "image": ("cannot digest pictures", "no visual content here", "media is not for this one"),
    "tool": ("look_up is malformed", "tools[{tool}]: schema is odd"),
    "parameter": ("{parameter} makes no sense", "got an unwelcome `{parameter}`"),
    "opaque": ("a signature is missing", "sealed_by must be provided"),
    "reasoning": ("reasoning_content is missing at index 2", "the thinking has to be passed back"),
}


@dataclass
class Cause:
    """What a model refuses, and in which words; `base` are the tokens of its first request."""

    kind: str
    wire: str
    rng: random.Random
    refused: list[str] = field(default_factory=list)
    base: int = 0
    made: int = 0

    def __post_init__(self) -> None:
        self.parameter = self.rng.choice(PARAMETERS[self.wire])
        self.status = self.rng.choice(STATUSES)
        self.sentence = self._sentence()

    def _sentence(self) -> str:
        if self.rng.random() < 0.5:
            return self.rng.choice(NAMED[self.kind]).format(parameter=self.parameter, tool="{tool}")
        return " ".join(self.rng.choices(WORDS, k=self.rng.randint(1, 12)))

    def refuses(self, request: RecordedRequest) -> bool:
        self.base = self.base or request.tokens
        return bool(_REFUSES[self.kind](self, request))

    def answer(self, request: RecordedRequest) -> HttpError:
        tools = [
            str(tool.get("name") or tool.get("function", {}).get("name")) for tool in request.body.get("tools", ())
        ]
        place = tools.index("look_up") if "look_up" in tools else 0
        self.refused.append(self.sentence)
        text = self.sentence.replace("{tool}", str(place)) + self.rng.choice(["", f" (request {len(self.refused)})"])
        return HttpError(self.status, {"error": {"message": text}})

    def work(self, request: RecordedRequest) -> Reply:
        """A model that reasons, prints, looks at an image and prints again."""
        if asks_for_summary(request):
            return Reply(Text("## Completed Work\nSome of it."))
        self.made += 1
        if self.made > STEPS:
            return Reply(Text("All done."))
        call = ToolCall("read_file", {"path": "a.png"}, extra=SIGNATURE)
        if self.made != 2:
            command = f"echo {self.made}; head -c {OUTPUT_CHARS} /dev/zero | tr '\\0' x"
            call = ToolCall("execute_command", {"command": command}, extra=SIGNATURE)
        return Reply(Reasoning(f"thought {self.made}"), Text(f"Step {self.made}."), call)


def _calls(request: RecordedRequest) -> Iterator[dict[str, Any]]:
    """The calls in a request, in the form of its format."""
    for message in request.messages:
        yield from message.get("tool_calls") or ()
        blocks = message.get("content")
        yield from (b for b in (blocks if isinstance(blocks, list) else ()) if b.get("type") == "tool_use")
        if message.get("type") == "function_call":
            yield message


def _lacks_reasoning(_: Cause, request: RecordedRequest) -> bool:
    """Whether calls come without the reasoning that led to them."""
    match request.wire:
        case "openai":
            return any(m.get("tool_calls") and not m.get("reasoning_content") for m in request.messages)
        case "anthropic":
            answers = [m["content"] for m in request.messages if m["role"] == "assistant"]
            return any(c[-1]["type"] == "tool_use" and c[0]["type"] != "thinking" for c in answers)
    kinds = [item.get("type") for item in request.messages]
    return kinds.count("reasoning") < kinds.count("function_call")


_REFUSES: dict[str, Callable[[Cause, RecordedRequest], bool]] = {
    "too long": lambda cause, request: request.tokens > cause.base + 2.5 * OUTPUT_CHARS / 4,
    "image": lambda _, request: b"iVBORw0KGgo" in request.raw,
    "tool": lambda _, request: b'"look_up"' in request.raw.partition(b'"messages"')[0].partition(b'"input":[')[0],
    "parameter": lambda cause, request: cause.parameter in request.body,
    "opaque": lambda _, request: any("sealed_by" not in call for call in _calls(request)),
    "reasoning": _lacks_reasoning,
}


async def work(client: Client, model: str, task: str) -> dict[str, Any]:
    """A session from its creation to its end."""
    created = await client.create(model=model, tools=TOOLS, reasoning_effort="low", limits={"max_steps": None})
    response = await client.http.put(f"/v1/sessions/{created['id']}/files/a.png", content=PNG)
    assert response.is_success, response.text
    events = await client.say(created["id"], task)
    await assert_sound(client, created["id"])
    session = await client.session(created["id"])
    session["retries"] = [event.data["code"] for event in of_type(events, "step.retrying")]
    return session


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("kind", NAMED)
async def test_a_refusal_that_nobody_listed_is_found_out_once(
    start_server: StartServer, provider: FakeProvider, kind: str, wire: str, seed: int
) -> None:
    cause = Cause(kind, wire, random.Random(f"{kind} {wire} {seed}"))

    def answer(request: RecordedRequest) -> Answer:
        return cause.answer(request) if cause.refuses(request) else cause.work(request)

    provider.respond(answer)
    async with Client(start_server().url) as client:
        first = await work(client, WIRES[wire], "the first task")
        assert (first["outcome"], first["error"]) == ("completed", None), cause
        assert len(cause.refused) <= MOST_REFUSED, cause
        found_out, cause.base, cause.made = len(cause.refused), 0, 0
        second = await work(client, WIRES[wire], "the second task")
        assert (second["outcome"], second["retries"]) == ("completed", []), cause
        assert len(cause.refused) == found_out, cause


def images(request: RecordedRequest) -> list[bytes]:
    return [found.raw for found in images_of(request.body)]


@pytest.mark.parametrize("model", [OPENAI, ANTHROPIC])
async def test_an_image_refused_in_unknown_words_is_left_out_and_later_ones_are_sent(
    start_server: StartServer, provider: FakeProvider, model: str
) -> None:
    bad, good = png(5, 5, seed=9), png(6, 6)

    def answer(request: RecordedRequest) -> Answer:
        return HttpError(400, {"error": {"message": "zork"}}) if bad in images(request) else Reply(Text("seen"))

    provider.respond(answer)
    async with Client(start_server(models={model: {"sees_images": True}}).url) as client:
        session, events = await client.run([text("See"), image(bad)], model=model)
        assert session["outcome"] == "completed"
        assert len(of_type(events, "step.retrying")) == 2
        events = await client.say(session["id"], [text("See"), image(good)], session["last_seq"])
        assert events[-1].data["outcome"] == "completed"
        assert images(provider.requests[-1]) == [good]
        assert len(provider.requests) == 4
        events = await assert_sound(client, session["id"])
        (cleared,) = of_type(events, "prune.completed")
        assert len(cleared.data["image_ids"]) == 1


@pytest.mark.parametrize("known", [True, None])
async def test_images_are_sent_again_when_leaving_them_out_has_not_helped(
    start_server: StartServer, provider: FakeProvider, known: bool | None
) -> None:
    """Nothing else is new, so that it is tried last."""

    def answer(request: RecordedRequest) -> Answer:
        if request.tool_results:
            return HttpError(400, {"error": {"message": f"zork {len(images(request))}"}})
        return Reply(ToolCall("read_file", {"path": "a.png"}))

    provider.respond(answer)
    models = {} if known is None else {OPENAI: {"sees_images": known}}
    async with Client(start_server(models=models).url) as client:
        created = await client.create()
        await client.http.put(f"/v1/sessions/{created['id']}/files/a.png", content=png())
        await client.say(created["id"], "See")
        session = await client.session(created["id"])
        assert session["outcome"] == "failed"
        assert min(len(images(request)) for request in provider.requests[1:]) == 0
        provider.respond(lambda _: Reply(Text("seen")))
        events = await client.say(session["id"], "Once more.", session["last_seq"])
        assert events[-1].data["outcome"] == "completed"
        assert images(provider.requests[-1]) == [png()]
        await assert_sound(client, session["id"])


@pytest.mark.parametrize("summarizes", [True, False])
async def test_a_context_that_was_refused_for_something_else_is_as_before(
    start_server: StartServer, provider: FakeProvider, summarizes: bool
) -> None:
    """Whether or not the provider still writes summaries."""

    def answer(request: RecordedRequest) -> Answer:
        if summarizes and asks_for_summary(request):
            return Reply(Text("## Completed Work\nSome of it."))
        return HttpError(400, {"error": {"message": "The stars are not aligned."}})

    provider.respond(answer)
    async with Client(start_server().url) as client:
        session, events = await client.run("go on", history=packed("the task", 9))
        assert session["outcome"] == "failed"
        assert len(provider.requests) <= MOST_REFUSED
        assert len(of_type(events, "compaction.reverted")) == len(of_type(events, "compaction.completed"))
        assert bool(of_type(events, "compaction.completed")) == summarizes
        assert ("a smaller context" in session["error"]["detail"]) == summarizes
        provider.respond(lambda _: Reply(Text("done")))
        events = await client.say(session["id"], "Once more.", session["last_seq"])
        assert events[-1].data["outcome"] == "completed"
        assert len(provider.requests[-1].tool_results) == 9
        await assert_sound(client, session["id"])


@pytest.mark.parametrize("has_history", [True, False])
async def test_an_outage_in_unusual_words_takes_nothing_away(
    start_server: StartServer, provider: FakeProvider, has_history: bool
) -> None:
    """What was tried meanwhile is neither in the answered request nor in the next session's."""
    history = {"history": packed("the task", 9)} if has_history else {}
    left = iter(range(20))
    provider.respond(
        lambda _: Reply(Text("done")) if next(left, None) is None else HttpError(500, {"message": "oops"}, headers=NOW)
    )
    async with Client(start_server().url) as client:
        for _ in range(2):
            session, events = await client.run("go on", tools=TOOLS, **history)
            assert (session["outcome"], session["compaction"]["count"]) == ("completed", 0)
            request = provider.requests[-1]
            assert "look_up" in request.tool_names
            assert {"max_tokens", "stream_options"} <= request.body.keys()
            assert len(request.tool_results) == 9 * has_history
        assert of_type(events, "step.retrying") == []
        assert session["context"]["limit"] == 128_000
