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
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from app.errors import ToolError
from app.runtime.destinations import Destinations
from app.runtime.mcp.bounds import ServerError
from app.runtime.mcp.catalog import make_catalog
from app.runtime.mcp.config import ServerConfig
from app.runtime.mcp.connection import Connection, UnansweredError
from app.runtime.mcp.http import http_streams, tls_context
from app.runtime.mcp.results import read_result
from app.runtime.values.mcp import McpServer

PACKAGE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
"""The newest version, since older ones have no scenarios of the newest protocol."""
NODE = "node@22"
ROOT = Path(__file__).parents[1]

LEFT_OUT = {
    "auth/": "the client does no OAuth: credentials are headers that a user gives",
    "elicitation-": "the client declares no elicitation: no user can answer while a tool runs",
    "sep-2322-": "the client declares no elicitation, which its server requests in the middle of a call",
    "sep-2640-": "an extension for skills on servers, which the client does not use",
}
"""Why scenarios whose names begin like this do not apply."""
LISTED = re.compile(r"^ +- (\S+) \[([\w.,-]+)\]$", re.MULTILINE)
"""A scenario with its versions of the protocol, in the program's list."""
ARGUMENTS: dict[str, dict[str, Any]] = {"add_numbers": {"a": 2, "b": 3}}


async def call_all(url: str) -> None:
    """The client: calls each tool that a model would be offered, as the scenario wants it."""
    context = await tls_context()
    anywhere = Destinations((ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")))
    connection = Connection(remote=True)
    wanted: list[dict[str, Any]] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")).get("toolCalls", [])
    try:
        await connection.open(lambda received, _: http_streams(url, {}, anywhere, context, received))
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
    except (ServerError, UnansweredError, ToolError) as error:
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


def scenarios(conformance: Sequence[str]) -> Iterator[tuple[str, str, str | None]]:
    """All that the program knows: version, name, and why it does not apply; None if it does."""
    listed = subprocess.run([*conformance, "list", "--client"], capture_output=True, check=True, text=True).stdout
    for name, versions in LISTED.findall(listed):
        why = next((why for prefix, why in LEFT_OUT.items() if name.startswith(prefix)), None)
        yield from ((version, name, why) for version in versions.split(","))


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
    program = shlex.split(given.program) if given.program else npx
    total: Counter[str] = Counter()
    for version, scenario, left_out in scenarios(program):
        if given.scenario not in (None, scenario):
            continue
        if left_out is not None:
            result, said = "left out", f"does not apply: {left_out}"
        else:
            counts = run(program, version, scenario)
            result = "passed" if counts and set(counts) <= {"SUCCESS", "SKIPPED"} else "failed"
            said = f"{result}: " + ", ".join(f"{n} {name.lower()}" for name, n in counts.items())
        total[result] += 1
        print(f"{version} {scenario}: {said}", flush=True)
    print(", ".join(f"{number} {result}" for result, number in total.items()) or "no scenario was found")
    sys.exit(total["failed"] > 0 or not total)


if __name__ == "__main__":
    main()
