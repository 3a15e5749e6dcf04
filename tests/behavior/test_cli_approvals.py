"""Approvals from the command line: a person at the terminal, and commands that decide from elsewhere."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import shlex
import sys
from dataclasses import dataclass, field

import pytest

from tests.behavior.approving import ALWAYS, approve_all, command, pending, runs
from tests.behavior.checks import assert_sound, following
from tests.behavior.harness import Client, shows
from tests.behavior.process import ROOT
from tests.behavior.test_approvals import ends, statuses
from tests.behavior.test_cli import WAIT_S, Command, Terminal, at_server, terminal
from tests.provider import FakeProvider, Reply, Text, ToolCall

pytestmark = pytest.mark.shared_server

__all__ = ["at_server", "terminal"]


@dataclass
class Screen:
    """The screen and keyboard end of a terminal."""

    leader: int
    shown: str = ""
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def watch(self) -> None:
        asyncio.get_running_loop().add_reader(self.leader, self._read)

    def _read(self) -> None:
        try:
            self.shown += os.read(self.leader, 64 * 1024).decode()
        except OSError:  # how Linux reports a closed other end
            asyncio.get_running_loop().remove_reader(self.leader)
        self._news.set()

    async def says(self, text: str, times: int = 1) -> None:
        async with asyncio.timeout(WAIT_S):
            while self.shown.count(text) < times:
                self._news.clear()
                await self._news.wait()

    def type(self, line: str) -> None:
        os.write(self.leader, f"{line}\n".encode())


def hinted(command: Command) -> list[list[str]]:
    """The commands that approve a call, as standard error has them, without the program's name."""
    return [shlex.split(found) for found in re.findall(r": `palimpsest (approve [^`]+)` \(or", command.err)]


async def test_a_person_at_the_terminal_is_asked_about_each_call(
    at_server: Terminal, provider: FakeProvider, client: Client
) -> None:
    provider.script(Reply(command("one"), command("two"), command("three")), Reply(Text("The end.")))
    leader, follower = pty.openpty()
    screen = Screen(leader)
    screen.watch()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **at_server.env, "NO_COLOR": "1"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "app", "run", "task", "--approval", "always"),
        stdin=follower,
        stdout=follower,
        stderr=follower,
        cwd=at_server.folder,
        env=environment,
    )
    os.close(follower)
    try:
        await screen.says("allow it?")
        screen.type("perhaps")
        await screen.says("allow it?", 2)
        screen.type("y")
        await screen.says("allow it?", 3)
        screen.type("n Two is too many.")
        await screen.says("allow it?", 4)
        (session,) = (await client.get("/v1/sessions"))["items"]
        (last,) = await pending(client, session["id"])
        await at_server.ok("deny", session["id"][:20], last["call_id"])
        async with asyncio.timeout(WAIT_S):
            assert await process.wait() == 0
        await screen.says("completed")
    finally:
        asyncio.get_running_loop().remove_reader(leader)
        os.close(leader)

    assert "$ echo two >> runs" in screen.shown
    events = await assert_sound(client, session["id"])
    assert ends(events) == [("approve", "user"), ("deny", "user"), ("deny", "user")]
    assert await runs(client, session["id"]) == "one\n"
    assert "Two is too many." in list(provider.requests[1].tool_results.values())[1]


async def test_without_a_terminal_the_run_says_that_it_waits_and_commands_decide(
    at_server: Terminal, provider: FakeProvider, client: Client
) -> None:
    long = ToolCall("write_file", {"path": "a", "content": "x" * 200})
    provider.script(Reply(command("one"), long), Reply(Text("The end.")))
    rules = '{"policy": {"tools": ["execute_command", "write_file"]}, "timeout_s": 900}'
    running = await at_server.start("run", "task", "--approval", rules)
    await running.says("write_file")
    (session,) = (await client.get("/v1/sessions"))["items"]
    one, two = await pending(client, session["id"])
    assert f"call {one['call_id'][-8:]} waits for approval until {one['expires_at']}" in running.out

    listed = (await at_server.ok("approvals", session["id"])).out
    assert "$ echo one >> runs" in listed
    assert "x" * 200 in listed
    await running.complains(f"call {two['call_id'][-8:]} needs approval, 14 min ")
    first, second = hinted(running)
    assert first == ["approve", session["id"], one["call_id"][-8:]]
    denied = await at_server.ok("deny", *second[1:], "--reason", "Shorter.")
    assert denied.out.startswith('denied write_file { "path": "a", "content": "xxx')
    assert (await at_server.ok(*first)).out == "approved $ echo one >> runs\n"
    assert await running.end() == 0

    assert f"call {two['call_id'][-8:]} denied (user)" in running.out
    assert statuses(await assert_sound(client, session["id"])) == ["completed", "denied"]
    assert "Shorter." in list(provider.requests[1].tool_results.values())[1]


@pytest.mark.slow
async def test_calls_have_short_ids_and_a_late_decision_is_reported(
    at_server: Terminal, provider: FakeProvider, client: Client
) -> None:
    provider.script(Reply(command("one"), command("two")), Reply(Text("The end.")))
    session = (await client.create("go", approval=ALWAYS))["id"]
    await client.wait_for(session, shows("session.updated"))
    one, two = [item["call_id"] for item in await pending(client, session)]

    shown = (await at_server.ok("sessions", "show", session[-8:])).out.splitlines()
    (place,) = [number for number, line in enumerate(shown) if line.startswith("approvals ")]
    assert shown[place] == f"approvals  2 waiting; `palimpsest approve {session} CALL` (or `deny`)"
    for line, call, name in zip(shown[place + 1 :], (one, two), ("one", "two"), strict=True):
        assert re.fullmatch(rf" {{11}}{call[-8:]}  \d+ s left  \$ echo {name} >> runs", line)
    listed = (await at_server.ok("approvals", session)).out
    assert [line.split()[0] for line in listed.splitlines()[::2]] == [one[-8:], two[-8:]]

    both = await at_server.run("approve", session, one[:11])
    candidates = f"{one[-8:]} ($ echo one >> runs), {two[-8:]} ($ echo two >> runs). (ambiguous_id)\n"
    assert (both.status, both.err.partition(": ")[2].partition(": ")[2]) == (1, candidates)
    none = await at_server.run("approve", session, "ffff0000")
    assert (none.status, "(approval_not_found)" in none.err) == (1, True)

    await at_server.ok("deny", session, one[-8:])
    for given in (one, one[-8:]):
        late = await at_server.run("approve", session, given)
        assert late.status == 1
        assert late.err.startswith("palimpsest: The call no longer waits: denied by user at 20")
        assert late.err.endswith(" (approval_resolved)\n")
    assert (await at_server.ok("approve", session, two[-8:])).out == "approved $ echo two >> runs\n"
    await client.until_idle(session)
    assert "approvals" not in (await at_server.ok("sessions", "show", session)).out


async def test_a_decided_call_is_not_asked_about_again(
    at_server: Terminal, provider: FakeProvider, client: Client
) -> None:
    provider.script(Reply(command("one")), Reply(command("two")), Reply(Text("The end.")))
    session = (await client.create("go", approval=ALWAYS))["id"]
    async with following(client, session) as follower:
        await follower.type("approval.requested")
        await approve_all(client, session)
        await follower.type("approval.requested", 2)
    reading = await at_server.start("sessions", "follow", session, "--json")
    await reading.complains(" (or `deny`)\n")
    (call,) = await pending(client, session)
    assert hinted(reading) == [["approve", session, call["call_id"][-8:]]]
    await at_server.ok(*hinted(reading)[0])
    assert await reading.end() == 0
    assert reading.events[-1]["event"] == "session.idle"
    assert len(reading.err.splitlines()) == 1


@pytest.mark.slow
async def test_a_command_with_its_own_server_prints_its_address(terminal: Terminal) -> None:
    running = await terminal.start("run", "show me", "--approval", "always")
    await running.complains(" (or `deny`)\n")
    first = hinted(running)[0]
    assert first[-2] == "--server"
    decided = await terminal.ok("deny", *first[1:])
    assert decided.out.startswith("denied ")
    running.press_ctrl_c()
    assert await running.end() == 130


async def test_an_unknown_policy_is_refused(at_server: Terminal, client: Client) -> None:
    for policy in ("often", '{"commands": ["("]}', "{"):
        ran = await at_server.run("run", "task", "--approval", policy)
        assert ran.status != 0, policy
        assert "approval" in ran.err
    assert (await client.get("/v1/sessions"))["items"] == []
    waiting = await client.create(approval=ALWAYS)
    async with following(client, waiting["id"]) as follower:
        await follower.type("session.created")
    assert (await at_server.ok("approvals", waiting["id"], "--json", "all")).out == "[]\n"
