"""The document at `/openapi.json` against the server that serves it: schemathesis makes requests, valid and not, for
every operation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.behaviour.harness import OPENAI, RunningServer

EXAMPLES = 15
"""Requests to each operation, on a session that exists and as many on none."""

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)
ENDLESS = "/v1/events"
"""A stream that ends with its reader alone; `test_streams` follows it."""


@contextmanager
def operations(url: str) -> Iterator[list[Any]]:
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    yield [result.ok() for result in schema.get_all_operations() if result.ok().path != ENDLESS]


def aimed(case: Any, session_id: str) -> Any:
    """The case, at a session that exists. A stream of its events has to end."""
    case.path_parameters["session_id"] = session_id
    if case.operation.path.endswith("/events"):
        case.query = {**(case.query or {}), "until": "idle"}
    return case


def make_session(url: str) -> str:
    answer = httpx.post(f"{url}/v1/sessions", json={"model": OPENAI}, trust_env=False)
    return str(answer.raise_for_status().json()["id"])


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_every_operation_answers_as_documented(server: RunningServer) -> None:
    seen: dict[str, set[int]] = {}
    problems: list[str] = []
    with operations(server.url) as found, requests.Session() as http:
        http.trust_env = False
        for operation in found:
            statuses = seen[operation.label] = set()
            try:
                fuzz(server.url, operation, http, statuses)
            except Exception as error:
                problems.append(f"{operation.label}: {error}")
    print(seen)
    assert not problems, "\n\n".join(problems)
    assert len(seen) > 20
    assert {status for statuses in seen.values() for status in statuses} >= {200, 201, 404, 422}


def fuzz(url: str, operation: Any, http: requests.Session, statuses: set[int]) -> None:
    """Raises what the first request met that was not answered as documented."""
    keep = make_session(url)

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in GenerationMode)), known=st.booleans())
    def check(case: Any, known: bool) -> None:
        if known and "session_id" in (case.path_parameters or {}):
            case = aimed(case, make_session(url) if operation.method.upper() == "DELETE" else keep)
        response = case.call(session=http, timeout=20)
        statuses.add(response.status_code)
        case.validate_response(response, checks=CHECKS)

    check()
