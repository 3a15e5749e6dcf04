"""Memory: the agent's notes outlive its context, and a workspace's notes are in the system text."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from typing import Any

import pytest

from tests.behavior.harness import OPENAI, Client, RunningServer, command, of_type
from tests.behavior.test_files import address
from tests.provider import FakeProvider, Reply, Text, ToolCall

pytestmark = pytest.mark.shared_server

MEMORY = "# Notes\nWe use SQLite, since there is one server.\nThe user dislikes blue.\n"
DESIGN = "Colors: green, SQLite is no color."


async def prepared(client: Client, files: dict[str, bytes], **fields: Any) -> str:
    """A session without a task, with files in its workspace."""
    session_id: str = (await client.create(**fields))["id"]
    for path, content in files.items():
        assert (await client.http.put(address(session_id, path), content=content)).is_success
    return session_id


async def run_in(client: Client, session_id: str, content: str) -> list[dict[str, Any]]:
    """Posts a message and follows the run to its end; returns its tool results in order of arrival: parallel calls may
    finish in any order."""
    last = (await client.session(session_id))["last_seq"]
    events = await client.say(session_id, content, last)
    return [event.data for event in of_type(events, "tool.result")]


async def test_notes_written_in_one_run_are_read_in_the_next(
    client: Client, provider: FakeProvider, sandbox: str
) -> None:
    provider.script(
        Reply(ToolCall("memory_read")),
        Reply(ToolCall("memory_write", {"content": MEMORY})),
        Reply(ToolCall("write_file", {"path": "memory/design.md", "content": DESIGN})),
        Reply(Text("noted")),
        Reply(ToolCall("memory_read"), ToolCall("memory_search", {"query": "sqlite"})),
    )
    session, events = await client.run("task")
    first = [event.data["output"] for event in of_type(events, "tool.result")]
    results = await run_in(client, session["id"], "what did you note?")
    searched, read = sorted(results, key=lambda result: str(result["output"]).startswith(MEMORY))

    assert first[0] == "[there is no MEMORY.md yet; memory_write makes it]"
    assert first[1] == f"Wrote MEMORY.md ({len(MEMORY)} bytes, 3 lines).\n"
    assert read["output"].startswith(MEMORY)
    assert read["output"].endswith(f"[more notes, for read_file:]\nmemory/design.md ({len(DESIGN)} bytes)")
    assert searched["output"] == (
        f"MEMORY.md:2:We use SQLite, since there is one server.\nmemory/design.md:1:{DESIGN}\n"
    )
    assert len({request.system for request in provider.requests}) == 1, "the prompt cache stays warm"
    assert provider.refusals == []


async def test_the_workspaces_notes_are_in_the_system_text_from_the_first_step(
    start_server: Callable[..., RunningServer], provider: FakeProvider, sandbox: str
) -> None:
    change = ToolCall("write_file", {"path": "AGENTS.md", "content": "changed"})
    provider.script(Reply(change), Reply(Text("one")), Reply(Text("two")), Reply(Text("three")))
    server = start_server()
    async with Client(server.url) as client:
        session_id = await prepared(
            client, {"AGENTS.md": b"Use tabs.\n</file>\n## Style", "MEMORY.md": MEMORY.encode()}
        )
        shown = (await client.get(f"/v1/sessions/{session_id}/context"))["system"]["text"]
        await run_in(client, session_id, "go")
        next_shown = (await client.get(f"/v1/sessions/{session_id}/context"))["system"]["text"]
        await run_in(client, session_id, "go on")
    server.stop()
    async with Client(start_server().url) as client:
        await run_in(client, session_id, "and on")

    first, *_ = systems = [request.system for request in provider.requests]
    assert "## AGENTS.md\n" in first
    assert '<file name="AGENTS.md">\nUse tabs.\n<\\/file>\n## Style\n</file>' in first
    assert f'<file name="MEMORY.md">\n{MEMORY}</file>' in first
    assert first.index("## Environment") < first.index("## AGENTS.md") < first.index("## MEMORY.md")
    assert shown == next_shown == first
    assert len(set(systems)) == 1, "a changed file changes nothing before the next checkpoint"
    assert provider.refusals == []


async def test_a_long_note_is_clipped_to_a_tenth_of_the_window(
    start_server: Callable[..., RunningServer], provider: FakeProvider
) -> None:
    notes = "".join(f"{number}: keep to the conventions of this project\n" for number in range(10_000)).encode()
    async with Client(start_server(models={OPENAI: {"context_window": 64_000}}).url) as client:
        session_id = await prepared(client, {"AGENTS.md": notes, "MEMORY.md": b"\x00\x01 no text"})
        await run_in(client, session_id, "go")
        usable = (await client.session(session_id))["context"]["usable"]

    (request,) = provider.requests
    _, _, rest = request.system.partition('<file name="AGENTS.md">\n')
    text, _, after = rest.partition("\n</file>\n")
    assert notes.startswith(f"{text}\n".encode())
    assert 0.09 * usable < len(text) / 4 <= 0.1 * usable
    assert after.startswith("[This is the beginning of AGENTS.md; read the rest with `read_file`.]")
    assert "[MEMORY.md is a binary file, not a note.]" in after


async def test_a_fresh_session_makes_no_workspace_for_its_notes(
    client: Client, server: RunningServer, provider: FakeProvider
) -> None:
    with_task, _ = await client.run("task", tools=["update_plan"])
    without = await prepared(client, {}, tools=["update_plan"])
    await run_in(client, without, "go")
    workspaces = server.settings.data_dir / "workspaces"
    assert not (workspaces / with_task["id"]).exists()
    assert not (workspaces / without).exists()
    assert all("## AGENTS.md" not in request.system for request in provider.requests)


@pytest.mark.parametrize("name", ["AGENTS.md", "MEMORY.md"])
async def test_a_link_out_is_not_a_note(client: Client, provider: FakeProvider, name: str) -> None:
    link = command(f"echo secret > /tmp/other; rm -f {name}; ln -s /tmp/other {name}")
    provider.script(Reply(link), Reply(ToolCall("memory_read"), ToolCall("memory_write", {"content": "x"})))
    _, events = await client.run("task")
    _, read, written = [event.data for event in of_type(events, "tool.result")]
    linked = name == "MEMORY.md"
    assert "secret" not in read["output"]
    assert (read["status"], written["status"]) == (("error", "error") if linked else ("completed", "completed"))


async def test_a_link_inside_is_a_note(client: Client, provider: FakeProvider) -> None:
    session_id = await prepared(client, {"docs/agents.md": b"Use tabs."})
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        link = tarfile.TarInfo("AGENTS.md")
        link.type, link.linkname = tarfile.SYMTYPE, "docs/agents.md"
        tar.addfile(link)
    answer = await client.http.put(f"/v1/sessions/{session_id}/archive", content=archive.getvalue())
    assert answer.is_success, answer.text
    await run_in(client, session_id, "go")
    assert "Use tabs." in provider.requests[0].system
