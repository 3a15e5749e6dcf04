"""Traces and logs of a real run: they name session, step and call, and contain no user or model text."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.behavior.conftest import StartServer
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, of_type
from tests.behavior.process import ServerProcess
from tests.behavior.test_cancel_resume import cancel
from tests.provider import FakeProvider, Gate, HttpError, Reply, Text, ToolCall

SECRET = "sk-words-that-nobody-may-log"
NOW = {"retry-after": "0"}


class Receiver:
    """Receives spans over OTLP."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.bodies: list[bytes] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.take(self.path, body)
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *arguments: Any) -> None:
                """Logs nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def take(self, path: str, body: bytes) -> None:
        assert path == "/v1/traces"
        self.bodies.append(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                self.spans += scope.spans


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever, daemon=True)
    thread.start()
    yield receiver
    receiver.server.shutdown()
    thread.join(10)
    receiver.server.server_close()


def attributes(span: Span) -> dict[str, Any]:
    return {item.key: getattr(item.value, item.value.WhichOneof("value") or "") for item in span.attributes}


@pytest.mark.bubblewrap
async def test_the_spans_of_a_run(start_server: StartServer, provider: FakeProvider, receiver: Receiver) -> None:
    command = ToolCall("execute_command", {"command": f"echo {SECRET}"})
    provider.script(HttpError(529, headers=NOW), Reply(command), Reply(Text(f"It says {SECRET}.")))
    server = start_server(otlp_endpoint=receiver.url)
    async with Client(server.url) as client:
        session, events = await client.run(f"say {SECRET}", model=ANTHROPIC)
    await asyncio.to_thread(server.stop)

    spans = sorted(receiver.spans, key=lambda span: (span.start_time_unix_nano, span.name != "invoke_agent palimpsest"))
    assert [span.name for span in spans] == [
        "invoke_agent palimpsest",
        "chat model",
        "chat model",
        "execute_tool execute_command",
        "chat model",
    ]
    run, void, first, tool, last = spans
    assert all(span.trace_id == run.trace_id and span.parent_span_id == run.span_id for span in spans[1:])
    assert all(run.start_time_unix_nano <= span.start_time_unix_nano for span in spans)
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano <= run.end_time_unix_nano for span in spans)

    said = attributes(run)
    assert said["gen_ai.operation.name"] == "invoke_agent"
    assert said["gen_ai.conversation.id"] == session["id"]
    assert (said["palimpsest.run.trigger"], said["palimpsest.run.outcome"]) == ("message", "completed")
    assert said["gen_ai.usage.output_tokens"] == session["usage"]["output_tokens"] > 0
    assert (attributes(void)["error.type"], void.status.code) == ("provider_overloaded", 2)
    for span, attempt, reason in ((first, 2, "tool_calls"), (last, 1, "stop")):
        said = attributes(span)
        assert (said["gen_ai.provider.name"], said["gen_ai.request.model"]) == ("fake-anthropic", "model")
        assert said["palimpsest.attempt"] == attempt
        assert [value.string_value for value in said["gen_ai.response.finish_reasons"].values] == [reason]
    usages = [event.data["usage"] for event in of_type(events, "step.finished")]
    assert attributes(last)["gen_ai.usage.output_tokens"] == usages[-1]["output_tokens"]
    assert first.end_time_unix_nano <= tool.end_time_unix_nano, "a model call ends before its tools do"
    call = of_type(events, "tool.call")[0].data
    assert attributes(tool)["gen_ai.tool.call.id"] == call["call_id"]
    assert attributes(tool)["palimpsest.tool.status"] == "completed"
    assert not any(SECRET.encode() in body for body in receiver.bodies), "no content"


async def test_open_spans_are_sent_at_shutdown(
    start_server: StartServer, provider: FakeProvider, receiver: Receiver
) -> None:
    provider.script(Reply(Text("half"), Gate("never")))
    server = start_server(otlp_endpoint=receiver.url)
    async with Client(server.url) as client:
        await client.create("begin")
        await provider.reached("never")
    await asyncio.to_thread(server.stop)
    assert {span.name for span in receiver.spans} == {"invoke_agent palimpsest", "chat model"}


@pytest.mark.slow
async def test_an_unreachable_receiver_costs_nothing(start_server: StartServer, provider: FakeProvider) -> None:
    async with Client(start_server(otlp_endpoint="http://127.0.0.1:9").url) as client:
        session, _ = await client.run("say hello")
        assert session["outcome"] == "completed"


@pytest.mark.bubblewrap
async def test_the_log_of_a_run_and_of_the_end(tmp_path: Path, provider: FakeProvider, sandbox_image: str) -> None:
    command = ToolCall("execute_command", {"command": f"echo {SECRET}"})
    provider.script_for("say", HttpError(529, headers=NOW), Reply(command), Reply(Text(f"It says {SECRET}.")))
    provider.script_for("stay", Reply(Gate("never")))
    more = {"PALIMPSEST_LOG_LEVEL": "debug", "PALIMPSEST_API_KEYS": SECRET}
    with ServerProcess(tmp_path / "data", provider, "bubblewrap", sandbox_image, more=more) as server:
        async with Client(server.url, key=SECRET) as client:
            session, events = await client.run(f"say {SECRET}", model=OPENAI)
            stays = await client.create("stay", model=OPENAI)
            await provider.reached("never")
            async with client.http.stream("GET", f"/v1/sessions/{stays['id']}/events") as stream:
                assert stream.status_code == 200
                await asyncio.to_thread(server.end, signal.SIGTERM)
        lines = [json.loads(line) for line in server.log.splitlines()]

    def logged(event: str) -> list[dict[str, Any]]:
        return [line for line in lines if line["event"] == event]

    assert SECRET not in server.log
    own = [line for line in lines if line.get("session_id") == session["id"]]
    assert [line["event"] for line in own if line["event"] in ("run_started", "run_ended")] == [
        "run_started",
        "run_ended",
    ]
    (retrying,) = logged("step_retrying")
    assert (retrying["session_id"], retrying["step"], retrying["code"]) == (session["id"], 1, "provider_overloaded")
    (tool,) = logged("tool_ended")
    call = of_type(events, "tool.call")[0].data
    assert (tool["session_id"], tool["step"], tool["call_id"]) == (session["id"], 1, call["call_id"])
    ended = [line["step"] for line in logged("step_ended") if line["session_id"] == session["id"]]
    assert ended == [1, 2]
    (stopping,) = logged("stopping")
    assert stopping["readers"] == 1
    assert logged("runs_parking")[0]["count"] == 1
    assert logged("runs_parked")[0]["count"] == 1
    assert lines[-1]["event"] == "stopped"


async def test_sessions_that_are_cancelled_leave_no_span_open(
    start_server: StartServer, provider: FakeProvider, receiver: Receiver
) -> None:
    provider.script(Reply(Text("half"), Gate("never")))
    server = start_server(otlp_endpoint=receiver.url)
    async with Client(server.url) as client:
        session = await client.create("begin")
        await provider.reached("never")
        await cancel(client, session["id"])
        await client.until_idle(session["id"])
    await asyncio.to_thread(server.stop)
    assert {span.name for span in receiver.spans} == {"invoke_agent palimpsest", "chat model"}
    assert not any("palimpsest.parked" in attributes(span) for span in receiver.spans)
