"""A model without a configured or known window: its server is asked for it before the first budget is computed."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from app.llm.windows import ServerWindows
from tests.behavior.checks import assert_sound
from tests.behavior.combinations import first_of
from tests.behavior.conftest import StartServer
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, of_type
from tests.behavior.long_task import LongTask, asks_for_summary, works_on
from tests.behavior.packed import packed
from tests.provider import FakeProvider, Gate, HttpError, Reply, ToolCall

WINDOW = 8_000
UNKNOWN: dict[str, Any] = {"models": {}}
"""Settings of a server without a known window."""

PROPS = {"default_generation_settings": {"n_ctx": WINDOW}}
OLD_LLAMA = {"data": [{"id": "m.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 131_072}}]}
STYLES: dict[str, dict[str, Any]] = {
    "vllm": {"overflow": "vllm"},
    "openrouter": {"overflow": "openrouter"},
    "llama.cpp": {"overflow": "llama.cpp"},
    "llama.cpp, older": {"overflow": "llama.cpp", "documents": {"/v1/models": OLD_LLAMA, "/props": PROPS}},
    "groq": {"overflow": "groq", "documents": {"/v1/models": {"data": [{"id": "model", "context_window": WINDOW}]}}},
    "anthropic": {"documents": {"/v1/models/model": {"id": "model", "max_input_tokens": WINDOW}}},
}


@first_of(style=STYLES)
async def test_the_first_request_fits_the_window_that_the_server_reports(
    start_server: StartServer, provider: FakeProvider, style: str
) -> None:
    provider.configure(window=WINDOW, models=("model",), **STYLES[style])
    provider.respond(works_on)
    model = ANTHROPIC if style == "anthropic" else OPENAI
    async with Client(start_server(**UNKNOWN).url) as client:
        session, events = await client.run("go on", model=model, history=packed("the task", 9))
        context = session["context"]
        assert (session["outcome"], context["limit"], context["source"]) == ("completed", WINDOW, "reported")
        assert {event.data["reason"] for event in of_type(events, "compaction.started")} == {"overflow"}
        assert 1_000 < (provider.requests[-1].max_output_tokens or 0) <= WINDOW // 4
        await assert_sound(client, session["id"])

        # Other sessions of the model know it.
        looked = provider.looked
        other, _ = await client.run("go on", model=model)
        assert (other["context"]["limit"], provider.looked) == (WINDOW, looked)
    assert provider.refusals == []
    assert len(looked) <= 2


async def test_a_dry_run_before_the_first_run_uses_it(start_server: StartServer, provider: FakeProvider) -> None:
    provider.configure(window=WINDOW, overflow="vllm", models=("model",))
    async with Client(start_server(**UNKNOWN).url) as client:
        made = await client.create(history=packed("the task", 9))
        asked = await client.http.post(f"/v1/sessions/{made['id']}/compactions", json={"dry_run": True})
        assert (asked.status_code, asked.json()["limit"]) == (200, WINDOW)
    assert provider.requests == []


@pytest.mark.extended
async def test_a_long_task_never_meets_the_end_of_the_window(start_server: StartServer, provider: FakeProvider) -> None:
    provider.configure(window=WINDOW, overflow="llama.cpp")
    task = LongTask(20, most=8_000, seed=5)
    provider.respond(task)
    async with Client(start_server(**UNKNOWN).url) as client:
        session, _ = await client.run("task", limits={"max_steps": None})
        assert (session["outcome"], session["error"]) == ("completed", None)
        assert session["compaction"]["count"] >= 1
        await assert_sound(client, session["id"])
    assert task.made == 21
    assert provider.refusals == []


@pytest.mark.parametrize(
    "documents",
    [
        pytest.param({"/v1/models": HttpError(500)}, id="broken"),
        pytest.param({"/v1/models": HttpError(401)}, id="refused"),
        pytest.param({"/v1/models": {"data": None}}, id="empty"),
        pytest.param({"/v1/models": {"data": [{"id": "model", "max_model_len": 12}]}}, id="implausible"),
        pytest.param({}, id="silent"),
    ],
)
async def test_a_server_that_reports_no_window_is_no_error(
    start_server: StartServer, provider: FakeProvider, documents: dict[str, Any]
) -> None:
    provider.configure(documents=documents)
    async with Client(start_server(**UNKNOWN).url) as client:
        provider.respond(works_on)
        session, _ = await client.run("go on")
        context = session["context"]
        assert (session["outcome"], context["limit"], context["source"]) == ("completed", 128_000, "assumed")
    # No immediate second query.
    assert provider.looked == ["/v1/models"]


@pytest.mark.slow
async def test_a_configured_window_is_not_queried(start_server: StartServer, provider: FakeProvider) -> None:
    provider.configure(overflow="vllm", models=("model",), window=200_000)
    provider.respond(works_on)
    async with Client(start_server().url) as client:
        session, _ = await client.run("go on")
        assert session["context"]["limit"] == 128_000
        demo, _ = await client.run("go on", model="scripted/demo")
        assert demo["outcome"] == "completed"
    assert provider.looked == []


async def test_the_window_of_the_summarizer_is_queried_too(start_server: StartServer, provider: FakeProvider) -> None:
    provider.configure(overflow="vllm", models=("model", "cheap"), windows={"cheap": 6_000}, window=WINDOW)
    provider.respond(works_on)
    settings = {"policy": "reactive", "model": "fake-openai/cheap", "summary_max_tokens": 500}
    async with Client(start_server(**UNKNOWN).url) as client:
        session, events = await client.run("go on", history=packed("the task", 9), compaction=settings)
        assert session["outcome"] == "completed"
        assert of_type(events, "compaction.failed") == []
    asked = [request for request in provider.requests if asks_for_summary(request)]
    assert {request.model for request in asked} == {"cheap"}
    assert all(request.tokens < 6_000 for request in asked)
    assert provider.refusals == []


async def test_the_window_of_a_model_changed_during_a_run_is_queried(
    start_server: StartServer, provider: FakeProvider
) -> None:
    provider.configure(overflow="vllm", models=("model", "small"), windows={"small": 6_000}, window=64_000)
    provider.script_when(
        lambda request: request.model == "model", Reply(Gate("switch"), ToolCall("update_plan", {"items": []}))
    )
    provider.respond(works_on)
    async with Client(start_server(**UNKNOWN).url) as client:
        made = await client.create("go on", history=packed("the task", 9))
        await provider.reached("switch")
        await client.change(made["id"], model="fake-openai/small")
        provider.open("switch")
        await client.until_idle(made["id"])
        session = await client.session(made["id"])
        assert (session["outcome"], session["context"]["limit"]) == ("completed", 6_000)
    assert provider.refusals == []


async def test_a_cancel_does_not_wait_for_the_answer(
    start_server: StartServer, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise a slow machine could wait for the end of the request.
    monkeypatch.setattr("app.llm.registry.ServerWindows", partial(ServerWindows, timeout_s=600))
    provider.configure(documents={"/v1/models": Gate("never")})
    async with Client(start_server(**UNKNOWN).url) as client:
        made = await client.create("go on")
        await provider.reached("never")
        async with asyncio.timeout(60):
            assert (await client.http.post(f"/v1/sessions/{made['id']}/cancel")).is_success
            await client.until_idle(made["id"])
        assert (await client.session(made["id"]))["outcome"] == "cancelled"
    assert provider.requests == []


async def test_a_message_that_interrupts_meanwhile_is_delivered(
    start_server: StartServer, provider: FakeProvider
) -> None:
    provider.configure(documents={"/v1/models": Gate("slow")}, overflow="vllm", models=("model",), window=WINDOW)
    provider.respond(works_on)
    async with Client(start_server(**UNKNOWN).url) as client:
        made = await client.create("go on")
        await provider.reached("slow")
        await client.post(made["id"], "rather this", mode="interrupt")
        provider.open("slow")
        await client.until_idle(made["id"])
        session = await client.session(made["id"])
        assert (session["outcome"], session["context"]["limit"]) == ("completed", WINDOW)
    assert provider.requests[-1].user_texts == ("go on", "rather this")


async def test_queried_windows_show_in_the_list_of_models(start_server: StartServer, provider: FakeProvider) -> None:
    provider.configure(overflow="vllm", models=("model",), window=WINDOW)
    provider.respond(works_on)
    models = {OPENAI: {"max_output_tokens": 1_000}}
    async with Client(start_server(models=models).url) as client:

        async def shown() -> tuple[int, str]:
            items = (await client.get("/v1/models"))["items"]
            (item,) = (item for item in items if item["name"] == OPENAI)
            return item["context_window"], item["window_source"]

        assert await shown() == (128_000, "assumed")
        await client.run("go on")
        assert await shown() == (WINDOW, "server")
