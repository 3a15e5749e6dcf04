"""Helpers for tests of approvals: calls that leave a trace, and decisions."""

from __future__ import annotations

from typing import Any

import httpx

from tests.behavior.harness import Client
from tests.provider import ToolCall

ALWAYS = {"policy": "always", "timeout_s": 60}


def command(name: str) -> ToolCall:
    """A command that records its run in the workspace's file `runs`."""
    return ToolCall("execute_command", {"command": f"echo {name} >> runs"})


async def pending(client: Client, session_id: str) -> list[dict[str, Any]]:
    """The pending approvals of a session."""
    items: list[dict[str, Any]] = (await client.get(f"/v1/sessions/{session_id}/approvals"))["items"]
    return items


async def decide(client: Client, session_id: str, call_id: str, decision: str, **more: Any) -> httpx.Response:
    path = f"/v1/sessions/{session_id}/approvals/{call_id}"
    return await client.http.post(path, json={"decision": decision, **more})


async def approve_all(client: Client, session_id: str) -> None:
    for each in await pending(client, session_id):
        assert (await decide(client, session_id, each["call_id"], "approve")).status_code == 204


async def runs(client: Client, session_id: str) -> str:
    """The commands that have run, one per line."""
    answer = await client.http.get(f"/v1/sessions/{session_id}/files/runs")
    return answer.text if answer.status_code == 200 else ""
