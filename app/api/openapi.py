"""The OpenAPI document: FastAPI's own, extended with problems, events, raw contents, keys and examples."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import JSONResponse

from app.api import idempotency
from app.api.auth import COOKIE, needs_key
from app.api.dependencies import Problem
from app.api.examples import ANSWERS, ANSWERS_OF, REQUESTS, stream_items
from app.api.guard import PROBES
from app.api.live_events import LIVE_EVENTS
from app.api.problems import CATALOG, add_problem
from app.api.responses import encode
from app.events import DURABLE_EVENTS, Event
from app.images import MEDIA_TYPES

REF = "#/components/schemas/{model}"
ALL_EVENTS: tuple[type[Event], ...] = (*DURABLE_EVENTS, *LIVE_EVENTS)

JSON = "application/json"
BEARER: dict[str, Any] = {
    "type": "http",
    "scheme": "bearer",
    "description": "`Authorization: Bearer KEY` with any of the server's API keys.",
}

COOKIE_SCHEME: dict[str, Any] = {
    "type": "apiKey",
    "in": "cookie",
    "name": COOKIE,
    "description": "The cookie that `POST /v1/login` sets. If the server's address has a port, the name ends with it:"
    " `palimpsest_login_8000`.",
}

_BINARY: dict[str, Any] = {"type": "string", "format": "binary"}
_RAW = {"schema": _BINARY, "example": "hello\n"}
_STRING: dict[str, Any] = {"type": "string"}
_DOWNLOAD_HEADERS: dict[str, Any] = {"Content-Disposition": {"description": "Always `attachment`.", "schema": _STRING}}
_TAG = {"ETag": {"description": "The file's version.", "schema": _STRING}}
_RANGE_HEADERS: dict[str, Any] = {
    **_DOWNLOAD_HEADERS,
    "Content-Range": {"description": "The returned part and the total size.", "schema": _STRING},
}

RAW_CONTENT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The whole content.",
        "headers": _DOWNLOAD_HEADERS,
        "content": {"application/octet-stream": _RAW, "text/plain": _RAW},
    },
    206: {
        "description": "The part that `Range` requests.",
        "headers": _RANGE_HEADERS,
        "content": {"application/octet-stream": _RAW, "text/plain": _RAW},
    },
}
TAR_CONTENT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The workspace.",
        "headers": _DOWNLOAD_HEADERS,
        "content": {"application/x-tar": {"schema": _BINARY}},
    }
}
PATCH_CONTENT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The changes: as JSON, or with `format=patch` as a unified diff.",
        "content": {
            "text/x-diff": {
                "schema": _BINARY,
                "example": "diff --git a/hello.py b/hello.py\nnew file mode 100644\nindex"
                " 0000000000000000000000000000000000000000..8cde7829c178ede96040e03f17c416d15bdacd01\n--- /dev/null\n"
                '+++ b/hello.py\n@@ -0,0 +1 @@\n+print("hello world")\n',
            }
        },
    }
}
_ARCHIVES = ("application/x-tar", "application/gzip", "application/zstd", "application/zip")
ARCHIVE_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        **{kind: {"schema": _BINARY} for kind in _ARCHIVES},
        "application/octet-stream": {"schema": _BINARY, "example": "(project.tar.gz)"},
    },
}
PARTS_BODY: dict[str, Any] = {
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "properties": {"session": {"$ref": REF.format(model="SessionCreate")}, "archive": _BINARY},
                "required": ["session", "archive"],
                "additionalProperties": False,
            },
            "encoding": {"session": {"contentType": JSON}, "archive": {"contentType": ", ".join(_ARCHIVES)}},
            "example": {"session": {"task": "Fix the failing test."}, "archive": "(project.tar.gz)"},
        }
    }
}
"""A JSON body as one of two parts."""
_IMAGE = {kind: {"schema": _BINARY, "example": "(image)"} for kind in MEDIA_TYPES}
IMAGE_CONTENT: dict[int | str, dict[str, Any]] = {
    200: {"description": "The image.", "headers": _DOWNLOAD_HEADERS, "content": _IMAGE},
    206: {"description": "The part that `Range` requests.", "headers": _RANGE_HEADERS, "content": _IMAGE},
}
RAW_BODY: dict[str, Any] = {"required": False, "content": {"application/octet-stream": _RAW}}
FILE_CONTENT: dict[int | str, dict[str, Any]] = {
    **{status: {**answer, "headers": answer["headers"] | _TAG} for status, answer in RAW_CONTENT.items()},
    304: {"description": "The file is the version that `If-None-Match` names.", "headers": _TAG},
}
UPLOADED: dict[int | str, dict[str, Any]] = {
    201: {
        "description": "The file was created.",
        "headers": {"Location": {"description": "The file's path.", "schema": _STRING}, **_TAG},
    },
    204: {"description": "The file existed and was replaced.", "headers": _TAG},
}
METRICS_CONTENT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Prometheus text format.",
        "content": {"text/plain": {"schema": _STRING, "example": 'palimpsest_runs_total{outcome="completed"} 1.0\n'}},
    }
}


EVENT_STREAM = "text/event-stream"


def event_stream(*, prefix: str = "") -> dict[str, Any]:
    """The `content` of a stream of events whose names start with `prefix`, with a few examples."""
    names = [event.type for event in ALL_EVENTS if event.type.startswith(prefix)]
    shown = [item for item in stream_items() if item.type in names][:3]
    return {
        EVENT_STREAM: {
            "schema": _STRING,
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


def install_openapi(app: FastAPI, *, keys_optional: bool) -> None:
    """Serves the completed document at `/openapi.json`, and at `/openapi-3.2.json` with the items of streams; keys are
    optional if none is configured."""
    for route in app.routes:
        if isinstance(route, APIRoute):
            route.operation_id = _in_camel_case(route.name)

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = complete(
                get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes), keys_optional
            )
        return app.openapi_schema

    async def newer(_: Request) -> JSONResponse:
        return JSONResponse(with_items(app.openapi()))

    app.openapi = document  # type: ignore[method-assign]  # FastAPI's documented way to extend it
    app.add_route("/openapi-3.2.json", newer, include_in_schema=False)


def _in_camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.title() for word in others)


def with_items(document: dict[str, Any]) -> dict[str, Any]:
    """The document as OpenAPI 3.2, which can describe the items of a stream."""
    newer = {**copy.deepcopy(document), "openapi": "3.2.0"}
    for operations in newer["paths"].values():
        for operation in operations.values():
            media = operation["responses"].get("200", {}).get("content", {}).get(EVENT_STREAM)
            if media is not None:
                del media["schema"]
                media["itemSchema"] = {"anyOf": [_event_on_the_wire(name) for name in media["x-events"]]}
    return newer


def complete(document: dict[str, Any], keys_optional: bool) -> dict[str, Any]:
    """Adds what FastAPI does not know to the document, in place."""
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = Problem.model_json_schema(ref_template=REF)
    schemas.update(schemas["Problem"].pop("$defs", {}))
    for name, schema in event_schemas().items():
        schemas.setdefault(name, schema)
    _add_examples(schemas)
    _require_discriminators(document)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if idempotency.applies(method, path):
                idempotency.describe(operation)
            _complete_operation(method, path, operation)
            _show_examples(f"{method} {path}", operation, schemas)
            if needs_key(path):
                operation["security"] = [{"key": []}, {"login": []}, *([{}] if keys_optional else [])]
    document["components"]["securitySchemes"] = {"key": BEARER, "login": COOKIE_SCHEME}
    return document


def event_schemas() -> dict[str, Any]:
    """A schema for each event, by the event's name, and the schemas that they refer to."""
    _, definitions = models_json_schema([(event, "serialization") for event in ALL_EVENTS], ref_template=REF)
    schemas: dict[str, Any] = definitions["$defs"]
    for event in ALL_EVENTS:
        schema = schemas[event.type] = schemas.pop(event.__name__)
        added: dict[str, Any] = {"type": {"type": "string", "const": event.type}}
        if event in DURABLE_EVENTS:
            added["seq"] = {"type": "integer", "minimum": 1}
        schema["properties"] = added | schema["properties"]
        if event.type.startswith("session."):
            schema["properties"]["cursor"] = {"type": "string", "description": "In `GET /v1/events` alone."}
        schema["required"] = [*added, *schema["required"]]
    for item in stream_items():
        schemas[item.type]["examples"] = [json.loads(b"".join(item.shown))]
    names = {event.type: REF.format(model=event.type) for event in ALL_EVENTS}
    schemas["Event"] = {
        "oneOf": [{"$ref": reference} for reference in names.values()],
        "discriminator": {"propertyName": "type", "mapping": names},
        "description": "The data of any event.",
    }
    return schemas


def _require_discriminators(document: dict[str, Any]) -> None:
    """Marks the property that tells the members of a union apart as required in each of them."""
    schemas = document["components"]["schemas"]
    for union in _unions(document):
        name = union["discriminator"]["propertyName"]
        for member in union["oneOf"]:
            required = schemas[member["$ref"].rpartition("/")[2]].setdefault("required", [])
            if name not in required:
                required.insert(0, name)


def _unions(node: Any) -> Iterator[dict[str, Any]]:
    """Every schema in the document with a discriminator."""
    if isinstance(node, dict):
        if "discriminator" in node:
            yield node
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from _unions(each)


def _add_examples(schemas: dict[str, Any]) -> None:
    """Adds examples to the schemas of requests, responses and problems. Requests show only the fields that are set."""
    for request in REQUESTS:
        shown = request.model_dump(mode="json", by_alias=True, exclude_unset=True)
        schemas[type(request).__name__].setdefault("examples", []).append(shown)
    for answer in ANSWERS:
        schemas[type(answer).__name__]["examples"] = [answer.model_dump(mode="json")]
    schemas["Problem"]["examples"] = [CATALOG["session_not_found"].problem("/v1/sessions")]


def _show_examples(label: str, operation: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Gives the operation's JSON body and responses their own example, or the first one of their schema. Added to the
    document rather than to the route, where FastAPI would drop the nulls."""
    for status, body in [("", operation.get("requestBody", {})), *operation["responses"].items()]:
        media = body.get("content", {}).get(JSON)
        if media is None:
            continue
        own = ANSWERS_OF.get((label, status))
        options = [media["schema"], *media["schema"].get("anyOf", ())]
        name = next(option["$ref"] for option in options if "$ref" in option).rpartition("/")[2]
        media["example"] = own.model_dump(mode="json") if own is not None else schemas[name]["examples"][0]


def _complete_operation(method: str, path: str, operation: dict[str, Any]) -> None:
    for parameter in operation.get("parameters", ()):
        if parameter["schema"].get("type") == "array":
            parameter["explode"] = False  # separated by commas
    responses = operation["responses"]
    if JSON in responses.get("422", {}).get("content", {}):
        del responses["422"]["content"][JSON]
        if not responses["422"]["content"]:
            del responses["422"]
    for code in _common_codes(method, path, operation):
        add_problem(responses, code, key=str)
    operation["responses"] = dict(sorted(responses.items()))


def _common_codes(method: str, path: str, operation: dict[str, Any]) -> list[str]:
    """Codes that all routes of this kind share: from the guard, from parameters and bodies, and from the server."""
    codes = ["malformed_request", "head_timeout", "head_too_large"]
    codes += ["too_large", "too_many_bodies", "validation_error"]
    codes += [] if path in PROBES else ["foreign_origin", "wrong_host"]
    if needs_key(path):
        # A cookie is checked before the route runs.
        codes += ["unauthorized", "unavailable", "storage_unavailable"]
    if path.startswith("/v1"):
        codes += ["internal_error", "unavailable", "superseded", "storage_unavailable", "storage_busy", "storage_full"]
    if any(parameter["name"] == idempotency.HEADER for parameter in operation.get("parameters", ())):
        codes += ["idempotency_key_reused", "idempotency_key_in_use"]
    # A POST without fields takes an empty JSON object.
    takes_json = JSON in operation["requestBody"]["content"] if "requestBody" in operation else method == "post"
    if takes_json:
        codes += ["invalid_json", "unsupported_media_type"]
    return codes
