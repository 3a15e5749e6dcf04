"""`palimpsest mcp`: sessions as MCP tools on standard input and output, for agents that hand over long work."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server import Server, ServerRequestContext
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from app import __version__
from app.cli.client import Client
from app.cli.mcp_tools import TOOLS, Report
from app.cli.screen import Screen, one_line
from app.cli.stdio import MAX_MESSAGE_BYTES, protocol_streams
from app.cli.target import running_or_embedded
from app.errors import PalimpsestError
from app.tools.registry import describe_errors, provider_schema

PROGRESS_S = 5.0
"""Seconds between two progress notifications, which keep clients from giving up."""
INSTRUCTIONS = (
    "Palimpsest runs coding agents in a sandbox, for hours if needed. Start a session, then call result until its"
    " status is idle. A session keeps working between calls."
)


def serve_mcp(server: str | None, key: str | None) -> None:
    """Serves until standard input ends."""
    asyncio.run(_serve(server, key))


async def _serve(url: str | None, key: str | None) -> None:
    notes = Screen(sys.stderr)
    async with (
        protocol_streams("MCP") as (reader, writer),
        running_or_embedded(url, key) as (target, _),
        Client(target, notes.line) as client,
    ):
        await _speak(mcp_server(client), reader, writer, notes)


async def _speak(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, notes: Screen) -> None:
    """Serves the connection until the client ends it."""
    sent, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    writing, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_read(reader, sent, notes))
        tasks.create_task(_write(outgoing, writer))
        await server.run(reading, writing, server.create_initialization_options())


async def _read(
    reader: asyncio.StreamReader, sent: MemoryObjectSendStream[SessionMessage | Exception], notes: Screen
) -> None:
    """One message per line. Other lines become errors of the stream, which the protocol skips."""
    async with sent:
        while True:
            try:
                line = await reader.readline()
            except ValueError:
                notes.line(f"A message has more than {MAX_MESSAGE_BYTES:,} bytes.")
                return
            if not line:
                return
            try:
                await sent.send(SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False)))
            except ValidationError as error:
                await sent.send(error)


async def _write(outgoing: MemoryObjectReceiveStream[SessionMessage], writer: asyncio.StreamWriter) -> None:
    async with outgoing:
        async for message in outgoing:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            writer.write(f"{text}\n".encode())
            await writer.drain()


def mcp_server(client: Client) -> Server:
    """The tools over a client of the HTTP API, as an MCP server."""

    async def list_tools(
        ctx: ServerRequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_definition(name) for name in TOOLS])

    async def call_tool(ctx: ServerRequestContext, params: types.CallToolRequestParams) -> types.CallToolResult:
        return await _call(client, ctx, params)

    return Server(
        "palimpsest",
        version=__version__,
        title="Palimpsest",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _definition(name: str) -> types.Tool:
    tool = TOOLS[name]
    return types.Tool(
        name=name,
        description=tool.description,
        input_schema=provider_schema(tool.arguments),
        annotations=types.ToolAnnotations(read_only_hint=tool.read_only),
    )


async def _call(client: Client, ctx: ServerRequestContext, params: types.CallToolRequestParams) -> types.CallToolResult:
    """Carries out a call. Expected errors become error results, with the code."""
    tool = TOOLS.get(params.name)
    if tool is None:
        return _error("unknown_tool", f"There is no tool {one_line(params.name)}; the tools are {', '.join(TOOLS)}.")
    try:
        given = tool.arguments.model_validate(params.arguments or {})
        async with _progress(ctx, getattr(given, "wait_s", None)) as report:
            answer = await tool.run(client, given, report)
    except ValidationError as error:
        return _error("invalid_arguments", f"{describe_errors(error)}.")
    except PalimpsestError as error:
        return _error(error.code, error.detail)
    return types.CallToolResult(content=[_text(json.dumps(answer, ensure_ascii=False))], structured_content=answer)


@asynccontextmanager
async def _progress(ctx: ServerRequestContext, total_s: float | None) -> AsyncIterator[Report]:
    """Notifies the client of the seconds that have passed, and of what was reported last."""
    news, last = asyncio.Event(), ""
    start = time.monotonic()

    def report(text: str) -> None:
        nonlocal last
        last = text
        news.set()

    async def notify() -> None:
        while True:
            try:
                async with asyncio.timeout(PROGRESS_S):
                    await news.wait()
            except TimeoutError:
                pass
            news.clear()
            await ctx.session.report_progress(time.monotonic() - start, total_s, last or None)

    task = asyncio.create_task(notify())
    try:
        yield report
    finally:
        task.cancel()
        await asyncio.wait({task})


def _error(code: str, detail: str) -> types.CallToolResult:
    return types.CallToolResult(
        content=[_text(f"{detail} ({code})")], structured_content={"code": code, "detail": detail}, is_error=True
    )


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)
