"""Requests that cannot be served: each is refused with a documented code, and changes nothing."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.settings import LimitSettings, ProviderSettings
from tests.behavior.conftest import StartServer
from tests.behavior.harness import OPENAI, Client
from tests.provider import FakeProvider, Gate, HttpError, Reply, Text

pytestmark = pytest.mark.shared_server

DOCUMENTED = Path(__file__).parents[2] / "docs" / "errors.md"
MIB = 1024 * 1024
JSON = {"Content-Type": "application/json"}
UNKNOWN = "01936f5e-8d2a-7c3b-9f1e-2a4b6c8d0e1f"


def documented() -> set[tuple[int, str]]:
    """Status and code of every line of the list of errors."""
    rows = re.findall(r"^\| (\d{3}) \| `([a-z_]+)` \|", DOCUMENTED.read_text("utf-8"), re.MULTILINE)
    return {(int(status), code) for status, code in rows}


def assert_refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The answer is a problem document with this code, which the documentation lists; returns the document."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    problem: dict[str, Any] = answer.json()
    assert (problem["status"], problem["code"]) == (status, code)
    assert all(problem[name] for name in ("title", "detail"))
    assert problem["type"] == f"urn:palimpsest:{code}"
    assert (status, code) in documented()
    return problem


async def state(client: Client, session_id: str) -> tuple[Any, ...]:
    """Everything that a refused request must not change."""
    path = f"/v1/sessions/{session_id}"
    paths = (path, f"{path}/messages", f"{path}/queue", f"{path}/files", "/v1/sessions")
    return tuple([await client.get(each) for each in paths])


FIELDS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"nonsense": 1}, "nonsense"),
    ({"limits": {"max_stepz": 1}}, "limits.max_stepz"),
    ({"task": 5}, "task"),
    ({"task": ""}, "task"),
    ({"title": ["x"]}, "title"),
    ({"model": True}, "model"),
    ({"tools": "execute_command"}, "tools"),
    ({"tools": [1]}, "tools.0"),
    ({"metadata": []}, "metadata"),
    ({"id": "not-a-uuid"}, "id"),
    ({"limits": {"max_cost_usd": False}}, "limits.max_cost_usd"),
    ({"limits": {"max_steps": True}}, "limits.max_steps"),
    ({"limits": {"max_steps": "5"}}, "limits.max_steps"),
    ({"limits": {"max_steps": 1.5}}, "limits.max_steps"),
    ({"limits": {"max_steps": 0}}, "limits.max_steps"),
    ({"limits": {"max_steps": 2**53}}, "limits.max_steps"),
    ({"limits": {"max_tokens": 2**63}}, "limits.max_tokens"),
    ({"limits": {"max_tokens": 10**30}}, "limits.max_tokens"),
    ({"limits": {"max_seconds": 1e308}}, "limits.max_seconds"),
    ({"limits": {"max_seconds": 0}}, "limits.max_seconds"),
    ({"limits": {"max_cost_usd": 0}}, "limits.max_cost_usd"),
    ({"sandbox": {"kind": "bubblewrap", "network": 1}}, "sandbox.network"),
    ({"sandbox": {"kind": "bubblewrap", "pids": True}}, "sandbox.pids"),
    ({"sandbox": {"kind": "bubblewrap", "privileged": True}}, "sandbox.privileged"),
    ({"sandbox": {"image": "x"}}, "sandbox.kind"),
    ({"sandbox": {"kind": "chroot"}}, "sandbox.kind"),
    ({"sandbox": "chroot"}, "sandbox"),
    ({"sandbox": 1}, "sandbox"),
    ({"compaction": []}, "compaction"),
    ({"approval": {"policy": "often"}}, "approval.policy"),
    ({"approval": {"policy": {"tools": [1]}}}, "approval.policy.tools.0"),
    ({"approval": {"policy": {"commands": ["ls", "("]}}}, "approval.policy.commands.1"),
    ({"approval": {"policy": {"commands": ["(?R)"]}}}, "approval.policy.commands.0"),
    ({"approval": {"policy": {"command": ["ls"]}}}, "approval.policy.command"),
    ({"approval": {"timeout_s": False}}, "approval.timeout_s"),
    ({"approval": {"timeout_s": 1e12}}, "approval.timeout_s"),
)


@pytest.mark.parametrize(("fields", "named"), FIELDS, ids=[json.dumps(fields) for fields, _ in FIELDS])
async def test_an_invalid_field_is_named(client: Client, fields: dict[str, Any], named: str) -> None:
    problem = assert_refused(await client.http.post("/v1/sessions", json=fields), 422, "validation_error")
    assert [error["field"] for error in problem["errors"]] == [named], problem["errors"]
    assert "local-unsafe" not in problem["detail"]
    assert (await client.get("/v1/sessions"))["items"] == []


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/cancel", {"clear_queue": 0}),
        ("POST", "/cancel", {"clear_queue": "true"}),
        ("POST", "/cancel", {"queue": True}),
        ("POST", "/queue", {}),
        ("POST", "/queue", {"content": ""}),
        ("POST", "/queue", {"content": "x", "mode": "now"}),
        ("POST", "/queue", {"content": "x" * 1_000_001}),
        ("POST", "/queue", []),
        ("PATCH", "", {"limits": 5}),
        ("PATCH", "", {"task": "another"}),
        ("PATCH", f"/queue/{UNKNOWN}", {}),
        ("PATCH", f"/queue/{UNKNOWN}", {"content": None}),
    ],
)
async def test_a_refused_request_leaves_the_session_unchanged(
    client: Client, method: str, path: str, body: Any
) -> None:
    session = await client.create()
    before = await state(client, session["id"])
    answer = await client.http.request(method, f"/v1/sessions/{session['id']}{path}", json=body)
    assert_refused(answer, 422, "validation_error")
    assert await state(client, session["id"]) == before


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({"task": ""}, "task: input should have at least 1 character"),
        ({"id": "notauuid"}, "id: input should be a UUID, as in 01936f5e-8d2a-7c3b-9f1e-2a4b6c8d0e1f"),
        ({"sandbox": "foo"}, "sandbox: input should be 'docker' or 'bubblewrap'"),
    ],
)
async def test_the_detail_says_what_is_expected(client: Client, fields: dict[str, Any], detail: str) -> None:
    problem = assert_refused(await client.http.post("/v1/sessions", json=fields), 422, "validation_error")
    assert problem["detail"] == f"The request is not valid: {detail}."


async def in_chunks(size: int) -> AsyncIterator[bytes]:
    yield b'{"content": "'
    for _ in range(size // 65_536):
        yield b"x" * 65_536
    yield b'"}'


async def test_a_body_over_the_limit_is_refused_with_or_without_its_length(client: Client) -> None:
    session = await client.create()
    path = f"/v1/sessions/{session['id']}/queue"
    said = await client.http.post(path, content=b" " * (MIB + 1), headers=JSON)
    chunked = await client.http.post(path, content=in_chunks(2 * MIB), headers=JSON)
    problem = assert_refused(said, 413, "too_large")
    assert problem["limit_bytes"] == MIB
    assert_refused(chunked, 413, "too_large")
    created = await client.http.post("/v1/sessions", json={"system_prompt": "x" * (MIB + 1)})
    assert_refused(created, 413, "too_large")
    assert (await client.get(path))["items"] == []


async def test_a_huge_length_is_refused_before_the_body_is_sent(client: Client) -> None:
    url = client.http.base_url
    request = f"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {10**12}\r\n\r\n"
    with socket.create_connection((url.host, url.port or 80), timeout=10) as connection:
        connection.sendall(request.encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("type_", ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", None])
async def test_only_json_is_accepted(client: Client, type_: str | None) -> None:
    """A browser sends the first two across sites without asking."""
    headers = {"Content-Type": type_} if type_ else {}
    answer = await client.http.post("/v1/sessions", content=b'{"task": "x"}', headers=headers)
    assert_refused(answer, 415, "unsupported_media_type")
    assert (await client.get("/v1/sessions"))["items"] == []


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b'{"task": NaN}',
        b'{"task": "x"} x',
        b'\xff\xfe{"task": "x"}',
        b'{"task": "\xff"}',
        b"[" * 100_000,
        b'{"metadata": ' + b'{"a": ' * 200 + b"1" + b"}" * 201,
        b'{"metadata": {"n": 1e999}}',
        b'{"task": "x", "task": "y"}',
        b'{"metadata": {"n": [{"a": 1, "\\u0061": 1}]}}',
    ],
    ids=["cut", "NaN", "tail", "utf-16", "not utf-8", "deep, cut", "deep", "infinite", "twice", "twice, deep"],
)
async def test_invalid_json_is_refused(client: Client, body: bytes) -> None:
    assert_refused(await client.http.post("/v1/sessions", content=body, headers=JSON), 400, "invalid_json")
    assert (await client.get("/v1/sessions"))["items"] == []


async def test_a_surrogate_and_nul_become_replacement_characters(client: Client) -> None:
    body = b'{"title": "a\\u0000b\\ud800c"}'
    session = (await client.http.post("/v1/sessions", content=body, headers=JSON)).json()
    assert session["title"] == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c"


SESSION_CALLS = (
    ("GET", ""),
    ("PATCH", ""),
    ("DELETE", ""),
    ("POST", "/cancel"),
    ("POST", "/resume"),
    ("POST", "/queue"),
    ("GET", "/queue"),
    ("PATCH", f"/queue/{UNKNOWN}"),
    ("DELETE", f"/queue/{UNKNOWN}"),
    ("GET", "/messages"),
    ("GET", "/context"),
    ("GET", "/steps"),
    ("GET", "/tool-calls/x"),
    ("GET", "/tool-calls/x/output"),
    ("GET", "/events"),
    ("GET", "/files"),
    ("GET", "/files/a.txt"),
    ("PUT", "/files/a.txt"),
    ("GET", "/archive"),
)


@pytest.mark.parametrize(("method", "path"), SESSION_CALLS)
async def test_a_missing_session(client: Client, method: str, path: str) -> None:
    body: dict[str, Any] = {"json": {"content": "x"} if "/queue" in path else {}} if method in ("POST", "PATCH") else {}
    for session_id in (UNKNOWN, "1", "..%2f..%2fetc", UNKNOWN.upper()):
        answer = await client.http.request(method, f"/v1/sessions/{session_id}{path}", **body)
        if "%2f" in session_id:
            assert answer.status_code in (404, 405)
        else:
            assert_refused(answer, 404, "session_not_found")


async def test_other_missing_things(client: Client) -> None:
    base = f"/v1/sessions/{(await client.create())['id']}"
    for path, code in {
        "/nothing": "not_found",
        f"{base}/tool-calls/none": "call_not_found",
        f"{base}/tool-calls/none/output": "call_not_found",
        f"{base}/context?step=9": "step_not_found",
        f"{base}/files/none": "file_not_found",
    }.items():
        assert_refused(await client.http.get(path), 404, code)
    assert_refused(await client.http.delete(f"{base}/queue/{UNKNOWN}"), 404, "message_not_found")
    assert_refused(await client.http.put("/v1/sessions"), 405, "method_not_allowed")


ALMOST = (base64.urlsafe_b64encode(text).decode().rstrip("=") for text in (b"123", b"123/x", b"-1/" + b"a" * 36))
CURSORS = ("x", "%00", "-1", "1.5", "9" * 30, *ALMOST, "é", "a" * 400)


@pytest.mark.parametrize("cursor", CURSORS)
async def test_an_unknown_cursor(client: Client, cursor: str) -> None:
    base = f"/v1/sessions/{(await client.create())['id']}"
    for path in (f"{base}/messages?after=", f"{base}/steps?after="):
        assert_refused(await client.http.get(path + cursor), 400, "malformed_cursor")
    assert_refused(await client.http.get(f"/v1/sessions?cursor={cursor}"), 400, "malformed_cursor")


@pytest.mark.parametrize("event_id", ["x", "-1", "1.0", "", "0x1", "9" * 19, "9" * 400])
async def test_an_invalid_event_id(client: Client, event_id: str) -> None:
    path = f"/v1/sessions/{(await client.create())['id']}/events"
    by_header = await client.http.get(path, headers={"Last-Event-ID": event_id})
    by_query = await client.http.get(path, params={"after": event_id})
    assert_refused(by_header, 400, "malformed_event_id")
    assert_refused(by_query, 400, "malformed_event_id")


async def test_a_future_event_id(client: Client) -> None:
    session = await client.create()
    path = f"/v1/sessions/{session['id']}/events"
    problem = assert_refused(await client.http.get(path, headers={"Last-Event-ID": "999"}), 409, "ahead_of_log")
    assert problem["last_seq"] == session["last_seq"]
    assert_refused(await client.http.get(path, params={"after": str(2**63 - 1)}), 409, "ahead_of_log")


async def test_all_invalid_compaction_settings_are_named_together(client: Client) -> None:
    body = {"compaction": {"policy": "threshold", "clip_chars": -1, "background": "yes", "nonsense": 1}}
    session = await client.create()
    for method, path in (("POST", "/v1/sessions"), ("PATCH", f"/v1/sessions/{session['id']}")):
        problem = assert_refused(await client.http.request(method, path, json=body), 422, "invalid_compaction")
        assert {error["field"] for error in problem["errors"]} == {
            "compaction.clip_chars",
            "compaction.background",
            "compaction.nonsense",
        }
        assert all(error["field"] in problem["detail"] for error in problem["errors"])


@pytest.mark.parametrize(
    ("path", "query", "named", "takes"),
    [
        ("/v1/sessions", {"offset": "5"}, ["offset"], "status, limit, cursor, q, sort, parent_id, metadata.KEY"),
        ("/v1/sessions/{id}", {"full": "1"}, ["full"], "none"),
        ("/v1/sessions/{id}/messages", {"cursor": "3"}, ["cursor"], "after, limit, format"),
        ("/v1/sessions/{id}/context", {"step": "1", "Step": "1", "s": ""}, ["Step", "s"], "step"),
        ("/v1/sessions/{id}/steps", {"cursor": "3"}, ["cursor"], "after, limit"),
        ("/v1/sessions/{id}/events", {"since": "3"}, ["since"], "after, until"),
        ("/v1/sessions/{id}/queue", {"x": "1"}, ["x"], "none"),
        ("/v1/sessions/{id}/approvals", {"x": "1"}, ["x"], "none"),
        ("/v1/sessions/{id}/files", {"dir": "."}, ["dir"], "path"),
        ("/v1/usage", {"day": "today"}, ["day"], "since, until, group_by"),
    ],
)
async def test_an_unknown_query_parameter_is_refused_and_named(
    client: Client, path: str, query: dict[str, str], named: list[str], takes: str
) -> None:
    session = await client.create()
    response = await client.http.get(path.format(id=session["id"]), params=query)
    problem = assert_refused(response, 422, "validation_error")
    assert [error["field"] for error in problem["errors"]] == named
    assert all(error["message"].endswith(f"; this route takes {takes}") for error in problem["errors"])
    assert ", ".join(named) in problem["detail"]


async def test_a_request_without_fields_takes_no_other_body(client: Client) -> None:
    session = await client.create()
    paths = (f"/v1/sessions/{session['id']}/seen", f"/v1/sessions/{session['id']}/resume", "/v1/webhooks/x/test")
    for path in paths:
        refused = assert_refused(await client.http.post(path, json={"force": True}), 422, "validation_error")
        assert "force" in refused["detail"]
        assert_refused(await client.http.post(path, json=[]), 422, "validation_error")
        assert_refused(await client.http.post(path, content=b"{", headers=JSON), 400, "invalid_json")
        assert_refused(await client.http.post(path, data={"force": "1"}), 415, "unsupported_media_type")
    assert (await client.http.post(paths[0], json={})).status_code == 204
    assert (await client.http.post(paths[0])).status_code == 204


async def test_unknown_query_parameters_are_refused_except_by_pages_and_probes(
    client: Client,
) -> None:
    refused = await client.http.post("/v1/sessions?dry_run=true", json={})
    assert_refused(refused, 422, "validation_error")
    assert (await client.get("/v1/sessions"))["items"] == []
    for path in ("/healthz", "/readyz", "/metrics", "/"):
        assert (await client.http.get(path, params={"_": "17"})).status_code == 200


async def test_pages_follow_each_other_by_the_cursor_of_the_page_before(client: Client) -> None:
    said = [{"role": "user", "content": f"word {number}"} for number in range(5)]
    session = await client.create(history={"format": "openai", "messages": said})
    path = f"/v1/sessions/{session['id']}/messages"
    description = (await client.get("/openapi.json"))["paths"]["/v1/sessions/{session_id}/messages"]["get"]
    (after,) = (item for item in description["parameters"] if item["name"] == "after")
    assert "`next_cursor` of the previous page" in after["description"]
    texts: list[str] = []
    page = await client.get(path, limit=2)
    while True:
        texts += [message["parts"][0]["text"] for message in page["items"]]
        if page["next_cursor"] is None:
            break
        page = await client.get(path, limit=2, after=page["next_cursor"])
    assert texts == [message["content"] for message in said]


async def test_a_page_of_sessions_with_large_tasks_is_short(client: Client, provider: FakeProvider) -> None:
    provider.respond(lambda _: Reply(Text("Done.")))
    made = [(await client.create(f"{number} " + "x" * 200_000))["id"] for number in range(5)]
    pages = [await client.get("/v1/sessions", limit=100)]
    while (cursor := pages[-1]["next_cursor"]) is not None:
        pages.append(await client.get("/v1/sessions", limit=100, cursor=cursor))
    assert [len(page["items"]) for page in pages] == [2, 2, 1]
    assert [item["id"] for page in pages for item in page["items"]] == made[::-1]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"model": "nobody/model"}, "unknown_model"),
        ({"model": "gpt-5"}, "unknown_model"),
        ({"model": "openai/gpt-5"}, "missing_api_key"),
        ({"model": "anthropic/claude-sonnet-5"}, "missing_api_key"),
        ({"tools": ["fly"]}, "unknown_tool"),
        ({"compaction": "magic"}, "invalid_compaction"),
        ({"compaction": {"policy": "reactive", "clip_chars": -1}}, "invalid_compaction"),
        ({"compaction": {"policy": "reactive", "nonsense": 1}}, "invalid_compaction"),
        ({"compaction": {"model": "nobody/model"}}, "unknown_model"),
        ({"compaction": {"background": 1}}, "invalid_compaction"),
        ({"compaction": {"recent_messages_to_keep": True}}, "invalid_compaction"),
        ({"compaction": {"prune_protect": "5"}}, "invalid_compaction"),
        ({"compaction": {"output_reserve": 10**30}}, "invalid_compaction"),
        ({"metadata": {"k": "x" * 20_000}}, "metadata_too_large"),
    ],
)
async def test_what_this_server_lacks(client: Client, fields: dict[str, Any], code: str) -> None:
    assert_refused(await client.http.post("/v1/sessions", json={"task": "x", **fields}), 422, code)
    assert (await client.get("/v1/sessions"))["items"] == []
    session = await client.create()
    before = await state(client, session["id"])
    assert_refused(await client.http.patch(f"/v1/sessions/{session['id']}", json=fields), 422, code)
    assert await state(client, session["id"]) == before


async def test_a_stream_of_a_new_session_needs_a_task(client: Client) -> None:
    answer = await client.http.post("/v1/sessions", json={}, headers={"Accept": "text/event-stream"})
    assert_refused(answer, 422, "task_required")


async def test_a_repeated_request_is_answered_whatever_has_changed(start_server: StartServer) -> None:
    body = {"id": UNKNOWN, "title": "one", "model": "house/small"}
    house = {"house": {"kind": "openai", "base_url": "http://127.0.0.1:9/v1"}}
    first = start_server(providers=house, models={}, model="house/small")
    async with Client(first.url) as client:
        assert (await client.http.post("/v1/sessions", json=body)).status_code == 201
    await asyncio.to_thread(first.stop)
    async with Client(start_server().url) as client:
        assert_refused(await client.http.post("/v1/sessions", json={**body, "id": None}), 422, "unknown_model")
        again = await client.http.post("/v1/sessions", json=body)
        assert (again.status_code, again.json()["title"]) == (200, "one")


async def test_an_id_belongs_to_one_content(client: Client) -> None:
    session = await client.create(id=UNKNOWN, title="one")
    assert_refused(await client.http.post("/v1/sessions", json={"id": UNKNOWN, "title": "two"}), 409, "id_in_use")
    assert (await client.session(UNKNOWN))["title"] == "one"
    message = "01936f5e-8d2a-7c3b-9f1e-2a4b6c8d0e20"
    await client.post(session["id"], "one", id=message)
    answer = await client.http.post(f"/v1/sessions/{UNKNOWN}/queue", json={"content": "two", "id": message})
    assert_refused(answer, 409, "id_in_use")


async def test_a_full_queue(start_server: StartServer, provider: FakeProvider) -> None:
    provider.script(Reply(Gate("later"), Text("Hello.")))
    async with Client(start_server(queue_limit=3).url) as client:
        session = await client.create("wait")
        await provider.reached("later")
        kept = [(await client.post(session["id"], f"message {n}"))["id"] for n in range(3)]
        path = f"/v1/sessions/{session['id']}/queue"
        answer = await client.http.post(path, json={"content": "one too many"})
        assert_refused(answer, 429, "queue_full")
        assert int(answer.headers["retry-after"]) >= 1
        assert [item["id"] for item in (await client.get(path))["items"]] == kept
        provider.open("later")
        await client.until_idle(session["id"])
        users = [m["id"] for m in await client.messages(session["id"]) if m["role"] == "user"]
        assert users[1:] == kept


async def test_a_delivered_message_and_a_completed_run_cannot_be_changed(client: Client) -> None:
    session, _ = await client.run("say hello")
    base = f"/v1/sessions/{session['id']}"
    message = (await client.messages(session["id"]))[0]["id"]
    assert_refused(await client.http.delete(f"{base}/queue/{message}"), 409, "message_not_pending")
    edited = await client.http.patch(f"{base}/queue/{message}", json={"content": "other"})
    assert_refused(edited, 409, "message_not_pending")
    assert_refused(await client.http.post(f"{base}/resume"), 409, "nothing_to_resume")


async def test_a_running_session_cannot_be_resumed(client: Client, provider: FakeProvider) -> None:
    provider.script(Reply(Gate("later")))
    session = await client.create("wait")
    assert_refused(await client.http.post(f"/v1/sessions/{session['id']}/resume"), 409, "session_running")


BEYOND: tuple[tuple[dict[str, Any], str], ...] = (
    ({"sandbox": "docker"}, "sandbox_not_allowed"),
    ({"sandbox": "local-unsafe"}, "sandbox_not_allowed"),
    ({"sandbox": {"kind": "local-unsafe"}}, "sandbox_not_allowed"),
    ({"sandbox": {"kind": "bubblewrap", "network": True}}, "sandbox_not_allowed"),
    ({"sandbox": {"kind": "bubblewrap", "memory_mb": 2049}}, "sandbox_not_allowed"),
    ({"sandbox": {"kind": "bubblewrap", "memory_mb": 2**53 - 1}}, "sandbox_not_allowed"),
    ({"sandbox": {"kind": "bubblewrap", "cpus": 2.5}}, "sandbox_not_allowed"),
    ({"sandbox": {"kind": "bubblewrap", "pids": 513}}, "sandbox_not_allowed"),
    ({"sandbox": {"kind": "bubblewrap", "image": "evil/image"}}, "sandbox_not_allowed"),
    ({"limits": {"max_steps": 11}}, "limit_not_allowed"),
    ({"limits": {"max_steps": None}}, "limit_not_allowed"),
    ({"limits": {"max_cost_usd": 1.5}}, "limit_not_allowed"),
    ({"limits": {"max_tokens": None}}, "limit_not_allowed"),
)


@pytest.mark.parametrize(("fields", "code"), BEYOND, ids=[json.dumps(fields) for fields, _ in BEYOND])
async def test_a_request_only_tightens_what_the_operator_allows(
    server_with: StartServer, fields: dict[str, Any], code: str
) -> None:
    most = LimitSettings(max_steps=10, max_cost_usd=1, max_tokens=1000)
    async with Client(server_with(session_limits=most).url) as client:
        assert_refused(await client.http.post("/v1/sessions", json={"task": "x", **fields}), 403, code)
        session = await client.create()
        assert session["limits"] == {"max_steps": 10, "max_seconds": None, "max_cost_usd": 1.0, "max_tokens": 1000}
        if "limits" in fields:
            answer = await client.http.patch(f"/v1/sessions/{session['id']}", json=fields)
            assert_refused(answer, 403, code)
        assert await client.session(session["id"]) == session


async def test_tightened_limits_are_accepted(client: Client) -> None:
    sandbox = {"kind": "bubblewrap", "memory_mb": 128, "cpus": 1, "pids": 50.0, "network": False}
    session = await client.create(sandbox=sandbox, limits={"max_steps": 5.0, "max_cost_usd": 0.5})
    assert {name: session["sandbox"][name] for name in sandbox} == sandbox
    assert (session["limits"]["max_steps"], session["limits"]["max_cost_usd"]) == (5, 0.5)


async def test_a_request_for_local_unsafe_is_always_refused(start_server: StartServer) -> None:
    async with Client(start_server(sandbox="local-unsafe").url) as client:
        for asked in ("local-unsafe", {"kind": "local-unsafe"}):
            answer = await client.http.post("/v1/sessions", json={"sandbox": asked})
            assert_refused(answer, 403, "sandbox_not_allowed")
        assert (await client.create())["sandbox"]["kind"] == "local-unsafe"


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address with no server."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"tcp://127.0.0.1:{taken.getsockname()[1]}"


async def test_a_server_whose_engine_is_away_reports_it(start_server: StartServer, nobody: str) -> None:
    async with Client(start_server(sandbox="docker", docker_host=nobody).url) as client:
        assert (await client.http.get("/healthz")).status_code == 200
        ready = assert_refused(await client.http.get("/readyz"), 503, "not_ready")
        assert (ready["components"]["database"]["ok"], ready["components"]["sandbox"]["ok"]) == (True, False)
        answer = await client.http.post("/v1/sessions", json={"task": "x"})
        assert_refused(answer, 503, "sandbox_unavailable")
        assert int(answer.headers["retry-after"]) >= 1
        assert (await client.get("/v1/sessions"))["items"] == []


async def test_a_session_outlives_its_sandbox(start_server: StartServer, nobody: str) -> None:
    async with Client(start_server().url) as client:
        session, _ = await client.run("say hello")
        messages = await client.messages(session["id"])
    async with Client(start_server(sandbox="docker", docker_host=nobody).url) as client:
        assert await client.messages(session["id"]) == messages
        answer = await client.http.get(f"/v1/sessions/{session['id']}/files")
        assert_refused(answer, 503, "sandbox_unavailable")


async def test_a_session_whose_provider_was_removed_from_the_settings(start_server: StartServer) -> None:
    gone = ProviderSettings(kind="openai", base_url="http://127.0.0.1:9/v1")
    async with Client(start_server(providers={"gone": gone}, models={}, model="gone/model").url) as client:
        session = await client.create(model="gone/model")
    async with Client(start_server().url) as client:
        base = f"/v1/sessions/{session['id']}"
        assert (await client.session(session["id"]))["model"] == "gone/model"
        assert_refused(await client.http.get(f"{base}/context"), 422, "unknown_model")
        await client.say(session["id"], "hello")
        failed = await client.session(session["id"])
        assert (failed["outcome"], failed["error"]["code"]) == ("failed", "unknown_model")
        assert (await client.http.patch(base, json={"model": OPENAI})).status_code == 200
        assert (await client.http.post(f"{base}/resume")).status_code == 202
        await client.until_idle(session["id"])
        assert (await client.session(session["id"]))["outcome"] == "completed"


async def test_a_nul_from_a_provider_reaches_no_one(client: Client, provider: FakeProvider) -> None:
    said = "no such \0 thing"
    provider.script(Reply(HttpError(402, body={"error": {"message": said, "type": "invalid_request_error"}})))
    session, events = await client.run("Say hello.")
    assert "no such \ufffd thing" in session["error"]["detail"]
    assert "no such" in json.dumps([event.data for event in events])
    shown = [session, [event.data for event in events], await client.messages(session["id"])]
    assert "\\u0000" not in json.dumps(shown)
