"""The OpenAPI document, and whether the routes follow it."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import httpx
import jsonschema
import pytest
from fastapi import FastAPI

from app.api.examples import EVENTS
from app.api.guard import ApiConfig
from app.api.main import create_app
from app.api.openapi import ALL_EVENTS
from app.api.problems import CATALOG
from app.messages import new_id
from app.runtime.values.history import RawOutput
from app.sessions import Session
from tests.unit.api.double import CALL_ID, InMemoryService

DOCUMENT = create_app(ApiConfig()).openapi()
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
OPERATIONS = [
    (method, path, operation) for path, methods in DOCUMENT["paths"].items() for method, operation in methods.items()
]


def resolved(name: str) -> dict[str, Any]:
    """The component's schema together with all components, as a JSON Schema validator needs it."""
    return {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}


async def test_the_document_is_served(client: httpx.AsyncClient) -> None:
    answer = await client.get("/openapi.json")
    assert answer.json() == json.loads(json.dumps(DOCUMENT))


def test_every_reference_resolves() -> None:
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(DOCUMENT)))
    assert names <= set(SCHEMAS)
    assert not {"HTTPValidationError", "ValidationError"} & set(SCHEMAS)


def test_every_event_has_a_schema_and_a_valid_example() -> None:
    assert {event.type for event in ALL_EVENTS} == {example.type for example in EVENTS}
    for event in ALL_EVENTS:
        name = event.type
        (example,) = SCHEMAS[name]["examples"]
        jsonschema.Draft202012Validator(resolved(name)).validate(example)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", example["at"])


def test_the_streams_name_their_events() -> None:
    def events(path: str, method: str = "get") -> set[str]:
        responses = DOCUMENT["paths"][path][method]["responses"]
        return set(responses["200"]["content"]["text/event-stream"]["x-events"])

    everything = {event.type for event in ALL_EVENTS}
    assert events("/v1/sessions/{session_id}/events") == events("/v1/sessions", "post") == everything
    assert events("/v1/events") == {name for name in everything if name.startswith("session.")}


async def test_the_newer_document_describes_the_items_of_streams(client: httpx.AsyncClient) -> None:
    newer = (await client.get("/openapi-3.2.json")).json()
    assert (DOCUMENT["openapi"], newer["openapi"]) == ("3.1.0", "3.2.0")

    def stream(document: dict[str, Any]) -> dict[str, Any]:
        responses = document["paths"]["/v1/events"]["get"]["responses"]
        found: dict[str, Any] = responses["200"]["content"]["text/event-stream"]
        return found

    text, items = stream(DOCUMENT), stream(newer)
    assert text["schema"] == {"type": "string"}
    assert [item["properties"]["event"]["const"] for item in items["itemSchema"]["anyOf"]] == list(text["x-events"])
    assert "schema" not in items


def test_unions_require_what_tells_their_members_apart() -> None:
    unions = [SCHEMAS["Event"], SCHEMAS["Message"]["properties"]["parts"]["items"]]
    for union in unions:
        mapping = union["discriminator"]["mapping"]
        assert set(mapping.values()) == {member["$ref"] for member in union["oneOf"]}
        assert all("type" in SCHEMAS[reference.rpartition("/")[2]]["required"] for reference in mapping.values())
    assert set(SCHEMAS["Event"]["discriminator"]["mapping"]) == {event.type for event in ALL_EVENTS}


def test_every_error_is_a_problem_with_an_example() -> None:
    for _, _, operation in OPERATIONS:
        for status, response in operation["responses"].items():
            if int(status) < 400:
                continue
            media = response["content"]["application/problem+json"]
            assert list(response["content"]) == ["application/problem+json"]
            assert media["examples"]
            for code, example in media["examples"].items():
                jsonschema.Draft202012Validator(resolved("Problem")).validate(example["value"])
                assert (str(example["value"]["status"]), example["value"]["code"]) == (status, code)


def test_every_code_of_the_catalog_is_documented() -> None:
    documented = set(re.findall(r'"code": "([a-z_]+)"', json.dumps(DOCUMENT)))
    assert set(CATALOG) - documented == {"method_not_allowed", "not_found"}


def test_every_operation_says_what_it_does() -> None:
    ids = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(ids) == len(set(ids))
    assert {"createSession", "streamEvents", "streamAllEvents", "getToolOutput"} <= set(ids)
    assert all(re.fullmatch(r"[a-z]+([A-Z][a-z]*)*", name) for name in ids)
    assert all(operation["description"] and operation["tags"] for _, _, operation in OPERATIONS)


def security(document: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """The security requirements of each operation; removes them from the document."""
    return {
        (method, path): operation.pop("security", None)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def test_keys_are_described_with_and_without_configured_keys(keyed_app: FastAPI) -> None:
    keyed, keyless = copy.deepcopy(keyed_app.openapi()), copy.deepcopy(DOCUMENT)
    schemes = keyless["components"]["securitySchemes"]
    assert (schemes["key"]["type"], schemes["key"]["scheme"]) == ("http", "bearer")
    assert (schemes["login"]["type"], schemes["login"]["in"]) == ("apiKey", "cookie")
    needed, optional = security(keyed), security(keyless)
    assert keyed == keyless, "the documents must differ only in whether a key is optional"
    for (method, path), asked in needed.items():
        is_open = path in ("/healthz", "/readyz", "/v1/login")
        either: list[dict[str, Any]] = [{"key": []}, {"login": []}]
        assert (asked, optional[method, path]) == ((None, None) if is_open else (either, [*either, {}]))
        assert ("unauthorized" in json.dumps(keyed["paths"][path][method]["responses"])) == (not is_open)


def test_the_bounds_of_numbers_and_texts_are_in_the_schemas() -> None:
    names = set(re.findall(r'"([A-Za-z]+)": ', json.dumps([SCHEMAS["LimitsPatch"], SCHEMAS["SandboxRequest"]])))
    assert {"minimum", "maximum", "exclusiveMinimum", "minLength", "maxLength"} <= names
    assert not {"ge", "gt", "le", "lt"} & names


def test_local_unsafe_is_not_in_the_request_schemas() -> None:
    offered = json.dumps([SCHEMAS["SessionCreate"], SCHEMAS["SandboxRequest"]])
    assert "bubblewrap" in offered
    assert "local-unsafe" not in offered


BAD_REQUESTS: tuple[dict[str, Any], ...] = (
    {},
    {"json": {}},
    {"json": {"nonsense": 1}},
    {"json": []},
    {"content": b"{", "headers": {"Content-Type": "application/json"}},
    {"content": b"{}", "headers": {"Content-Type": "text/plain"}},
    {"params": {"limit": "-1", "step": "x", "after": "\x00", "until": "x", "format": "x", "path": "..", "status": "x"}},
    {"params": {"limit": 1, "step": 2, "after": "5"}},
    {"params": {"nonsense": "1"}},
    {"headers": {"Host": "evil.example"}},
    {"headers": {"Origin": "null"}},
    {"headers": {"Range": "bytes=9999-"}},
    {"headers": {"Last-Event-ID": "-1"}},
    {"headers": {"Content-Length": "999999999999"}},
)


@pytest.mark.parametrize(("method", "path"), [(method, path) for method, path, _ in OPERATIONS])
@pytest.mark.parametrize("known", [True, False])
async def test_routes_return_only_documented_statuses(
    client: httpx.AsyncClient, session: Session, service: InMemoryService, method: str, path: str, known: bool
) -> None:
    if path.endswith("/events"):
        await service.finish(session.id)
    service.outputs[CALL_ID] = RawOutput(size=1, data=b"x")
    target = filled(path, session.id if known else new_id())
    documented = DOCUMENT["paths"][path][method]["responses"]
    for request in BAD_REQUESTS:
        if path == "/v1/events" and not is_refused(request):
            continue
        answer = await client.request(method, target, **until_idle(path, request))
        assert str(answer.status_code) in documented, (request, answer.text)
        if answer.status_code >= 400:
            media = documented[str(answer.status_code)]["content"]["application/problem+json"]
            assert answer.json()["code"] in media["examples"]


def filled(path: str, session_id: str) -> str:
    return path.format(
        session_id=session_id,
        message_id=new_id(),
        call_id=CALL_ID,
        command_id=CALL_ID,
        path="a/b",
        round=1,
        webhook_id=new_id(),
        delivery_id=new_id(),
        name="X",
        checkpoint_id=new_id(),
        digest="0" * 64,
    )


@pytest.mark.parametrize("path", [path for method, path, _ in OPERATIONS if method == "get"])
async def test_head_is_answered_where_get_is(
    client: httpx.AsyncClient, session: Session, service: InMemoryService, path: str
) -> None:
    service.outputs[CALL_ID] = RawOutput(size=1, data=b"x")
    service.workspace["a/b"] = b"content"
    target = filled(path, session.id)
    head = await client.head(target)
    assert head.content == b""
    if path.endswith("/events"):  # GET would not end
        assert (head.status_code, head.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        return
    got = await client.get(target)
    assert (head.status_code, head.headers) == (got.status_code, got.headers)


def is_refused(request: dict[str, Any]) -> bool:
    """Whether any route refuses the request; otherwise it opens the endless stream of all sessions."""
    return bool({"Host", "Origin", "Content-Length"} & set(request.get("headers", ())))


def until_idle(path: str, request: dict[str, Any]) -> dict[str, Any]:
    """The request; for a session's events, one whose stream ends."""
    if not path.endswith("/events"):
        return request
    return {**request, "params": {"until": "idle", **request.get("params", {})}}


def test_names_of_secrets_and_cursors_have_their_pattern() -> None:
    paths = DOCUMENT["paths"]
    put = paths["/v1/sessions/{session_id}/secrets/{name}"]["put"]["parameters"]
    (name,) = [parameter["schema"] for parameter in put if parameter["name"] == "name"]
    assert (name["pattern"], name["maxLength"]) == ("^[A-Z_][A-Z0-9_]{0,99}$", 100)
    (cursor,) = [each["schema"] for each in paths["/v1/sessions"]["get"]["parameters"] if each["name"] == "cursor"]
    assert cursor["pattern"] == "^[A-Za-z0-9_-]*$"
