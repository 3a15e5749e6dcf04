"""The examples of the OpenAPI document: everything has one, and each is valid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema
import pytest

from app.api.examples import ANSWERS, ANSWERS_OF, REQUESTS
from app.api.examples.records import MESSAGE_ID, SESSION_ID
from app.api.examples.webhooks import DELIVERY_ID, WEBHOOK_ID
from app.api.guard import ApiConfig
from app.api.main import create_app
from tests.unit.api.double import CALL_ID

DOCUMENT = create_app(ApiConfig()).openapi()
OPERATIONS = [
    (f"{method} {path}", operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]
JSON = "application/json"
PROBLEM = "application/problem+json"
NO_TEXT = {"application/x-tar", "application/gzip", "application/zstd", "application/zip"}
"""Bytes that cannot be shown as an example."""


def assert_valid(value: Any, schema: dict[str, Any]) -> None:
    """Validates the value by the schema, with the document's components."""
    validator = jsonschema.Draft202012Validator({**schema, "components": DOCUMENT["components"]})
    validator.validate(value)


def media_types() -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Every body that the document describes: where, as what, of which media type, and its description. The status of
    a request is `request`."""
    for label, operation in OPERATIONS:
        bodies = {"request": operation.get("requestBody", {}), **operation["responses"]}
        for status, body in bodies.items():
            for type_, media in body.get("content", {}).items():
                yield label, status, type_, media


def examples_of(media: dict[str, Any]) -> list[Any]:
    named = [example["value"] for example in media.get("examples", {}).values()]
    return [*([media["example"]] if "example" in media else []), *named]


def nested_schemas(node: Any) -> Iterator[dict[str, Any]]:
    """Every component schema with its own examples, including properties and their options."""
    if isinstance(node, dict):
        if isinstance(node.get("examples"), list):
            yield node
        for name, inner in node.items():
            if name not in ("example", "examples"):
                yield from nested_schemas(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from nested_schemas(inner)


def test_every_body_has_an_example_and_each_is_valid() -> None:
    seen: dict[str, int] = {}
    for label, status, type_, media in media_types():
        examples = examples_of(media)
        assert examples or type_ in NO_TEXT, f"{label} {status} {type_}"
        for example in examples if "schema" in media else ():
            assert_valid(example, media["schema"])
        seen[type_] = seen.get(type_, 0) + 1
    assert seen[JSON] >= 24
    assert seen[PROBLEM] > 200


def test_every_problem_has_its_status() -> None:
    for label, status, type_, media in media_types():
        if type_ == PROBLEM:
            assert {str(example["status"]) for example in examples_of(media)} == {status}, label


def test_every_example_in_the_schemas_is_valid() -> None:
    found = list(nested_schemas(DOCUMENT["components"]["schemas"]))
    assert len(found) > 40
    for schema in found:
        for example in schema["examples"]:
            assert_valid(example, schema)


def test_every_parameter_with_an_example_has_a_valid_one() -> None:
    parameters = [parameter for _, operation in OPERATIONS for parameter in operation.get("parameters", ())]
    found = list(nested_schemas(parameters))
    assert found
    for schema in found:
        for example in schema["examples"]:
            assert_valid(example, {key: value for key, value in schema.items() if key != "in"})


def test_schemas_of_requests_and_responses_have_examples() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    for value in (*REQUESTS, *ANSWERS):
        assert schemas[type(value).__name__]["examples"]
    assert len(schemas["SessionCreate"]["examples"]) == 2
    assert schemas["Problem"]["examples"]


def test_request_examples_parse_back_to_the_same_value() -> None:
    for request in REQUESTS:
        assert (
            type(request).model_validate(request.model_dump(mode="json", by_alias=True, exclude_unset=True)) == request
        )


def test_an_example_response_matches_its_example_request() -> None:
    assert {(label, status) for label, status, type_, _ in media_types() if type_ == JSON} >= ANSWERS_OF.keys()
    changes = {"patch /v1/sessions/{session_id}", "patch /v1/sessions/{session_id}/queue/{message_id}"}
    for label in changes:
        operation = dict(OPERATIONS)[label]
        asked = operation["requestBody"]["content"][JSON]["example"]
        shown = operation["responses"]["200"]["content"][JSON]["example"]
        for name, value in asked.items():
            assert shown[name] == (shown[name] | value if isinstance(value, dict) else value)


def test_the_document_is_deterministic() -> None:
    assert create_app(ApiConfig()).openapi() == DOCUMENT


WITH_BODY = [label for label, status, type_, _ in media_types() if (status, type_) == ("request", JSON)]


@pytest.mark.parametrize("label", WITH_BODY)
async def test_the_example_request_is_accepted_and_answered_as_shown(client: httpx.AsyncClient, label: str) -> None:
    operation = dict(OPERATIONS)[label]
    method, path = label.split()
    if path != "/v1/sessions":
        await client.post("/v1/sessions", json={"id": SESSION_ID})
    if "{message_id}" in path:
        await client.post(f"/v1/sessions/{SESSION_ID}/queue", json={"content": "x", "id": MESSAGE_ID})
    if "{webhook_id}" in path:
        await client.post("/v1/webhooks", json={"url": "https://example.com"})
    ids = {"webhook_id": WEBHOOK_ID, "delivery_id": DELIVERY_ID, "name": "API_TOKEN"}
    target = path.format(session_id=SESSION_ID, message_id=MESSAGE_ID, call_id=CALL_ID, **ids)
    answer = await client.request(method, target, json=operation["requestBody"]["content"][JSON]["example"])
    assert answer.is_success, answer.text
    content = operation["responses"][str(answer.status_code)].get("content", {})
    assert (JSON in content) == bool(answer.content)
    if JSON in content:
        assert content[JSON]["example"].keys() == answer.json().keys()
