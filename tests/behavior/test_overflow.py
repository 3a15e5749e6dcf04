"""Recovery from a provider's refusal of a prompt that is too long, in all shapes that providers use."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.behavior.checks import assert_sound
from tests.behavior.combinations import across, first_of
from tests.behavior.conftest import StartServer
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, of_type
from tests.behavior.long_task import LongTask, asks_for_summary, works_on
from tests.behavior.packed import packed
from tests.behavior.rounds import overflows
from tests.provider import Answer, FakeProvider, HttpError, Raw, RecordedRequest, Reply, StreamError, Text, ToolCall
from tests.provider.overflow import COUNTS_OUTPUT, SHAPES, OverflowStyle, Sizes

MODELS = [OPENAI, ANTHROPIC]
WINDOW = 8_000
UNKNOWN: dict[str, Any] = {"models": {}}
"""Settings of a server without a known window, which assumes 128,000."""

SILENT = {"/v1/models": HttpError(404)}
"""Response of a provider that does not report its windows."""

NAMELESS = {"ollama-error", "bedrock", "groq", "lmstudio", "cerebras", "responses"}
"""Shapes that do not state the window's size."""

NOW = {"retry-after": "0"}
TEXTS = Path(__file__).parent.parent / "provider" / "overflow_texts.json"


@across(style=SHAPES, model=MODELS)
async def test_every_shape_is_recovered_from(
    start_server: StartServer, provider: FakeProvider, style: str, model: str
) -> None:
    provider.configure(window=WINDOW, overflow=style, documents=SILENT)
    provider.respond(works_on)
    async with Client(start_server(**UNKNOWN).url) as client:
        session, _ = await client.run("go on", model=model, history=packed("the task", 9))
        assert (session["outcome"], session["error"]) == ("completed", None)
        events = await assert_sound(client, session["id"])
        assert of_type(events, "step.retrying") == []
        (completed,) = of_type(events, "compaction.completed")
        assert completed.data["reason"] == ("provider_overflow" if style in NAMELESS else completed.data["reason"])
        limit = session["context"]["limit"]
        assert limit == WINDOW if style not in NAMELESS else 1_024 < limit < 2 * WINDOW
        assert "the task" in "\n".join(provider.requests[-1].user_texts)
        assert 1 <= overflows(provider) <= 3

        # The learned window determines the next budget, for other sessions too.
        before = overflows(provider)
        other, _ = await client.run("go on", model=model, history=packed("the task", 9))
        assert (other["outcome"], other["context"]["limit"]) == ("completed", limit)
        if style not in NAMELESS:
            assert overflows(provider) == before
            assert 1_000 < (provider.requests[-1].max_output_tokens or 0) <= WINDOW // 4
        assert provider.broken == []


@first_of(model=MODELS)
async def test_a_learned_window_outlives_the_server(
    start_server: StartServer, provider: FakeProvider, model: str
) -> None:
    provider.configure(window=WINDOW)
    provider.respond(works_on)
    first = start_server(**UNKNOWN)
    async with Client(first.url) as client:
        session, _ = await client.run("go on", model=model, history=packed("the task", 9))
        assert session["context"]["limit"] == WINDOW
    first.stop()
    refused = overflows(provider)
    async with Client(start_server(**UNKNOWN).url) as client:
        session, _ = await client.run("go on", model=model, history=packed("the task", 9))
        assert (session["outcome"], session["context"]["limit"]) == ("completed", WINDOW)
        assert session["compaction"]["count"] == 1
    assert overflows(provider) == refused


@pytest.mark.parametrize("by", ["the operator", "the server"])
async def test_a_larger_window_reported_later_wins(start_server: StartServer, provider: FakeProvider, by: str) -> None:
    provider.configure(window=WINDOW, documents=SILENT)
    provider.respond(works_on)
    first = start_server(**UNKNOWN)
    async with Client(first.url) as client:
        session, _ = await client.run("go on", history=packed("the task", 9))
        assert session["context"]["limit"] == WINDOW
    first.stop()
    if by == "the operator":
        provider.configure(window=4 * WINDOW, documents=SILENT)
        second = start_server(models={OPENAI: {"context_window": 4 * WINDOW}})
    else:
        provider.configure(window=4 * WINDOW, overflow="vllm", models=("model",), documents={})
        second = start_server(**UNKNOWN)
    async with Client(second.url) as client:
        session, _ = await client.run("go on", history=packed("the task", 9))
        assert (session["context"]["limit"], session["compaction"]["count"]) == (4 * WINDOW, 0)


@across(model=MODELS, named=[10, 10**12])
async def test_an_absurd_window_is_not_believed(
    start_server: StartServer, provider: FakeProvider, model: str, named: int
) -> None:
    message = f"This model's maximum context length is {named} tokens. However, your messages resulted in 9000 tokens."
    error = {"message": message, "type": "invalid_request_error", "code": "context_length_exceeded"}
    refusal = HttpError(400, {"type": "error", "error": error})
    refused: list[RecordedRequest] = []

    def answer(request: RecordedRequest) -> Answer:
        if not refused:
            refused.append(request)
            return refusal
        return works_on(request)

    provider.respond(answer)
    async with Client(start_server(**UNKNOWN).url) as client:
        session, _ = await client.run("go on", model=model, history=packed("the task", 9))
        assert session["outcome"] == "completed"
        assert session["compaction"]["count"] == 1
        other, _ = await client.run("go on", model=model, history=packed("the task", 4))
        assert (other["outcome"], other["compaction"]["count"]) == ("completed", 0)
        assert session["context"]["limit"] == other["context"]["limit"] == 128_000
    assert provider.refusals == []


@first_of(model=MODELS)
async def test_a_refusal_of_a_tiny_prompt_disables_no_model(client: Client, provider: FakeProvider, model: str) -> None:
    """It names no window, and no session would fit into a smaller one."""
    error = {"message": "prompt is too long", "type": "invalid_request_error", "code": "context_length_exceeded"}
    refusal = HttpError(400, {"type": "error", "error": error})
    provider.script(refusal, refusal, refusal)
    session, _ = await client.run("begin", model=model)
    assert (session["outcome"], session["error"]["code"]) == ("failed", "context_too_large")
    limit = session["context"]["limit"]
    provider.respond(works_on)
    await client.say(session["id"], "try again")
    session = await client.session(session["id"])
    assert (session["outcome"], session["context"]["limit"]) == ("completed", limit)
    other, _ = await client.run("begin", model=model)
    assert (other["outcome"], other["context"]["limit"]) == ("completed", limit)


@across(style=sorted(SHAPES.keys() - {"cerebras"}), model=MODELS)
async def test_an_overflow_in_the_middle_of_the_answer(
    start_server: StartServer, provider: FakeProvider, style: OverflowStyle, model: str
) -> None:
    """The text before it stays, and its calls are not executed."""
    broken: list[RecordedRequest] = []
    error = StreamError("invalid_request_error", SHAPES[style](Sizes(9_001, 2_000, WINDOW)).message)

    def answer(request: RecordedRequest) -> Answer:
        if asks_for_summary(request) or broken:
            return works_on(request)
        broken.append(request)
        call = ToolCall("write_file", {"path": "never", "content": "x"})
        return Reply(Text("I begin "), call, error)

    provider.respond(answer)
    async with Client(start_server(**UNKNOWN).url) as client:
        session, _ = await client.run("go on", model=model, history=packed("the task", 9))
        assert session["outcome"] == "completed"
        limit = session["context"]["limit"]
        assert limit == WINDOW if style not in NAMELESS else WINDOW < limit < 2 * WINDOW
        events = await assert_sound(client, session["id"])
        assert len(of_type(events, "compaction.completed")) == 1
        assert (await client.get(f"/v1/sessions/{session['id']}/files"))["items"] == []
    assert provider.refusals == []


@pytest.mark.parametrize("reported", [True, False])
async def test_an_answer_that_runs_into_the_end_of_the_window(
    start_server: StartServer, provider: FakeProvider, reported: bool
) -> None:
    """The window is as large as prompt and answer together; the prompt alone says little about it."""
    broken: list[RecordedRequest] = []

    def answer(request: RecordedRequest) -> Answer:
        if asks_for_summary(request) or broken:
            return works_on(request)
        broken.append(request)
        long = Text("".join(f"{n:04} " for n in range(20_000)))
        if reported:
            return Reply(long, finish="context_overflow")
        return Reply(long, finish="context_overflow", usage_style="never")

    provider.respond(answer)
    async with Client(start_server(**UNKNOWN).url) as client:
        session, _ = await client.run("go on", model=ANTHROPIC, history=packed("the task", 5))
        assert session["outcome"] == "completed"
        assert session["context"]["limit"] == pytest.approx(31_000, rel=0.3)
        await assert_sound(client, session["id"])
    assert provider.refusals == []


def _said(entry: dict[str, Any]) -> Answer:
    """A provider's refusal, with its status or inside a stream."""
    if entry["status"] is None:
        return Reply(Raw(b"data: %s\n\n" % entry["body"].encode()))
    return HttpError(entry["status"], entry["body"].encode(), headers=NOW)


@pytest.mark.parametrize("means_overflow", [True, False])
async def test_only_sentences_that_mean_overflow_compact(
    start_server: StartServer, provider: FakeProvider, means_overflow: bool
) -> None:
    """What providers say of a long prompt, and what sounds like it; each is a model's own."""
    texts = json.loads(TEXTS.read_bytes())["overflow" if means_overflow else "not_overflow"]
    answers = {f"model-{number}": _said(entry) for number, entry in enumerate(texts)}
    provider.respond(lambda request: answers[request.model] if request.tokens > WINDOW else works_on(request))
    compacted = {}
    server = start_server(provider_max_attempts=2, **UNKNOWN)

    async def run(client: Client, number: int) -> None:
        model = f"{OPENAI.partition('/')[0]}/model-{number}"
        session, _ = await client.run("go on", model=model, history=packed("the task", 9))
        done = (session["outcome"] == "completed", session["compaction"]["count"] > 0)
        compacted[texts[number]["provider"]] = done

    async with Client(server.url) as client, asyncio.TaskGroup() as tasks:
        for number in range(len(texts)):
            tasks.create_task(run(client, number))
    if means_overflow:
        assert {name for name, done in compacted.items() if done != (True, True)} == set()
    else:
        assert {name for name, (_, count) in compacted.items() if count} == set()


RATE_TEXTS = {
    "tokens per minute": "Rate limit reached for model on tokens per min (TPM): Limit 8000, Used 7000, Requested"
    " 2000. The maximum context length is 8000 tokens.",
    "quota": "You exceeded your quota; prompt is too long: 9000 tokens > 8000 maximum per hour",
    "throttled": "Too many input tokens per minute, request was throttled",
}


@across(text=RATE_TEXTS, model=MODELS)
async def test_a_rate_limit_is_not_an_overflow(
    start_server: StartServer, provider: FakeProvider, text: str, model: str
) -> None:
    body = {"type": "error", "error": {"type": "rate_limit_error", "message": RATE_TEXTS[text]}}
    provider.script(HttpError(429, body, headers=NOW), HttpError(429, body, headers=NOW), Reply(Text("now")))
    async with Client(start_server(**UNKNOWN).url) as client:
        session, events = await client.run("go on", model=model, history=packed("the task", 4))
        assert (session["outcome"], session["compaction"]["count"]) == ("completed", 0)
        assert session["context"]["limit"] == 128_000
        assert [event.data["code"] for event in of_type(events, "step.retrying")] == ["provider_rate_limited"] * 2
        assert of_type(events, "compaction.started") == []

        # Without its status it is not retried, and is not an overflow either.
        provider.script(HttpError(400, body))
        session, events = await client.run("go on", model=model, history=packed("the task", 4))
        assert (session["outcome"], session["compaction"]["count"]) == ("failed", 0)
        assert session["error"]["code"] != "context_too_large"
        assert session["context"]["limit"] == 128_000


@first_of(style=sorted(COUNTS_OUTPUT))
async def test_too_many_output_tokens_are_lowered_without_a_compaction(
    start_server: StartServer, provider: FakeProvider, style: str
) -> None:
    provider.configure(window=24_000, overflow=style)
    provider.respond(works_on)
    async with Client(start_server(**UNKNOWN).url) as client:
        session, events = await client.run("go on", history=packed("the task", 3))
        assert (session["outcome"], session["context"]["limit"]) == ("completed", 24_000)
        assert session["compaction"]["count"] == 0
        assert of_type(events, "compaction.started", "prune.completed") == []
        first, second = provider.requests
        assert first.max_output_tokens == 32_000
        assert 5_000 < (second.max_output_tokens or 0) <= 6_000
        assert second.shared_tokens == 0
        assert (first.system, first.user_texts) == (second.system, second.user_texts)
        await assert_sound(client, session["id"])
    assert overflows(provider) == 1


async def test_a_silently_dropped_head_is_noticed(start_server: StartServer, provider: FakeProvider) -> None:
    """As with Ollama: the answer arrives, and the reported prompt is as large as the window, whatever was sent."""
    provider.configure(window=WINDOW, overflow="ollama")
    calls = 0

    def answer(request: RecordedRequest) -> Answer:
        nonlocal calls
        if asks_for_summary(request):
            return works_on(request)
        calls += 1
        return Reply(Text("word " * 900), ToolCall("update_plan", {"items": []})) if calls < 4 else Reply(Text("done"))

    provider.respond(answer)
    async with Client(start_server(**UNKNOWN).url) as client:
        session, events = await client.run("go on", history=packed("the task", 20))
        assert session["outcome"] == "completed"
        assert session["context"]["limit"] == pytest.approx(WINDOW, rel=0.2)
        assert session["compaction"]["count"] >= 1
        (first, *_) = of_type(events, "compaction.started")
        before = [event for event in of_type(events, "step.started") if (event.id or 0) < (first.id or 0)]
        assert len(before) == 1
        steps = [request for request in provider.requests if not asks_for_summary(request)]
        assert steps[0].tokens > 2 * WINDOW
        assert all(request.tokens < WINDOW for request in steps[1:])
        assert all("the task" in "\n".join(request.user_texts) for request in steps)
        await assert_sound(client, session["id"])
    assert provider.refusals == []


@pytest.mark.extended
@across(1, policy=["reactive", "threshold", "handoff"], model=MODELS)
async def test_a_long_task_of_an_unknown_model(
    start_server: StartServer, provider: FakeProvider, policy: str, model: str
) -> None:
    provider.configure(window=WINDOW)
    task = LongTask(20, most=8_000, seed=3)
    provider.respond(task)
    async with Client(start_server(**UNKNOWN).url) as client:
        session, _ = await client.run("task", model=model, compaction=policy, limits={"max_steps": None})
        assert (session["outcome"], session["error"]) == ("completed", None)
        assert session["context"]["limit"] == WINDOW
        assert session["compaction"]["count"] >= 1
        assert task.made == 21
        await assert_sound(client, session["id"])
    assert provider.broken == []
    assert 1 <= overflows(provider) <= 3


async def test_a_refusal_of_a_summarizer_teaches_its_window(start_server: StartServer, provider: FakeProvider) -> None:
    """In its first round it is asked again with less; the next ones fit it."""
    provider.configure(windows={"cheap": 6_000})
    lock = threading.Lock()
    asked: list[RecordedRequest] = []

    def answer(request: RecordedRequest) -> Answer:
        if asks_for_summary(request):
            with lock:
                asked.append(request)
        return works_on(request)

    provider.respond(answer)
    server = start_server(models={OPENAI: {"context_window": WINDOW}})
    async with Client(server.url) as client:
        settings = {"policy": "reactive", "model": "fake-openai/cheap", "summary_max_tokens": 500}
        first, events = await client.run("go on", history=packed("the task", 9), compaction=settings)
        assert first["outcome"] == "completed"
        assert of_type(events, "compaction.failed") == []
        assert overflows(provider) > 0
        refused = overflows(provider)

        second, events = await client.run("go on", history=packed("the task", 9), compaction=settings)
        assert second["outcome"] == "completed"
        assert of_type(events, "compaction.failed") == []
        assert asked
        assert second["context"]["limit"] == WINDOW
    assert overflows(provider) == refused
