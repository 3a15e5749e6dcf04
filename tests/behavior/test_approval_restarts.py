"""A server that goes down while calls wait for approval: no request or decision is lost, nothing runs unapproved."""

from __future__ import annotations

import signal

from tests.behavior.approving import ALWAYS, approve_all, command, decide, pending, runs
from tests.behavior.checks import assert_sound, following
from tests.behavior.combinations import first_of
from tests.behavior.conftest import StartProcess
from tests.behavior.harness import ANTHROPIC, Client, of_type
from tests.behavior.test_approvals import ends, statuses
from tests.behavior.test_cancel_resume import cancel
from tests.provider import FakeProvider, Reply, Text
from tests.requirements import need


async def _waiting(client: Client, provider: FakeProvider, task: str, timeout_s: float | None = 60) -> str:
    """A session with two calls that wait."""
    provider.script_for(task, Reply(Text("Both."), command("one"), command("two")), Reply(Text("done")))
    made = await client.create(task, model=ANTHROPIC, approval={**ALWAYS, "timeout_s": timeout_s})
    session_id: str = made["id"]
    async with following(client, session_id) as follower:
        await follower.type("approval.requested", 2)
    return session_id


@first_of(how=[signal.SIGKILL, signal.SIGTERM])
async def test_calls_wait_through_a_restart(
    start_process: StartProcess, provider: FakeProvider, how: signal.Signals
) -> None:
    need("bubblewrap")
    first = start_process()
    async with Client(first.url) as client:
        held = await _waiting(client, provider, "held")
        expired = await _waiting(client, provider, "expired", timeout_s=1)
        cancelled = await _waiting(client, provider, "cancelled")
        interrupted = await _waiting(client, provider, "interrupted")
        decided = await _waiting(client, provider, "decided")
        one, two = await pending(client, held)
        assert (await decide(client, held, one["call_id"], "approve")).status_code == 204
        await client.post(held, "look left")
        await client.post(interrupted, "stop that", "interrupt")
        await cancel(client, cancelled)
        await approve_all(client, decided)
        first.end(how)

    async with Client(start_process().url) as client:
        assert (await client.session(held))["status"] == "awaiting_approval"
        assert await pending(client, held) == [two], "with the expiry that it had"
        for session_id in (expired, cancelled, interrupted, decided):
            await client.until_idle(session_id)
        assert await runs(client, held) == ""
        assert (await decide(client, held, two["call_id"], "approve")).status_code == 204
        await client.until_idle(held)

        events = await assert_sound(client, held)
        assert await runs(client, held) == "one\ntwo\n"
        assert statuses(events) == ["completed", "completed"]
        assert len(of_type(events, "approval.requested")) == 2, "nobody is asked twice"
        assert [event.data["finish_reason"] for event in of_type(events, "step.finished")] == ["tool_calls", "stop"]
        (recovered,) = of_type(events, "session.recovered")
        assert (recovered.data["interrupted_step"], recovered.data["closed_calls"]) == (None, [])

        events = await assert_sound(client, expired)
        assert (ends(events), await runs(client, expired)) == ([("deny", "timeout")] * 2, "")
        for session_id, by, outcome in (
            (cancelled, "cancel", "cancelled"),
            (interrupted, "interrupt", "completed"),
        ):
            events = await assert_sound(client, session_id)
            assert (ends(events), await runs(client, session_id)) == ([("cancelled", by)] * 2, "")
            assert (await client.session(session_id))["outcome"] == outcome

        # It may have started before the server went down; an approved call is neither asked again nor run twice.
        events = await assert_sound(client, decided)
        assert ends(events) == [("approve", "user")] * 2
        assert set(statuses(events)) <= {"completed", "interrupted", "cancelled"}
        assert await runs(client, decided) in ("", "one\n", "one\ntwo\n")
    assert provider.refusals == []


async def test_calls_may_wait_indefinitely(start_process: StartProcess, provider: FakeProvider) -> None:
    """Also through a restart during which other calls would have expired."""
    need("bubblewrap")
    first = start_process()
    async with Client(first.url) as client:
        session_id = await _waiting(client, provider, "endless", timeout_s=None)
        assert [item["expires_at"] for item in await pending(client, session_id)] == [None, None]
        assert (await client.session(session_id))["approval"]["timeout_s"] is None
        first.end(signal.SIGKILL)
    async with Client(start_process().url) as client:
        assert (await client.session(session_id))["status"] == "awaiting_approval"
        await approve_all(client, session_id)
        await client.until_idle(session_id)
        assert await runs(client, session_id) == "one\ntwo\n"
        events = await assert_sound(client, session_id)
        assert [event.data["expires_at"] for event in of_type(events, "approval.requested")] == [None, None]
