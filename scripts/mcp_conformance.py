"""Runs the client scenarios of `@modelcontextprotocol/conformance` against the client of MCP servers:
`python -m scripts.mcp_conformance`.

Needs npx; it loads the package, and the Node that this needs, from npm. The package starts a server for each scenario
and, as its client, this file with the server's address, which lists the tools as a session does and calls them once.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import json
import os
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from app.runtime.mcp.bounds import ServerError
from app.runtime.mcp.catalog import make_catalog
from app.runtime.mcp.config import ServerConfig
from app.runtime.mcp.connection import Connection, UnansweredError
from app.runtime.mcp.http import http_streams, tls_context
from app.runtime.mcp.results import read_result
from app.runtime.values.mcp import McpServer
from app.runtime.webhooks.addresses import Destinations

PACKAGE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
"""The newest version, since older ones have no scenarios of the newest protocol."""
NODE = "node@22"
ROOT = Path(__file__).parents[1]

SCENARIOS = {
    "2025-11-25": ("initialize", "tools_call", "sse-retry", "json-schema-2020-12-preservation"),
    "2026-07-28": (
        *("tools_call", "request-metadata", "http-standard-headers", "http-custom-headers"),
        *("http-invalid-tool-headers", "json-schema-ref-no-deref", "json-schema-2020-12-preservation"),
    ),
}
"""Those that apply, by the version of the protocol. Not `auth/*`: the client does no OAuth, as credentials are headers
that a user gives. Not `elicitation-*` and `sep-2322-*`: it declares no elicitation, since nobody can be asked while a
tool runs. Not `sep-2640-*`: an extension for skills on servers."""
ARGUMENTS: dict[str, dict[str, Any]] = {"add_numbers": {"a": 2, "b": 3}}


async def call_all(url: str) -> None:
    """The client: calls each tool that a model would be offered, as the scenario wants it."""
    context = await tls_context()
    anywhere = Destinations((ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")))
    connection = Connection(lambda received, _: http_streams(url, {}, anywhere, context, received), remote=True)
    wanted: list[dict[str, Any]] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")).get("toolCalls", [])
    try:
        await connection.open()
        listed = await connection.list_tools()
        config = ServerConfig("tested", McpServer(url=url), given=True)
        offered = make_catalog(config, connection.protocol, listed, lambda text: text)
        print(connection.protocol, [tool.tool for tool in offered.tools], dict(offered.left_out))
        schemas = {tool.name: tool.schema for tool in listed}
        for tool in offered.tools:
            # One scenario has the schema of another tool sent back, to see whether anything was lost.
            echo = {"schema": schemas.get("json_schema_2020_12_tool")} if tool.tool == "json_schema_echo" else {}
            given = [call["arguments"] for call in wanted if call["name"] == tool.tool]
            for arguments in given or [ARGUMENTS.get(tool.tool, echo)]:
                await _call(connection, tool.tool, arguments)
    finally:
        await connection.aclose()


async def _call(connection: Connection, tool: str, arguments: dict[str, Any]) -> None:
    try:
        print(tool, read_result(await connection.call(tool, arguments, 20, lambda *_: None)))
    except (ServerError, UnansweredError) as error:
        print(tool, "failed:", error)


def run(conformance: Sequence[str], version: str, scenario: str) -> Counter[str]:
    """Runs one scenario; how many checks had which status."""
    with TemporaryDirectory() as folder:
        client = f"{shlex.quote(sys.executable)} -m scripts.mcp_conformance"
        options = ["--scenario", scenario, "--spec-version", version, "--command", client, "-o", folder]
        ran = subprocess.run([*conformance, "client", *options], capture_output=True, cwd=ROOT, text=True, timeout=120)
        found = list(Path(folder).rglob("checks.json"))
        if not found:
            return Counter({f"FAILURE ({(ran.stderr or ran.stdout).strip()[-300:]})": 1})
        checks: list[dict[str, Any]] = json.loads(found[0].read_text())
        for check in checks:
            if check["status"] in ("FAILURE", "WARNING"):
                why = check.get("errorMessage") or check.get("details") or check["description"]
                print(f"  {check['status'].lower()}: {check['id']}: {str(why)[:500]}")
        return Counter(check["status"] for check in checks if check["status"] != "INFO")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("url", nargs="?", help="be the client of the server at this address")
    parser.add_argument("--program", help="the conformance program, if it is not to be loaded from npm")
    parser.add_argument("--scenario", help="run this one alone")
    given = parser.parse_args()
    if given.url is not None:
        asyncio.run(call_all(given.url))
        return
    npx = ["npx", "--yes", "--package", NODE, "--package", PACKAGE, "conformance"]
    failed = False
    for version, scenarios in SCENARIOS.items():
        for scenario in scenarios:
            if given.scenario in (None, scenario):
                counts = run(shlex.split(given.program) if given.program else npx, version, scenario)
                failed = failed or any(status not in ("SUCCESS", "SKIPPED") for status in counts)
                print(f"{version} {scenario}: " + ", ".join(f"{n} {name.lower()}" for name, n in counts.items()))
    sys.exit(failed)


if __name__ == "__main__":
    main()
