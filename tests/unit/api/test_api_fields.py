"""Messages for invalid fields, and unknown query parameters."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from app.api.errors import field_errors
from app.messages import Value
from app.runtime.values.queue import QueueAdd, QueueEdit
from app.runtime.values.sessions import SessionCreate, SessionPatch
from tests.unit.api.test_api_errors import assert_problem

KINDS = "'docker' or 'bubblewrap'"


async def refused(client: httpx.AsyncClient, body: Any) -> list[tuple[str, str]]:
    problem = assert_problem(await client.post("/v1/sessions", json=body), 422, "validation_error")
    return [(error["field"], error["message"]) for error in problem["errors"]]


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({"sandbox": "foo"}, "sandbox", f"Input should be {KINDS}"),
        ({"sandbox": 1}, "sandbox", "Input should be 'docker', 'bubblewrap' or an object"),
        ({"sandbox": {"kind": "foo"}}, "sandbox.kind", f"Input should be {KINDS}"),
        ({"sandbox": {"kind": ["docker"]}}, "sandbox.kind", f"Input should be {KINDS}"),
        ({"sandbox": {}}, "sandbox.kind", "Field required"),
        ({"sandbox": {"kind": "docker", "x": 1}}, "sandbox.x", "Unknown field"),
        ({"compaction": []}, "compaction", "Input should be a policy's name or an object"),
        ({"approval": {"policy": "often"}}, "approval.policy", "Input should be 'never', 'always' or an object"),
        ({"approval": {"policy": {"tools": 1}}}, "approval.policy.tools", "Input should be an array"),
        ({"task": ""}, "task", "Input should have at least 1 character"),
        ({"title": "x" * 301}, "title", "Input should have at most 300 characters"),
        ({"task": " "}, "task", "Input should contain more than whitespace"),
        ({"id": "notauuid"}, "id", "Input should be a UUID, as in 01936f5e-8d2a-7c3b-9f1e-2a4b6c8d0e1f"),
        ({"id": 5}, "id", "Input should be a string"),
        ({"limits": {"max_cost_usd": 0}}, "limits.max_cost_usd", "Input should be greater than 0"),
        ({"limits": {"max_seconds": 0}}, "limits.max_seconds", "Input should be greater than 0"),
        ({"limits": {"max_steps": 1e300}}, "limits.max_steps", "The number is too large"),
        ({"limits": []}, "limits", "Input should be an object"),
        ([], "body", "Input should be an object"),
    ],
)
async def test_an_invalid_field_has_one_message(client: httpx.AsyncClient, body: Any, field: str, message: str) -> None:
    assert await refused(client, body) == [(field, message)]


async def test_errors_of_an_object_are_reported_without_those_of_the_alternative(client: httpx.AsyncClient) -> None:
    found = await refused(client, {"sandbox": {"kind": "docker", "memory_mb": 1, "pids": 1, "cpus": 0}})
    assert sorted(field for field, _ in found) == ["sandbox.cpus", "sandbox.memory_mb", "sandbox.pids"]
    for cpus in (1e-10, 0.001, 0.09):
        assert [field for field, _ in await refused(client, {"sandbox": {"kind": "docker", "cpus": cpus}})] == [
            "sandbox.cpus"
        ]


async def test_the_detail_reads_as_a_sentence(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/sessions", json={"task": ""})
    assert answer.json()["detail"] == "The request is not valid: task: input should have at least 1 character."


ODD: tuple[Any, ...] = ("", "odd", 0, 1.5, True, [], [1], [[]], {}, {"odd": 1}, {"kind": 1, "policy": 1, "format": 1})


@pytest.mark.parametrize("model", [SessionCreate, SessionPatch, QueueAdd, QueueEdit])
def test_no_message_mentions_internals_of_the_validator(model: type[Value]) -> None:
    checked = 0
    for name in model.model_fields:
        for odd in ODD:
            try:
                model.model_validate({"content": "x", name: odd} if "content" in model.model_fields else {name: odd})
            except ValidationError as error:
                found = field_errors([{**each, "loc": ("body", *each["loc"])} for each in error.errors()])
                assert len({each["field"] for each in found}) == len(found), found
                for each in found:
                    assert re.fullmatch(r"[a-z_]+(\.[a-z_]+|\.\d+)*", each["field"]), each
                    assert re.fullmatch(r"[A-Z][^\[\]{}\\^]+", each["message"]), each
                    assert not re.search(r"dict|validation|extract|Value error|local-unsafe", each["message"]), each
                    checked += 1
    assert checked > 10


@pytest.mark.parametrize("asked", ["local-unsafe", {"kind": "local-unsafe"}])
def test_local_unsafe_is_parsed_so_that_it_can_be_forbidden(asked: Any) -> None:
    body = SessionCreate(sandbox=asked)
    assert body.sandbox is not None
    assert "local-unsafe" in (body.sandbox, getattr(body.sandbox, "kind", None))


def test_a_kind_and_an_object_are_kept_as_requested() -> None:
    for asked in ("docker", {"kind": "docker"}, {"kind": "bubblewrap", "pids": 20}):
        assert SessionCreate.model_validate({"sandbox": asked}).model_dump(exclude_unset=True) == {"sandbox": asked}
    again = SessionCreate.model_validate({"sandbox": {"kind": "docker"}}).sandbox
    assert SessionCreate(sandbox=again).sandbox == again


def test_the_body_as_a_whole_is_named_body() -> None:
    missing = {"type": "missing", "loc": ("body",), "msg": "Field required", "input": None}
    assert field_errors([missing]) == [{"field": "body", "message": "Field required"}]
