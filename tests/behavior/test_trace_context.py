"""The trace that a request names: its run's model calls, MCP requests, webhooks and spans belong to it, also after the
server was killed."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

from tests.behavior.conftest import StartProcess
from tests.behavior.harness import OPENAI, Client
from tests.behavior.test_tracing import Receiver as SpanReceiver
from tests.behavior.test_tracing import receiver as receiver
from tests.mcp_servers import mcp_server
from tests.provider import FakeProvider, Gate, Reply, Text, ToolCall
from tests.receiver import receiving


def trace(digit: str) -> str:
    return f"00-{digit * 32}-{digit * 16}-01"


FIRST, STEER, FOLLOW_UP = trace("1"), trace("2"), trace("3")
NETWORKS = {"PALIMPSEST_MCP_NETWORKS": "127.0.0.0/8", "PALIMPSEST_WEBHOOK_NETWORKS": "127.0.0.0/8"}


async def post(client: Client, path: str, traceparent: str | None, **body: Any) -> dict[str, Any]:
    headers = {} if traceparent is None else {"traceparent": traceparent}
    answer = await client.http.post(path, json=body, headers=headers)
    assert answer.is_success, answer.text
    made: dict[str, Any] = answer.json()
    return made


@pytest.mark.slow
async def test_a_trace_reaches_everything_that_its_run_calls(
    start_process: StartProcess, provider: FakeProvider, receiver: SpanReceiver
) -> None:
    provider.script(
        Reply(ToolCall("mcp__test__told", {})),
        Reply(Gate("killed")),
        Reply(Text("continued"), Gate("steered")),
        Reply(ToolCall("mcp__test__told", {})),
        Reply(Text("steered")),
        Reply(Text("followed up")),
        Reply(Text("without a trace")),
    )
    told: list[Any] = []

    def more(server: MCPServer) -> None:
        @server.tool(name="told")
        def tell(ctx: Context) -> str:
            """Notes what came with the call."""
            told.append((ctx.request_context.meta or {}).get("traceparent"))
            return "noted"

    more_settings = {**NETWORKS, "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
    with mcp_server(more) as tools, receiving() as hook:
        process = start_process(**more_settings)
        async with Client(process.url) as client:
            await post(client, "/v1/webhooks", None, url=hook.url)
            servers = {"test": {"url": tools.url}}
            session = await post(client, "/v1/sessions", FIRST, task="begin", model=OPENAI, mcp_servers=servers)
            await provider.reached("killed")
        process.end(signal.SIGKILL)
        process = start_process(**more_settings)
        async with Client(process.url) as client:
            queue = f"/v1/sessions/{session['id']}/queue"
            await provider.reached("steered")
            await post(client, queue, FOLLOW_UP, content="then this", mode="follow_up")
            await post(client, queue, STEER, content="also this")
            await post(client, queue, None, content="and this")
            provider.open("steered")
            await client.until_idle(session["id"])
            head = (await client.session(session["id"]))["last_seq"]
            await post(client, queue, f"{FIRST}, {STEER}", content="invalid")
            await client.until_idle(session["id"], head)
            last = (await client.session(session["id"]))["last_seq"]
            await asyncio.to_thread(hook.wait, lambda r: len({a.seq for a in r.accepted}) == last)
        await asyncio.to_thread(process.end, signal.SIGTERM)

    sent = [request.headers.get("traceparent") for request in provider.requests]
    assert sent == [FIRST, FIRST, FIRST, STEER, STEER, FOLLOW_UP, None]
    assert told == [FIRST, STEER]
    assert {headers.get("traceparent") for headers in tools.headers} >= {FIRST, STEER}

    events = {request.seq: (request.body["type"], request.headers.get("traceparent")) for request in hook.accepted}
    order = [events[seq] for seq in sorted(events)]
    assert order[0] == ("session.created", FIRST)
    assert [of for kind, of in order if kind == "message.queued"] == [FIRST, FOLLOW_UP, STEER, FIRST, None]
    for kind, expected in {
        "session.running": [FIRST, FIRST, FOLLOW_UP, None],
        "session.recovered": [FIRST],
        "session.idle": [STEER, FOLLOW_UP, None],
    }.items():
        assert [of for type_, of in order if type_ == kind] == expected, kind

    runs = [span for span in receiver.spans if span.name == "invoke_agent palimpsest"]
    ids = [(span.trace_id.hex(), span.parent_span_id.hex()) for span in runs]
    assert ids[:2] == [("1" * 32, "1" * 16), ("3" * 32, "3" * 16)], "of the process that was killed, none is known"
    assert ids[2][1] == ""
    chats = {span.trace_id.hex() for span in receiver.spans if span.parent_span_id == runs[0].span_id}
    assert chats == {"1" * 32}
