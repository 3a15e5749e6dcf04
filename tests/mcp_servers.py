"""MCP servers for tests: one of the official package over streamable HTTP, hostile ones that answer with raw bytes, and
a shell script that speaks on its standard input and output."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import CallToolResult, ImageContent, ResourceLink, TextContent

from tests.accepting import UvicornServer

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


@dataclass
class McpServer:
    """A running server. `calls` are the arguments of each call of `add`; `waiting` and `released` count calls of `wait`
    that have begun, and that were ended by the client."""

    url: str = ""
    calls: list[tuple[int, int]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    waiting: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    released: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    connections: set[str] = field(default_factory=set)


def _tools(server: MCPServer, running: McpServer) -> None:
    @server.tool()
    def add(a: int, b: int) -> int:
        """Adds two numbers."""
        running.calls.append((a, b))
        return a + b

    @server.tool()
    def several() -> CallToolResult:
        """Returns an image, a link and a text."""
        image = ImageContent(type="image", data=PIXEL, mime_type="image/png")
        link = ResourceLink(type="resource_link", name="notes", uri="file:///notes.txt", mime_type="text/plain")
        return CallToolResult(content=[TextContent(type="text", text="three parts"), image, link])

    @server.tool()
    def fail() -> CallToolResult:
        """Fails."""
        return CallToolResult(content=[TextContent(type="text", text="nothing is there")], is_error=True)

    @server.tool()
    async def wait(ctx: Context) -> str:
        """Waits until it is cancelled."""
        await ctx.report_progress(1, 4, "begun")
        running.waiting.release()
        try:
            await asyncio.sleep(600)
        finally:
            running.released.release()
        return "waited"

    @server.tool()
    async def grow(ctx: Context) -> str:
        """Adds the tool `grown`."""

        def grown() -> str:
            """Was not there before."""
            return "grown up"

        server.add_tool(grown)
        await ctx.notify_tools_changed()
        await asyncio.sleep(0.3)
        return "there is more now"


@contextmanager
def mcp_server(extra: Callable[[MCPServer], None] = lambda _: None) -> Iterator[McpServer]:
    """A server of the official package."""
    running = McpServer()
    server = MCPServer("test", instructions="Obey the server.", log_level="CRITICAL")
    _tools(server, running)
    extra(server)
    app = server.streamable_http_app()

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            running.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await app(scope, receive, send)

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(noting, log_level="critical", lifespan="on", timeout_graceful_shutdown=1, ws="none")
    served = UvicornServer(config)
    thread = threading.Thread(target=lambda: asyncio.run(served.serve([listener])), daemon=True)
    thread.start()
    running.url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    try:
        yield running
    finally:
        served.should_exit = True
        thread.join(60)
        assert not thread.is_alive(), "the server did not stop"
        listener.close()


Answer = Callable[[dict[str, Any]], tuple[int, str, Iterator[bytes]] | None]
"""Of a request's JSON: the status, the type and the pieces of the answer; None hangs until the end."""


@contextmanager
def raw_server(answer: Answer) -> Iterator[str]:
    """A server that says what `answer` returns; yields its URL."""
    ending = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            said = answer(asked)
            self.close_connection = True
            if said is None:
                ending.wait(60)
                return
            status, kind, pieces = said
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Connection", "close")
            self.end_headers()
            try:
                for piece in pieces:
                    self.wfile.write(piece)
            except OSError:
                pass

        def do_GET(self) -> None:
            self.send_error(405)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        ending.set()
        server.shutdown()
        server.server_close()


def result(asked: dict[str, Any], value: Any) -> tuple[int, str, Iterator[bytes]]:
    """A result of a request, as JSON."""
    body = {"jsonrpc": "2.0", "id": asked.get("id"), "result": value}
    return 200, "application/json", iter([json.dumps(body).encode()])


def handshake(asked: dict[str, Any]) -> tuple[int, str, Iterator[bytes]] | None:
    """What an honest server of the older protocol answers before it is asked for its tools."""
    match asked["method"]:
        case "initialize":
            about = {"name": "raw", "version": "1"}
            capabilities = {"tools": {"listChanged": True}}
            return result(asked, {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": about})
        case method if method.startswith("notifications/"):
            return 202, "application/json", iter([])
        case "server/discover":
            error = {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no"}}
            return 200, "application/json", iter([json.dumps(error).encode()])
    return None


SCRIPT = r"""
say() { echo "{\"jsonrpc\":\"2.0\",\"id\":$id,$1}"; }
tool() { echo "{\"name\":\"$1\",\"description\":\"Does $1.\",\"inputSchema\":{\"type\":\"object\"}}"; }
echo "a line that is no message"
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
  case $line in
    *'"method":"server/discover"'*) say '"error":{"code":-32601,"message":"no"}' ;;
    *'"method":"initialize"'*)
      about='"capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}'
      say "\"result\":{\"protocolVersion\":\"2025-06-18\",$about}" ;;
    *'"method":"tools/list"'*)
      echo started >> starts.txt
      say "\"result\":{\"tools\":[$(tool touch),$(tool die),$(tool hang)]}" ;;
    *'"name":"touch"'*)
      echo "$TOKEN" > touched.txt
      say "\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"touched with $TOKEN\"}]}" ;;
    *'"name":"hang"'*) sleep 600 & ;;
    *'"name":"die"'*) echo "the tool crashed" >&2; exit 3 ;;
  esac
done
echo "end of input" > ended.txt
"""
