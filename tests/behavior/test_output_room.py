"""A prompt that fits, but whose requested output tokens do not fit next to it, according to the provider."""

from __future__ import annotations

from string import ascii_letters

import pytest

from tests.behavior.checks import assert_sound
from tests.behavior.combinations import first_of
from tests.behavior.conftest import StartServer
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, command, of_type
from tests.behavior.long_task import asks_for_summary
from tests.behavior.rounds import MODELS
from tests.provider import Answer, FakeProvider, HttpError, RecordedRequest, Reply, Text, Tokens, ToolCall
from tests.provider.overflow import COUNTS_OUTPUT, OverflowStyle

WINDOW = 18_700
RESERVE, SAFETY = 4_328, 346
"""Output tokens in a small window, where a quarter of the window replaces the usual 5,000 and 400."""
KNOWN = {name: {"context_window": WINDOW} for name in MODELS}


def work(letter: str) -> ToolCall:
    """A call with an output of 5,000 times this letter."""
    return command(f"head -c 5000 /dev/zero | tr '\\0' {letter}")


SHARE = 0.85
"""Reported prompt tokens: the service then underestimates its prompts."""


class Underreported:
    """Works for some steps. The strict provider itself refuses prompts that do not fit, before this is called."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def __call__(self, request: RecordedRequest) -> Reply:
        usage = Tokens(int(SHARE * request.tokens), 0, 0)
        if asks_for_summary(request):
            return Reply(Text("## Completed Work\nall so far"), usage=usage)
        self.left -= 1
        return Reply(work(ascii_letters[self.left]) if self.left else Text("All done."), usage=usage)


@first_of(style=sorted(COUNTS_OUTPUT))
async def test_the_room_for_the_answer_is_lowered_before_anything_is_compacted(
    start_server: StartServer, provider: FakeProvider, style: OverflowStyle
) -> None:
    model = ANTHROPIC if style == "anthropic" else OPENAI
    provider.configure(window=WINDOW, overflow=style)
    provider.respond(Underreported(11))
    async with Client(start_server(models=KNOWN).url) as client:
        session, events = await client.run("the task", model=model, compaction={"background": False})
        assert (session["outcome"], session["error"]) == ("completed", None)
        assert of_type(events, "compaction.started", "prune.completed") == []
        assert session["context"]["limit"] == WINDOW
        await assert_sound(client, session["id"])
    refused = [index for index, request in enumerate(provider.requests) if not request.accepted]
    assert refused
    for index in refused:
        before, after = provider.requests[index : index + 2]
        assert before.tokens < WINDOW < before.tokens + (before.max_output_tokens or 0)
        # The same request again, with the rest of the window for the output.
        assert (after.accepted, after.tokens) == (True, before.tokens)
        assert (after.system, after.user_texts) == (before.system, before.user_texts)
        assert after.max_output_tokens == WINDOW - before.tokens - SAFETY
    whole = {request.max_output_tokens for index, request in enumerate(provider.requests) if index - 1 not in refused}
    assert whole == {RESERVE}


def _says(prompt: int, output: int) -> HttpError:
    message = (
        f"input length and `max_tokens` exceed context limit: {prompt} + {output} > {WINDOW}, decrease input length or"
        " `max_tokens` and try again"
    )
    return HttpError(400, {"type": "error", "error": {"type": "invalid_request_error", "message": message}})


@pytest.mark.parametrize(
    ("refusals", "outputs"),
    [
        pytest.param([_says(15_600, 5_000), _says(15_700, 4_000)], 2, id="lowered once only"),
        pytest.param([_says(19_000, 5_000)], 1, id="too little would be left to answer in"),
    ],
)
async def test_if_that_does_not_help_the_context_is_compacted(
    start_server: StartServer, provider: FakeProvider, refusals: list[HttpError], outputs: int
) -> None:
    left = [*refusals]
    steps = 0

    def answer(request: RecordedRequest) -> Answer:
        nonlocal steps
        if asks_for_summary(request):
            return Reply(Text("## Completed Work\nall so far"))
        if steps == 5 and left:
            return left.pop(0)
        steps += 1
        return Reply(work(ascii_letters[steps]) if steps < 7 else Text("All done."))

    provider.respond(answer)
    async with Client(start_server(models=KNOWN).url) as client:
        session, events = await client.run("the task", model=ANTHROPIC, compaction={"policy": "reactive"})
        assert (session["outcome"], session["error"]) == ("completed", None)
        assert len(of_type(events, "compaction.completed", "prune.completed")) == 1
        await assert_sound(client, session["id"])
    asked = [r.max_output_tokens for r in provider.requests if not asks_for_summary(r)][5:]
    assert len(set(asked[: len(refusals)])) == outputs
    # The next step has its full output room again.
    assert asked[len(refusals)] == asked[0]
