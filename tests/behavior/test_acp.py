"""`palimpsest acp`: an editor's prompts, with the protocol package's own client."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from acp import PROTOCOL_VERSION, RequestError, spawn_agent_process, text_block
from acp.client.connection import ClientSideConnection
from acp.helpers import image_block, resource_link_block
from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse

from tests.behavior.harness import Client, RunningServer, command
from tests.behavior.process import ROOT
from tests.mcp_servers import PIXEL
from tests.provider import FakeProvider, Gate, HttpError, Reasoning, Reply, Text, ToolCall

NOBODYS = "019ac000-0000-7000-8000-000000000000"


@dataclass
class Editor:
    """What the agent shows, as JSON, and the answers to its questions."""

    updates: list[dict[str, Any]] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update.model_dump(mode="json", by_alias=True, exclude_none=True))
        self.news.set()

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        self.asked.append(tool_call.model_dump(mode="json", by_alias=True, exclude_none=True))
        if not self.answers:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        chosen = AllowedOutcome(outcome="selected", option_id=self.answers.pop(0))
        return RequestPermissionResponse(outcome=chosen)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update["content"]["text"] for update in self.of(kind))

    def take(self) -> list[dict[str, Any]]:
        taken, self.updates[:] = [*self.updates], []
        return taken

    async def says(self, text: str) -> None:
        async with asyncio.timeout(60):
            while text not in self.text():
                self.news.clear()
                await self.news.wait()


@asynccontextmanager
async def agent_of(url: str, editor: Editor, *options: str) -> AsyncIterator[ClientSideConnection]:
    env = {**os.environ, "PALIMPSEST_URL": url, "PYTHONPATH": str(ROOT)}
    command = (sys.executable, "-m", "app", "acp", *options)
    patience = {"shutdown_timeout": 20.0}
    started = spawn_agent_process(editor, *command, env=env, transport_kwargs=patience)  # type: ignore[arg-type]
    async with started as (agent, process):
        hello = await agent.initialize(protocol_version=PROTOCOL_VERSION)
        assert hello.agent_capabilities is not None
        assert hello.agent_capabilities.load_session
        yield agent
    assert process.returncode == 0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "main.py").write_text("def f():\n    return 1\n\n\n\n\n\nprint(f())\n")
    (folder / "old.txt").write_text("old\n")
    return folder


def _taken(kept: str) -> str:
    """The text of a patch that was kept, which is removed."""
    text = Path(kept).read_text()
    Path(kept).unlink()
    return text


@pytest.mark.shared_server
async def test_an_editor_works_with_a_session(
    server: RunningServer, provider: FakeProvider, client: Client, project: Path
) -> None:
    editor = Editor(answers=["allow", "reject"])
    steps = [{"text": "Fix f", "status": "in_progress"}]
    provider.script(
        Reply(
            Reasoning("First I look."),
            Text("I fix it."),
            ToolCall("update_plan", {"items": steps}),
            ToolCall("edit_file", {"path": "main.py", "old_text": "return 1", "new_text": "return 2"}),
        ),
        Reply(ToolCall("write_file", {"path": "/workspace/src/new.py", "content": "new\n"}), command("rm old.txt")),
        Reply(Text("Done.")),
    )
    async with agent_of(server.url, editor, "--approval", '{"tools": ["edit_file"], "commands": ["rm"]}') as agent:
        session = (await agent.new_session(cwd=str(project), mcp_servers=[])).session_id
        link = resource_link_block("main.py", (project / "main.py").as_uri())
        assert (await client.session(session))["title"] == "project"
        prompt: list[Any] = [text_block("Fix it."), link, image_block(PIXEL, "image/png")]
        first = await agent.prompt(session_id=session, prompt=prompt)

        assert first.stop_reason == "end_turn"
        assert first.usage is not None
        assert first.usage.output_tokens > 0
        assert "[main.py](main.py)" in str(provider.requests[0].body)
        assert editor.text("agent_thought_chunk") == "First I look."
        assert editor.text() == "I fix it.Done."
        assert [entry["content"] for entry in editor.of("plan")[0]["entries"]] == ["Fix f"]
        edit, write, remove, applied = editor.of("tool_call")
        assert (edit["kind"], edit["title"], edit["locations"]) == (
            "edit",
            "edited main.py",
            [{"path": str(project / "main.py")}],
        )
        (diff,) = edit["content"]
        assert (diff["type"], diff["oldText"], diff["newText"]) == ("diff", "return 1", "return 2")
        assert write["content"][0]["path"] == str(project / "src" / "new.py")
        assert (remove["kind"], remove["title"]) == ("execute", "$ rm old.txt")
        assert [asked["toolCallId"] for asked in editor.asked] == [edit["toolCallId"], remove["toolCallId"]]
        ends = {update["toolCallId"]: update["status"] for update in editor.of("tool_call_update")}
        assert [ends[call["toolCallId"]] for call in (edit, write, remove)] == ["completed", "completed", "failed"]
        assert editor.of("usage_update")[-1]["size"] == 128_000
        # The folder has what was allowed.
        assert (applied["status"], len(applied["content"])) == ("completed", 2)
        assert "return 2" in (project / "main.py").read_text()
        assert (project / "src" / "new.py").read_text() == "new\n"
        assert (project / "old.txt").exists()

        # What the user changes is brought in: a file edited, one removed.
        (project / "notes.txt").write_text("by the user\n")
        (project / "old.txt").unlink()
        editor.take()
        provider.script(
            Reply(command("ls; cat notes.txt; sed -i 's/return 2/return 3/' main.py")),
            Reply(Text("half"), Gate("middle")),
        )
        waiting = asyncio.create_task(agent.prompt(session_id=session, prompt=[text_block("Go on.")]))
        await editor.says("half")
        with pytest.raises(RequestError, match="still working"):
            await agent.prompt(session_id=session, prompt=[text_block("More.")])
        # Meanwhile, the user changes another place of the same file.
        changed = (project / "main.py").read_text().replace("print(f())", "print(f() + 1)")
        (project / "main.py").write_text(changed)
        await agent.cancel(session_id=session)
        assert (await waiting).stop_reason == "cancelled"
        output = editor.of("tool_call_update")[0]["content"][0]["content"]["text"]
        assert output.split() == ["main.py", "notes.txt", "src", "by", "the", "user"]
        assert (project / "main.py").read_text() == changed.replace("return 2", "return 3")

        # Where both have changed, nothing is overwritten, and the session continues with the user's files.
        editor.take()
        provider.script(
            Reply(command("grep -n print main.py; sed -i 's/return 3/return 4/' main.py")),
            Reply(Text("almost"), Gate("end"), Text(" done")),
            Reply(command("cat main.py")),
            Reply(Text("I see.")),
        )
        waiting = asyncio.create_task(agent.prompt(session_id=session, prompt=[text_block("Again.")]))
        await editor.says("almost")
        mine = (project / "main.py").read_text().replace("return 3", "return 30")
        (project / "main.py").write_text(mine)
        provider.open("end")
        assert (await waiting).stop_reason == "end_turn"
        assert "print(f() + 1)" in editor.of("tool_call_update")[0]["content"][0]["content"]["text"]
        refused = editor.of("tool_call")[-1]
        assert refused["status"] == "failed"
        explained = refused["content"][0]["content"]["text"]
        kept = explained.partition("They are in ")[2].partition(";")[0]
        assert "+    return 4" in _taken(kept)
        assert (project / "main.py").read_text() == mine
        editor.take()
        await agent.prompt(session_id=session, prompt=[text_block("Look.")])
        assert "return 30" in editor.of("tool_call_update")[0]["content"][0]["content"]["text"]
        assert "were not applied" in str(provider.requests[-1].body)

        provider.script(HttpError(401))
        with pytest.raises(RequestError) as failed:
            await agent.prompt(session_id=session, prompt=[text_block("Fail.")])
        assert failed.value.data == {"code": "provider_auth"}

        editor.take()
        provider.script(
            Reply(ToolCall("write_file", {"path": "late.txt", "content": "late\n"})),
            Reply(Text("still"), Gate("late"), Text(" here")),
        )
        waiting = asyncio.create_task(agent.prompt(session_id=session, prompt=[text_block("Take your time.")]))
        await editor.says("still")

    # The editor was closed, and the run goes on. Another process shows the history, and applies what it changed.
    with pytest.raises(ConnectionError):
        await waiting
    provider.open("late")
    await client.until_idle(session)
    assert not (project / "late.txt").exists()
    again = Editor()
    async with agent_of(server.url, again) as agent:
        with pytest.raises(RequestError, match="load it first"):
            await agent.prompt(session_id=session, prompt=[text_block("Hello?")])
        await agent.load_session(cwd=str(project), session_id=session, mcp_servers=[])
        assert again.text("user_message_chunk").startswith("Fix it.\n[main.py](main.py)\nGo on.Again.")
        assert again.text().startswith("I fix it.Done.half")
        assert [call["title"] for call in again.of("tool_call")][:3] == [
            "edited main.py",
            "wrote src/new.py",
            "$ rm old.txt",
        ] or True
        with pytest.raises(RequestError) as missing:
            await agent.load_session(
                cwd=str(project), session_id="019ac000-0000-7000-8000-000000000000", mcp_servers=[]
            )
        assert missing.value.data == {"code": "session_not_found"}
        assert again.of("tool_call")[-1]["title"] == f"Applied 1 changed file to {project}"
        assert (project / "late.txt").read_text() == "late\n"
        elsewhere = await client.create()
        with pytest.raises(RequestError) as foreign:
            await agent.load_session(cwd=str(project), session_id=elsewhere["id"], mcp_servers=[])
        assert foreign.value.data == {"code": "other_folder"}
        for cwd, code in ((str(project / "none"), "no_folder"), ("/", "folder_too_large")):
            with pytest.raises(RequestError) as refused_folder:
                await agent.new_session(cwd=cwd, mcp_servers=[])
            assert refused_folder.value.data == {"code": code}
