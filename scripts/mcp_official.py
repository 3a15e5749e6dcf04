"""Runs the official MCP servers of npm in sessions: as commands in bubblewrap and in Docker, and over streamable HTTP:
`python -m scripts.mcp_official`. Prints a table for `docs/mcp.md`, and fails if a call returns an unexpected result.

Needs npm, bubblewrap and Docker with the image `palimpsest/test-full`. That has no Node, so an image with Node and the
servers is built from it, and removed at the end; bubblewrap gets them in the workspace.
"""

from __future__ import annotations

import asyncio
import ipaddress
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from app.logs import configure_logging
from scripts.servers.redis import free_port
from tests.behavior.harness import Client, RunningServer, of_type, settings_for
from tests.provider import FakeProvider, Reply, Text, ToolCall, running_provider

EVERYTHING, FILESYSTEM = "server-everything", "server-filesystem"
PACKAGES = ("node@22", f"@modelcontextprotocol/{EVERYTHING}", f"@modelcontextprotocol/{FILESYSTEM}")
BASE, IMAGE = "palimpsest/test-full", "palimpsest/mcp-official"
PLACES = {"bubblewrap": "/workspace/mcp", "docker": "/opt/mcp"}
"""Where the sandboxes have the packages."""

CALLS: dict[str, list[tuple[str, dict[str, Any], str]]] = {
    EVERYTHING: [
        ("echo", {"message": "hello"}, "Echo: hello"),
        ("get-sum", {"a": 2, "b": 40}, "42"),
        ("get-tiny-image", {}, "[image, image/png"),
        ("get-structured-content", {"location": "New York"}, "temperature"),
        ("get-resource-links", {"count": 2}, "[resource "),
        ("trigger-long-running-operation", {"duration": 1, "steps": 2}, "Long running operation completed"),
        ("get-sum", {"a": "x", "b": 40}, "'x' is not of type 'number'"),
    ],
    FILESYSTEM: [
        ("write_file", {"path": "/workspace/note.txt", "content": "kept\n"}, "Successfully wrote"),
        ("read_text_file", {"path": "/workspace/note.txt"}, "kept"),
        (
            "edit_file",
            {"path": "/workspace/note.txt", "edits": [{"oldText": "kept", "newText": "changed"}]},
            "+changed",
        ),
        ("list_directory", {"path": "/workspace"}, "[FILE] note.txt"),
        ("read_text_file", {"path": "/etc/passwd"}, "Access denied"),
    ],
}
"""Of each server: tools, arguments, and what the result has to contain."""


@dataclass(frozen=True, slots=True)
class Row:
    """What a server did: its version, the transport, the protocol, its tools, and calls that gave what they should."""

    server: str
    transport: str
    protocol: str
    tools: int
    good: int
    wrong: tuple[str, ...]

    def __str__(self) -> str:
        return f"| `{self.server}` | {self.transport} | {self.protocol} | {self.tools} | {self.good} |"


def install(folder: Path) -> dict[str, str]:
    """Installs the packages with npm; the version of each server."""
    command = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(folder), *PACKAGES]
    subprocess.run(command, check=True, stdout=sys.stderr)
    versions = {}
    for name in (EVERYTHING, FILESYSTEM):
        listed = subprocess.run(
            ["npm", "pkg", "get", "version"],
            cwd=folder / "node_modules/@modelcontextprotocol" / name,
            check=True,
            capture_output=True,
            text=True,
        )
        versions[name] = listed.stdout.strip().strip('"')
    return versions


def program(place: str, name: str, *args: str) -> list[str]:
    """The command that runs a server, with the packages in `place`."""
    modules = f"{place}/node_modules"
    return [f"{modules}/node/bin/node", f"{modules}/@modelcontextprotocol/{name}/dist/index.js", *args]


@contextmanager
def image(folder: Path) -> Iterator[None]:
    """An image with Node and the servers, as long as the context lasts."""
    recipe = f"FROM {BASE}\nCOPY node_modules {PLACES['docker']}/node_modules\n"
    command = ["docker", "build", "--quiet", "--tag", IMAGE, "--file", "-", str(folder)]
    subprocess.run(command, input=recipe, text=True, check=True, stdout=sys.stderr)
    try:
        yield
    finally:
        subprocess.run(["docker", "rmi", "--force", IMAGE], check=True, stdout=sys.stderr)


async def use(client: Client, provider: FakeProvider, name: str, session_id: str) -> tuple[str, int, list[str]]:
    """Has a session call the server's tools; the protocol, the number of tools, and the calls that went wrong."""
    calls = CALLS[name]
    provider.script(*(Reply(ToolCall(f"mcp__it__{tool}", args)) for tool, args, _ in calls), Reply(Text("done")))
    events = await client.say(session_id, "Use the server.")
    ready = of_type(events, "mcp.ready")
    if not ready:
        return "none", 0, [str(event.data) for event in of_type(events, "mcp.failed")] or ["it was never ready"]
    outputs = [event.data["output"] for event in of_type(events, "tool.result")]
    wrong = [
        f"{tool}: {output[:300]}" for (tool, _, text), output in zip(calls, outputs, strict=True) if text not in output
    ]
    return ready[0].data["protocol"], len(ready[0].data["tools"]), wrong


async def in_session(
    server: RunningServer, provider: FakeProvider, name: str, config: Mapping[str, Any], files: Path | None = None
) -> tuple[str, int, list[str]]:
    """The same in a new session, whose workspace gets these files."""
    async with Client(server.url) as client:
        session_id = (await client.create(mcp_servers={"it": config}))["id"]
        await client.http.put(f"/v1/sessions/{session_id}/files/empty.txt", content=b"")
        if files is not None:
            place = server.settings.data_dir / "workspaces" / session_id / "mcp/node_modules"
            await asyncio.to_thread(shutil.copytree, files, place, symlinks=True)
        try:
            return await use(client, provider, name, session_id)
        finally:
            await client.http.delete(f"/v1/sessions/{session_id}")


def rows(folder: Path, versions: Mapping[str, str]) -> Iterator[Row]:
    """Each server in each place."""
    loopback = (ipaddress.ip_network("127.0.0.0/8"),)
    for kind, place in PLACES.items():
        with running_provider() as provider, TemporaryDirectory() as data:
            settings = settings_for(Path(data), provider, kind, sandbox_image=IMAGE, mcp_networks=loopback)
            server = RunningServer(settings).start()

            def row(name: str, transport: str, files: Path | None = None, **config: Any) -> Row:
                protocol, tools, wrong = asyncio.run(in_session(server, provider, name, config, files))  # noqa: B023
                good = len(CALLS[name]) - len(wrong)
                return Row(f"{name} {versions[name]}", transport, protocol, tools, good, tuple(wrong))

            try:
                files = folder / "node_modules" if kind == "bubblewrap" else None
                for name in CALLS:
                    command, *args = program(place, name, "/workspace" if name == FILESYSTEM else "stdio")
                    yield row(name, f"a command, {kind}", files, command=command, args=args)
                if kind == "bubblewrap":
                    with over_http(folder) as url:
                        yield row(EVERYTHING, "streamable HTTP", url=url)
            finally:
                server.stop()


@contextmanager
def over_http(folder: Path) -> Iterator[str]:
    """`server-everything` on this machine; its URL."""
    port = free_port()
    command = program(str(folder), EVERYTHING, "streamableHttp")
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env={"PORT": str(port)}, stdout=quiet, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stderr is not None
            while "listening" not in running.stderr.readline():
                assert running.poll() is None, "server-everything ended"
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            running.kill()


def main() -> None:
    configure_logging("error", "json")
    wrong = False
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        versions = install(folder)
        print("| Server | Transport | Protocol | Tools | Calls |\n| --- | --- | --- | --- | --- |")
        with image(folder):
            for each in rows(folder, versions):
                print(each, flush=True)
                wrong = wrong or bool(each.wrong)
                for line in each.wrong:
                    print(f"  {line}", file=sys.stderr)
    sys.exit(wrong)


if __name__ == "__main__":
    main()
