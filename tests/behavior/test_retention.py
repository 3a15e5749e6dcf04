"""Data older than the retention settings is removed in the background and marked as removed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

from sqlalchemy import update

from app.db.models import deletions, metadata
from app.messages import now
from tests.behavior.checks import assert_sound
from tests.behavior.conftest import StartServer
from tests.behavior.harness import Client, command, of_type, shows
from tests.behavior.pictures import image, png, text
from tests.behavior.test_fork import fork
from tests.behavior.test_memory import run_in
from tests.databases import in_cluster, opened
from tests.provider import FakeProvider, Hang, RecordedRequest, Reply, Text, ToolCall

FLOOD = command("seq 1 20000; touch made")
SHORT = command("echo short")
AT_ONCE = 1e-9
"""Days."""


async def becomes(check: Callable[[], Awaitable[bool]]) -> None:
    """Waits for an effect of the sweep."""
    async with asyncio.timeout(60):
        while not await check():  # noqa: ASYNC110 - nothing tells of a sweep but its effect
            await asyncio.sleep(0.05)


def recalled(request: RecordedRequest) -> Reply:
    return Reply(*[ToolCall("recall", {"call_id": call_id}) for call_id in list(request.tool_results)[:2]])


async def test_old_outputs_are_removed_and_marked(start_server: StartServer, provider: FakeProvider) -> None:
    server = start_server()
    provider.script(Reply(FLOOD), Reply(SHORT), Reply(Text("done")))
    async with Client(server.url) as client:
        session, events = await client.run("task")
        before = await client.messages(session["id"])
    flood, short = (event.data["call_id"] for event in of_type(events, "tool.result"))
    base = f"/v1/sessions/{session['id']}/tool-calls"
    stored = server.settings.data_dir / "outputs" / session["id"] / flood
    assert stored.exists()
    server.stop()
    async with Client(start_server(retain_outputs_days=30).url) as client:
        assert (await client.http.get(f"{base}/{flood}/output")).status_code == 200, "it is not old enough"
    provider.script(recalled, Reply(Text("I see")))
    async with Client(start_server(retain_outputs_days=AT_ONCE).url) as client:

        async def gone() -> bool:
            return (await client.http.get(f"{base}/{flood}/output")).status_code == 410

        await becomes(gone)
        await becomes(lambda: asyncio.to_thread(lambda: not stored.exists()))
        problem = (await client.http.get(f"{base}/{flood}/output")).json()
        assert problem["code"] == "output_swept"
        assert problem["swept_at"][:10] in problem["detail"]
        assert (await client.http.get(f"{base}/{short}/output")).text == "short\n", "what is in the history stays"
        assert await client.messages(session["id"]) == before
        results = {result["output"]: result["status"] for result in await run_in(client, session["id"], "look")}
        assert results["short\n"] == "completed"
        (said,) = results.keys() - {"short\n"}
        assert (results[said], problem["swept_at"][:10] in said) == ("error", True)
        made = await fork(client, session["id"])
        answer = await client.http.get(f"/v1/sessions/{made['id']}/tool-calls/{flood}/output")
        assert (answer.status_code, answer.json()["swept_at"]) == (410, problem["swept_at"])
        await assert_sound(client, session["id"])
    assert provider.refusals == []


async def test_the_oldest_outputs_make_room_for_new_ones(start_server: StartServer, provider: FakeProvider) -> None:
    server = start_server(session_output_max_bytes=250_000)  # FLOOD prints 108,894
    provider.script_for("other", Reply(FLOOD), Reply(Text("done")))
    printed = [Reply(FLOOD), Reply(FLOOD), Reply(FLOOD), Reply(SHORT), Reply(Text("done"))]
    provider.script_for("task", *printed, recalled, Reply(Text("I see")))
    async with Client(server.url) as client:
        other, _ = await client.run("other")
        session, events = await client.run("task")
        calls = [event.data["call_id"] for event in of_type(events, "tool.result")]

        async def statuses() -> list[int]:
            base = f"/v1/sessions/{session['id']}/tool-calls"
            return [(await client.http.get(f"{base}/{call}/output")).status_code for call in calls]

        async def gone() -> bool:
            return 410 in await statuses()

        await becomes(gone)
        assert await statuses() == [410, 200, 200, 200]
        outputs = server.settings.data_dir / "outputs"
        await becomes(lambda: asyncio.to_thread(lambda: len(list((outputs / session["id"]).iterdir())) == 2))
        assert len(list((outputs / other["id"]).iterdir())) == 1
        results = {result["status"]: result["output"] for result in await run_in(client, session["id"], "look")}
        assert results.keys() == {"completed", "error"}
        assert "limited size for each session" in results["error"]
        await assert_sound(client, session["id"])
    server.stop()
    removed = outputs / session["id"] / calls[0]
    removed.touch()  # as after a crash between the mark and the removal
    start_server()
    await becomes(lambda: asyncio.to_thread(lambda: not removed.exists()))
    assert provider.refusals == []


def left_of(data_dir: Path, session_ids: list[str]) -> tuple[set[str], set[str]]:
    """The tables with rows of any of these sessions, and the folders with a file or folder that is named after one."""
    with opened(data_dir / "palimpsest.db") as connection:
        rows = {table.name: str(connection.execute(table.select()).all()) for table in metadata.sorted_tables}
    paths = [path.relative_to(data_dir) for path in data_dir.rglob("*")]
    return (
        {name for name, text in rows.items() if any(session_id in text for session_id in session_ids)},
        {path.parts[0] for path in paths if any(session_id in path.name for session_id in session_ids)},
    )


async def test_old_sessions_are_removed_but_not_running_ones(start_server: StartServer, provider: FakeProvider) -> None:
    server = start_server()
    calls = (FLOOD,) if in_cluster() else (FLOOD, ToolCall("delegate", {"task": "help"}))
    tools = ["execute_command", *([] if in_cluster() else ["delegate"])]
    provider.script_for("old", Reply(*calls), Reply(Text("done")))
    provider.script_for("help", Reply(SHORT), Reply(Text("helped")))
    provider.script_for("busy", Reply(FLOOD), Reply(Text("half"), Hang()), Reply(Text("going on"), Hang()))
    async with Client(server.url) as client:
        old = (await client.create(secrets={"TOKEN": "an-old-secret"}, tools=tools))["id"]
        content = [text("old"), image(png())]
        (await client.http.post(f"/v1/sessions/{old}/queue", json={"content": content})).raise_for_status()
        await client.until_idle(old)
        children = (await client.get("/v1/sessions", parent_id=old))["items"]
        busy = await client.create("busy")
        await client.wait_for(busy["id"], shows("text.delta"))
    server.stop()
    data = server.settings.data_dir
    ids = [old, *(child["id"] for child in children)]
    tables, files = left_of(data, ids)
    expected = {"sessions", "events", "messages", "message_parts", "steps", "images", "secrets", "checkpoints"}
    assert (tables >= expected, len(ids)) == (True, 1 if in_cluster() else 2), tables
    assert {"outputs", "workspaces"} < files
    async with Client(start_server(retain_sessions_days=AT_ONCE, retain_outputs_days=AT_ONCE).url) as client:

        async def gone() -> bool:
            return (await client.http.get(f"/v1/sessions/{old}")).status_code == 404

        await becomes(gone)
        # Readers that reconnect are sent the last event, for some minutes.
        await becomes(lambda: asyncio.to_thread(lambda: left_of(data, ids) == ({"deletions"}, set())))
        assert [s["id"] for s in (await client.get("/v1/sessions"))["items"]] == [busy["id"]]
        messages = await client.messages(busy["id"])
        call = next(part["call_id"] for message in messages for part in message["parts"] if "call_id" in part)
        kept = await client.http.get(f"/v1/sessions/{busy['id']}/tool-calls/{call}/output")
        assert kept.status_code == 200
        assert (await client.get("/v1/usage"))["total"]["output_tokens"] > 0


async def test_everything_is_kept_unless_a_setting_says_so(start_server: StartServer, provider: FakeProvider) -> None:
    server = start_server()
    provider.script(Reply(FLOOD), Reply(Text("done")))
    async with Client(server.url) as client:
        session, events = await client.run("task")
        (result,) = of_type(events, "tool.result")
        deleted = (await client.create())["id"]
        assert (await client.http.delete(f"/v1/sessions/{deleted}")).status_code == 204
    data = server.settings.data_dir
    outputs = data / "outputs"
    (outputs / "left-behind").mkdir()
    server.stop()
    assert left_of(data, [deleted]) == ({"deletions"}, set())
    with opened(data / "palimpsest.db") as connection:
        connection.execute(update(deletions).values(deleted_at=now() - timedelta(minutes=11)))
    async with Client(start_server().url) as client:
        path = f"/v1/sessions/{session['id']}/tool-calls/{result.data['call_id']}/output"
        assert (await client.http.get(path)).status_code == 200
        assert [path.name for path in outputs.iterdir()] == [session["id"]], "what is left of a crash goes at the start"
        await becomes(lambda: asyncio.to_thread(lambda: left_of(data, [deleted]) == (set(), set())))
