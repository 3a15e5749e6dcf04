"""The agent's side of the protocol: sessions, prompts, permissions and replay."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, cast

from acp import PROTOCOL_VERSION, RequestError, run_agent
from acp.helpers import ContentBlock
from acp.interfaces import Agent
from acp.interfaces import Client as Editor
from acp.schema import (
    AgentCapabilities,
    HttpMcpServer,
    Implementation,
    InitializeResponse,
    LoadSessionResponse,
    McpCapabilities,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
)

from app import __version__
from app.cli.acp.content import content_of
from app.cli.acp.project import Project
from app.cli.acp.turn import Turn, response, show_applied
from app.cli.acp.updates import SessionUpdate, Updates
from app.cli.client import Client, ServerEvent
from app.cli.packing import project_folder
from app.cli.run import TaskOptions
from app.cli.screen import Screen, UsageError
from app.cli.stdio import protocol_streams
from app.cli.target import running_or_embedded
from app.errors import PalimpsestError

FOLDER, OPEN_TURN = "acp_folder", "acp_open_turn"
"""Keys of a session's metadata: its folder, and the last checkpoint before a turn whose changes are not yet applied."""
PAGE = 500
MAX_NAME_CHARS = 28
"""Longest name of an MCP server, without a number; a session takes 32 characters."""
_RETRIES = ("step.retrying", "compaction.retrying")
_HELD_BACK = frozenset({"tool.result", "step.finished", "session.idle", "message.created"})
"""Events after which what a step has written can no longer be voided."""


def serve_acp(options: TaskOptions, server: str | None, key: str | None) -> None:
    """Serves one editor until standard input ends."""
    asyncio.run(_serve(options, server, key))


async def _serve(options: TaskOptions, url: str | None, key: str | None) -> None:
    notes = Screen(sys.stderr)
    async with (
        protocol_streams("ACP") as (reader, writer),
        running_or_embedded(url, key) as (target, _),
        Client(target, notes.line) as client,
    ):
        await run_agent(cast(Agent, PalimpsestAgent(client, options)), writer, reader)


@contextmanager
def _protocol_errors() -> Iterator[None]:
    """Expected errors as errors of the protocol, with their code."""
    try:
        yield
    except UsageError as error:
        raise RequestError(-32602, error.detail, {"code": error.code}) from error
    except PalimpsestError as error:
        raise RequestError(-32603, error.detail, {"code": error.code}) from error


class PalimpsestAgent:
    """Handles an editor's requests. `options` are those of the sessions that it starts."""

    def __init__(self, client: Client, options: TaskOptions) -> None:
        self._client = client
        self._options = options
        self._projects: dict[str, Project] = {}
        self._turns: dict[str, Turn] = {}
        self._editor: Editor

    def on_connect(self, editor: Editor) -> None:
        self._editor = editor

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, audio=False, embedded_context=True),
                mcp_capabilities=McpCapabilities(http=True, sse=False),
            ),
            auth_methods=[],
            agent_info=Implementation(name="palimpsest", title="Palimpsest", version=__version__),
        )

    async def new_session(self, cwd: str, mcp_servers: Sequence[Any] | None = None, **_: Any) -> NewSessionResponse:
        with _protocol_errors():
            project = Project(project_folder(cwd))
            more = {"title": project.path.name, "metadata": {FOLDER: cwd}, "mcp_servers": servers_of(mcp_servers or ())}
            session = await project.create(self._client, {**self._options.body(None), **more})
        self._projects[session["id"]] = project
        return NewSessionResponse(session_id=session["id"])

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> LoadSessionResponse:
        """Shows a session's history again, and applies the changes of a turn that the editor did not wait for."""
        with _protocol_errors():
            project = Project(project_folder(cwd))
            session = await self._client.session(session_id)
            if session["metadata"].get(FOLDER) != cwd:
                raise UsageError(f"Session {session_id} was not started for {cwd}.", code="other_folder")
            self._projects[session_id] = project
            updates = Updates(project.path)
            held: list[SessionUpdate] = []
            async for event in self._log(session_id, session["last_seq"]):
                if event.event == "step.retrying":
                    held.clear()
                if event.event in _RETRIES:
                    continue
                held += updates.take(event)
                if event.event in _HELD_BACK:
                    await self._show(session_id, held)
                    held.clear()
            await self._show(session_id, held)
            await self._conclude(session)
        return LoadSessionResponse()

    async def prompt(self, prompt: Sequence[ContentBlock], session_id: str, **_: Any) -> PromptResponse:
        with _protocol_errors():
            project = self._projects.get(session_id)
            if project is None:
                raise UsageError(f"Session {session_id} is not open; load it first.", code="session_not_open")
            if session_id in self._turns:
                raise UsageError("The session is still working on a prompt.", code="prompt_running")
            content = content_of(prompt, project.path)
            turn = self._turns[session_id] = Turn(self._client, self._editor, session_id, project)
            try:
                after = await self._open(session_id)
                end = await turn.run(content)
                await self._apply(session_id, after)
            finally:
                del self._turns[session_id]
        return response(end)

    async def cancel(self, session_id: str, **_: Any) -> None:
        if (turn := self._turns.get(session_id)) is not None:
            with suppress(PalimpsestError):
                await turn.cancel()

    async def _open(self, session_id: str) -> str | None:
        """Notes that a turn begins: its changes are applied even if this process ends before it does. Returns the last
        checkpoint before it, or before an earlier turn whose run is still active."""
        session = await self._conclude(await self._client.session(session_id))
        if OPEN_TURN in session["metadata"]:
            return cast("str | None", session["metadata"][OPEN_TURN]["after"])
        items = (await self._client.call("GET", f"/v1/sessions/{session_id}/checkpoints"))["items"]
        after = str(items[-1]["id"]) if items else None
        await self._note(session_id, {**session["metadata"], OPEN_TURN: {"after": after}})
        return after

    async def _conclude(self, session: dict[str, Any]) -> dict[str, Any]:
        """Applies what an earlier turn has changed since the editor stopped waiting for it. Returns the session."""
        if session["status"] != "idle" or OPEN_TURN not in session["metadata"]:
            return session
        return await self._apply(session["id"], session["metadata"][OPEN_TURN]["after"])

    async def _apply(self, session_id: str, after: str | None) -> dict[str, Any]:
        """Applies what a turn changed, and closes it. Returns the session."""
        project = self._projects[session_id]
        applied = await project.apply(self._client, session_id, after)
        if applied is not None:
            await self._show(session_id, show_applied(applied, project.path))
        session = await self._client.session(session_id)
        kept = {name: value for name, value in session["metadata"].items() if name != OPEN_TURN}
        return await self._note(session_id, kept)

    async def _note(self, session_id: str, metadata: dict[str, Any]) -> dict[str, Any]:
        body = {"metadata": metadata}
        session: dict[str, Any] = await self._client.call("PATCH", f"/v1/sessions/{session_id}", json=body)
        return session

    async def _log(self, session_id: str, last: int) -> AsyncIterator[ServerEvent]:
        """The session's events up to a seq, from the log."""
        query: dict[str, Any] = {"limit": PAGE}
        while True:
            page = await self._client.call("GET", f"/v1/sessions/{session_id}/log", params=query)
            for item in page["items"]:
                if item["seq"] <= last:
                    yield ServerEvent(item["seq"], item["type"], item["data"])
            if page["next_cursor"] is None:
                return
            query["after"] = page["next_cursor"]

    async def _show(self, session_id: str, updates: Sequence[SessionUpdate]) -> None:
        for update in updates:
            await self._editor.session_update(session_id, update)


def servers_of(given: Sequence[Any]) -> dict[str, Any] | None:
    """The MCP servers with a URL. The others are commands on the editor's machine, which the sandbox does not have.
    Their names may be any text; of two that become the same, the later one gets a number."""
    servers: dict[str, Any] = {}
    for server in given:
        if isinstance(server, HttpMcpServer):
            plain = re.sub(r"[^a-zA-Z0-9]+", "-", server.name)[:MAX_NAME_CHARS].strip("-") or "server"
            names = (plain, *(f"{plain}-{number}" for number in range(2, len(given) + 1)))
            name = next(name for name in names if name not in servers)
            servers[name] = {"url": server.url, "headers": {header.name: header.value for header in server.headers}}
    return servers or None
