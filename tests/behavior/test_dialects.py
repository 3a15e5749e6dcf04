"""Answers as gateways and other servers send them, byte for byte, through a whole server."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.behavior.harness import ANTHROPIC, OPENAI, Client, of_type
from tests.provider import EndWithoutFinish, FakeProvider, HttpError, Raw, Reply, Text

pytestmark = pytest.mark.shared_server

DONE = b"data: [DONE]\n\n"
COMMAND = orjson.dumps({"command": "echo MARK-$((40+2))"}).decode()


def chunk(finish: str | None = None, **delta: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: %s\n\n" % orjson.dumps({"object": "chat.completion.chunk", "choices": [choice]})


def call(arguments: str, name: str | None = "execute_command") -> bytes:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return chunk(tool_calls=[{"index": 0, "id": "c", "type": "function", "function": function}])


def raw(*pieces: bytes) -> Reply:
    return Reply(Raw(b"".join(pieces)), EndWithoutFinish())


ANSWERS = [
    pytest.param(raw(chunk(content="four"), DONE), id="no finish reason"),
    pytest.param(raw(chunk(content="four"), chunk("STOP"), b"event: ping\ndata: ping\n\n", DONE), id="a shouted stop"),
    pytest.param(
        HttpError(200, chunk(content="four") + chunk("stop") + DONE, {"content-type": "application/json"}),
        id="a stream said to be a document",
    ),
    pytest.param(raw((chunk(content="four") + chunk("stop")).replace(b"\n\n", b"\n"), b"\n"), id="no blank lines"),
]


@pytest.mark.parametrize("answer", ANSWERS)
async def test_an_answer_is_read_at_the_first_attempt(
    client: Client, provider: FakeProvider, answer: Reply | HttpError
) -> None:
    provider.script(answer, Reply(Text("never")))
    session, events = await client.run("two and two?", model=OPENAI)
    assert (session["outcome"], session["answer"]) == ("completed", "four")
    assert of_type(events, "step.retrying") == []


HALVES = [
    pytest.param(OPENAI, raw(chunk(content="half")), id="cut"),
    pytest.param(OPENAI, raw(chunk(content="half"), chunk("network_error"), DONE), id="broken off"),
    pytest.param(
        ANTHROPIC,
        Reply(Text("half"), Raw(b'data: {"type":"message_delta","delta":{"stop_reason":"network_error"}}\n\n')),
        id="broken off in messages",
    ),
]


@pytest.mark.parametrize(("model", "answer"), HALVES)
async def test_half_an_answer_is_discarded(client: Client, provider: FakeProvider, model: str, answer: Reply) -> None:
    provider.script(answer, Reply(Text("four")))
    session, events = await client.run("two and two?", model=model)
    assert (session["outcome"], session["answer"]) == ("completed", "four")
    assert len(of_type(events, "step.retrying")) == 1


CALLS = [
    pytest.param([call(COMMAND[:9]), call(COMMAND[:20]), call(COMMAND)], id="growing arguments"),
    pytest.param([call(COMMAND[:9]), call(COMMAND[9:], None), call(COMMAND)], id="arguments once more"),
    pytest.param([call(orjson.dumps(COMMAND).decode())], id="arguments encoded twice"),
    pytest.param(
        [call(COMMAND, None), call("", "functions.execute_command<|channel|>json")], id="a late, garbled name"
    ),
    pytest.param([call(COMMAND), call(COMMAND).replace(b'"delta"', b'"message"')], id="a complete message"),
]


@pytest.mark.parametrize("pieces", CALLS)
async def test_a_call_runs_once(client: Client, provider: FakeProvider, pieces: list[bytes]) -> None:
    provider.script(raw(*pieces, chunk("tool_calls"), DONE), Reply(Text("done")))
    session, events = await client.run("run it", model=OPENAI)
    assert session["outcome"] == "completed"
    (called,) = of_type(events, "tool.call")
    assert (called.data["name"], called.data["arguments"]) == ("execute_command", orjson.loads(COMMAND))
    (result,) = of_type(events, "tool.result")
    assert "MARK-42" in result.data["output"]


async def test_a_call_without_a_name_gets_an_error_as_its_result(client: Client, provider: FakeProvider) -> None:
    provider.script(raw(call("{}", None), chunk("tool_calls"), DONE), Reply(Text("done")))
    session, events = await client.run("run it", model=OPENAI)
    assert (session["outcome"], session["answer"]) == ("completed", "done")
    (result,) = of_type(events, "tool.result")
    assert "unknown" in result.data["output"]


THOUGHTS = [
    pytest.param([chunk(content="<th"), chunk(content="ink>hm</think>\n\nfour")], id="tags"),
    pytest.param(
        [chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]), chunk(content="four")],
        id="parts",
    ),
    pytest.param([chunk(reasoning="hm", reasoning_content="hm"), chunk(content="four")], id="two fields"),
]


@pytest.mark.parametrize("pieces", THOUGHTS)
async def test_reasoning_is_no_part_of_the_answer(client: Client, provider: FakeProvider, pieces: list[bytes]) -> None:
    provider.script(raw(*pieces, chunk("stop"), DONE))
    session, events = await client.run("two and two?", model=OPENAI)
    assert session["answer"] == "four"
    assert [event.data["text"] for event in of_type(events, "reasoning.completed")] == ["hm"]
