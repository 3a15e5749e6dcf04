"""Two servers on one database: the one started last owns the sessions, and a frozen one that wakes up later stops by
itself, without having written or started anything."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.behavior.checks import assert_sound, following, requests_of
from tests.behavior.harness import Client, Event, command, durable, of_type, shows
from tests.behavior.process import ServerProcess
from tests.behavior.test_interrupt import stubborn
from tests.databases import on_postgres, url_of
from tests.provider import FakeProvider, Gate, Reply, Text
from tests.requirements import need
from tests.unit.sandbox.shell import sleepers, unique_seconds

Start = Callable[[str], ServerProcess]
SECONDS = unique_seconds()
TOOL_LINE = "echo ran >> runs; "


@pytest.fixture
def start(
    request: pytest.FixtureRequest, tmp_path: Path, provider: FakeProvider, sandbox_image: str
) -> Iterator[Start]:
    """Starts servers by name, each with its own data directory, all on the first one's database."""
    kind = request.getfixturevalue("sandbox") if "sandbox" in request.fixturenames else "bubblewrap"
    need(kind)
    url = url_of(tmp_path / "first" / "data" / "palimpsest.db")

    def enter(name: str) -> ServerProcess:
        (tmp_path / name).mkdir()
        more = {"PALIMPSEST_DATABASE_URL": url}
        return stack.enter_context(ServerProcess(tmp_path / name / "data", provider, kind, sandbox_image, more))

    with ExitStack() as stack:
        yield enter


async def _until(reached: Callable[[], Any]) -> None:
    """Polls for something without an event, such as a line in a log."""
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(reached):  # noqa: ASYNC110 - it is another process's
            await asyncio.sleep(0.05)


async def _freeze(server: ServerProcess) -> None:
    """Freezes a server, but not within a commit: as long as a process holds SQLite's lock, no other can start."""
    if on_postgres():
        server.freeze()
        return

    def outside_of_commits() -> bool:
        server.freeze()
        stat = Path(f"/proc/{server.pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "T":
            pass
        with closing(sqlite3.connect(server.data_dir / "palimpsest.db", isolation_level=None, timeout=0)) as database:
            try:
                database.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                server.thaw()
                return False
            database.execute("ROLLBACK")
        return True

    await _until(outside_of_commits)


def _logged(server: ServerProcess, *events: str) -> Callable[[], bool]:
    return lambda: all(f'"event": "{event}"' in server.log or f'"event":"{event}"' in server.log for event in events)


async def _assert_refuses(client: Client, session_id: str) -> None:
    """Reads are answered; work that belongs to another server is refused."""
    path = f"/v1/sessions/{session_id}"
    assert (await client.session(session_id))["outcome"] == "completed"
    assert await client.messages(session_id)
    refused = [
        await client.http.post("/v1/sessions", json={"task": "more"}),
        await client.http.post(f"{path}/queue", json={"content": "more"}),
        await client.http.post(f"{path}/cancel", json={}),
        await client.http.post(f"{path}/compactions", json={}),
        await client.http.put(f"{path}/files/more", content=b"more"),
        await client.http.delete(path),
    ]
    assert [(answer.status_code, answer.json()["code"]) for answer in refused] == [(503, "superseded")] * 6


@dataclass(frozen=True)
class Doing:
    """A session's activity when its server is frozen: the answer that leads there, and how to detect it."""

    name: str
    answer: Reply
    reached: Callable[[Event], bool]


DOINGS = (
    Doing(
        "working",
        Reply(command(TOOL_LINE + stubborn(SECONDS))),
        lambda event: event.type == "tool.output" and "stderr" in event.data["text"],
    ),
    Doing(
        "writing",
        Reply(
            Text("half of it", 3),
            Gate("half"),
            Text(" and the rest"),
            command(TOOL_LINE),
        ),
        shows("text.delta"),
    ),
)


@pytest.mark.parametrize("doing", DOINGS, ids=lambda doing: doing.name)
async def test_a_frozen_server_that_wakes_up_leaves_the_session_to_its_successor(
    start: Start, provider: FakeProvider, sandbox: str, doing: Doing
) -> None:
    provider.script(doing.answer, Reply(Text("the rest")), Reply(Text("more")))
    first = start("first")
    async with Client(first.url) as old:
        session_id = (await old.create(doing.name))["id"]
        async with following(old, session_id) as follower:
            await follower.seen(doing.reached)
            await _freeze(first)
            second = await asyncio.to_thread(start, "second")
            async with Client(second.url) as new:
                await new.until_idle(session_id)
                before = await assert_sound(new, session_id)
                first.thaw()
                provider.open("half")
                await _until(_logged(first, "server_superseded", "session_taken_over"))
                await _until(lambda: sleepers(SECONDS) == 0)
                await _assert_refuses(old, session_id)
                await new.say(session_id, "and now")
                await _assert_one_history(new, session_id, before, follower.events)
                ran = await _runs_of(new, first, session_id, sandbox)
    assert ran == ("ran\n" if doing.name == "working" else "")
    assert len(requests_of(provider, doing.name)) == 3
    assert provider.refusals == []


async def _assert_one_history(client: Client, session_id: str, before: list[Event], seen: list[Event]) -> None:
    events = await assert_sound(client, session_id)
    assert events[: len(before)] == before
    (recovered,) = of_type(events, "session.recovered")
    assert recovered.data["interrupted_step"] == 1
    shown = durable(seen)
    assert events[: len(shown)] == shown, "what the frozen server had shown is in the log, and nothing else"
    assert [event.data["outcome"] for event in of_type(events, "session.idle")] == ["completed", "completed"]


async def _runs_of(client: Client, first: ServerProcess, session_id: str, sandbox: str) -> str:
    """The lines written by the tool; a container's workspace is in a volume, bubblewrap's in its server's directory."""
    if sandbox == "docker":
        response = await client.http.get(f"/v1/sessions/{session_id}/files/runs")
        return response.text if response.status_code == 200 else ""
    file = first.data_dir / "workspaces" / session_id / "runs"
    return await asyncio.to_thread(lambda: file.read_text() if file.exists() else "")


async def test_a_server_that_wakes_up_between_calls_starts_no_more_of_them(
    start: Start, provider: FakeProvider
) -> None:
    wait = "echo first >> runs; echo begun; while [ ! -e go ]; do sleep 0.05; done"
    provider.script(
        Reply(
            command(wait),
            command("echo second >> runs"),
        ),
        Reply(Text("the rest")),
    )
    first = start("first")
    async with Client(first.url) as old:
        session_id = (await old.create("task"))["id"]
        async with following(old, session_id) as follower:
            await follower.type("tool.output")
            await _freeze(first)
            async with Client((await asyncio.to_thread(start, "second")).url) as new:
                await new.until_idle(session_id)
                workspace = first.data_dir / "workspaces" / session_id
                # The command ends while its server is frozen, so that the server wakes up with the next one due.
                (workspace / "go").touch()
                first.thaw()
                await _until(_logged(first, "session_taken_over"))
                events = await assert_sound(new, session_id)
    assert [event.data["status"] for event in of_type(events, "tool.result")] == ["interrupted", "interrupted"]
    assert (workspace / "runs").read_text() == "first\n"
    assert provider.refusals == []


async def test_a_superseded_server_ends_its_streams_and_stays(start: Start) -> None:
    """Readers are disconnected, so that they find the new server; the process stays until it is stopped."""
    first = start("first")
    async with Client(first.url) as old:
        session_id = (await old.create())["id"]
        async with following(old, session_id) as follower:
            await follower.type("session.created")
            await asyncio.to_thread(start, "second")
            await _until(_logged(first, "server_superseded"))
        assert [event.type async for event in old.events(session_id)] == ["session.created"]
        assert (await old.http.get("/healthz")).status_code == 200
        # It repeats for a second what it found before.
        await _until(lambda: httpx.get(f"{first.url}/readyz", trust_env=False).status_code == 503)
        assert (await old.http.get("/readyz")).json()["components"]["database"]["ok"] is False
