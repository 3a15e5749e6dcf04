"""The document at `/openapi.json` against the server that serves it: schemathesis makes requests, valid and not, for
every operation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.behaviour.harness import OPENAI, RunningServer
from tests.provider import FakeProvider, Gate, RecordedRequest, Reply, Text, ToolCall

EXAMPLES = 15
"""Requests to each operation; about half of them at something that exists."""

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)
JSON = "application/json"
ENDLESS = "/v1/events"
"""A stream that only its reader ends; other tests follow it."""
WAITING = "wait for the gate"


def agent(request: RecordedRequest) -> Reply:
    """One command, then an answer; for a task that says so, an answer that never comes."""
    if WAITING in request.first_user_text:
        return Reply(Gate("never"))
    if any(message["role"] == "tool" for message in request.messages):
        return Reply(Text("Done."))
    return Reply(Text("I write."), ToolCall("write_file", {"path": "a.txt", "content": "a\n"}))


@dataclass
class Target:
    """Things that exist on a server, to aim requests at."""

    http: httpx.Client

    def __post_init__(self) -> None:
        self.session_id = self.session(task="Write a file.")
        with self.http.stream("GET", f"/v1/sessions/{self.session_id}/events?until=idle") as events:
            events.read()
        messages = self.http.get(f"/v1/sessions/{self.session_id}/messages").json()["items"]
        parts = [part for message in messages for part in message["parts"] if part["type"] == "tool_call"]
        self.call_id = str(parts[0]["call_id"])
        self.first_id = str(messages[0]["id"])
        self.busy_id = self.session(task=WAITING)

    def session(self, **fields: Any) -> str:
        answer = self.http.post("/v1/sessions", json={"model": OPENAI, **fields})
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

    def aim(self, case: Any) -> Any:
        """The case, at things that exist."""
        parameters = case.path_parameters or {}
        if "session_id" in parameters:
            parameters["session_id"] = self.session() if case.method == "DELETE" else self.session_id
        if "message_id" in parameters:
            parameters.update(session_id=self.busy_id, message_id=self.message())
        if "call_id" in parameters:
            parameters["call_id"] = self.call_id
        if case.operation.label == "POST /v1/sessions/{session_id}/approvals/{call_id}":
            parameters.update(self.waiting())
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


NEVER_TAKEN = {
    "POST /v1/sessions/{session_id}/resume",
    "DELETE /v1/sessions/{session_id}/compactions/{round}",
}
"""What there is nothing for here: a run that did not complete, and a round that did."""


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_every_operation_answers_as_documented(server: RunningServer, provider: FakeProvider) -> None:
    provider.respond(agent)
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    operations = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    refused: dict[str, str] = {}
    with httpx.Client(base_url=server.url, trust_env=False, timeout=30) as http, requests.Session() as session:
        session.trust_env = False
        target = Target(http)
        for operation in operations:
            if operation.path != ENDLESS:
                response = target.aim(as_shown(operation)).call(session=session, timeout=20)
                if response.status_code >= 300:
                    refused[operation.label] = response.text
        failures = [
            f"{operation.label}: {failure}"
            for operation in operations
            if operation.path != ENDLESS and (failure := fuzz(operation, target, session))
        ]
    assert not failures, "\n\n".join(failures)
    assert len(operations) > 20
    assert set(refused) == NEVER_TAKEN, f"not as the document shows it: {refused}"


def as_shown(operation: Any) -> Any:
    """The request that the document shows: the example of its JSON body, and no parameter that may be left out."""
    names = re.findall(r"{(\w+)}", operation.path)
    content = operation.definition.raw.get("requestBody", {}).get("content", {})
    body = {"body": dict(content[JSON]["example"]), "media_type": JSON} if JSON in content else {}
    return operation.Case(path_parameters=dict.fromkeys(names, "a.txt"), query={}, headers={}, **body)


def fuzz(operation: Any, target: Target, http: requests.Session) -> Exception | None:
    """The first answer that is not as documented, shrunk to its smallest request; None if all are."""
    cases = st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in GenerationMode))

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases, known=st.booleans())
    def check(case: Any, known: bool) -> None:
        response = (target.aim(case) if known else case).call(session=http, timeout=20)
        case.validate_response(response, checks=CHECKS)

    try:
        check()
    except Exception as failure:
        return failure
    return None
