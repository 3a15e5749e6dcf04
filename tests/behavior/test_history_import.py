"""Imported conversations: taken over completely, repaired if broken, continued, and exported."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from app.messages import new_id
from tests.behavior.checks import assert_history, assert_sound
from tests.behavior.combinations import across, first_of
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, command, of_type
from tests.behavior.rounds import compacted, revert, worked_here
from tests.provider import EndWithoutFinish, FakeProvider, Gate, RecordedRequest, Reply, Text, ToolCall
from tests.unit.interchange.conversations import PNG, renumbered

pytestmark = pytest.mark.shared_server

Wire = dict[str, Any]
MODELS = [OPENAI, ANTHROPIC]
FORMATS = ["openai", "anthropic"]


def call(call_id: str, name: str, **arguments: Any) -> Wire:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def use(call_id: str, name: str, **arguments: Any) -> Wire:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, content: Any, **more: Any) -> Wire:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


SOUND: dict[str, list[Wire]] = {
    "openai": [
        {"role": "system", "content": "You are terse."},
        {"role": "user", "content": [{"type": "text", "text": "List the files, über alles"}]},
        {"role": "assistant", "content": "I look.", "tool_calls": [call("c1", "ls", path="."), call("c2", "pwd")]},
        {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
        {"role": "tool", "tool_call_id": "c2", "content": "/srv"},
        {"role": "assistant", "content": "One file.", "reasoning_content": "Just one."},
    ],
    "anthropic": [
        {"role": "user", "content": "List the files, über alles"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Just one.", "signature": "c2ln"},
                {"type": "text", "text": "I look."},
                use("t1", "ls", path="."),
                use("t2", "pwd"),
            ],
        },
        {"role": "user", "content": [result("t1", "a.txt"), result("t2", [{"type": "text", "text": "/srv"}])]},
        {"role": "assistant", "content": "One file."},
    ],
}
"""The same conversation in both formats."""

IMAGE_URL = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}

BROKEN: dict[str, tuple[list[Wire], list[str]]] = {
    "openai, ids that repeat and a result in the wrong place": (
        [
            {"role": "assistant", "content": None, "tool_calls": [call("c", "ls"), call("c", "pwd")]},
            {"role": "user", "content": "said in between"},
            {"role": "tool", "tool_call_id": "c", "content": "first output"},
            {"role": "tool", "tool_call_id": "c", "content": "second output"},
            {"role": "assistant", "content": "", "tool_calls": [call("c", "cat")]},
            {"role": "tool", "tool_call_id": "c", "content": "third output"},
        ],
        ["said in between", "first output", "second output", "third output", '"pwd"', '"cat"'],
    ),
    "openai, a lost result, a lost call and arguments cut short": (
        [
            {"role": "user", "content": "begin"},
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "x", "type": "function", "function": {"name": "odd name!", "arguments": '{"a": '}}
                ],
            },
            {"role": "tool", "tool_call_id": "other", "content": "orphaned output"},
            {"role": "assistant", "content": " "},
        ],
        ["begin", "odd_name_", "_invalid", "interrupted", "orphaned output"],
    ),
    "openai, functions of old, images, names": (
        [
            {"role": "user", "name": "ann", "content": [IMAGE_URL, {"type": "text", "text": "what is it?"}]},
            {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}},
            {"role": "function", "name": "look", "content": "a cat"},
            {"role": "developer", "content": "mind the cat"},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.org/c.png"}}]},
        ],
        [PNG, "ann", "what is it?", '"look"', "a cat", "mind the cat", "https://example.org/c.png"],
    ),
    "anthropic, results apart, repeated, orphaned, with images": (
        [
            {"role": "assistant", "content": [use("t", "ls")]},
            {"role": "assistant", "content": [use("u", "pwd")]},
            {"role": "user", "content": [{"type": "text", "text": "words before"}, result("u", [IMAGE])]},
            {"role": "user", "content": [result("t", "broke", is_error=True), result("gone", "orphaned output")]},
            {"role": "user", "content": [result("t", "once more")]},
            {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "b3A="}]},
        ],
        ["words before", PNG, "broke", "orphaned output", "once more", '"pwd"'],
    ),
    "anthropic, blocks that nobody here knows": (
        [
            {"role": "user", "content": ["bare string", {"type": "hologram", "beam": 7}]},
            {"role": "assistant", "content": [{"type": "server_tool_use", "name": "web_search", "input": {}}, IMAGE]},
            {"role": "assistant", "content": [use("t", "ls")]},
        ],
        ["bare string", "hologram", "web_search", PNG, "interrupted"],
    ),
}


def everything(request: RecordedRequest) -> str:
    """All messages of the request, in the wire format."""
    return json.dumps(request.messages, ensure_ascii=False)


async def export(client: Client, session_id: str, form: str, **params: Any) -> list[Wire]:
    """The whole history in a wire format, page by page."""
    path = f"/v1/sessions/{session_id}/messages"
    items: list[Wire] = []
    after: dict[str, str] = {}
    while True:
        page = await client.get(path, format=form, **params, **after)
        items += page["items"]
        if page["next_cursor"] is None:
            return items
        after = {"after": page["next_cursor"]}


@across(form=FORMATS, model=MODELS)
async def test_a_conversation_is_continued(client: Client, provider: FakeProvider, model: str, form: str) -> None:
    provider.script(Reply(Text("Gone on.")))
    session, events = await client.run("And now?", model=model, history={"format": form, "messages": SOUND[form]})

    assert (session["outcome"], provider.refusals) == ("completed", [])
    (request,) = provider.requests
    assert list(request.tool_results.values()) == ["a.txt", "/srv"]
    assert list(request.tool_calls.values()) == [("ls", {"path": "."}), ("pwd", {})]
    assert request.assistant_texts == ("I look.", "One file.")
    assert request.user_texts == ("List the files, über alles", "And now?")
    assert ("You are terse." in request.system) == (form == "openai")
    assert "Just one." not in everything(request)

    await assert_sound(client, session["id"])
    messages = await client.messages(session["id"])
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    created = of_type(events, "message.created")
    assert [event.data["message"] for event in created] == messages[:5]
    assert [event.id for event in created] == [message["seq"] for message in messages[:5]]


@across(name=BROKEN, model=MODELS)
async def test_a_broken_conversation_is_repaired_and_nothing_is_lost(
    client: Client, provider: FakeProvider, model: str, name: str
) -> None:
    provider.script(Reply(Text("Gone on.")))
    messages, said = BROKEN[name]
    history = {"format": name.partition(",")[0], "messages": messages}
    session, _ = await client.run("And now?", model=model, history=history)

    assert (session["outcome"], session["error"], provider.refusals) == ("completed", None, [])
    sent = everything(provider.requests[0])
    assert [text for text in said if text not in sent] == []
    assert_history(await client.messages(session["id"]))
    for form in FORMATS:
        once = await export(client, session["id"], form)
        made = await client.create(model=model, history={"format": form, "messages": once})
        assert await export(client, made["id"], form) == once


async def test_without_a_task_the_session_waits(client: Client, provider: FakeProvider) -> None:
    made = await client.create(history={"format": "openai", "messages": SOUND["openai"]})
    assert (made["status"], made["outcome"], made["last_seq"]) == ("idle", None, 5)
    messages = await client.messages(made["id"])
    assert made["context"]["tokens"] == sum(message["tokens"] for message in messages) > 0
    assert await client.until_idle(made["id"]) != []

    await client.say(made["id"], "Go on.")
    assert provider.requests[0].last_user_text == "Go on."
    assert provider.refusals == []
    call_id = messages[1]["parts"][1]["call_id"]
    path = f"/v1/sessions/{made['id']}/tool-calls/{call_id}"
    assert (await client.get(path))["result"]["output"] == "a.txt"
    assert (await client.http.get(f"{path}/output")).content == b"a.txt"


async def test_a_prompt_of_the_request_comes_before_that_of_the_conversation(
    client: Client, provider: FakeProvider
) -> None:
    history = {"format": "openai", "messages": SOUND["openai"]}
    session, _ = await client.run("And now?", system_prompt="You are wordy.", history=history)
    (request,) = provider.requests
    assert "You are wordy." in request.system
    assert "You are terse." not in request.system
    assert request.first_user_text == "You are terse."
    assert (await client.messages(session["id"]))[0]["role"] == "control"


async def test_a_conversation_brings_no_longer_prompt_than_a_request_may_name(client: Client) -> None:
    for length, status in ((200_000, 201), (200_001, 422)):
        messages = [{"role": "system", "content": "s" * length}, *SOUND["openai"][1:]]
        answer = await client.http.post("/v1/sessions", json={"history": {"format": "openai", "messages": messages}})
        assert answer.status_code == status, length
    problem = answer.json()
    assert (problem["code"], problem["index"]) == ("invalid_history", 0)
    assert "may have at most 200,000 characters" in problem["detail"]


@pytest.mark.parametrize("form", FORMATS)
async def test_an_empty_history_is_refused(client: Client, form: str) -> None:
    for messages, code, says in (
        ([], "validation_error", "history.messages: input should have at least 1 item"),
        ([{"role": "user", "content": ""}], "invalid_history", "all messages are empty"),
    ):
        answer = await client.http.post("/v1/sessions", json={"history": {"format": form, "messages": messages}})
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (422, code)
        assert says in problem["detail"]
    assert (await client.get("/v1/sessions"))["items"] == []


@pytest.mark.parametrize("form", FORMATS)
async def test_a_message_without_content_is_not_left_out_silently(
    client: Client, provider: FakeProvider, form: str
) -> None:
    history = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": ""}]
    session, _ = await client.run("And now?", history={"format": form, "messages": history})
    first, note, *_ = await client.messages(session["id"])
    assert (first["role"], note["role"]) == ("user", "control")
    assert note["parts"][0]["text"] == "[An empty message of the assistant was here.]"
    assert "[An empty message of the assistant was here" in everything(provider.requests[0])
    assert provider.refusals == []


@pytest.mark.parametrize(
    ("message", "says"), [(7, "object"), ({"content": "x"}, "role"), ({"role": "user", "content": 7}, "content")]
)
async def test_a_history_with_an_invalid_message_is_refused_completely(client: Client, message: Any, says: str) -> None:
    session_id = new_id()
    history = {"format": "openai", "messages": [*SOUND["openai"], message]}
    answer = await client.http.post("/v1/sessions", json={"id": session_id, "task": "Go", "history": history})
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["index"]) == (422, "invalid_history", 6)
    assert says in problem["detail"]
    assert (await client.http.get(f"/v1/sessions/{session_id}")).status_code == 404


async def test_creating_again_with_the_same_history_is_safe(client: Client) -> None:
    body: Wire = {"model": OPENAI, "id": new_id(), "history": {"format": "anthropic", "messages": SOUND["anthropic"]}}
    answers = [await client.http.post("/v1/sessions", json=body) for _ in range(2)]
    other = {**body, "history": {"format": "anthropic", "messages": SOUND["anthropic"][:1]}}
    answers.append(await client.http.post("/v1/sessions", json=other))
    assert [answer.status_code for answer in answers] == [201, 200, 409]
    assert len(await client.messages(body["id"])) == 4


@first_of(count=[1_000, 10_000])
@pytest.mark.slow
async def test_thousands_of_messages_are_one_create(client: Client, provider: FakeProvider, count: int) -> None:
    history: list[Wire] = []
    filler = 4_200_000 // count
    for n in range(count // 4):
        history += [
            {"role": "user", "content": f"question {n} " + "x" * filler},
            {"role": "assistant", "content": None, "tool_calls": [call("c", "ls", n=n)]},
            {"role": "tool", "tool_call_id": "c", "content": f"output {n} " + "y" * filler},
            {"role": "assistant", "content": f"answer {n}"},
        ]
    assert len(json.dumps(history)) > 2 * 1024 * 1024
    made = await client.create(history={"format": "openai", "messages": history})

    events = await client.until_idle(made["id"])
    assert [event.id for event in events] == list(range(1, count + 2))
    messages = await client.messages(made["id"])
    assert len(messages) == count
    assert_history(messages)
    assert renumbered(await export(client, made["id"], "openai", limit=500)) == renumbered(_told_apart(history))


def _told_apart(history: list[Wire]) -> list[Wire]:
    """The conversation with a unique id for each call."""
    told = json.loads(json.dumps(history))
    for place in range(1, len(told), 4):
        told[place]["tool_calls"][0]["id"] = told[place + 1]["tool_call_id"] = f"c{place}"
    result: list[Wire] = told
    return result


async def test_a_large_body_without_a_history_is_too_large(client: Client) -> None:
    text = "x" * (1024 * 1024)
    messages = [{"role": "user", "content": "Tell me all."}, {"role": "assistant", "content": text}]
    fine = {"model": OPENAI, "history": {"format": "openai", "messages": messages}}
    assert (await client.http.post("/v1/sessions", json=fine)).status_code == 201
    for body in ({"title": text}, {"title": text, "history": None}):
        assert (await client.http.post("/v1/sessions", json={"model": OPENAI, **body})).status_code == 413


@pytest.mark.parametrize("form", FORMATS)
async def test_a_run_is_exported_without_its_void_attempts(client: Client, provider: FakeProvider, form: str) -> None:
    provider.script(
        Reply(Text("Half of"), EndWithoutFinish()),
        Reply(Text("I run."), command("echo one"), ToolCall("fly", {})),
        Reply(Text("Done.")),
    )
    session, _ = await client.run("Run it.")
    whole = await export(client, session["id"], form)
    text = json.dumps(whole)
    assert "Half of" not in text
    assert "one\\n" in text
    roles = [item["role"] for item in whole]
    wanted = ["user", "assistant", "tool", "tool", "assistant"]
    assert roles == (wanted if form == "openai" else ["user", "assistant", "user", "assistant"])
    for limit in (1, 2, 3):
        assert await export(client, session["id"], form, limit=limit) == whole
    first = await client.get(f"/v1/sessions/{session['id']}/messages", format=form, limit=2)
    assert len(first["items"]) == (4 if form == "openai" else 3)
    assert first["last_seq"] == session["last_seq"]

    provider.script(Reply(Text("Further.")))
    history = {"format": form, "messages": whole}
    again, _ = await client.run("Go on.", model=ANTHROPIC if form == "openai" else OPENAI, history=history)
    assert (again["outcome"], provider.refusals) == ("completed", [])
    assert (await export(client, again["id"], form))[: len(whole)] == whole


@across(1, policy=["reactive", "threshold"], form=FORMATS)
async def test_an_export_is_the_whole_history_whatever_was_compacted(
    client: Client, provider: FakeProvider, form: str, policy: str
) -> None:
    session_id = await worked_here(client, provider)
    whole = await export(client, session_id, form)
    await compacted(client, session_id, policy=policy)
    assert await export(client, session_id, form) == whole, "what a round covers is there, and its summary is not"
    await revert(client, session_id, 1)
    await compacted(client, session_id, policy=policy)
    assert [message["is_summary"] for message in await client.messages(session_id)].count(True) == 2
    for limit in (1, 3, 100):
        assert await export(client, session_id, form, limit=limit) == whole
    made = await client.create(history={"format": form, "messages": whole})
    assert await export(client, made["id"], form) == whole


@pytest.mark.parametrize("form", FORMATS)
async def test_a_running_step_is_left_out_until_it_has_ended(client: Client, provider: FakeProvider, form: str) -> None:
    provider.script(Reply(Text("I run."), command("echo one")), Reply(Text("So"), Gate("end")))
    made = await client.create("Run it.")
    await provider.reached("end")
    await client.wait_for(made["id"], lambda event: event.type == "text.delta" and event.data["text"] == "So")
    begun = await export(client, made["id"], form)
    provider.open("end")
    await client.until_idle(made["id"])
    assert begun == (await export(client, made["id"], form))[:-1]

    messages = await client.messages(made["id"])
    late = await client.get(f"/v1/sessions/{made['id']}/messages", format=form, after=str(messages[1]["seq"]))
    assert late["items"][0]["role"] == "assistant", "results come with their calls"


@pytest.mark.parametrize("form", ["xml", "", "OPENAI"])
async def test_other_formats_are_refused(client: Client, form: str) -> None:
    made = await client.create()
    answer: httpx.Response = await client.http.get(f"/v1/sessions/{made['id']}/messages", params={"format": form})
    assert (answer.status_code, answer.json()["code"]) == (422, "validation_error")


async def test_an_anthropic_export_begins_with_the_user(client: Client) -> None:
    history = [{"role": "assistant", "content": "Hello, what can I do?"}, {"role": "user", "content": "Wait."}]
    made = await client.create(history={"format": "openai", "messages": history})
    exported = await export(client, made["id"], "anthropic")
    assert [item["role"] for item in exported] == ["user", "assistant", "user"]
    assert exported[1:] == history
    assert await export(client, made["id"], "openai") == history

    again = await client.create(history={"format": "anthropic", "messages": exported})
    assert await export(client, again["id"], "anthropic", limit=1) == exported
