"""Existing objects on a server as targets of requests, and the check of responses against its document."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import Any

import httpx
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.behavior.harness import OPENAI
from tests.fuzz.engine import Crash
from tests.provider import Gate, RecordedRequest, Reply, Text, ToolCall
from tests.unit.llm.values import PNG

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)
ENDLESS = "/v1/events"
"""A stream that only its reader ends; covered by other tests."""
WAITING = "wait for the gate"
CLIENTS = "ask the client"
LASTING = "start a server"


def check(case: Any, response: Any) -> None:
    """Raises `Crash` if the response is not as documented. The error of schemathesis itself is a `BaseException`, which
    nothing that minimizes or collects failures catches."""
    try:
        case.validate_response(response, checks=CHECKS)
    except FailureGroup as failures:
        raise Crash(str(failures)) from failures


def agent(request: RecordedRequest) -> Reply:
    """One command, then an answer; for a certain task, an answer that never arrives."""
    if WAITING in request.first_user_text:
        return Reply(Gate("never"))
    if any(message["role"] == "tool" for message in request.messages):
        return Reply(Text("Done."))
    if CLIENTS in request.first_user_text:
        return Reply(ToolCall("look_up", {}))
    if LASTING in request.first_user_text:
        return Reply(ToolCall("execute_command", {"command": "sleep 600", "background": True}))
    return Reply(Text("I write."), ToolCall("write_file", {"path": "a.txt", "content": "a\n"}))


@dataclass
class Target:
    """Existing objects on a server, as targets of requests."""

    http: httpx.Client

    def __post_init__(self) -> None:
        self.session_id = self.session(task="Write a file.")
        with self.http.stream("GET", f"/v1/sessions/{self.session_id}/events?until=idle") as events:
            events.read()
        messages = self.http.get(f"/v1/sessions/{self.session_id}/messages").json()["items"]
        parts = [part for message in messages for part in message["parts"] if part["type"] == "tool_call"]
        self.call_id = str(parts[0]["call_id"])
        self.first_id = str(messages[0]["id"])
        shown = {"type": "image", "media_type": "image/png", "data": PNG}
        self.pictured_id = self.session(task=[{"type": "text", "text": "Look."}, shown])
        self.digest = hashlib.sha256(base64.b64decode(PNG)).hexdigest()
        self.busy_id = self.session(task=WAITING)
        self.checkpoint_id = self.http.get(f"/v1/sessions/{self.session_id}/checkpoints").json()["items"][0]["id"]
        self.webhook_id = self.webhook()
        self.delivery_id = self.http.post(f"/v1/webhooks/{self.webhook_id}/test").raise_for_status().json()["id"]

    def session(self, **fields: Any) -> str:
        answer = self.http.post("/v1/sessions", json={"model": OPENAI, **fields})
        return str(answer.raise_for_status().json()["id"])

    def webhook(self) -> str:
        # A name that no one may register, so that nothing is sent to third parties.
        answer = self.http.post("/v1/webhooks", json={"url": "https://receiver.invalid"})
        return str(answer.raise_for_status().json()["id"])

    def message(self) -> str:
        answer = self.http.post(f"/v1/sessions/{self.busy_id}/queue", json={"content": "Later.", "mode": "follow_up"})
        return str(answer.raise_for_status().json()["id"])

    def waiting(self) -> dict[str, str]:
        """A call that waits for approval, and its session."""
        session_id = self.session(task="Write a file.", approval={"policy": "always"})
        with self.http.stream("GET", f"/v1/sessions/{session_id}/events") as events:
            next(line for line in events.iter_lines() if line == "event: approval.requested")
        (item,) = self.http.get(f"/v1/sessions/{session_id}/approvals").json()["items"]
        return {"session_id": session_id, "call_id": str(item["call_id"])}

    def lasting(self) -> dict[str, str]:
        """A command in the background, and its session."""
        session_id = self.session(task=LASTING)
        with self.http.stream("GET", f"/v1/sessions/{session_id}/events?until=idle") as events:
            events.read()
        (item,) = self.http.get(f"/v1/sessions/{session_id}/commands").json()["items"]
        return {"session_id": session_id, "command_id": str(item["command_id"])}

    def waiting_for_client(self) -> dict[str, str]:
        """A call that waits for a client's result, and its session."""
        tool = {"type": "client", "name": "look_up", "description": "Looks it up.", "parameters": {"type": "object"}}
        session_id = self.session(task=CLIENTS, tools=[tool])
        with self.http.stream("GET", f"/v1/sessions/{session_id}/events") as events:
            next(line for line in events.iter_lines() if line == "event: tool.call")
        (item,) = self.http.get(f"/v1/sessions/{session_id}/tool-calls", params={"status": "pending"}).json()["items"]
        return {"session_id": session_id, "call_id": str(item["call_id"])}

    def aim(self, case: Any) -> Any:
        """The case, aimed at existing objects."""
        parameters = case.path_parameters or {}
        if "session_id" in parameters:
            parameters["session_id"] = self.session() if case.method == "DELETE" else self.session_id
        if "name" in parameters:
            secrets = {"API_TOKEN": "a-value-of-some-length"}
            parameters.update(session_id=self.session(secrets=secrets), name="API_TOKEN")
        if "checkpoint_id" in parameters:
            parameters["checkpoint_id"] = self.checkpoint_id
        if "webhook_id" in parameters:
            parameters["webhook_id"] = self.webhook() if case.method == "DELETE" else self.webhook_id
        if "delivery_id" in parameters:
            parameters["delivery_id"] = self.delivery_id
        if "message_id" in parameters:
            parameters.update(session_id=self.busy_id, message_id=self.message())
        if "call_id" in parameters:
            parameters["call_id"] = self.call_id
        if case.operation.label == "POST /v1/sessions/{session_id}/approvals/{call_id}":
            parameters.update(self.waiting())
        if case.operation.label == "POST /v1/sessions/{session_id}/tool-calls/{call_id}/result":
            parameters.update(self.waiting_for_client())
        if "command_id" in parameters:
            parameters.update(self.lasting())
        if "digest" in parameters:
            parameters.update(session_id=self.pictured_id, digest=self.digest)
        if "round" in parameters:
            parameters["round"] = 1
        if "path" in parameters and case.method == "GET":
            parameters["path"] = "a.txt"
        if case.operation.path.endswith("/fork") and isinstance(case.body, dict):
            case.body.update({name: self.first_id for name in case.body if name == "after_message_id"})
        if case.operation.path.endswith("/events"):
            case.query = {**(case.query or {}), "until": "idle"}
        if case.operation.label == "POST /v1/sessions" and isinstance(case.body, dict):
            case.body.update(task="Write a file.", model=OPENAI)
            case.headers["accept"] = "text/event-stream"
        return case
