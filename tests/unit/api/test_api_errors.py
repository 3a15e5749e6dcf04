"""Problem documents, and the parsing of JSON bodies."""

from __future__ import annotations

import json
from typing import Any

import httpx
import orjson
import pytest
import structlog
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from starlette.exceptions import HTTPException

from app.api.errors import MalformedJsonError, from_http_exception
from app.api.guard import ApiConfig
from app.api.main import create_app
from app.api.request_bodies import AT_ONCE_BYTES, parse_json
from app.errors import ProviderError, SandboxError, StorageError
from app.sessions import Session
from tests.unit.api.conftest import ClientFor
from tests.unit.api.double import InMemoryService

JSON = {"Content-Type": "application/json"}


def assert_problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Checks that the response is a complete problem document with this status and code; returns it."""
    problem: dict[str, Any] = answer.json()
    assert (answer.status_code, problem["status"], problem["code"]) == (status, status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["type"] == f"urn:palimpsest:{code}"
    assert problem["title"]
    assert problem["detail"]
    assert problem["instance"].startswith("/")
    return problem


async def test_an_unknown_path_is_not_found(client: httpx.AsyncClient) -> None:
    problem = assert_problem(await client.get("/v1/nöthing here?secret=1"), 404, "not_found")
    assert problem["instance"] == "/v1/n%C3%B6thing%20here"
    for path in ("/v1/sessions/", "/docs/", "/redoc", "/v1/login/x", "/v1", "//v1/sessions"):
        assert_problem(await client.get(path), 404, "not_found")


async def test_a_refused_method_names_all_that_are_allowed(client: httpx.AsyncClient, session: Session) -> None:
    cases = [
        ("PUT", "/v1/sessions", "GET, HEAD, POST"),
        ("POST", f"/v1/sessions/{session.id}", "DELETE, GET, HEAD, PATCH"),
        ("DELETE", f"/v1/sessions/{session.id}/queue", "GET, HEAD, POST"),
        ("OPTIONS", f"/v1/sessions/{session.id}/queue/1", "DELETE, PATCH"),
        ("DELETE", f"/v1/sessions/{session.id}/files/a", "GET, HEAD, PUT"),
        ("GET", "/v1/login", "DELETE, POST"),
        ("POST", "/healthz", "GET, HEAD"),
        ("POST", "/static/index.html", "GET, HEAD"),
    ]
    for method, path, allowed in cases:
        answer = await client.request(method, path)
        assert_problem(answer, 405, "method_not_allowed")
        assert answer.headers["allow"] == allowed


async def test_an_invalid_item_is_reported_once(client: httpx.AsyncClient) -> None:
    for events, fields in ((["nope"], ["events.0"]), ([], ["events"])):
        answer = await client.post("/v1/webhooks", json={"url": "https://hooks.example.com/", "events": events})
        problem = assert_problem(answer, 422, "validation_error")
        assert [error["field"] for error in problem["errors"]] == fields


@pytest.mark.parametrize(
    "body", [b"{", b'{"task": "x"', b"[1,]", b"nope", b"{'a': 1}", b"\xff\xfe", b'{"metadata": {"a": NaN}}', b"1e999"]
)
async def test_invalid_json_is_malformed(client: httpx.AsyncClient, body: bytes) -> None:
    assert_problem(await client.post("/v1/sessions", content=body, headers=JSON), 400, "invalid_json")


@pytest.mark.parametrize(
    "content_type", [None, "", "text/plain", "application/xml", "application/problem+json", "text/json", "json"]
)
async def test_a_body_requires_its_content_type(client: httpx.AsyncClient, content_type: str | None) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    answer = await client.post("/v1/sessions", content=b"{}", headers=headers)
    assert_problem(answer, 415, "unsupported_media_type")


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; charset=utf-8"])
async def test_the_content_type_may_have_parameters_and_any_case(client: httpx.AsyncClient, content_type: str) -> None:
    answer = await client.post("/v1/sessions", content=b"{}", headers={"Content-Type": content_type})
    assert answer.status_code == 201


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'{"title": "a", "title": "b"}', "title"),
        (b'{"title": "a", "ti\\u0074le": "b"}', "title"),
        (b'{"limits": {"max_steps": 1, "max_tokens": 2, "max_steps": 1}}', "max_steps"),
        (b'{"metadata": {"a": [{"": 1, "": 2}]}}', ""),
        (b'{"metadata": {"\\ud800": 1, "n": 1e999, "\\ud800": 2}}', None),
        (b'{"metadata": {"%b": 1, "%b": 2}}' % (b"x" * 5_000, b"x" * 5_000), "x" * 100),
    ],
)
async def test_a_repeated_name_in_an_object_is_refused(
    client: httpx.AsyncClient, body: bytes, name: str | None
) -> None:
    problem = assert_problem(await client.post("/v1/sessions", content=body, headers=JSON), 400, "invalid_json")
    if name is not None:
        assert problem["detail"] == f'The body repeats the name "{name}" in one object.'


async def test_a_name_may_occur_again_in_another_object(client: httpx.AsyncClient) -> None:
    metadata = {"a": {"a": {"a": "a"}}, "b": [{"a": 1}, {"a": 10**15}, '"a":1,"a":2'], "c": 0.5}
    answer = await client.post("/v1/sessions", json={"metadata": metadata})
    assert (answer.status_code, answer.json()["metadata"]) == (201, metadata)


async def test_a_missing_body_is_a_missing_field(client: httpx.AsyncClient, session: Session) -> None:
    problem = assert_problem(await client.post(f"/v1/sessions/{session.id}/queue"), 422, "validation_error")
    assert problem["errors"] == [{"field": "body", "message": "Field required"}]


async def test_unknown_fields_are_named_and_values_never_repeated(client: httpx.AsyncClient) -> None:
    body = {"task": "x", "api_key": "sk-secret", "limits": {"max_steps": 0, "max_hours": "sk-secret"}}
    answer = await client.post("/v1/sessions", json=body)
    problem = assert_problem(answer, 422, "validation_error")
    assert {error["field"] for error in problem["errors"]} == {"api_key", "limits.max_steps", "limits.max_hours"}
    assert "sk-secret" not in answer.text


async def test_many_errors_and_long_names_are_cut(client: httpx.AsyncClient) -> None:
    body = {f"{n:03d}" + "x" * 5_000: n for n in range(50)}
    problem = assert_problem(await client.post("/v1/sessions", json=body), 422, "validation_error")
    assert len(problem["errors"]) == 20
    assert len(json.dumps(problem)) < 10_000


@pytest.mark.parametrize("query", ["limit=0", "limit=501", "limit=", "limit=x", f"limit={9**99}", "status=asleep"])
async def test_queries_are_checked(client: httpx.AsyncClient, query: str) -> None:
    problem = assert_problem(await client.get(f"/v1/sessions?{query}"), 422, "validation_error")
    assert problem["errors"][0]["field"] == query.partition("=")[0]


@pytest.mark.parametrize(
    "metadata",
    [
        b'{"a": 123456789012345678901234567890}',
        b'{"a": 1, "a": 2}',
        b'{"a": "\\u0000", "\\u0000": 1}',
        b'{"a": "\\ud800"}',
        b'{"\\udfff": 123456789012345678901234567890, "b": 1.5, "c": "\\ud83d\\ude00"}',
        b"[" * 3 + b"]" * 3,
        b'{"a": ' + b"[" * 90 + b"]" * 90 + b"}",
        b'{"a": ' + b"[" * 200 + b"]" * 200 + b"}",
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"\\udfff": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"\\udfff": 1e999}',
        b'{"\\udfff": NaN}',
        b'{"\\udfff": -Infinity}',
        b'{"\\udfff": ' + b"9" * 5_000 + b"}",
    ],
)
async def test_odd_json_never_causes_a_server_error(client: httpx.AsyncClient, metadata: bytes) -> None:
    answer = await client.post("/v1/sessions", content=b'{"metadata": %b}' % metadata, headers=JSON)
    assert answer.status_code in (201, 400, 422)
    if answer.status_code == 201:
        again = await client.get(answer.headers["location"])
        assert again.json()["metadata"] == answer.json()["metadata"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'"\\ud800"', "\ufffd"),
        (b'"\\uDFFFx"', "\ufffdx"),
        (b'"\\udc00\\ud800"', "\ufffd\ufffd"),
        (b'["\\udfff", 123456789012345678901]', ["\ufffd", 123456789012345678901.0]),
        (b'["\\udfff", -12, 1.5, true]', ["\ufffd", -12, 1.5, True]),
        (b'{"\\udfff": {"\\u0000": null}}', {"\ufffd": {"\ufffd": None}}),
    ],
)
def test_surrogates_do_not_change_how_the_rest_is_parsed(text: bytes, value: object) -> None:
    assert parse_json(bytearray(text)) == value


@pytest.mark.parametrize(
    "body", [b"1e999", b"-1e999", b"NaN", b"Infinity", b"9" * 5_000, b"[" * 100_000 + b"]" * 100_000, b"\xff", b"nope"]
)
def test_surrogates_do_not_allow_other_invalid_json(body: bytes) -> None:
    with pytest.raises(MalformedJsonError):
        parse_json(bytearray(b'["\\udfff", %b]' % body))


async def test_nul_and_lone_surrogates_are_replaced(client: httpx.AsyncClient, session: Session) -> None:
    path = f"/v1/sessions/{session.id}/queue"
    body = b'{"content": "a\\u0000b\\ud800c\\ud83d\\ude00"}'
    assert (await client.post(path, content=body, headers=JSON)).status_code == 202
    assert (await client.get(path)).json()["items"][0]["content"] == "a\ufffdb\ufffdc\U0001f600"


async def test_an_unexpected_error_is_logged_and_not_revealed(
    client: httpx.AsyncClient, service: InMemoryService
) -> None:
    service.fault = RuntimeError("the password is hunter2")
    with structlog.testing.capture_logs() as logs:
        answer = await client.get("/v1/sessions/01936f5e-8d2a-7c3b-9f1e-2a4b6c8d0e1f/messages?after=secret")
    assert_problem(answer, 500, "internal_error")
    assert "hunter2" not in answer.text
    assert [entry["event"] for entry in logs] == ["request_failed", "request"]
    assert logs[0]["exc_info"]
    assert logs[1]["status"] == 500
    assert "secret" not in str(logs[1])


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (StorageError("The disk is full."), 503, "storage_unavailable"),
        (SandboxError("The container is gone."), 500, "sandbox_error"),
        (ProviderError("No answer."), 502, "provider_error"),
        (StorageError("Odd.", field=object()), 503, "storage_unavailable"),
    ],
)
async def test_the_services_errors_keep_their_code(
    client: httpx.AsyncClient, service: InMemoryService, fault: Exception, status: int, code: str
) -> None:
    service.fault = fault
    with structlog.testing.capture_logs() as logs:
        answer = await client.get("/v1/sessions/01936f5e-8d2a-7c3b-9f1e-2a4b6c8d0e1f")
    assert_problem(answer, status, code)
    assert answer.headers.get("retry-after") == ("1" if status == 503 else None)
    assert ("request_failed" in [entry["event"] for entry in logs]) == (status == 500)


async def test_without_a_service_the_server_is_not_ready(client_for: ClientFor) -> None:
    client = client_for(create_app(ApiConfig(metrics=lambda: b"up 1\n")))
    assert_problem(await client.get("/readyz"), 503, "unavailable")
    assert_problem(await client.get("/v1/models"), 503, "unavailable")
    assert (await client.get("/healthz")).status_code == 200
    metrics = await client.get("/metrics")
    assert (metrics.text, metrics.headers["content-type"]) == ("up 1\n", "text/plain; version=0.0.4; charset=utf-8")


async def test_one_line_is_logged_per_request(app: FastAPI, client_for: ClientFor) -> None:
    client = client_for(app)
    with structlog.testing.capture_logs() as logs:
        await client.get("/v1/sessions?q=secret", headers={"Authorization": "Bearer secret"})
        await client.get("/healthz")
    assert [(entry["path"], entry["status"], entry["log_level"]) for entry in logs] == [
        ("/v1/sessions", 200, "info"),
        ("/healthz", 200, "debug"),
    ]
    assert "secret" not in str(logs)


def test_other_errors_of_the_framework_are_malformed_requests() -> None:
    assert from_http_exception(HTTPException(400)).code == "malformed_request"


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(values, st.sampled_from([0, AT_ONCE_BYTES]))
def test_json_without_nul_is_parsed_unchanged(value: Any, blanks: int) -> None:
    text = orjson.dumps(value)
    read = parse_json(bytearray(text + b" " * blanks))
    assert orjson.dumps(read) == orjson.dumps(orjson.loads(text.replace(b"\\u0000", "\ufffd".encode())))


@given(st.text(st.characters(exclude_categories=()), max_size=30))
def test_any_parsed_text_can_be_stored(text: str) -> None:
    read = parse_json(bytearray(json.dumps({text: [text]}).encode()))
    assert "\x00" not in json.dumps(read)
    orjson.dumps(read)


@given(st.binary(max_size=60))
def test_no_bytes_cause_another_error(body: bytes) -> None:
    try:
        orjson.dumps(parse_json(bytearray(body)))
    except MalformedJsonError:
        return
