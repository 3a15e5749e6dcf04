"""The answer of a run: the text of its final message, on the session and in its last event."""

from __future__ import annotations

import pytest

from tests.behavior.harness import ANTHROPIC, OPENAI, Client, Event, of_type
from tests.provider import FakeProvider, HttpError, Reply, Text, ToolCall


def answer_of(events: list[Event]) -> object:
    """The answer in the last event of the last run."""
    return of_type(events, "session.idle")[-1].data["answer"]


@pytest.mark.shared_server
@pytest.mark.parametrize("model", [OPENAI, ANTHROPIC])
async def test_the_answer_is_the_final_message_of_a_completed_run(
    client: Client, provider: FakeProvider, model: str
) -> None:
    idle = await client.create(model=model)
    assert idle["answer"] is None

    provider.script(Reply(Text("I look."), ToolCall("list_directory")), Reply(Text("It is "), Text("empty.")))
    session, events = await client.run("look", model=model)
    assert (session["answer"], answer_of(events)) == ("It is empty.", "It is empty.")
    assert of_type(events, "session.updated", "session.created")[0].data["session"]["answer"] is None

    provider.script(HttpError(401))
    events = await client.say(session["id"], "again", session["last_seq"])
    failed = await client.session(session["id"])
    assert (failed["outcome"], failed["answer"], answer_of(events)) == ("failed", None, None)

    fork = (await client.http.post(f"/v1/sessions/{session['id']}/fork", json={})).json()
    assert (fork["outcome"], fork["answer"]) == (None, None)
