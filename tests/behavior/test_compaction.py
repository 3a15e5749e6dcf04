"""A session continues as long as needed within a small window, under each policy and over both wire formats."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.behavior.checks import assert_sound
from tests.behavior.combinations import across
from tests.behavior.conftest import StartServer
from tests.behavior.harness import RESPONSES, Client, Event, of_type
from tests.behavior.long_task import LongTask
from tests.behavior.rounds import MODELS, POLICIES, SMALL, WINDOW, assert_sent, context, steps_of
from tests.load import LONG
from tests.provider import FakeProvider, RecordedRequest

STEPS = 500 if LONG else 20

MOST = 200_000
"""Characters of the largest output, six times what fits the window."""

SAMPLE = 12
"""Number of steps whose contexts are checked again, in total and right after a compaction."""


@pytest.mark.slow
@pytest.mark.timeout(1_200 if LONG else 120)
@across(1, policy=POLICIES, model=[*reversed(MODELS), RESPONSES])
async def test_a_long_task_finishes_within_a_small_window(
    start_server: StartServer, provider: FakeProvider, policy: str, model: str
) -> None:
    provider.configure(window=WINDOW)
    task = LongTask(STEPS, most=MOST, seed=STEPS)
    provider.respond(task)
    async with Client(start_server(models=SMALL).url) as client:
        made = await client.create("task", model=model, compaction=policy, limits={"max_steps": None})
        await client.until_idle(made["id"])
        session = await client.session(made["id"])
        assert (session["outcome"], session["error"]) == ("completed", None)
        assert session["steps"] == task.made == STEPS + 1
        events = await assert_sound(client, session["id"])
        _assert_rounds(session, events)
        # A round takes one model call, or one per window if the summarizer reads the text in pieces.
        assert task.summaries <= 12 * len(of_type(events, "compaction.started"))
        await _assert_whole(client, session["id"])
        await _assert_shown_as_sent(client, session["id"], events, steps_of(provider))
    assert provider.broken == []
    assert provider.refusals == []


def _assert_rounds(session: dict[str, Any], events: list[Event]) -> None:
    completed = of_type(events, "compaction.completed")
    assert session["compaction"]["count"] == len(completed) > 0
    assert not session["compaction"]["in_progress"]
    # Of the unused prepared summaries, one may be the run's last. In so small a window, a single step may leave no room
    # for one made before it.
    discarded = of_type(events, "compaction.discarded")
    assert len(of_type(events, "compaction.started")) == len(completed) + len(discarded)
    assert len(discarded) <= len(completed) / 2 + 1
    for event in completed:
        assert event.data["tokens_after"] < event.data["tokens_before"]


async def _assert_whole(client: Client, session_id: str) -> None:
    """The history holds every message, and every output is available in full."""
    messages = [message for message in await client.messages(session_id) if not message["is_summary"]]
    texts = [
        part["text"] for m in messages if m["role"] == "assistant" for part in m["parts"] if part["type"] == "text"
    ]
    assert texts == [*(f"Step {number}." for number in range(1, STEPS + 1)), "All done."]
    parts = [part for message in messages for part in message["parts"]]
    arguments = {part["call_id"]: part["arguments"] for part in parts if part["type"] == "tool_call"}
    results = {part["call_id"]: part for part in parts if part["type"] == "tool_result"}
    assert results.keys() == arguments.keys()
    sizes = {call_id: _output_bytes(call["command"]) for call_id, call in arguments.items()}
    assert {call_id: part["bytes"] for call_id, part in results.items()} == sizes
    for call_id, size in sizes.items():
        raw = await client.http.head(f"/v1/sessions/{session_id}/tool-calls/{call_id}/output")
        assert (raw.status_code, int(raw.headers["content-length"])) == (200, size)
    largest = max(sizes, key=sizes.__getitem__)
    whole = await client.http.get(f"/v1/sessions/{session_id}/tool-calls/{largest}/output")
    assert whole.content.startswith(b"x" * MOST + b"step ")


def _output_bytes(command: str) -> int:
    """What the command writes: the given number of characters, and a line with its number."""
    found = re.search(r"-c (\d+) .* (step \d+ call \d+)$", command)
    assert found is not None
    return int(found[1]) + len(found[2]) + 1


async def _assert_shown_as_sent(
    client: Client, session_id: str, events: list[Event], requests: list[RecordedRequest]
) -> None:
    """A step's request is shown exactly, long after it was compacted away."""
    after_round: list[int] = []
    fresh = False
    for event in events:
        fresh = fresh or event.type in ("compaction.completed", "prune.completed")
        if event.type == "step.started" and fresh:
            after_round.append(event.data["step"])
            fresh = False
    every = max(1, len(requests) // SAMPLE)
    newly = after_round[:: max(1, len(after_round) // SAMPLE)]
    for step in sorted({*range(1, len(requests) + 1, every), *newly, len(requests)}):
        assert_sent(await context(client, session_id, step), requests[step - 1])
