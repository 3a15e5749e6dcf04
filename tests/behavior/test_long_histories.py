"""A message to a session with a long, compacted history: the next step reads only what its context needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, event

from tests.behavior.combinations import first_of
from tests.behavior.conftest import StartServer
from tests.behavior.harness import OPENAI, Client, of_type
from tests.behavior.long_task import asks_for_summary
from tests.behavior.rounds import compacted, revert, settings, steps_of
from tests.databases import on_postgres
from tests.provider import FakeProvider, Gate, RecordedRequest, Reply, Text, ToolCall

PROSE = "## Completed Work\nMost parts.\n\n## Next Step\nThe next part."
OPERATIONS = 100
"""SQLite virtual machine operations per progress callback: reading a message takes about as many."""


class ReadCounter:
    """Counts the work of all databases of this process, in hundreds of SQLite's operations: every row that a statement
    visits counts, whether it is returned or not."""

    def __init__(self) -> None:
        self.count = 0

    def watch(self, connection: Any, _: object) -> None:
        connection.set_progress_handler(self._took, OPERATIONS)

    def _took(self) -> None:
        self.count += 1


@pytest.fixture
def reads() -> Iterator[ReadCounter]:
    if on_postgres():
        pytest.skip("counts SQLite's operations")
    counter = ReadCounter()
    event.listen(Engine, "connect", counter.watch)
    yield counter
    event.remove(Engine, "connect", counter.watch)


def long_history(turns: int) -> list[dict[str, Any]]:
    """Turns of four messages each: a request, a call, its result, an answer."""
    return [message for number in range(1, turns + 1) for message in _turn(number)]


def _turn(number: int) -> list[dict[str, Any]]:
    function = {"name": "read_file", "arguments": json.dumps({"path": f"part-{number}.txt"})}
    call = {"id": f"call-{number}", "type": "function", "function": function}
    return [
        {"role": "user", "content": f"Do part {number}."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": f"part {number} " + "x" * 100},
        {"role": "assistant", "content": f"Part {number} is done."},
    ]


def answer(request: RecordedRequest) -> Reply:
    return Reply(Text(PROSE if asks_for_summary(request) else "Done."))


async def imported(client: Client, turns: int) -> str:
    """A session with that history, compacted; its id."""
    history = {"format": "openai", "messages": long_history(turns)}
    session = await client.create(history=history, compaction=settings("threshold"))
    await compacted(client, session["id"])
    return str(session["id"])


async def said(client: Client, session_id: str, text: str) -> None:
    """Posts a message and waits for the end of the run."""
    after = (await client.session(session_id))["last_seq"]
    events = await client.say(session_id, text, after=after)
    assert of_type(events, "session.idle")[0].data["outcome"] == "completed"


@pytest.mark.extended
@first_of(many=[500, 1_250])
async def test_a_message_reads_as_much_however_long_the_compacted_history_is(
    reads: ReadCounter, provider: FakeProvider, start_server: StartServer, many: int
) -> None:
    """500 messages or thousands behind a summary: up to the model's request the database does nearly the same work."""
    arrived: list[int] = []

    def count(request: RecordedRequest) -> Reply:
        arrived.append(reads.count)
        return answer(request)

    server = start_server(models={OPENAI: {"context_window": 1_000_000}})
    taken = {}
    async with Client(server.url) as client:
        for turns in (125, many):
            provider.respond(answer)
            session_id = await imported(client, turns)
            await said(client, session_id, "The first context after the summary.")
            provider.respond(count)
            # The owner would otherwise still have the conversation.
            await client.change(session_id, title="another")
            before = reads.count
            await said(client, session_id, "Go on.")
            taken[turns] = arrived[-1] - before
    assert 0 < taken[many] < 2 * taken[125], taken


TURNS = 40
"""A history of 160 messages: more than are read even if covered."""


async def test_a_revert_restores_messages_that_were_not_read(client: Client, provider: FakeProvider) -> None:
    provider.respond(answer)
    session_id = await imported(client, TURNS)
    provider.script(Reply(Gate("step"), ToolCall("update_plan", {"items": []})), Reply(Text("Done.")))
    after = (await client.session(session_id))["last_seq"]
    await client.post(session_id, "Go on.")
    await provider.reached("step")
    await revert(client, session_id, 1)
    provider.open("step")
    await client.until_idle(session_id, after)
    short, long = steps_of(provider)[-2:]
    assert "Do part 2." not in short.user_texts
    assert [text for text in long.user_texts if text.startswith("Do part ")] == [
        f"Do part {number}." for number in range(1, TURNS + 1)
    ]
    assert len(long.tool_results) == TURNS + 1


async def test_facts_cover_messages_that_were_not_read(client: Client, provider: FakeProvider) -> None:
    """A later round, whose owner has read only the context, counts all work since the start."""
    provider.respond(answer)
    session_id = await imported(client, TURNS)
    first = [message for message in await client.messages(session_id) if message["is_summary"]]
    for number in range(5):
        await said(client, session_id, f"Question {number}.")
    await compacted(client, session_id)
    [_, second] = [message for message in await client.messages(session_id) if message["is_summary"]]
    for summary in (first[0], second):
        assert f"Completed tool calls: read_file {TURNS}." in summary["parts"][0]["text"]
