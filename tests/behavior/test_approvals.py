"""Calls that wait for a person: none starts before its whole message is decided, none runs without approval."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.behavior.approving import ALWAYS, approve_all, command, decide, pending, runs
from tests.behavior.checks import assert_sound, at, following
from tests.behavior.conftest import StartServer
from tests.behavior.harness import Client, Event, of_type
from tests.behavior.test_cancel_resume import cancel
from tests.load import CANCEL_S
from tests.provider import FakeProvider, Reply, Text, ToolCall

pytestmark = pytest.mark.shared_server


def ends(events: list[Event]) -> list[tuple[str, str]]:
    """How the approvals ended, in order."""
    return [(event.data["decision"], event.data["by"]) for event in of_type(events, "approval.resolved")]


def statuses(events: list[Event]) -> list[str]:
    """Of the results, in the model's order."""
    results = sorted(of_type(events, "tool.result"), key=lambda event: event.data["index"])
    return [event.data["status"] for event in results]


async def test_calls_of_one_message_start_when_all_of_them_are_decided(
    client: Client, provider: FakeProvider, sandbox: str
) -> None:
    provider.script(Reply(Text("I try."), command("one"), command("two"), ToolCall("no_tool")), Reply(Text("done")))
    session_id = (await client.create("task", approval=ALWAYS))["id"]
    reading = asyncio.create_task(client.until_idle(session_id))
    async with following(client, session_id) as follower:
        requested = await follower.type("approval.requested", 2)
        session = await client.session(session_id)
        assert (session["status"], session["approval"]) == ("awaiting_approval", ALWAYS)
        first, second = await pending(client, session_id)
        assert second == {
            "call_id": requested.data["call_id"],
            "message_id": second["message_id"],
            "name": "execute_command",
            "arguments": {"command": "echo two >> runs"},
            "requested_at": requested.data["at"],
            "expires_at": requested.data["expires_at"],
        }
        assert (await decide(client, session_id, first["call_id"], "approve")).status_code == 204
        await follower.type("approval.resolved")
        assert [each["call_id"] for each in await pending(client, session_id)] == [second["call_id"]]
        call = await client.get(f"/v1/sessions/{session_id}/tool-calls/{first['call_id']}")
        assert (call["call"]["status"], call["result"]) == ("pending", None)
        assert (await client.session(session_id))["status"] == "awaiting_approval"
        assert not reading.done(), "a session that waits is not idle"
        again = await decide(client, session_id, first["call_id"], "deny")
        assert (again.status_code, again.json()["code"]) == (409, "approval_resolved")
        answer = await decide(client, session_id, second["call_id"], "deny", reason="Two is too many.")
        assert (answer.status_code, answer.content) == (204, b"")
    events = await reading

    assert ends(events) == [("approve", "user"), ("deny", "user")]
    assert statuses(events) == ["completed", "denied", "error"]
    assert await runs(client, session_id) == "one\n"
    outputs = list(provider.requests[1].tool_results.values())
    assert "Two is too many." in outputs[1]
    assert "did not run" in outputs[1]
    seen = [event.data["session"]["status"] for event in of_type(events, "session.updated")]
    assert seen == ["awaiting_approval", "running"]
    names = [event.type for event in await assert_sound(client, session_id)]
    assert names.index("tool.result") > names.index("approval.resolved") > names.index("approval.requested")
    assert names.index("approval.requested") > names.index("tool.call")
    assert provider.refusals == []

    asked, decided = of_type(events, "approval.requested")[0], of_type(events, "approval.resolved")[-1]
    first_step, second_step = (await client.get(f"/v1/sessions/{session_id}/steps"))["items"]
    assert first_step["waiting_ms"] == pytest.approx((at(decided) - at(asked)).total_seconds() * 1000, abs=2)
    assert second_step["waiting_ms"] == 0
    for step in (first_step, second_step):
        # The times of events are rounded.
        assert 0 <= step["model_ms"] <= step["duration_ms"] - step["waiting_ms"] + 2


async def test_an_expired_approval_is_a_denial_that_the_model_sees(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(command("one")), Reply(Text("done")))
    session_id = (await client.create("task", approval={"policy": "always", "timeout_s": 0.3}))["id"]
    async with asyncio.timeout(60):
        events = await client.until_idle(session_id)

    (requested,) = of_type(events, "approval.requested")
    assert ends(events) == [("deny", "timeout")]
    assert statuses(events) == ["denied"]
    assert "nobody answered within 0.3 s" in next(iter(provider.requests[1].tool_results.values()))
    assert await runs(client, session_id) == ""
    late = await decide(client, session_id, requested.data["call_id"], "approve")
    assert (late.status_code, late.json()["code"]) == (409, "approval_resolved")
    unknown = await decide(client, session_id, "call_0", "approve")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "approval_not_found")
    await assert_sound(client, session_id)
    assert provider.refusals == []


@pytest.mark.parametrize(
    ("how", "status", "outcome"),
    [
        ("cancel", "cancelled", "cancelled"),
        ("interrupt", "cancelled", "completed"),
        ("limit", "interrupted", "limit_reached"),
    ],
)
async def test_what_ends_the_step_ends_the_wait(
    client: Client, provider: FakeProvider, how: str, status: str, outcome: str
) -> None:
    provider.script(Reply(command("one"), command("two")), Reply(Text("done")))
    limits = {"max_seconds": 1.5} if how == "limit" else None
    session_id = (await client.create("task", approval=ALWAYS, limits=limits))["id"]
    async with following(client, session_id) as follower:
        requested = await follower.type("approval.requested")
        assert (await decide(client, session_id, requested.data["call_id"], "approve")).status_code == 204
        await follower.type("approval.resolved")
        started = time.monotonic()
        if how == "cancel":
            await cancel(client, session_id)
        elif how == "interrupt":
            await client.post(session_id, "stop that", "interrupt")
        await follower.type("session.idle")
        took = time.monotonic() - started

    events = await assert_sound(client, session_id)
    assert took < CANCEL_S
    assert ends(events) == [("approve", "user"), ("cancelled", how)]
    assert statuses(events) == [status, status]
    assert await pending(client, session_id) == []
    assert await runs(client, session_id) == "", "an approved call does not run without the rest of its message"
    assert (await client.session(session_id))["outcome"] == outcome
    if how == "interrupt":
        assert provider.requests[1].last_user_text == "stop that"
    assert provider.refusals == []


async def test_a_steer_waits_for_the_decision(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(command("one")), Reply(Text("done")))
    session_id = (await client.create("task", approval=ALWAYS))["id"]
    async with following(client, session_id) as follower:
        await follower.type("approval.requested")
        receipt = await client.post(session_id, "look left")
        assert (receipt["status"], len(await pending(client, session_id))) == ("pending", 1)
        await approve_all(client, session_id)
        await follower.type("session.idle")

    assert [request.user_texts for request in provider.requests] == [("task",), ("task", "look left")]
    assert await runs(client, session_id) == "one\n"
    names = [event.type for event in await assert_sound(client, session_id)]
    assert names.index("tool.result") < len(names) - names[::-1].index("message.dequeued")
    assert provider.refusals == []


async def test_a_pattern_that_explodes_is_refused(client: Client) -> None:
    for pattern in ("(?:(?:(?:(?:a?){50}){50}){50}){50}", r"(a)\1"):
        refused = await client.http.post("/v1/sessions", json={"approval": {"policy": {"commands": [pattern]}}})
        problem = refused.json()
        assert (refused.status_code, problem["code"]) == (422, "validation_error")
        assert "Input should be a regular expression in RE2 syntax: " in problem["errors"][0]["message"]


async def test_rules_name_tools_and_match_commands(client: Client, provider: FakeProvider) -> None:
    rules = {"tools": ["write_file"], "commands": [r"\brm\b", "^sudo "]}
    provider.script(
        Reply(
            ToolCall("execute_command", {"command": "echo form; echo farm"}),
            ToolCall("execute_command", {"command": "cd /tmp && rm -rf ."}),
            ToolCall("write_file", {"path": "rm", "content": ""}),
            ToolCall("read_file", {"path": "rm"}),
        ),
        Reply(Text("done")),
    )
    session_id = (await client.create("task", approval={"policy": rules}))["id"]
    async with following(client, session_id) as follower:
        await follower.type("approval.requested", 2)
        waiting = await pending(client, session_id)
        assert [each["arguments"].get("command", each["name"]) for each in waiting] == [
            "cd /tmp && rm -rf .",
            "write_file",
        ]
        for each in waiting:
            await decide(client, session_id, each["call_id"], "deny")
        await follower.type("session.idle")
    assert statuses(await assert_sound(client, session_id)) == ["completed", "denied", "denied", "error"]


async def test_a_changed_policy_applies_from_the_next_step(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(command("one")), Reply(command("two")), Reply(Text("done")))
    session_id = (await client.create("task", approval=ALWAYS))["id"]
    async with following(client, session_id) as follower:
        await follower.type("approval.requested")
        before = await pending(client, session_id)
        path = f"/v1/sessions/{session_id}"
        changed = (await client.http.patch(path, json={"approval": {"timeout_s": 5}})).json()
        assert changed["approval"] == {"policy": "always", "timeout_s": 5}, "what is left out stays"
        changed = (await client.http.patch(path, json={"approval": {"policy": "never"}})).json()
        assert changed["status"] == "awaiting_approval"
        assert await pending(client, session_id) == before
        await approve_all(client, session_id)
        await follower.type("session.idle")
    events = await assert_sound(client, session_id)
    assert len(of_type(events, "approval.requested")) == 1
    assert await runs(client, session_id) == "one\ntwo\n"


REFUSED: list[dict[str, Any]] = [
    {"policy": "never"},
    {"policy": {"tools": ["execute_command"]}},
    {"policy": {"tools": ["write_file"], "commands": ["sudo"]}},
]
TAKEN: list[Any] = [
    None,
    {},
    {"timeout_s": 900},
    {"policy": "always"},
    {"policy": {"tools": ["write_file", "read_file"], "commands": ["rm", "sudo"]}},
    {"policy": {"tools": ["execute_command", "write_file"]}},
]


async def test_a_request_may_only_be_stricter_than_the_operator(start_server: StartServer) -> None:
    own = {"policy": {"tools": ["write_file"], "commands": ["rm"]}, "timeout_s": 30}
    async with Client(start_server(approval=own).url) as client:
        made = await client.create()
        assert made["approval"] == own
        path = f"/v1/sessions/{made['id']}"
        for approval in REFUSED:
            for answer in (
                await client.http.post("/v1/sessions", json={"approval": approval}),
                await client.http.patch(path, json={"approval": approval}),
            ):
                assert (answer.status_code, answer.json()["code"]) == (403, "approval_not_allowed"), approval
        for approval in TAKEN:
            assert (await client.http.post("/v1/sessions", json={"approval": approval})).status_code == 201, approval
            assert (await client.http.patch(path, json={"approval": approval})).status_code == 200, approval
        last = await client.http.patch(path, json={"approval": None})
        assert last.json()["approval"] == own
