"""Helpers for tests of compaction: sessions with something to compact, the calls, and the invariants."""

from __future__ import annotations

from typing import Any

import pytest

from tests.behavior.checks import CLOSED, log_of
from tests.behavior.harness import ANTHROPIC, OPENAI, RESPONSES, Client, Event, of_type
from tests.behavior.long_task import SUMMARY, LongTask, asks_for_summary
from tests.behavior.replica import USAGE, Replica
from tests.provider import FakeProvider, Gate, RecordedRequest, Reply, Text

MODELS = (OPENAI, ANTHROPIC)
POLICIES = ("reactive", "threshold", "handoff")

POLICIES_ON_WIRES = (
    ("reactive", OPENAI),
    ("handoff", ANTHROPIC),
    pytest.param("threshold", ANTHROPIC, marks=pytest.mark.extended),
    pytest.param("handoff", OPENAI, marks=pytest.mark.extended),
)
"""Every policy and every wire format, and for each format a summary requested in the conversation: for tests that
depend on the policy and, at most, on the format of requests."""

SHORT_TAIL = {"tail_tokens": 300, "min_turns_to_keep": 0, "recent_messages_to_keep": 2}
"""Settings that leave something to compact in a session of a few steps."""

WINDOW = 8_000
SMALL = {name: {"context_window": WINDOW} for name in (*MODELS, RESPONSES)}


def settings(policy: str = "reactive", **more: Any) -> dict[str, Any]:
    return {"policy": policy, **SHORT_TAIL, **more}


def gated(*gates: str) -> Any:
    """A summariser whose n-th summary waits at the n-th gate; later ones do not wait."""
    left = list(gates)

    def summarise(request: RecordedRequest, step: int) -> Reply:
        before = [Gate(left.pop(0))] if left else []
        return Reply(*before, Text(SUMMARY.format(step=step)))

    return summarise


async def worked(client: Client, provider: FakeProvider, task: LongTask | None = None, **fields: Any) -> str:
    """An idle session with some steps behind it, of which only the last one was made here; its id."""
    task = task or some_steps()
    history = task.imported()
    return await _completed(client, provider, task, "and the rest", history=history, **fields)


async def worked_here(client: Client, provider: FakeProvider, task: LongTask | None = None, **fields: Any) -> str:
    """As `worked`, but all steps were made here."""
    return await _completed(client, provider, task or some_steps(), "the task itself", **fields)


def some_steps() -> LongTask:
    return LongTask(4, most=4_000, seed=3)


async def _completed(client: Client, provider: FakeProvider, task: LongTask, said: str, **fields: Any) -> str:
    provider.respond(task)
    fields.setdefault("compaction", settings())
    session, _ = await client.run(said, **fields)
    assert (session["outcome"], session["error"]) == ("completed", None)
    return str(session["id"])


async def says(client: Client, session_id: str, text: str) -> dict[str, Any]:
    """Posts a message, which must be answered; the session then."""
    await client.say(session_id, text)
    session = await client.session(session_id)
    assert (session["outcome"], session["error"]) == ("completed", None)
    return session


def path(session_id: str, number: int | None = None) -> str:
    return f"/v1/sessions/{session_id}/compactions" + (f"/{number}" if number is not None else "")


async def compact(client: Client, session_id: str, **body: Any) -> dict[str, Any]:
    """Requests a compaction, which must be accepted."""
    response = await client.http.post(path(session_id), json=body)
    assert response.status_code == 202, response.text
    event: dict[str, Any] = response.json()
    assert event["status"] == "running"
    return event


async def ended(client: Client, session_id: str, number: int, after: int | None = None) -> Event:
    """The event that a round ends with."""

    def ends(event: Event) -> bool:
        kind = event.type.removeprefix("compaction.")
        ended = kind in ("completed", "cancelled", "discarded") or (kind == "failed" and event.data["next"] is None)
        return ended and event.data.get("round") == number

    return await client.wait_for(session_id, ends, after)


async def compacted(client: Client, session_id: str, **body: Any) -> Event:
    """Runs a compaction, which must complete."""
    event = await ended(client, session_id, (await compact(client, session_id, **body))["round"])
    assert event.type == "compaction.completed", event
    return event


async def revert(client: Client, session_id: str, number: int) -> None:
    response = await client.http.delete(path(session_id, number))
    assert (response.status_code, response.text) == (204, "")


async def rounds(client: Client, session_id: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await client.get(path(session_id)))["items"]
    assert [item["round"] for item in items] == list(range(1, len(items) + 1))
    return items


async def state(client: Client, session_id: str) -> tuple[int, bool]:
    """The session's number of compactions, and whether one is running."""
    shown = (await client.session(session_id))["compaction"]
    assert (shown["last_at"] is None) == (shown["count"] == 0)
    return shown["count"], shown["in_progress"]


async def context(client: Client, session_id: str, step: int | None = None) -> dict[str, Any]:
    """The context as sent: system text, tools and messages, without metadata."""
    shown = await client.get(f"/v1/sessions/{session_id}/context", **({"step": step} if step is not None else {}))
    messages = [item["message"] for item in shown["messages"]]
    return {"model": shown["model"], "system": shown["system"], "tools": shown["tools"], "messages": messages}


def settled(shown: dict[str, Any]) -> list[dict[str, Any]]:
    """A context's messages without the placeholder for the user's next message."""
    messages: list[dict[str, Any]] = shown["messages"]
    return messages[:-1] if messages and messages[-1]["role"] == "control" else messages


def said(messages: list[dict[str, Any]]) -> list[str]:
    """The user texts of a context, without summaries."""
    return [
        part["text"]
        for message in messages
        if message["role"] in ("user", "control") and not message["is_summary"]
        for part in message["parts"]
        if part["type"] == "text"
    ]


def assert_sent(shown: dict[str, Any], request: RecordedRequest) -> None:
    """The context equals the request that the provider received."""
    parts = [(m["role"], p) for m in shown["messages"] for p in m["parts"]]
    assert shown["system"]["text"] == request.system
    assert tuple(tool["name"] for tool in shown["tools"]) == request.tool_names
    calls = [p for _, p in parts if p["type"] == "tool_call"]
    assert {p["call_id"]: (p["name"], p["arguments"]) for p in calls} == request.tool_calls
    results = {p["call_id"]: p["output"] for _, p in parts if p["type"] == "tool_result"}
    assert list(results) == list(request.tool_results)
    for call_id, output in request.tool_results.items():
        assert output.startswith(results[call_id]), call_id
    for roles, texts in ((("user", "control"), request.user_texts), (("assistant",), request.assistant_texts)):
        text = "".join(p["text"] for role, p in parts if p["type"] == "text" and role in roles)
        assert "".join(text.split()) == "".join("".join(texts).split())


def steps_of(provider: FakeProvider) -> list[RecordedRequest]:
    """The accepted requests for steps, without those for summaries."""
    return [request for request in provider.requests if request.accepted and not asks_for_summary(request)]


def summaries_of(provider: FakeProvider) -> list[RecordedRequest]:
    return [request for request in provider.requests if asks_for_summary(request)]


def overflows(provider: FakeProvider) -> int:
    """The number of requests that were too long for the window."""
    return sum(refusal.rule == "overflow" for refusal in provider.refusals)


def told(request: RecordedRequest) -> str:
    """The texts of a request, of both sides."""
    return "\n".join((*request.user_texts, *request.assistant_texts))


async def snapshot(client: Client, session_id: str) -> Replica:
    """A client that has loaded everything but followed no events yet."""
    listed = await client.get(path(session_id))
    session = await client.session(session_id)
    queue = await client.get(f"/v1/sessions/{session_id}/queue")
    page = await client.get(f"/v1/sessions/{session_id}/messages", limit=500)
    assert page["next_cursor"] is None
    replica = Replica()
    seqs = [part["last_seq"] for part in (listed, session, queue, page)]
    replica.load(session, page["items"], queue, min(seqs), listed)
    return replica


async def assert_rounds(client: Client, session_id: str) -> list[Event]:
    """Checks that the log alone yields what the API shows of an idle session's rounds; returns the log."""
    events = await log_of(client, session_id)
    replica = Replica()
    replica.connect()
    for event in events:
        replica.apply(event)
    session = await client.session(session_id)
    assert replica.rounds.state == {name: session["compaction"][name] for name in ("count", "last_at", "in_progress")}
    assert not session["compaction"]["in_progress"]
    assert replica.usage == {name: session["usage"][name] for name in USAGE}
    listed = await rounds(client, session_id)
    assert {item["round"]: item["status"] for item in listed} == replica.rounds.status
    assert replica.view == (await snapshot(client, session_id)).view
    await _assert_marks(client, session_id, replica)
    assert [event.data["round"] for event in of_type(events, "compaction.started")] == [i["round"] for i in listed]
    return events


async def _assert_marks(client: Client, session_id: str, replica: Replica) -> None:
    """Checks the history's data on rounds and cleared outputs, message by message. For an empty message, as a cancel or
    a refusal leaves it, no client knows whether the last round covered it: no context contains it."""
    shown = {message["id"]: message for message in replica.view["messages"]}
    for message in await client.messages(session_id):
        if message["voided_at"] is not None:
            continue
        known = shown[message["id"]]
        says_something = any(part["type"] != "reasoning" for part in message["parts"])
        if message["role"] in ("assistant", "tool") and says_something and not message["is_summary"]:
            assert message["round"] == known["round"], message
        for part in message["parts"]:
            if part["type"] == "tool_result":
                assert part["status"] in CLOSED
                assert (part["original_tokens"] is None) == (part["compacted_at"] is None)
