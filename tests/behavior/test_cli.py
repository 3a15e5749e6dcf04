"""The command line, as separate processes against real servers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from app.cli.startup import claimed
from tests.behavior.commands import Process, open_command
from tests.behavior.conftest import StartServer
from tests.behavior.harness import OPENAI, Client, RunningServer, command
from tests.behavior.process import ROOT, ServerProcess
from tests.databases import database_environment
from tests.passing_on import PassedOn
from tests.provider import FakeProvider, Gate, HttpError, Reply, Text, ToolCall
from tests.requirements import need

pytestmark = pytest.mark.shared_server

WAIT_S = 100


@dataclass
class Terminal:
    """A person's terminal in an empty directory: its environment, and the commands given in it."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    async def start(self, *args: str, stdin: bool = False, stdout: int | None = None) -> Command:
        process = await open_command(
            args,
            cwd=self.folder,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "PALIMPSEST_DATA_DIR": str(self.folder / "data"),
                **database_environment(self.folder / "data"),
                **self.env,
            },
            stdin=stdin,
            stdout=stdout,
        )
        return Command(process)

    async def run(self, *args: str, stdin: bytes | None = None) -> Command:
        command = await self.start(*args, stdin=stdin is not None)
        await command.end(stdin)
        return command

    async def ok(self, *args: str, stdin: bytes | None = None) -> Command:
        command = await self.run(*args, stdin=stdin)
        assert command.status == 0, command.err
        return command


@dataclass
class Command:
    """A running command; `out` and `err` are its output read so far."""

    process: Process | asyncio.subprocess.Process
    out: str = ""
    err: str = ""

    @property
    def status(self) -> int | None:
        return self.process.returncode

    async def end(self, stdin: bytes | None = None) -> int | None:
        async with asyncio.timeout(WAIT_S):
            out, err = await self.process.communicate(stdin)
        self.out += (out or b"").decode()
        self.err += err.decode()
        assert "Traceback" not in self.err
        return self.status

    async def says(self, text: str) -> None:
        """Waits until the text appears on standard output."""
        assert self.process.stdout is not None
        async with asyncio.timeout(WAIT_S):
            while text not in self.out:
                self.out += await self._piece(self.process.stdout)

    async def complains(self, text: str) -> None:
        """Waits until the text appears on standard error."""
        assert self.process.stderr is not None
        async with asyncio.timeout(WAIT_S):
            while text not in self.err:
                self.err += await self._piece(self.process.stderr)

    async def _piece(self, stream: asyncio.StreamReader) -> str:
        piece = await stream.read(4096)
        assert piece, f"it ended: {self.out} {self.err}"
        return piece.decode()

    def press_ctrl_c(self) -> None:
        self.process.send_signal(signal.SIGINT)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    """A terminal without a configured server or settings."""
    need("bubblewrap")
    folder = tmp_path / "home"
    folder.mkdir()
    return Terminal(folder, {"PALIMPSEST_PORT": "0", "PALIMPSEST_SANDBOX": "bubblewrap"})


@pytest.fixture
def at_server(terminal: Terminal, server: RunningServer) -> Terminal:
    terminal.env["PALIMPSEST_URL"] = server.url
    return terminal


async def test_a_run_is_shown_and_its_files_come_out_byte_for_byte(
    at_server: Terminal, provider: FakeProvider, client: Client
) -> None:
    provider.script(
        Reply(
            Text("I begin.", chunks=3),
            ToolCall("write_file", {"path": "src/a.txt", "content": "ä\n\ttab\r\n"}),
            ToolCall(
                "execute_command",
                {"command": "printf '\\000\\001\\377' > raw.bin; ln -s /etc/passwd leak; echo out; exit 3"},
            ),
        ),
        Reply(Text("Done.")),
    )

    ran = await at_server.ok(
        *("run", "make the files", "-o", "out", "--title", "Files", "--system-prompt", "Be brief."),
        *("--patch", "changes.patch"),
    )

    text = ran.out
    assert text.startswith("I begin.\n· wrote src/a.txt (2 lines)\n$ printf")
    assert "\nout\nexit 3 · " in text
    assert "\nDone.\nstep 2 · " in text
    assert "\n✓ completed · 2 steps · " in text
    folder = at_server.folder / "out"
    assert (folder / "src" / "a.txt").read_bytes() == "ä\n\ttab\r\n".encode()
    assert (folder / "raw.bin").read_bytes() == b"\x00\x01\xff"
    assert "skipped leak: " in ran.err
    assert not (folder / "leak").is_symlink()
    patched = (at_server.folder / "changes.patch").read_bytes()
    changed = re.findall(rb"^diff --git a/(\S+) b/", patched, re.MULTILINE)
    assert changed == [b"leak", b"raw.bin", b"src/a.txt"]
    (session,) = (await client.get("/v1/sessions"))["items"]
    assert (session["task"], session["title"]) == ("make the files", "Files")
    assert f"session {session['id']} on " in ran.err
    assert "Be brief." in json.dumps(provider.requests[0].body)


async def test_a_run_begins_with_the_files_of_a_folder(at_server: Terminal, provider: FakeProvider) -> None:
    project = at_server.folder / "project"
    project.mkdir()
    for name, text in {"main.py": "print(6 * 7)\n", ".gitignore": "*.key\n", "my.key": "secret"}.items():
        (project / name).write_text(text)
    provider.script(Reply(command("ls -A; cat main.py")), Reply(Text("Done.")))
    command_ = await at_server.ok("run", "--dir", "project", "-o", "out", "Look.")
    assert "packed 2 files" in command_.err
    assert "print(6 * 7)" in command_.out
    assert sorted(path.name for path in (at_server.folder / "out").iterdir()) == [".gitignore", "main.py"]
    refused = await at_server.run("run", "--dir", "nowhere", "Look.")
    assert (refused.status, "no_folder" in refused.err) == (2, True)


async def test_a_run_with_rm_leaves_no_session(at_server: Terminal, provider: FakeProvider, client: Client) -> None:
    provider.script(Reply(ToolCall("write_file", {"path": "a.txt", "content": "a"})), Reply(Text("Done.")))
    settings = '{"policy": "handoff", "auto": false}'

    ran = await at_server.ok("run", "go", "--rm", "--effort", "low", "--compaction", settings, "--json", "-o", "out")

    made = ran.events[0]["data"]["session"]
    assert (made["reasoning_effort"], made["compaction"]["policy"]) == ("low", "handoff")
    assert made["compaction"]["settings"]["auto"] is False
    assert [request.body["reasoning_effort"] for request in provider.requests] == ["low", "low"]
    assert (at_server.folder / "out" / "a.txt").read_text() == "a"
    assert (await client.get("/v1/sessions"))["items"] == []


async def test_json_has_one_event_per_line(at_server: Terminal, provider: FakeProvider) -> None:
    provider.script(Reply(Text("a\u2028b\x1b[2J", chunks=4), ToolCall("list_directory")), Reply(Text("end")))

    ran = await at_server.ok("run", "--json", stdin=b"a task from a pipe\n")

    durable = [event["id"] for event in ran.events if event["id"] is not None]
    assert durable == list(range(1, len(durable) + 1))
    assert all(set(event) == {"id", "event", "data"} for event in ran.events)
    assert ran.events[-1]["event"] == "session.idle"
    texts = [event["data"]["text"] for event in ran.events if event["event"] == "text.completed"]
    assert texts == ["a\u2028b\x1b[2J", "end"]
    assert ran.events[0]["data"]["session"]["model"] == OPENAI
    assert "a task from a pipe" in json.dumps(provider.requests[0].body)


async def test_foreign_text_cannot_control_the_terminal(at_server: Terminal, provider: FakeProvider) -> None:
    provider.script(
        Reply(Text("\x1b]0;owned\x07"), ToolCall("execute_command", {"command": "printf '\\033[2Jx\\r\\n\\tok\\n'"})),
        Reply(Text("end")),
    )

    ran = await at_server.ok("run", "t\x1b[31m")

    assert "\x1b" not in ran.out + ran.err
    assert r"\x1b]0;owned\x07" in ran.out
    assert "\\x1b[2Jx\n\tok\n" in ran.out


@pytest.mark.parametrize(
    ("answers", "options", "line", "status"),
    [
        ((HttpError(401),), (), "✗ failed · ", 1),
        ((Reply(ToolCall("list_directory")),) * 3, ("--max-steps", "1"), "■ limit reached · 2 steps", 3),
    ],
)
async def test_a_run_that_did_not_complete_has_a_status(
    at_server: Terminal,
    provider: FakeProvider,
    answers: tuple[Any, ...],
    options: tuple[str, ...],
    line: str,
    status: int,
) -> None:
    provider.script(*answers)
    ran = await at_server.run("run", "try", *options)
    assert ran.status == status
    assert line in ran.out


async def test_a_quiet_run_prints_the_answer_alone(at_server: Terminal, provider: FakeProvider) -> None:
    provider.script(Reply(Text("I look."), ToolCall("list_directory")), Reply(Text("It is empty.\x1b[2J")))
    ran = await at_server.ok("run", "look", "--quiet")
    assert (ran.out, ran.err) == ("It is empty.\\x1b[2J\n", "")

    provider.script(HttpError(401))
    failed = await at_server.run("run", "try", "-q")
    assert (failed.status, failed.out) == (1, "")
    assert failed.err.startswith("failed: ")
    assert (await at_server.run("run", "try", "-q", "--json")).status == 2


async def test_a_run_prints_the_output_that_a_schema_describes(at_server: Terminal, provider: FakeProvider) -> None:
    schema = {"type": "object", "properties": {"files": {"type": "integer"}}, "required": ["files"]}
    (at_server.folder / "schema.json").write_text(json.dumps(schema))
    wrong, right = (ToolCall("submit_output", {"files": files}) for files in ("none", 3))
    provider.script(Reply(Text("There are three.")), Reply(wrong), Reply(right))
    ran = await at_server.ok("run", "count", "--quiet", "--output-schema", "schema.json")
    assert (json.loads(ran.out), ran.err) == ({"files": 3}, "")
    provider.script(*[Reply(wrong)] * 3)
    failed = await at_server.run("run", "count", "--output-schema", "schema.json")
    assert (failed.status, "(output_invalid)" in failed.out) == (1, True), failed.out
    (at_server.folder / "schema.json").write_text("{")
    for name in ("schema.json", "missing.json"):
        refused = await at_server.run("run", "count", "--output-schema", name)
        assert (refused.status, "(bad_output_schema)" in refused.err) == (2, True)


async def test_a_call_that_nobody_decides_has_a_status(at_server: Terminal, provider: FakeProvider) -> None:
    provider.script(Reply(ToolCall("list_directory")), Reply(Text("I may not look.")))
    ran = await at_server.run("run", "look", "-q", "--approval", '{"policy": "always", "timeout_s": 0.1}')
    assert (ran.status, ran.out) == (4, "I may not look.\n")


async def test_a_run_carries_out_local_tools(at_server: Terminal, provider: FakeProvider) -> None:
    """A command gets the arguments as JSON; its output is the result, a failure an error."""
    described = {"name": "fails", "command": "echo no >&2; exit 3", "description": "Fails.", "timeout_s": 60}
    (at_server.folder / "fails.json").write_text(json.dumps(described))
    provider.script(Reply(ToolCall("shout", {"text": "hi"}), ToolCall("fails")), Reply(Text("done")))
    ran = await at_server.ok("run", "look", "-q", "--tool", "shout=tr a-z A-Z", "--tool", "@fails.json")
    assert ran.out == "done\n"
    assert list(provider.requests[1].tool_results.values()) == ['{"TEXT": "HI"}', "Error: exit code 3\nno"]
    assert {"shout", "fails", "execute_command"} <= set(provider.requests[0].tool_names)
    for given in ("shout", "=ls", "@missing.json"):
        refused = await at_server.run("run", "look", "--tool", given)
        assert (refused.status, "(bad_tool)" in refused.err) == (2, True), refused.err


async def test_a_message_that_cannot_fit_is_refused_with_what_to_do(
    at_server: Terminal, provider: FakeProvider
) -> None:
    huge = b"All work and no play. " * 40_000
    command = await at_server.run("run", "-", stdin=huge)
    assert command.status == 1
    assert "tokens; at most " in command.err
    assert "choose a model with a larger window" in command.err
    assert provider.requests == []


async def test_ctrl_c_cancels_the_run_and_follows_it_to_its_end(
    at_server: Terminal, provider: FakeProvider, client: Client
) -> None:
    provider.script(Reply(Text("half of it"), Gate("middle"), Text("the rest")))
    command = await at_server.start("run", "a long task", "-o", "out")
    await command.says("half of it")

    command.press_ctrl_c()

    assert await command.end() == 130
    assert "canceling the run" in command.err
    assert "■ cancelled" in command.out
    assert "the rest" not in command.out
    assert (at_server.folder / "out").is_dir()
    (session,) = (await client.get("/v1/sessions"))["items"]
    assert session["outcome"] == "cancelled"


@pytest.mark.slow
async def test_a_second_ctrl_c_quits_at_once(
    terminal: Terminal, provider: FakeProvider, sandbox_image: str, tmp_path: Path
) -> None:
    provider.script(Reply(Text("half of it"), Gate("middle")))
    with ServerProcess(tmp_path / "server", provider, "bubblewrap", sandbox_image) as server:
        command = await terminal.start("run", "a long task", "--server", server.url)
        await command.says("half of it")
        server.freeze()

        command.press_ctrl_c()
        await command.complains("canceling the run")
        command.press_ctrl_c()

        assert await command.end() == 130
        assert "quitting" in command.err


@dataclass(frozen=True)
class Proxy:
    """Forwards connections to a server until it cuts them."""

    url: str
    cut: Callable[[], Awaitable[None]]


@asynccontextmanager
async def proxy_to(url: str, pause_s: float = 0) -> AsyncIterator[Proxy]:
    """`pause_s` are the seconds between two pieces of what is sent to the server."""
    port = int(url.rpartition(":")[2])
    links = PassedOn(lambda: asyncio.open_connection("127.0.0.1", port), pause_s)
    bound = socket.create_server(("127.0.0.1", 0))
    if pause_s:
        # Otherwise the system would take megabytes at once.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    server = await asyncio.start_server(links.accept, sock=bound)
    try:
        yield Proxy(f"http://127.0.0.1:{bound.getsockname()[1]}", links.drop)
    finally:
        await links.close(server)


async def test_a_lost_connection_loses_no_text_and_repeats_none(
    terminal: Terminal, provider: FakeProvider, server: RunningServer
) -> None:
    provider.script(Reply(Text("first half, "), Gate("middle"), Text("second half")))
    async with proxy_to(server.url) as proxy:
        command = await terminal.start("run", "go", "--server", proxy.url)
        await command.says("first half, ")

        await proxy.cut()
        await command.complains("connection lost, reconnecting (1 of 5)")
        provider.open("middle")

        assert await command.end() == 0
    assert command.out.startswith("first half, second half\nstep 1 · ")


@pytest.mark.slow
async def test_the_cli_gives_up_on_a_server_that_stays_away(
    terminal: Terminal, provider: FakeProvider, server: RunningServer, client: Client
) -> None:
    provider.script(Reply(Text("half"), Gate("middle")))
    async with proxy_to(server.url) as proxy:
        command = await terminal.start("run", "go", "--server", proxy.url)
        await command.says("half")
    assert await command.end() == 1
    (session,) = (await client.get("/v1/sessions"))["items"]
    assert f"Continue with `palimpsest sessions follow {session['id']}`. (connection_lost)" in command.err
    assert session["status"] == "running"


@pytest.mark.slow
async def test_without_a_server_the_command_starts_one(terminal: Terminal) -> None:
    terminal.env["PALIMPSEST_QUEUE_LIMITS"] = "secret"
    ran = await terminal.ok("run", "show me", "-o", "out")

    assert "PALIMPSEST_QUEUE_LIMIT" in ran.err, "the name that the misspelt setting should have"
    assert "secret" not in ran.err
    assert "scripted demo" in ran.out
    assert "✓ completed" in ran.out
    assert "on a server of this command, model scripted/demo, sandbox bubblewrap" in ran.err
    assert (terminal.folder / "out" / "slugify.sh").read_text().startswith("#!/bin/sh\n")
    gone = await terminal.run("sessions", "ls")
    assert gone.status == 1
    assert "(no_server)" in gone.err


async def test_a_data_directory_that_is_in_use_is_left_alone(terminal: Terminal) -> None:
    data = terminal.folder / "data"
    data.mkdir()
    with claimed(data):
        ran = await terminal.run("run", "x")
    assert ran.status == 1
    assert "several tasks at once, or set another PALIMPSEST_DATA_DIR. (data_dir_in_use)" in ran.err


@pytest.mark.sqlite
async def test_a_startup_error_of_the_commands_server_is_one_sentence(terminal: Terminal) -> None:
    data = terminal.folder / "data"
    data.mkdir()
    (data / "palimpsest.db").write_text("not a database " * 100)
    ran = await terminal.run("run", "x")
    assert ran.status == 1
    assert ran.err.endswith("file is not a database. (storage_unavailable)\n")
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize(
    "args",
    [("sessions", "ls"), ("sessions", "ls", "--json", "id"), ("sessions", "show"), ("doctor",), ("doctor", "--json")],
)
async def test_an_unread_pipe_ends_a_command_silently(
    at_server: Terminal, client: Client, args: tuple[str, ...]
) -> None:
    session = await client.create()
    reader, writer = os.pipe()
    os.close(reader)
    command = await at_server.start(*args, *([session["id"]] if args[-1] == "show" else []), stdout=writer)
    os.close(writer)
    assert (await command.end(), command.err) == (141, "")


@pytest.mark.parametrize("options", [(), ("--json",)])
async def test_a_closed_pipe_ends_the_follower_but_not_the_run(
    at_server: Terminal, provider: FakeProvider, client: Client, options: tuple[str, ...]
) -> None:
    provider.script(Reply(Text("half of it"), Gate("middle"), Text("the rest")))
    reader, writer = os.pipe()
    command = await at_server.start("run", "go", *options, stdout=writer)
    os.close(writer)
    await provider.reached("middle")
    assert await asyncio.to_thread(os.read, reader, 1)
    os.close(reader)

    provider.open("middle")

    assert await command.end() == 141
    assert command.err.startswith("session ")
    assert len(command.err.splitlines()) == 1
    (session,) = (await client.get("/v1/sessions"))["items"]
    events = await client.until_idle(session["id"])
    assert events[-1].data["outcome"] == "completed"


async def test_a_closed_pipe_ends_a_command_with_its_own_server(terminal: Terminal) -> None:
    reader, writer = os.pipe()
    command = await terminal.start("run", "show me", "--json", stdout=writer)
    os.close(writer)
    created = await asyncio.to_thread(os.read, reader, 64 * 1024)
    assert b'"max_steps":null' in created, "a task without a server may take days"
    os.close(reader)
    assert await command.end() == 141
    assert "generator" not in command.err


async def test_a_session_deleted_elsewhere_is_reported(
    at_server: Terminal, provider: FakeProvider, client: Client
) -> None:
    provider.script(Reply(Text("half of it"), Gate("middle")))
    session_id = (await client.create("go"))["id"]
    command = await at_server.start("sessions", "follow", session_id)
    await command.says("half of it")

    assert (await client.http.delete(f"/v1/sessions/{session_id}")).is_success

    assert await command.end() == 1
    said = f"palimpsest: Session {session_id} was deleted while it was followed. (session_deleted)\n"
    assert command.err == said


async def test_ctrl_c_does_not_affect_a_followed_session(
    at_server: Terminal, provider: FakeProvider, client: Client
) -> None:
    provider.script(Reply(Text("half of it"), Gate("middle")))
    session_id = (await client.create("go"))["id"]
    command = await at_server.start("sessions", "follow", session_id)
    await command.says("half of it")

    command.press_ctrl_c()

    assert await command.end() == 130
    assert (await client.session(session_id))["status"] == "running"


async def test_the_server_of_the_same_data_directory_is_found(
    terminal: Terminal, provider: FakeProvider, sandbox_image: str
) -> None:
    with ServerProcess(terminal.folder / "data", provider, "bubblewrap", sandbox_image) as server:
        ran = await terminal.ok("run", "hello")
        assert f" on {server.url}, model {OPENAI}" in ran.err
        assert len((await terminal.ok("sessions", "ls")).out.splitlines()) == 1


async def test_a_key_is_asked_for_by_name_and_never_printed(
    terminal: Terminal, start_server: StartServer, provider: FakeProvider
) -> None:
    server = start_server(api_keys=["secret-of-mine-1", "secret-of-mine-2"])
    terminal.env["PALIMPSEST_URL"] = server.url

    refused = await terminal.run("run", "x", "--key", "a-wrong-key")
    assert refused.status == 1
    assert "PALIMPSEST_API_KEY. (unauthorized)" in refused.err

    for name, value in {
        "PALIMPSEST_API_KEYS": "secret-of-mine-2, other",
        "PALIMPSEST_API_KEY": "secret-of-mine-1",
    }.items():
        terminal.env[name] = value
        ran = await terminal.ok("run", "x")
        assert "secret-of-mine" not in ran.out + ran.err


async def test_sessions_are_listed_shown_steered_and_removed(
    at_server: Terminal, provider: FakeProvider, client: Client
) -> None:
    provider.script(Reply(ToolCall("write_file", {"path": "a.txt", "content": "a"})), Reply(Text("one")))
    session, _ = await client.run("first\x1b task")
    session_id = session["id"]

    listed = await at_server.ok("sessions", "ls", "--status", "idle", "--limit", "5", "-q", "first")
    assert listed.out.startswith(f"{session_id}\tcompleted\t20")
    assert "first\\x1b task" in listed.out
    chosen = json.loads((await at_server.ok("sessions", "ls", "--json", "steps,id")).out)
    assert chosen == [{"steps": 2, "id": session_id}]

    shown = (await at_server.ok("sessions", "show", session_id[:8])).out
    assert f"session    {session_id}\n" in shown
    assert "outcome    completed\n" in shown
    assert json.loads((await at_server.ok("sessions", "show", session_id, "--json")).out)["id"] == session_id

    await at_server.ok("sessions", "files", session_id, "-o", "out")
    assert (at_server.folder / "out" / "a.txt").read_bytes() == b"a"
    refused = await at_server.run("sessions", "files", session_id, "-o", "out/a.txt")
    assert refused.status == 1
    assert refused.err.endswith("out/a.txt: File exists. (not_written)\n")

    provider.script(Reply(Text("two")))
    sent = await at_server.ok("sessions", "send", session_id, "and now this", "--mode", "follow_up")
    assert sent.out.startswith("follow_up ")
    followed = await at_server.ok("sessions", "follow", session_id)
    assert [line for line in followed.out.splitlines() if line.startswith("> ")] == [
        "> first\\x1b task",
        "> and now this",
    ]
    assert followed.out.count("✓ completed") == 2
    replay = await at_server.ok("sessions", "follow", session_id, "--json")
    assert replay.events[-1]["event"] == "session.idle"

    declined = await at_server.run("sessions", "rm", session_id, stdin=b"n\n")
    assert declined.status == 1
    await at_server.ok("sessions", "rm", session_id, "--yes")
    assert (await at_server.ok("sessions", "ls")).out == ""


@pytest.mark.slow
async def test_prune_deletes_idle_sessions_and_leaves_those_that_run(
    at_server: Terminal, provider: FakeProvider, client: Client
) -> None:
    provider.script(Reply(Text("done")), Reply(Text("half"), Gate("middle")))
    done = (await client.create("the first task"))["id"]
    await client.until_idle(done)
    busy = (await client.create("go"))["id"]
    await provider.reached("middle")

    assert (await at_server.ok("prune", "--yes")).out == "No sessions to delete.\n"
    shown = await at_server.ok("prune", "--older-than", "0", "--dry-run")
    assert [line.split()[0] for line in shown.out.splitlines()] == ["ID", done, "1"]
    unasked = await at_server.run("prune", "--older-than", "0")
    assert unasked.status == 2
    assert "--yes" in unasked.err
    assert done in (await at_server.ok("sessions", "ls")).out

    pruned = await at_server.ok("prune", "--older-than", "0", "--yes")
    assert pruned.out.endswith("Deleted 1 session.\n")
    left = await at_server.ok("sessions", "ls")
    assert busy in left.out
    assert done not in left.out
    provider.open("middle")


async def test_a_run_is_cancelled_and_resumed_by_id(
    at_server: Terminal, provider: FakeProvider, client: Client
) -> None:
    provider.script(Reply(Text("half"), Gate("middle")), Reply(Text("the end")))
    session_id = (await client.create("go"))["id"]
    await provider.reached("middle")

    cancelled = await at_server.ok("sessions", "cancel", session_id)
    assert cancelled.out == f"cancelled the run of {session_id}\n"
    await client.until_idle(session_id)
    again = await at_server.ok("sessions", "cancel", session_id)
    assert again.out == f"nothing to cancel: {session_id} is idle\n"
    left = await at_server.run("sessions", "follow", session_id)
    assert left.status == 130
    resumed = await at_server.ok("sessions", "resume", session_id)
    assert resumed.out == f"{session_id} running\n"
    followed = await at_server.ok("sessions", "follow", session_id)
    assert "running again (resume)\n" in followed.out
    assert "the end\n" in followed.out

    again = await at_server.run("sessions", "resume", session_id)
    assert again.status == 1
    assert "(nothing_to_resume)" in again.err


@pytest.mark.slow
async def test_a_session_is_forked_and_the_fork_shows_its_history(
    at_server: Terminal, provider: FakeProvider, client: Client
) -> None:
    provider.script(
        Reply(Text("I look."), ToolCall("execute_command", {"command": "echo seen"})), Reply(Text("the end"))
    )
    session, _ = await client.run("go")
    made = (await at_server.ok("fork", session["id"], "--title", "Again")).out.strip()
    shown = await at_server.ok("sessions", "show", made)
    assert f"parent     {session['id']}\n" in shown.out
    assert "title      Again\n" in shown.out
    followed = await at_server.ok("sessions", "follow", made)
    assert "> go\nI look.\n$ echo seen\nseen\n" in followed.out
    assert followed.out.endswith("the end\n")

    first = (await client.messages(session["id"]))[0]["id"]
    early = json.loads((await at_server.ok("fork", session["id"], "--after", first, "--json")).out)
    assert [message["role"] for message in await client.messages(early["id"])] == ["user"]
    refused = await at_server.run("fork", session["id"], "--after", made)
    assert (refused.status, "(message_not_found)" in refused.err) == (1, True)


@pytest.mark.slow
async def test_an_unknown_or_ambiguous_id_is_refused(at_server: Terminal, client: Client) -> None:
    first = (await client.create())["id"]
    await client.create()
    for prefix, code in {
        first[:3]: "short_id",
        first[:6]: "ambiguous_id",
        first[-3:]: "short_id",
        "ffffff": "session_not_found",
        first[:-1] + ("0" if first[-1] != "0" else "1"): "session_not_found",
    }.items():
        refused = await at_server.run("sessions", "show", prefix)
        assert refused.status == 1
        assert refused.err.endswith(f" ({code})\n")
        assert len(refused.err.splitlines()) == 1
        assert (first in refused.err) == (code == "ambiguous_id")
    shown = await at_server.ok("sessions", "show", first[-8:].upper())
    assert f"session    {first}\n" in shown.out


async def test_the_doctor_asks_the_server_too(at_server: Terminal) -> None:
    report = json.loads((await at_server.run("doctor", "--json")).out)
    checks = {check["name"]: check for check in report["checks"]}
    assert checks["server"]["detail"].startswith(f"{at_server.env['PALIMPSEST_URL']}, version ")
    assert (checks["server.database"]["status"], checks["server.sandbox"]["status"]) == ("ok", "ok")
    assert (
        checks["server.models"]["detail"]
        == f"default {OPENAI}; with a key: fake-anthropic, fake-openai, fake-responses"
    )


async def test_an_error_of_the_server_is_one_sentence(at_server: Terminal) -> None:
    refused = await at_server.run("run", "x", "--model", "nobody/none")
    assert refused.status == 1
    assert refused.err.startswith("palimpsest: ")
    assert refused.err.endswith("(unknown_model)\n")
    assert len(refused.err.splitlines()) == 1


@pytest.mark.slow
async def test_the_server_reports_what_it_found_and_how_to_try_it(terminal: Terminal) -> None:
    terminal.env["PALIMPSEST_API_KEYS"] = "secret-of-mine"
    command = await terminal.start("serve", "--port", "0")
    await command.says("Ctrl-C stops the server.")
    url = command.out.split()[3]
    assert command.out.startswith("Palimpsest ")
    assert "model    scripted/demo (a scripted demo; no real model); set OPENAI_API_KEY" in command.out
    assert "sandbox  bubblewrap at " in command.out
    assert f"data     {terminal.folder / 'data'}\n" in command.out
    assert "access   with the API key of PALIMPSEST_API_KEYS" in command.out
    assert "\n  export PALIMPSEST_API_KEY=KEY\n" in command.out
    assert 'run "…"`, which also reads the key from there, or ' in command.out
    header = '-H "Authorization: Bearer $PALIMPSEST_API_KEY"'
    assert f"  curl -N {url}/v1/sessions {header} -H 'Accept: text/event-stream'" in command.out
    assert "secret-of-mine" not in command.out

    ran = await terminal.ok("run", "demo")
    assert f" on {url}, " in ran.err
    command.press_ctrl_c()
    assert await command.end() == 0


@pytest.mark.parametrize("options", [(), ("--port", "0"), ("--host", "localhost")])
async def test_the_module_alone_starts_the_server(terminal: Terminal, options: tuple[str, ...]) -> None:
    command = await terminal.start(*options)
    await command.says("Ctrl-C stops the server.")
    command.press_ctrl_c()
    assert await command.end() == 0


async def test_program_options_are_not_server_options(terminal: Terminal) -> None:
    assert (await terminal.ok("--version")).out.startswith("palimpsest ")
    assert "Usage: palimpsest" in (await terminal.ok("--help")).out


async def test_the_example_in_the_banner_works_verbatim(terminal: Terminal) -> None:
    key = terminal.env["PALIMPSEST_API_KEYS"] = "secret-of-mine"
    command = await terminal.start("serve", "--port", "0")
    await command.says("Ctrl-C stops the server.")
    lines = command.out.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("  export "))
    pasted = "\n".join(lines[first : first + 3]).replace("=KEY", f"={key}")
    shell = await asyncio.create_subprocess_exec(
        *("sh", "-c", pasted), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    streamed = Command(shell)
    await streamed.says('"outcome":"completed"')
    shell.terminate()
    command.press_ctrl_c()
    assert await command.end() == 0
    await shell.wait()


async def test_a_second_server_on_one_data_directory_is_refused(terminal: Terminal) -> None:
    first = await terminal.start("serve", "--port", "0")
    await first.says("Ctrl-C")
    second = await terminal.run("serve", "--port", "0")
    assert second.status == 1
    assert second.err.startswith(f"palimpsest: The server at {first.out.split()[3]} uses ")
    assert second.err.endswith("(data_dir_in_use)\n")
    first.press_ctrl_c()
    assert await first.end() == 0


@pytest.mark.sqlite
@pytest.mark.slow
async def test_a_startup_error_is_one_sentence(terminal: Terminal, server: RunningServer) -> None:
    port = server.url.rpartition(":")[2]
    data = terminal.folder / "data"
    data.mkdir()
    (data / "palimpsest.db").write_text("not a database " * 100)
    for args, env, status, code in [
        (["--port", port], {}, 1, "port_in_use"),
        (["--host", "0.0.0.0"], {}, 1, "key_required"),
        (["--port", "70000"], {}, 2, "invalid_settings"),
        ([], {"PALIMPSEST_MODELS": "{"}, 2, "invalid_settings"),
        ([], {"PALIMPSEST_MODEL": "foo/x"}, 1, "invalid_settings"),
        ([], {}, 1, "storage_unavailable"),
    ]:
        refused = await Terminal(terminal.folder, {**terminal.env, **env}).run("serve", *args)
        assert refused.status == status, refused.err
        assert refused.err.endswith(f" ({code})\n")
        assert len(refused.err.splitlines()) == 1
        assert refused.out == ""
