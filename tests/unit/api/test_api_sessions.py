"""Sessions, queue, history, models and health: status codes, headers, and the calls of the services."""

from __future__ import annotations

import httpx
import pytest

from app.api.routers.sessions import wants_stream
from app.messages import new_id
from app.runtime.values.history import RawOutput
from app.sessions import Session, Status
from tests.unit.api.double import CALL_ID, InMemoryService


async def test_a_new_session_answers_201_with_its_location(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/sessions", json={"task": "Say hello.", "metadata": {"ticket": 7}})
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/v1/sessions/{answer.json()['id']}"
    assert (answer.json()["status"], answer.json()["metadata"]) == ("running", {"ticket": 7})


async def test_a_repeated_create_answers_200_with_the_same_session(client: httpx.AsyncClient) -> None:
    body = {"id": new_id(), "title": "Once"}
    first = await client.post("/v1/sessions", json=body)
    again = await client.post("/v1/sessions", json=body)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
    assert again.headers["location"] == first.headers["location"]


async def test_an_id_used_with_other_content_is_a_conflict(client: httpx.AsyncClient) -> None:
    session_id = new_id()
    await client.post("/v1/sessions", json={"id": session_id, "title": "Once"})
    answer = await client.post("/v1/sessions", json={"id": session_id, "title": "Twice"})
    assert (answer.status_code, answer.json()["code"]) == (409, "id_in_use")


async def test_a_call_that_waits_is_decided_once(client: httpx.AsyncClient, session: Session) -> None:
    path = f"/v1/sessions/{session.id}/approvals"
    (waiting,) = (await client.get(path)).json()["items"]
    assert (waiting["call_id"], waiting["arguments"]) == (CALL_ID, {"command": "ls"})
    assert (await client.post(f"{path}/call_0", json={"decision": "approve"})).json()["code"] == "approval_not_found"
    answer = await client.post(f"{path}/{CALL_ID}", json={"decision": "deny", "reason": "No."})
    assert (answer.status_code, answer.content) == (204, b"")
    assert (await client.post(f"{path}/{CALL_ID}", json={"decision": "approve"})).json()["code"] == "approval_resolved"
    assert (await client.get(path)).json()["items"] == []


async def test_a_history_reaches_the_service_unchanged(client: httpx.AsyncClient, service: InMemoryService) -> None:
    history = {"format": "anthropic", "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}, 5]}
    answer = await client.post("/v1/sessions", json={"history": history})
    body = service.bodies[answer.json()["id"]]
    assert body.model_dump()["history"] == history


@pytest.mark.parametrize(
    "history",
    [{"format": "xml", "messages": []}, {"messages": []}, {"format": "openai"}, {"format": "openai", "messages": {}}],
)
async def test_a_history_requires_a_format_and_a_list(client: httpx.AsyncClient, history: object) -> None:
    answer = await client.post("/v1/sessions", json={"history": history})
    assert (answer.status_code, answer.json()["code"]) == (422, "validation_error")
    assert answer.json()["errors"][0]["field"].startswith("history.")


async def test_the_list_passes_its_filters_on(client: httpx.AsyncClient, service: InMemoryService) -> None:
    named: dict[str, str | int] = {"limit": 2, "cursor": "abc", "sort": "activity", "parent_id": "p"}
    answer = await client.get("/v1/sessions", params={**named, "status": "idle", "q": "a\x00b", "metadata.k": "v"})
    assert (answer.json()["items"], answer.json()["next_cursor"]) == ([], None)
    assert service.listed == {**named, "status": Status.IDLE, "q": "a\ufffdb", "metadata": {"k": "v"}}


async def test_a_session_is_read_changed_and_deleted(client: httpx.AsyncClient, session: Session) -> None:
    path = f"/v1/sessions/{session.id}"
    assert (await client.get(path)).json()["id"] == session.id
    assert (await client.patch(path, json={"title": "New"})).json()["title"] == "New"
    deleted = await client.delete(path)
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert (await client.get(path)).status_code == 404


@pytest.mark.parametrize("session_id", ["x", "0", "..", "01A2012A-2A91-702A-96C5-66DF61609358", "%00", "é", "{}"])
async def test_an_id_that_is_not_a_uuid_is_not_found(client: httpx.AsyncClient, session_id: str) -> None:
    answer = await client.get(f"/v1/sessions/{session_id}/steps")
    assert answer.status_code == 404
    assert answer.json()["status"] == 404


async def test_cancel_works_with_and_without_a_body(
    client: httpx.AsyncClient, session: Session, service: InMemoryService
) -> None:
    path = f"/v1/sessions/{session.id}"
    await client.post(f"{path}/queue", json={"content": "Wait."})
    kept = await client.post(f"{path}/cancel")
    assert (kept.status_code, kept.json()["id"], len(service.queues[session.id])) == (202, session.id, 1)
    cleared = await client.post(f"{path}/cancel", json={"clear_queue": True})
    assert (cleared.status_code, service.queues[session.id]) == (202, {})


async def test_a_fork_answers_201_with_its_location(client: httpx.AsyncClient, session: Session) -> None:
    path = f"/v1/sessions/{session.id}/fork"
    for answer in (await client.post(path), await client.post(path, json={"title": "Another way"})):
        assert answer.status_code == 201
        assert answer.headers["location"] == f"/v1/sessions/{answer.json()['id']}"
        assert answer.json()["parent_id"] == session.id
    assert (await client.post(path, json={"after_message_id": new_id()})).json()["code"] == "message_not_found"
    for body in ({"after_message_id": ""}, {"title": ""}, {"task": "x"}):
        assert (await client.post(path, json=body)).status_code == 422


async def test_resume_answers_202_or_a_conflict(
    client: httpx.AsyncClient, session: Session, service: InMemoryService
) -> None:
    path = f"/v1/sessions/{session.id}/resume"
    refused = await client.post(path)
    assert (refused.status_code, refused.json()["code"]) == (409, "nothing_to_resume")
    await service.finish(session.id)
    resumed = await client.post(path)
    assert (resumed.status_code, resumed.json()["id"]) == (202, session.id)


async def test_a_message_is_queued_edited_and_withdrawn(client: httpx.AsyncClient, session: Session) -> None:
    path = f"/v1/sessions/{session.id}/queue"
    queued = await client.post(path, json={"content": "Use tabs.", "mode": "follow_up"})
    assert queued.status_code == 202
    assert queued.json() == {"id": queued.json()["id"], "position": 1, "mode": "follow_up", "status": "pending"}
    message = f"{path}/{queued.json()['id']}"
    edited = await client.patch(message, json={"content": "Use spaces."})
    assert (edited.status_code, edited.json()["content"], edited.json()["mode"]) == (200, "Use spaces.", "follow_up")
    assert [item["content"] for item in (await client.get(path)).json()["items"]] == ["Use spaces."]
    assert (await client.delete(message)).status_code == 204
    missing = await client.delete(message)
    assert (missing.status_code, missing.json()["code"]) == (404, "message_not_found")
    malformed = await client.delete(f"{path}/7")
    assert (malformed.status_code, malformed.json()["code"]) == (404, "message_not_found")


async def test_a_full_queue_says_when_to_retry(client: httpx.AsyncClient, session: Session) -> None:
    path = f"/v1/sessions/{session.id}/queue"
    answers = [await client.post(path, json={"content": "More."}) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [202, 202, 202, 429]
    assert answers[-1].headers["retry-after"] == "1"
    assert answers[-1].json()["code"] == "queue_full"


async def test_history_answers_its_pages(client: httpx.AsyncClient, session: Session, service: InMemoryService) -> None:
    path = f"/v1/sessions/{session.id}"
    service.outputs[CALL_ID] = RawOutput(size=0, data=b"")
    assert (await client.get(f"{path}/messages")).json() == {"items": [], "last_seq": 1, "next_cursor": None}
    assert (await client.get(f"{path}/steps?limit=500")).json()["items"] == []
    assert (await client.get(f"{path}/context")).json()["system"]["tokens"] == 4
    assert (await client.get(f"{path}/context?step=9")).json()["code"] == "step_not_found"
    assert (await client.get(f"{path}/tool-calls/{CALL_ID}")).json()["call"]["arguments"] == {"a": 1}
    assert (await client.get(f"{path}/tool-calls/other")).json()["code"] == "call_not_found"


@pytest.mark.parametrize("format", ["openai", "anthropic"])
async def test_the_history_is_exported_on_demand(
    client: httpx.AsyncClient, session: Session, service: InMemoryService, format: str
) -> None:
    answer = await client.get(f"/v1/sessions/{session.id}/messages?format={format}&after=7&limit=3")
    assert answer.json() == {"items": [{"role": "user", "content": "Hello."}], "last_seq": 1, "next_cursor": None}
    assert service.listed == {"format": format, "after": "7", "limit": 3}


@pytest.mark.parametrize("query", ["format=", "format=xml", "format=OpenAI"])
async def test_unknown_export_formats_are_refused(client: httpx.AsyncClient, session: Session, query: str) -> None:
    answer = await client.get(f"/v1/sessions/{session.id}/messages?{query}")
    assert (answer.status_code, answer.json()["code"]) == (422, "validation_error")


async def test_models_and_usage(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/models")).json()["items"][0]["name"] == "scripted/demo"
    assert (await client.get("/v1/usage")).json()["items"] == []


async def test_readiness_names_the_components_whether_ready_or_not(
    client: httpx.AsyncClient, service: InMemoryService
) -> None:
    ready = await client.get("/readyz")
    assert (ready.status_code, ready.json()["components"]["database"]["ok"]) == (200, True)
    service.ready = False
    waiting = await client.get("/readyz")
    assert waiting.status_code == 503
    assert waiting.headers["content-type"] == "application/problem+json"
    assert waiting.json()["code"] == "not_ready"
    assert waiting.json()["components"] == {"database": {"ok": False, "status": "unavailable", "detail": "memory"}}


async def test_health_supports_head(client: httpx.AsyncClient) -> None:
    assert (await client.get("/healthz")).json()["status"] == "ok"
    assert (await client.head("/healthz")).status_code == 200


@pytest.mark.parametrize(
    ("accept", "stream"),
    [
        ("*/*", False),
        ("", False),
        ("application/json", False),
        ("text/event-stream", True),
        ("TEXT/Event-Stream; charset=utf-8", True),
        ("text/*", False),
        ("text/event-stream;q=0", False),
        ("text/event-stream;q=nonsense", False),
        ("application/json, text/event-stream", False),
        ("text/event-stream, application/json", True),
        ("application/json;q=0.5, text/event-stream", True),
        ("text/event-stream;q=0.5, */*", True),
    ],
)
def test_which_accept_headers_request_a_stream(accept: str, stream: bool) -> None:
    assert wants_stream(accept) is stream
