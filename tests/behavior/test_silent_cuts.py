"""Prompts silently truncated by a server: noticed soon, and nothing else is mistaken for it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from tests.behavior.checks import assert_sound
from tests.behavior.combinations import first_of
from tests.behavior.conftest import StartServer
from tests.behavior.harness import ANTHROPIC, Client, command, of_type
from tests.behavior.long_task import asks_for_summary
from tests.provider import FakeProvider, Reasoning, RecordedRequest, Reply, Text, Tokens

WINDOW = 12_000
UNKNOWN: dict[str, Any] = {"models": {}}
"""Settings of a server without a known window, which assumes 128,000."""

UNHURRIED: dict[str, Any] = {"limits": {"max_steps": None}}
STEPS = 30
THOUGHTS = "".join(f"{n % 90 + 10} " + "hm " * (n % 7) for n in range(1_000))
"""A long, irregular text."""

CALL = command("true")


def whole_messages(request: RecordedRequest) -> int:
    """Tokens left after dropping whole messages from the head until the rest fits: slightly below the window."""
    return WINDOW - request.tokens % 1_500


def to_the_token(request: RecordedRequest) -> int:
    return WINDOW


@first_of(left_of=[whole_messages, to_the_token])
async def test_a_prompt_that_grows_beyond_the_window_is_noticed_at_once(
    start_server: StartServer, provider: FakeProvider, left_of: Callable[[RecordedRequest], int]
) -> None:
    """The prompt is never twice the window, so the estimate alone would not reveal it."""
    steps = count(1)

    def answer(request: RecordedRequest) -> Reply:
        usage = Tokens(left_of(request), 0) if request.tokens > WINDOW else None
        if asks_for_summary(request):
            return Reply(Text("## Completed Work\nall so far"), usage=usage)
        step = next(steps)
        if step > STEPS:
            return Reply(Text("All done."), usage=usage)
        lines = (20, 300, 900, 1_200)[step % 4]
        return Reply(command(f"seq {step}000 {step * 1000 + lines}"), usage=usage)

    provider.respond(answer)
    async with Client(start_server(**UNKNOWN).url) as client:
        session, events = await client.run("the task", **UNHURRIED)
        assert (session["outcome"], session["error"]) == ("completed", None)
        assert 0.8 * WINDOW < session["context"]["limit"] < 1.1 * WINDOW
        assert of_type(events, "compaction.completed", "prune.completed") != []
        await assert_sound(client, session["id"])
    sizes = [request.tokens for request in provider.requests if not asks_for_summary(request)]
    cut = [size for size in sizes if size > WINDOW]
    assert 1 <= len(cut) <= 3
    assert max(cut) < 1.8 * WINDOW
    assert all("the task" in "\n".join(request.user_texts) for request in provider.requests)


async def test_reasoning_left_out_at_the_next_message_is_not_a_cut(
    start_server: StartServer, provider: FakeProvider
) -> None:
    """Providers no longer count reasoning from before the last user message."""

    def answer(request: RecordedRequest) -> Reply:
        turn = len(request.user_texts)
        begins = len(request.tool_results) < turn
        counted = 5_000 + 100 * turn + (0 if begins else 3_000)
        said = CALL if begins else Text("Well.")
        return Reply(Reasoning(THOUGHTS), said, usage=Tokens(counted, 0, 0))

    provider.respond(answer)
    async with Client(start_server(**UNKNOWN).url) as client:
        session, _ = await client.run("the task", model=ANTHROPIC)
        for message in ("more", "still more"):
            await client.say(session["id"], message)
        session = await client.session(session["id"])
        assert (session["outcome"], session["context"]["limit"]) == ("completed", 128_000)
        assert session["compaction"]["count"] == 0
    assert len(provider.requests) == 6


@pytest.mark.parametrize(
    ("text", "share"),
    [
        pytest.param("Программа сохраняет результаты в базе данных. " * 400, 0.25, id="Russian"),
        pytest.param("यह कार्यक्रम परिणामों को सहेजता है। " * 800, 0.33, id="Hindi"),
        pytest.param(("name" + " " * 60 + "1\n") * 800, 0.1, id="table"),
    ],
)
async def test_text_with_few_tokens_is_not_a_cut(
    start_server: StartServer, provider: FakeProvider, text: str, share: float
) -> None:
    """Counts are those of `o200k_base` for such text."""
    estimate = sum(1 if ord(character) > 127 else 0.25 for character in text)
    provider.respond(lambda request: Reply(Text("Well."), usage=Tokens(2_900 + int(share * estimate), 0)))
    async with Client(start_server(**UNKNOWN).url) as client:
        session, _ = await client.run(text)
        assert (session["outcome"], session["context"]["limit"]) == ("completed", 128_000)
    assert 2_900 + share * estimate < 0.45 * (2_800 + estimate), "the estimate alone would have taken it for one"
