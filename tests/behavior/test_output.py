"""A run that has to submit a value that meets a JSON Schema."""

from __future__ import annotations

from typing import Any

import pytest

from tests.behavior.checks import assert_sound
from tests.behavior.harness import ANTHROPIC, OPENAI, RESPONSES, Client, Event, of_type
from tests.provider import FakeProvider, Reply, Text, ToolCall

SCHEMA = {
    "type": "object",
    "properties": {"passed": {"type": "boolean"}, "failures": {"type": "array", "items": {"$ref": "#/$defs/failure"}}},
    "required": ["passed"],
    "additionalProperties": False,
    "$defs": {"failure": {"type": "object", "properties": {"test": {"type": "string"}}, "required": ["test"]}},
}
FORMAT = {"schema": SCHEMA, "name": "report", "description": "How the tests went."}
VALUE = {"passed": False, "failures": [{"test": "test_a"}]}
IMPOSSIBLE = {"schema": {"oneOf": [{"type": "string"}, {"const": "x"}], "pattern": "^x$"}}
NESTED = {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#"}}, {"type": "object"}]}
MODELS = pytest.mark.parametrize("model", [OPENAI, ANTHROPIC, RESPONSES])

pytestmark = pytest.mark.shared_server


def submit(arguments: Any) -> ToolCall:
    return ToolCall("submit_output", arguments)


def results(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.data["status"], event.data["output"]) for event in of_type(events, "tool.result")]


@MODELS
async def test_only_a_valid_submission_completes_the_run(client: Client, provider: FakeProvider, model: str) -> None:
    provider.script(
        Reply(Text("I look."), ToolCall("list_directory")),
        Reply(Text("All is well.")),
        Reply(submit('{"passed": true')),
        Reply(submit({"passed": "no", "failures": [{"test": "test_a"}]})),
        Reply(Text("One fails."), submit(VALUE)),
    )
    session, events = await client.run("test it", model=model, output=FORMAT)

    assert (session["outcome"], session["output"], session["answer"]) == ("completed", VALUE, "One fails.")
    (idle,) = of_type(events, "session.idle")
    assert (idle.data["output"], idle.data["answer"]) == (VALUE, "One fails.")
    found = results(events)[1:]
    assert [status for status, _ in found] == ["error", "error", "completed"]
    assert "are not valid JSON" in found[0][1]
    assert "$.passed: 'no' is not of type 'boolean' (rule type)" in found[1][1]
    asked = [event for event in of_type(events, "message.created") if event.data["message"]["role"] == "control"]
    assert len(asked) == 1
    assert "submit_output" in asked[0].data["message"]["parts"][0]["text"]
    assert provider.refusals == []
    await assert_sound(client, session["id"])


@MODELS
async def test_three_invalid_submissions_fail_the_run(client: Client, provider: FakeProvider, model: str) -> None:
    provider.script(*[Reply(submit({"output": "x"}))] * 3)
    session, events = await client.run("try", model=model, output=IMPOSSIBLE)

    assert (session["outcome"], session["error"]["code"], session["output"]) == ("failed", "output_invalid", None)
    assert [status for status, _ in results(events)] == ["error"] * 3
    assert "(rule oneOf)" in session["error"]["detail"]
    assert provider.refusals == []

    # A resume gives three tries again; a second text is none.
    provider.script(Reply(submit({"output": "x"})), *[Reply(Text("I cannot."))] * 2)
    await client.resume(session["id"])
    await client.until_idle(session["id"], session["last_seq"])
    again = await client.session(session["id"])
    assert (again["outcome"], again["error"]["code"]) == ("failed", "output_invalid")
    assert len(provider.requests) == 6


async def test_a_message_can_ask_for_an_output_of_its_run(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(Text("hello")))
    session, _ = await client.run("hi")
    provider.script(Reply(submit({"output": [1, {"a": [2]}]})), Reply(Text("free again")))
    receipt = await client.post(session["id"], "count", output={"schema": NESTED})
    await client.until_idle(session["id"], session["last_seq"])
    counted = await client.session(session["id"])
    assert (counted["outcome"], counted["output"]) == ("completed", [1, {"a": [2]}])
    path = f"/v1/sessions/{session['id']}/queue"
    other = await client.http.post(path, json={"content": "count", "id": receipt["id"], "output": {"schema": {}}})
    assert other.status_code == 409

    await client.say(session["id"], "chat", counted["last_seq"])
    free = await client.session(session["id"])
    assert (free["outcome"], free["answer"], free["output"]) == ("completed", "free again", None)
    assert "submit_output" not in str(provider.requests[-1].body["tools"])


async def test_the_format_can_be_changed_and_is_copied_by_forks(client: Client, provider: FakeProvider) -> None:
    session = await client.create(output=FORMAT)
    fork = (await client.http.post(f"/v1/sessions/{session['id']}/fork", json={})).json()
    provider.script(Reply(submit(VALUE)))
    await client.say(fork["id"], "go", fork["last_seq"])
    assert (await client.session(fork["id"]))["output"] == VALUE

    await client.change(session["id"], output=None)
    provider.script(Reply(Text("text")))
    await client.say(session["id"], "go")
    assert (await client.session(session["id"]))["answer"] == "text"

    for path, method in (("", "POST"), (f"/{session['id']}", "PATCH"), (f"/{session['id']}/queue", "POST")):
        body = {"output": {"schema": {"type": 7}}, **({"content": "x"} if path.endswith("queue") else {})}
        refused = await client.http.request(method, f"/v1/sessions{path}", json=body)
        assert (refused.status_code, refused.json()["code"]) == (422, "validation_error")
        assert refused.json()["errors"][0]["field"] == "output.schema"
