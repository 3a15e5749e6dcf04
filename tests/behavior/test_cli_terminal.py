"""The command line at a pseudo-terminal: a run that is drawn, steered, approved and left."""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import re
import signal
import struct
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from tests.behavior.harness import Client, Event, RunningServer, command
from tests.behavior.preloaded import Forked, fork
from tests.behavior.process import ROOT
from tests.behavior.test_cli import WAIT_S, Terminal, at_server, proxy_to, terminal
from tests.provider import FakeProvider, Gate, Reply, Text, ToolCall

pytestmark = pytest.mark.shared_server

__all__ = ["at_server", "terminal"]

HOSTILE = "\x1b]0;owned\x07\x1b[2J&#27;[31m"
COLORS = re.compile(r"\x1b\[[\d;]*m")
MOVES = re.compile(r"\x1b\[(?:\?25[hl]|\?2026[hl]|\?2004[hl]|\d+A|J)")


@dataclass
class Pty:
    """A command at a terminal of 80 columns; `out` is all that it has written."""

    process: Forked
    end: int
    out: str = ""
    news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def text(self) -> str:
        return COLORS.sub("", self.out)

    async def shows(self, text: str) -> None:
        """Waits until the text was drawn."""
        async with asyncio.timeout(WAIT_S):
            while text not in self.text:
                await self.news.wait()
                self.news.clear()

    def type(self, text: str) -> None:
        os.write(self.end, text.encode())

    def press_ctrl_c(self) -> None:
        self.process.send_signal(signal.SIGINT)

    async def ended(self) -> int:
        return await asyncio.to_thread(self.process.wait, WAIT_S)

    @property
    def is_cooked(self) -> bool:
        """Whether the terminal echoes and edits lines itself, as before the command."""
        modes = termios.tcgetattr(self.end)[3]
        return bool(modes & termios.ECHO and modes & termios.ICANON)


@asynccontextmanager
async def at_pty(at: Terminal, *args: str, **env: str) -> AsyncIterator[Pty]:
    """The command, started at a terminal, and killed if it has not ended."""
    end, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 80, 0, 0))
    known = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    variables = {**known, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT), **at.env, **env}
    variables["PALIMPSEST_DATA_DIR"] = str(at.folder / "data")
    process = await asyncio.to_thread(fork, args, env=variables, cwd=at.folder, streams=(theirs, theirs, theirs))
    pty = Pty(process, end)
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            pty.out += os.read(end, 65536).decode()
        except OSError:  # the other end is closed
            loop.remove_reader(end)
        pty.news.set()

    loop.add_reader(end, read)
    try:
        yield pty
    finally:
        loop.remove_reader(end)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            await pty.ended()
        os.close(theirs)
        os.close(end)


def queued(text: str) -> Callable[[Event], bool]:
    return lambda event: event.type == "message.queued" and event.data["content"] == text


async def test_a_run_is_drawn_and_steered(at_server: Terminal, provider: FakeProvider, client: Client) -> None:
    provider.script(
        Reply(
            Text("# Plan\n\nI **look**.\n" + HOSTILE),
            ToolCall("write_file", {"path": "a.py", "content": "x = 1\n"}),
            ToolCall("edit_file", {"path": "a.py", "old_text": "x = 1", "new_text": "x = 2"}),
        ),
        Reply(Text("half"), Gate("middle"), ToolCall("execute_command", {"command": f"printf '{HOSTILE}'"})),
        Reply(Text("Done.")),
    )
    async with at_pty(at_server, "run", "make it") as run:
        await run.shows("half")
        await run.shows("writing · ")
        assert not run.is_cooked
        run.type("also te\x7f\x7ftest it")
        await run.shows("> also test it")
        run.type("\r")
        (session,) = (await client.get("/v1/sessions"))["items"]
        await client.wait_for(session["id"], queued("also test it"))
        await run.shows("1 queued")
        provider.open("middle")
        assert await run.ended() == 0
        await run.shows(f"/#/sessions/{session['id']}")
        assert run.is_cooked
    assert "\x1b[1mlook\x1b[0m" in run.out
    assert "\x1b[31m  -x = 1" in run.out
    assert "\x1b[32m  +x = 2" in run.out
    assert "✓ completed · 3 steps · " in run.text
    assert "1 file changed, +1 −0" in run.text
    assert "A a.py" in run.text
    assert "also test it" in str(provider.requests[2].body)
    left = MOVES.sub("", run.text).replace("\n", "").replace("\r", "")
    assert left.isprintable(), "no other escape sequence was written"


async def test_a_call_is_approved_by_a_line_typed_after_the_question(
    at_server: Terminal, provider: FakeProvider, client: Client
) -> None:
    provider.script(Reply(Gate("begin"), ToolCall("list_directory")), Reply(Text("It is empty.")))
    async with at_pty(at_server, "run", "look", "--approval", "always") as run:
        await run.shows("waiting for the model")
        run.type("y")
        await run.shows("> y")
        provider.open("begin")
        await run.shows("allow list_directory? y, or n and the reason: ")
        run.type("no, not now\r")
        await run.shows("denied")
        assert await run.ended() == 0
        await run.shows("not sent: y")
    assert "not now" in str(provider.requests[1].tool_results)


async def test_ctrl_c_cancels_and_gives_the_terminal_back(
    at_server: Terminal, provider: FakeProvider, client: Client
) -> None:
    provider.script(Reply(Text("half of it"), Gate("middle")))
    async with at_pty(at_server, "run", "go") as run:
        await run.shows("half of it")
        run.press_ctrl_c()
        assert await run.ended() == 130
        await run.shows("■ cancelled")
        assert run.is_cooked


@pytest.mark.slow
async def test_a_long_upload_shows_how_much_is_sent(
    terminal: Terminal, provider: FakeProvider, server: RunningServer
) -> None:
    project = terminal.folder / "project" / "node_modules"  # is in no checkpoint
    project.mkdir(parents=True)
    (project / "large").write_bytes(random.Random(0).randbytes(8_000_000))
    provider.script(Reply(command("wc -c node_modules/large")), Reply(Text("Done.")))
    async with (
        proxy_to(server.url, pause_s=0.03) as proxy,
        at_pty(terminal, "run", "--dir", "project", "look", PALIMPSEST_URL=proxy.url) as run,
    ):
        await run.shows("✓ completed")
        assert await run.ended() == 0
    shown = [int(percent) for percent in re.findall(r"\rsending: (\d+)%\x1b\[K", run.out)]
    assert shown
    assert shown == sorted(shown)
    assert shown[0] < 100
    assert run.out.index("\r\x1b[K") < run.out.index("session "), "the line is cleared"
    assert "8000000" in run.text


async def test_a_session_is_attached_to_and_left(at_server: Terminal, provider: FakeProvider, client: Client) -> None:
    provider.script(Reply(Text("an old answer")), Reply(Text("half of it"), Gate("middle")), Reply(Text("the end")))
    session, _ = await client.run("first")
    await client.post(session["id"], "second")
    await provider.reached("middle")
    async with at_pty(at_server, "attach", session["id"][-8:]) as attached:
        await attached.shows("half of it")
        assert "an old answer" not in attached.text
        attached.press_ctrl_c()
        assert await attached.ended() == 130
        await attached.shows("detached; ")
        assert attached.is_cooked
    assert (await client.session(session["id"]))["status"] == "running"

    async with at_pty(at_server, "attach", session["id"], "--after", "0", NO_COLOR="1") as plain:
        await plain.shows("an old answer")
        plain.type("and a third\n")
        await client.wait_for(session["id"], queued("and a third"))
        provider.open("middle")
        assert await plain.ended() == 0
        await plain.shows("the end")
    assert "\x1b" not in plain.out
