"""The OpenAPI document: FastAPI's own, completed with problems, events, raw contents and keys."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from app.api.auth import needs_key
from app.api.examples import EVENTS, stream_items, type_of
from app.api.guard import PROBES
from app.api.problems import add_problem
from app.api.schemas import Problem
from app.api.stream import encode
from app.events import DURABLE_EVENTS, LIVE_EVENTS
from app.messages import Value

REF = "#/components/schemas/{model}"
ALL_EVENTS: tuple[type[Value], ...] = (*DURABLE_EVENTS, *LIVE_EVENTS)

_BINARY: dict[str, Any] = {"type": "string", "format": "binary"}
_STRING: dict[str, Any] = {"type": "string"}
_DOWNLOAD_HEADERS: dict[str, Any] = {"Content-Disposition": {"description": "Always `attachment`.", "schema": _STRING}}
_RANGE_HEADERS: dict[str, Any] = {
    **_DOWNLOAD_HEADERS,
    "Content-Range": {"description": "The part that is sent, and the whole size.", "schema": _STRING},
}

RAW_CONTENT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The whole content.",
        "headers": _DOWNLOAD_HEADERS,
        "content": {"application/octet-stream": {"schema": _BINARY}, "text/plain": {"schema": _BINARY}},
    },
    206: {
        "description": "The part that `Range` asks for.",
        "headers": _RANGE_HEADERS,
        "content": {"application/octet-stream": {"schema": _BINARY}, "text/plain": {"schema": _BINARY}},
    },
}
TAR_CONTENT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The workspace.",
        "headers": _DOWNLOAD_HEADERS,
        "content": {"application/x-tar": {"schema": _BINARY}},
    }
}
RAW_BODY: dict[str, Any] = {"required": False, "content": {"application/octet-stream": {"schema": _BINARY}}}
UPLOADED: dict[int | str, dict[str, Any]] = {
    201: {
        "description": "The file is new.",
        "headers": {"Location": {"description": "The file's path.", "schema": _STRING}},
    },
    204: {"description": "The file was there and has new content."},
}
METRICS_CONTENT: dict[int | str, dict[str, Any]] = {
    200: {"description": "Prometheus' text format.", "content": {"text/plain": {"schema": _STRING}}}
}


def event_stream(*, prefix: str = "") -> dict[str, Any]:
    """The `content` of a stream with the events whose names begin with `prefix`, and an example of a few of them."""
    names = [type_of(event) for event in ALL_EVENTS if type_of(event).startswith(prefix)]
    shown = [item for item in stream_items() if item.type in names][:3]
    return {
        "text/event-stream": {
            "itemSchema": {"anyOf": [_event_on_the_wire(name) for name in names]},
            "x-events": {name: {"$ref": REF.format(model=name)} for name in names},
            "example": encode(shown).decode(),
        }
    }


def _event_on_the_wire(name: str) -> dict[str, Any]:
    """A Server-Sent Event as OpenAPI 3.2 describes the items of a stream."""
    data = {"contentMediaType": "application/json", "contentSchema": {"$ref": REF.format(model=name)}}
    return {
        "type": "object",
        "properties": {"id": _STRING, "event": {"const": name}, "data": {**_STRING, **data}},
        "required": ["event", "data"],
    }


def install_openapi(app: FastAPI, *, secured: bool) -> None:
    """Makes `/openapi.json` the completed document; `secured` says whether keys are configured."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = complete(
                get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes), secured
            )
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # FastAPI's documented way to extend it


def complete(document: dict[str, Any], secured: bool) -> dict[str, Any]:
    """The document with what FastAPI does not know; changes it in place."""
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = Problem.model_json_schema(ref_template=REF)
    schemas.update(schemas["Problem"].pop("$defs", {}))
    for name, schema in event_schemas().items():
        schemas.setdefault(name, schema)
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _complete_operation(path, operation, secured)
    if secured:
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return document


def event_schemas() -> dict[str, Any]:
    """A schema for each event, under the event's name, and the schemas that they refer to."""
    _, definitions = models_json_schema([(event, "serialization") for event in ALL_EVENTS], ref_template=REF)
    schemas: dict[str, Any] = definitions["$defs"]
    for event in ALL_EVENTS:
        schemas[type_of(event)] = schemas.pop(event.__name__)
    for example in EVENTS:
        schemas[type_of(example)]["examples"] = [example.model_dump(mode="json")]
    return schemas


def _complete_operation(path: str, operation: dict[str, Any], secured: bool) -> None:
    responses = operation["responses"]
    if "application/json" in responses.get("422", {}).get("content", {}):
        del responses["422"]["content"]["application/json"]
        if not responses["422"]["content"]:
            del responses["422"]
    for code in _common_codes(path, operation, secured):
        add_problem(responses, code, key=str)
    operation["responses"] = dict(sorted(responses.items()))
    if secured and needs_key(path):
        operation["security"] = [{"key": []}]


def _common_codes(path: str, operation: dict[str, Any], secured: bool) -> list[str]:
    """Codes that routes of this kind share: the guards', those of parameters and bodies, and the server's own."""
    codes = ["malformed_request", "too_large"]
    codes += [] if path in PROBES else ["foreign_origin", "wrong_host"]
    if secured and needs_key(path):
        codes.append("unauthorized")
    if path.startswith("/v1"):
        codes += ["internal_error", "unavailable", "storage_unavailable"]
    body = operation.get("requestBody", {}).get("content", {})
    if "application/json" in body:
        codes += ["invalid_json", "unsupported_media_type"]
    queried = any(parameter["in"] == "query" for parameter in operation.get("parameters", ()))
    if queried or "application/json" in body:
        codes.append("validation_error")
    return codes
