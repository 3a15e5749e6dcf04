"""Windows of 2,048 to 8,192 tokens: what a session gets in them, and that long runs complete."""

from __future__ import annotations

import json
from typing import Any

import pytest
from splintr import Tokenizer

from app.tools import default_tools
from app.tools.background import NAMES as BACKGROUND
from app.tools.delegate import NAME as DELEGATE
from tests.behavior.checks import assert_sound
from tests.behavior.combinations import across, first_of
from tests.behavior.conftest import StartServer
from tests.behavior.harness import OPENAI, Client, of_type
from tests.behavior.long_task import LongTask
from tests.behavior.rounds import overflows
from tests.load import LONG
from tests.provider import FakeProvider, HttpError, RecordedRequest, Reply, Text

OPTIONAL = {*BACKGROUND, DELEGATE}
"""Tools that a session does not have at first."""
FIRST_REQUEST = 2_000
"""Maximum tokens of a new session's first request, with a task of one line."""

DEFINITIONS = 1_249
"""Maximum tokens of the definitions of tools in it: what a session does not use should not add to them."""

STEPS = 40 if LONG else 18

LEAST = ["execute_command", "write_file", "recall"]
FILES = ["execute_command", "read_file", "write_file", "edit_file", "recall"]
SEARCH = ["execute_command", "read_file", "write_file", "edit_file", "search_files", "recall", "history_search"]

SILENT = {"/v1/models": HttpError(404), "/props": HttpError(404)}


def window_of(tokens: int) -> dict[str, Any]:
    return {"models": {OPENAI: {"context_window": tokens}}}


def tokens_of(request: RecordedRequest) -> int:
    """Tokens of a request's texts and of its tools as JSON, by tiktoken's encoding o200k_base, whose vocabulary comes
    with the package."""
    return counted(request.system, request.last_user_text) + tokens_of_tools(request)


def tokens_of_tools(request: RecordedRequest) -> int:
    return counted(*(json.dumps(tool, separators=(",", ":"), ensure_ascii=False) for tool in request.body["tools"]))


def counted(*texts: str) -> int:
    tokenizer = Tokenizer.from_pretrained("o200k_base")
    return sum(len(tokenizer.encode(text)) for text in texts)


async def test_the_first_request_of_a_session_is_small(start_server: StartServer, provider: FakeProvider) -> None:
    provider.respond(lambda _: Reply(Text("Done.")))
    async with Client(start_server().url) as client:
        session, _ = await client.run("Fix the failing test in tests/test_parser.py.")
        shown = await client.get(f"/v1/sessions/{session['id']}/context", step=1)
    assert {tool["name"] for tool in shown["tools"]} == {tool.name for tool in default_tools()} - OPTIONAL
    assert tokens_of(provider.requests[0]) <= FIRST_REQUEST
    assert tokens_of_tools(provider.requests[0]) <= DEFINITIONS
    assert sum(part["tokens"] for part in (shown["system"], *shown["tools"], *shown["messages"])) <= FIRST_REQUEST
    assert shown["tokens"] <= FIRST_REQUEST


@pytest.mark.parametrize(
    ("window", "names", "most"),
    [(2_048, LEAST, 700), (3_072, FILES, 1_000), (4_096, FILES, 1_000), (8_192, SEARCH, 1_200)],
)
async def test_a_small_window_gets_few_tools_and_a_short_system_text(
    start_server: StartServer, provider: FakeProvider, window: int, names: list[str], most: int
) -> None:
    provider.configure(window=window)
    provider.respond(lambda _: Reply(Text("Done.")))
    async with Client(start_server(**window_of(window)).url) as client:
        session, _ = await client.run("Say when you are done.")
        shown = await client.get(f"/v1/sessions/{session['id']}/context")
        named, _ = await client.run("Say it again.", tools=["update_plan", "read_file"])
        own = await client.get(f"/v1/sessions/{named['id']}/context")
    assert (session["outcome"], named["outcome"]) == ("completed", "completed")
    assert [tool["name"] for tool in shown["tools"]] == names
    assert [tool["function"]["name"] for tool in provider.requests[0].body["tools"]] == names
    assert shown["system"]["tokens"] + sum(tool["tokens"] for tool in shown["tools"]) <= most
    assert shown["system"]["text"].startswith("You are a coding agent.")
    for tool in ("update_plan", "memory_write"):
        assert tool not in shown["system"]["text"]
    # A session's explicit tools are kept in any window.
    assert [tool["name"] for tool in own["tools"]] == ["read_file", "update_plan"]
    assert provider.broken == []


@across(1, window=[2_048, 3_072, 4_096, 8_192], policy=["reactive", "threshold", "handoff"])
@pytest.mark.slow
async def test_a_long_run_completes(
    start_server: StartServer, provider: FakeProvider, window: int, policy: str
) -> None:
    provider.configure(window=window, overflow="vllm", documents=SILENT)
    provider.respond(LongTask(steps=STEPS, most=30_000, seed=window))
    async with Client(start_server(**window_of(window)).url) as client:
        session, _ = await client.run("Work on.", compaction=policy)
        assert (session["outcome"], session["error"]) == ("completed", None)
        assert session["steps"] == STEPS + 1
        events = await assert_sound(client, session["id"])
        assert of_type(events, "step.retrying") == []
        assert session["compaction"]["count"] + len(of_type(events, "prune.completed")) >= 1
    assert overflows(provider) == 0
    assert provider.broken == []
    steps = [request for request in provider.requests if request.body.get("tools")]
    assert min(request.max_output_tokens or 0 for request in steps) >= 256


@pytest.mark.extended
@first_of(window=[2_048, 4_096])
async def test_a_window_learned_from_a_refusal_changes_the_tools(
    start_server: StartServer, provider: FakeProvider, window: int
) -> None:
    provider.configure(window=window, overflow="vllm", documents=SILENT)
    provider.respond(LongTask(steps=STEPS, most=3_000))
    async with Client(start_server(models={}).url) as client:
        session, _ = await client.run("Work on.")
        assert (session["outcome"], session["error"]) == ("completed", None)
        assert session["context"]["limit"] == window
        await assert_sound(client, session["id"])
        shown = await client.get(f"/v1/sessions/{session['id']}/context")
        assert [tool["name"] for tool in shown["tools"]] == (LEAST if window == 2_048 else FILES)
        first = await client.get(f"/v1/sessions/{session['id']}/context", step=1)
        assert (len(first["tools"]), first["generation"]) == (len(default_tools()) - len(OPTIONAL), 1)
    assert overflows(provider) == 1
    assert provider.broken == []


async def test_an_error_for_a_context_that_cannot_fit_says_what_to_change(
    start_server: StartServer, provider: FakeProvider
) -> None:
    provider.configure(window=2_048)
    provider.respond(lambda _: Reply(Text("Done.")))
    async with Client(start_server(**window_of(2_048)).url) as client:
        long_prompt = "Be careful with every single file. " * 300
        session, _ = await client.run("Do it.", system_prompt=long_prompt)
    assert (session["outcome"], session["error"]["code"]) == ("failed", "context_too_large")
    for advice in ("shorter system prompt", "-c 8192", "PALIMPSEST_MODELS", "context_window"):
        assert advice in session["error"]["detail"]
    assert provider.requests == []
