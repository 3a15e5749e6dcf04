"""The document at `/openapi.json` against its server: schemathesis makes valid and invalid requests for every
operation."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.core.result import Ok

from tests.behavior.harness import RunningServer
from tests.fuzz.api import ApiFuzzer
from tests.fuzz.api_target import ENDLESS, Target, agent, check
from tests.fuzz.engine import Crash, run
from tests.fuzz.paths import PathFuzzer
from tests.fuzz.sessions import SessionFuzzer
from tests.fuzz.tools import ToolFuzzer
from tests.load import LONG
from tests.provider import FakeProvider
from tests.requirements import need

EXAMPLES = 10 if LONG else 3
"""Requests to each operation; about half of them to something that exists."""

JSON = "application/json"

NEVER_TAKEN = {
    "POST /v1/sessions/{session_id}/resume",
    "DELETE /v1/sessions/{session_id}/compactions/{round}",
    "PUT /v1/sessions/{session_id}/archive",
}
"""Operations without a valid target here: they need an incomplete run, a completed round or an archive."""


@pytest.mark.extended
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
    """The documented example request: the examples of its JSON body and of required parameters."""
    names = re.findall(r"{(\w+)}", operation.path)
    content = operation.definition.raw.get("requestBody", {}).get("content", {})
    body = {"body": dict(content[JSON]["example"]), "media_type": JSON} if JSON in content else {}
    parameters = [each for each in operation.definition.raw.get("parameters", ()) if each.get("required")]
    query = {each["name"]: each["schema"]["examples"][0] for each in parameters if each["in"] == "query"}
    return operation.Case(path_parameters=dict.fromkeys(names, "a.txt"), query=query, headers={}, **body)


def fuzz(operation: Any, target: Target, http: requests.Session) -> Exception | None:
    """The first response that is not as documented, with a minimized request; None if all are."""
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
    def attempt(case: Any, known: bool) -> None:
        response = (target.aim(case) if known else case).call(session=http, timeout=20)
        check(case, response)

    try:
        attempt()
    except Exception as failure:
        return failure
    return None


def test_a_violation_of_the_document_is_a_crash() -> None:
    paths = {"/": {"get": {"responses": {"200": {"description": "The only documented status."}}}}}
    document = {"openapi": "3.1.0", "info": {"title": "", "version": ""}, "paths": paths}
    operation = schemathesis.openapi.from_dict(document)["/"]["GET"]
    response = requests.Response()
    response.status_code = 404
    response.request = requests.Request("GET", "http://127.0.0.1/").prepare()
    with pytest.raises(Crash, match="Undocumented status code"):
        check(operation.Case(), response)


FUZZERS: tuple[tuple[Callable[[], AbstractContextManager[Any]], int], ...] = (
    (ApiFuzzer, 40),
    (SessionFuzzer, 12),
    (ToolFuzzer, 15),
    (PathFuzzer, 20),
)
"""Each with the number of inputs for a few seconds."""


@pytest.mark.extended
@pytest.mark.bubblewrap
@pytest.mark.parametrize(("make", "inputs"), FUZZERS)
def test_hostile_input_crashes_nothing(make: Callable[[], AbstractContextManager[Any]], inputs: int) -> None:
    need("bubblewrap")
    with make() as fuzzer:
        result = run(fuzzer, seed_=7, inputs=inputs)
    assert result.crash is None, result.crash
    assert result.total == inputs
    assert len(result.counts) > 2, "they are all alike"
