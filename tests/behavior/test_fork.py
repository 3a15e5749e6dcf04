"""Forks: a session with another one's history and files, independent from then on."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.messages import new_id
from app.settings import LimitSettings
from tests.behavior.checks import assert_sound, following
from tests.behavior.combinations import first_of
from tests.behavior.conftest import StartServer
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, command, of_type
from tests.behavior.long_task import LongTask
from tests.behavior.replica import Replica
from tests.behavior.rounds import compacted, context, revert, rounds, snapshot, worked_here
from tests.behavior.test_files import address
from tests.behavior.test_memory import MEMORY, run_in
from tests.behavior.test_start import numbers
from tests.databases import make_database
from tests.provider import FakeProvider, Gate, Reply, Text, ToolCall

pytestmark = pytest.mark.shared_server

FLOOD = "seq 1 20000"
"""An output of about 100 KB; the context gets head and tail."""

LOOK = "cat src/b; stat -c '%a %Y' src/a; ls"


@contextmanager
def small_disk(path: Path, kilobytes: int) -> Iterator[None]:
    """A file system of this size, while the context lasts; skips if none can be mounted."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k,mode=0700", "palimpsest-test", str(path)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a file system")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


async def fork(client: Client, session_id: str, **body: Any) -> dict[str, Any]:
    response = await client.http.post(f"/v1/sessions/{session_id}/fork", json=body)
    assert response.status_code == 201, response.text
    made: dict[str, Any] = response.json()
    assert response.headers["location"] == f"/v1/sessions/{made['id']}"
    assert (made["parent_id"], made["status"], made["outcome"], made["steps"]) == (session_id, "idle", None, 0)
    assert set(made["usage"].values()) == {0}
    return made


async def rounds_counted(client: Client) -> float:
    found = await numbers(client)
    return sum(value for name, value in found.items() if name.startswith("palimpsest_compactions_total"))


async def files_of(client: Client, session_id: str, *paths: str) -> list[bytes | int]:
    answers = [await client.http.get(address(session_id, path)) for path in paths]
    return [answer.content if answer.is_success else answer.status_code for answer in answers]


async def history_of(client: Client, session_id: str) -> list[dict[str, Any]]:
    """The messages without their seqs."""
    return [{**message, "seq": 0} for message in await client.messages(session_id) if message["voided_at"] is None]


async def shown_to_model(client: Client, session_id: str) -> dict[str, Any]:
    """What the next step would send; a fork's messages have other seqs."""
    shown = await context(client, session_id)
    shown["messages"] = [(m["id"], m["role"], m["is_summary"], m["parts"]) for m in shown["messages"]]
    return shown


async def assert_shows_itself(client: Client, session_id: str) -> None:
    """A client that follows the log from the start has the same state as a snapshot."""
    replica = Replica()
    replica.connect()
    for event in await assert_sound(client, session_id):
        replica.apply(event)
    assert replica.view == (await snapshot(client, session_id)).view


@first_of(model=[OPENAI, ANTHROPIC])
async def test_a_fork_has_everything_and_is_independent(
    client: Client, provider: FakeProvider, sandbox: str, model: str
) -> None:
    work = "mkdir -p src empty; echo one >src/a; ln -s a src/b; chmod 755 src/a; TZ=UTC touch -t 202001020000 src/a"
    provider.script(
        Reply(command(work), ToolCall("memory_write", {"content": MEMORY})), Reply(command(FLOOD)), Reply(Text("done"))
    )
    parent, events = await client.run("task", title="The shop", model=model, metadata={"ticket": 7})
    flood = of_type(events, "tool.result")[-1].data["call_id"]
    provider.script(Reply(Text("here")))
    made = await fork(client, parent["id"])

    same = ("title", "task", "model", "sandbox", "limits", "metadata")
    assert {name: made[name] for name in same} == {name: parent[name] for name in same}
    assert await history_of(client, made["id"]) == await history_of(client, parent["id"])
    log = await assert_sound(client, made["id"])
    assert {event.type for event in log} == {"session.created", "message.created"}
    assert len(log) == 1 + len(await client.messages(made["id"])) == made["last_seq"]
    await assert_shows_itself(client, made["id"])
    assert await shown_to_model(client, made["id"]) == await shown_to_model(client, parent["id"])

    assert (await client.http.delete(f"/v1/sessions/{parent['id']}")).status_code == 204
    output = await client.http.get(f"/v1/sessions/{made['id']}/tool-calls/{flood}/output")
    assert output.text == "".join(f"{number}\n" for number in range(1, 20001))
    provider.script(
        Reply(
            ToolCall("recall", {"call_id": flood, "grep": "^12345$"}), command("cat src/b; stat -c '%a %Y' src/a; ls")
        ),
        Reply(command("echo two >src/a"), ToolCall("memory_read")),
    )
    first = await run_in(client, made["id"], "go on")
    assert "12345:12345" in next(result["output"] for result in first if result["name"] == "recall")
    looked = next(result["output"] for result in first if result["name"] == "execute_command")
    assert looked.split() == ["one", "755", "1577923200", "MEMORY.md", "empty", "src"]
    assert provider.refusals == []
    await assert_sound(client, made["id"])


async def test_a_fork_sends_what_its_parent_would_have(client: Client, provider: FakeProvider, sandbox: str) -> None:
    provider.script(Reply(command("echo mine >a")), Reply(Text("done")))
    parent, _ = await client.run("task")
    made = await fork(client, parent["id"], title="Another way")
    assert made["title"] == "Another way"
    provider.script(Reply(command("echo fork >a")), Reply(Text("ok")), Reply(Text("ok")))
    await run_in(client, made["id"], "go on")
    sent = provider.requests[-2]
    await run_in(client, parent["id"], "go on")
    own = provider.requests[-1]

    assert (sent.system, sent.tool_names, sent.user_texts) == (own.system, own.tool_names, own.user_texts)
    assert sent.tool_results == own.tool_results
    assert await files_of(client, parent["id"], "a") == [b"mine\n"]
    assert await files_of(client, made["id"], "a") == [b"fork\n"]
    assert (await client.session(made["id"]))["usage"]["output_tokens"] > 0
    assert provider.refusals == []


async def test_a_fork_can_start_after_any_message(client: Client, provider: FakeProvider) -> None:
    provider.script(
        Reply(Text("I look."), command("echo one"), command("echo two")),
        Reply(ToolCall("update_plan", {"items": [{"text": "late", "status": "pending"}]})),
        Reply(Text("done")),
    )
    parent, _ = await client.run("task")
    history = await client.messages(parent["id"])
    roles = [message["role"] for message in history]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant"]

    for place, kept in enumerate((1, 3, 3, 5, 5, 6)):
        made = await fork(client, parent["id"], after_message_id=history[place]["id"])
        assert [message["role"] for message in await history_of(client, made["id"])] == roles[:kept], place
        await assert_shows_itself(client, made["id"])
    provider.script(Reply(Text("another answer")))
    await run_in(client, (await fork(client, parent["id"], after_message_id=history[0]["id"]))["id"], "and now?")
    assert provider.requests[-1].user_texts == ("task", "and now?")
    assert provider.refusals == []


async def test_impossible_forks_are_refused(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(Text("half"), Gate("on"), command("sleep 60")))
    parent = await client.create("task")
    refused = [
        (parent["id"], {"after_message_id": new_id()}, 404, "message_not_found"),
        (new_id(), {}, 404, "session_not_found"),
    ]
    refused.append((parent["id"], {"after": "x"}, 422, "validation_error"))
    async with following(client, parent["id"]) as stream:
        answer = (await stream.type("step.started")).data["message_id"]
        refused.append((parent["id"], {"after_message_id": answer}, 409, "message_open"))
        for session_id, body, status, code in refused:
            response = await client.http.post(f"/v1/sessions/{session_id}/fork", json=body)
            assert (response.status_code, response.json()["code"]) == (status, code)
        made = await fork(client, parent["id"])
        assert [m["role"] for m in await client.messages(made["id"])] == ["user"], "the step under way is left out"
        provider.open("on")
        await stream.type("tool.call")
        during = await fork(client, parent["id"])
        assert [m["role"] for m in await client.messages(during["id"])] == ["user"]
        await client.http.post(f"/v1/sessions/{parent['id']}/cancel")
    await client.until_idle(parent["id"])
    whole = await fork(client, parent["id"])
    assert [m["role"] for m in await client.messages(whole["id"])] == ["user", "assistant", "tool"]
    assert provider.refusals == []


async def test_rounds_and_marks_are_copied_unchanged(client: Client, provider: FakeProvider) -> None:
    counted_before = await rounds_counted(client)
    parent = await worked_here(client, provider, LongTask(8, most=4_000, seed=3))
    before = (await client.messages(parent))[-1]["id"]
    early = await shown_to_model(client, parent)
    await compacted(client, parent)
    once = await shown_to_model(client, parent)
    summary = next(m for m in await client.messages(parent) if m["is_summary"])["id"]
    provider.script(Reply(Text("more")))
    await run_in(client, parent, "one more thing")
    await compacted(client, parent)
    await revert(client, parent, 2)
    counted = await rounds_counted(client)
    assert counted - counted_before == 2

    whole = await fork(client, parent)
    assert [r["status"] for r in await rounds(client, whole["id"])] == ["completed", "reverted"]
    assert await shown_to_model(client, whole["id"]) == await shown_to_model(client, parent)
    after_summary = await fork(client, parent, after_message_id=summary)
    assert [r["status"] for r in await rounds(client, after_summary["id"])] == ["completed"]
    assert await shown_to_model(client, after_summary["id"]) == once
    at_first = await fork(client, parent, after_message_id=before)
    assert (await rounds(client, at_first["id"]), at_first["compaction"]["count"]) == ([], 0)
    assert (await shown_to_model(client, at_first["id"]))["messages"] == early["messages"]
    again = await fork(client, whole["id"], after_message_id=summary)
    assert (await shown_to_model(client, again["id"]))["messages"] == once["messages"]
    for made in (whole, after_summary, at_first, again):
        await assert_shows_itself(client, made["id"])
    assert await rounds_counted(client) == counted, "what is copied has not happened again"

    await revert(client, whole["id"], 1)
    shown = (await shown_to_model(client, whole["id"]))["messages"]
    assert not any(is_summary for _, _, is_summary, _ in shown), "a fork's rounds can be taken back in it"
    assert any(is_summary for _, _, is_summary, _ in (await shown_to_model(client, parent))["messages"])
    event = await compacted(client, whole["id"])
    assert event.data["round"] == 3


async def test_a_stream_ends_at_the_last_event_of_a_fork(client: Client, provider: FakeProvider) -> None:
    plan = ToolCall("update_plan", {"items": [{"text": "look"}]})
    provider.script(Reply(ToolCall("list_directory", {}), plan), Reply(Text("done")))
    parent, events = await client.run("task")
    made = await fork(client, parent["id"], after_message_id=of_type(events, "tool.call")[0].data["message_id"])
    async with asyncio.timeout(60):
        copied = await client.until_idle(made["id"])
    assert copied[-1].type == "plan.updated", "an event that is never the last one of other sessions"


async def test_a_fork_survives_a_restart_and_the_end_of_its_parent(
    start_server: StartServer, provider: FakeProvider
) -> None:
    server = start_server()
    provider.script(Reply(command("echo kept >a")), Reply(Text("done")))
    async with Client(server.url) as client:
        parent, _ = await client.run("task")
        made = await fork(client, parent["id"])
        assert (await client.http.delete(f"/v1/sessions/{parent['id']}")).status_code == 204
    server.stop()
    provider.script(Reply(command("cat a")), Reply(Text("done")))
    async with Client(start_server().url) as client:
        (result,) = await run_in(client, made["id"], "go on")
        assert result["output"] == "kept\n"
        again = await fork(client, made["id"])
        assert await history_of(client, again["id"]) == await history_of(client, made["id"])
    assert provider.refusals == []


async def test_a_fork_obeys_the_operators_current_limits(start_server: StartServer, provider: FakeProvider) -> None:
    server = start_server()
    asked: dict[str, Any] = {"limits": {"max_steps": None, "max_seconds": 60}, "approval": {"timeout_s": 30}}
    provider.script(Reply(command("echo kept >a")), Reply(Text("done")))
    async with Client(server.url) as client:
        parent, _ = await client.run("task", **asked)
        same = await fork(client, parent["id"])
        names = ("limits", "approval", "sandbox")
        assert {name: same[name] for name in names} == {name: parent[name] for name in names}
    server.stop()
    stricter: dict[str, Any] = {"sandbox_memory_mb": 512, "sandbox_pids": 99}
    server = start_server(**stricter, session_limits=LimitSettings(max_steps=10), approval="always")
    async with Client(server.url) as client:
        made = await fork(client, parent["id"])
        new = await client.create()
        assert made["sandbox"] == new["sandbox"] != parent["sandbox"]
        assert made["limits"] == {**new["limits"], "max_seconds": 60}
        assert made["approval"] == {"policy": "always", "timeout_s": 30}
        assert await files_of(client, made["id"], "a") == [b"kept\n"]
        for name in ("limits", "approval", "sandbox"):
            assert (await client.session(parent["id"]))[name] == parent[name], "the parent stays as it was made"


async def test_a_workspace_that_cannot_be_copied_leaves_nothing(
    start_server: StartServer, provider: FakeProvider, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    (data / "workspaces").mkdir(parents=True)
    make_database(data / "palimpsest.db")
    with small_disk(data / "workspaces", kilobytes=512):
        server = start_server()
        provider.script(Reply(command("head -c 400000 /dev/urandom >big; seq 1 20000")), Reply(Text("done")))
        async with Client(server.url) as client:
            parent, _ = await client.run("task")
            response = await client.http.post(f"/v1/sessions/{parent['id']}/fork")
            assert (response.status_code, response.json()["code"]) == (507, "workspace_full")
            listed = (await client.get("/v1/sessions"))["items"]
            assert [session["id"] for session in listed] == [parent["id"]]
            assert [p.name for p in (data / "outputs").iterdir()] == [parent["id"]]
            assert [p.name for p in (data / "workspaces").iterdir()] == [parent["id"]]
            provider.script(Reply(command("rm big")), Reply(Text("done")))
            await run_in(client, parent["id"], "make room")
            await fork(client, parent["id"])
        server.stop()
