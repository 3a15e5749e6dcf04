"""A session's log in pages: the durable events of its stream, as data."""

from __future__ import annotations

from typing import Any

import pytest

from app.api.live_events import LIVE_EVENTS
from app.events import DURABLE_EVENTS
from tests.behavior.harness import Client, Event, command, durable
from tests.behavior.test_bad_input import UNKNOWN, assert_refused
from tests.provider import FakeProvider, Reply, Text

pytestmark = pytest.mark.shared_server

ECHO = command("echo 'eins\tzwei \U0001f600 drei'")


@pytest.fixture
def three_steps(provider: FakeProvider) -> None:
    provider.script(Reply(Text("I „look“."), ECHO), Reply(ECHO), Reply(Text("Done.")))


async def read(client: Client, session_id: str, **params: Any) -> list[dict[str, Any]]:
    """The items of all pages, one after the other; none has more than `limit`."""
    items: list[dict[str, Any]] = []
    while True:
        page = await client.get(f"/v1/sessions/{session_id}/log", **params)
        assert page.keys() == {"items", "last_seq", "next_cursor"}
        assert len(page["items"]) <= params.get("limit", 100)
        items += page["items"]
        if page["next_cursor"] is None:
            return items
        params["after"] = page["next_cursor"]


def as_items(events: list[Event]) -> list[dict[str, Any]]:
    return [{"seq": event.id, "type": event.type, "data": event.data} for event in durable(events)]


@pytest.mark.usefixtures("three_steps")
async def test_it_has_what_the_stream_has(client: Client) -> None:
    session, events = await client.run("look twice")
    expected = as_items(events)
    assert len(expected) > 15
    for limit in (1, 4, len(expected), 500):
        assert await read(client, session["id"], limit=limit) == expected
        assert await read(client, session["id"], limit=limit, order="desc") == expected[::-1]
    page = await client.get(f"/v1/sessions/{session['id']}/log")
    assert (page["items"], page["last_seq"], page["next_cursor"]) == (expected, session["last_seq"], None)


@pytest.mark.usefixtures("three_steps")
async def test_it_continues_from_any_event_in_either_direction(client: Client) -> None:
    session, events = await client.run("look twice")
    expected, last = as_items(events), session["last_seq"]
    for after in (0, 1, 7, last - 1, last, last + 5):
        assert await read(client, session["id"], after=after) == expected[after:]
        before = expected[: max(after - 1, 0)]
        assert await read(client, session["id"], after=after, order="desc") == before[::-1]


@pytest.mark.usefixtures("three_steps")
async def test_only_events_of_some_types(client: Client) -> None:
    session, events = await client.run("look twice")
    for types in (["tool.call"], ["tool.result", "step.finished", "session.idle"], ["prune.completed"]):
        expected = [item for item in as_items(events) if item["type"] in types]
        for limit in (1, 2, 500):
            found = await read(client, session["id"], types=",".join(types), limit=limit)
            assert found == expected
            found = await read(client, session["id"], types=",".join([*types, types[0]]), limit=limit, order="desc")
            assert found == expected[::-1]
    every = ",".join(event.type for event in DURABLE_EVENTS)
    assert await read(client, session["id"], types=every) == as_items(events)


async def test_a_running_session_is_read_up_to_its_latest_event(client: Client) -> None:
    session = await client.create()
    page = await client.get(f"/v1/sessions/{session['id']}/log", order="desc", limit=1)
    assert [item["type"] for item in page["items"]] == ["session.created"]
    assert (page["last_seq"], page["next_cursor"]) == (1, None)
    await client.post(session["id"], "hello")
    items = await read(client, session["id"], after=1)
    assert [item["seq"] for item in items[:2]] == [2, 3]


@pytest.mark.parametrize(
    ("params", "status", "code", "field"),
    [
        ({"types": "nonsense"}, 422, "validation_error", "types"),
        ({"types": "tool.call,Tool.Result"}, 422, "validation_error", "types"),
        ({"types": "tool.call, tool.result"}, 422, "validation_error", "types"),
        ({"types": ""}, 422, "validation_error", "types"),
        ({"types": "tool.call,"}, 422, "validation_error", "types"),
        *(({"types": event.type}, 422, "validation_error", "types") for event in LIVE_EVENTS),
        ({"types": "x" * 10_000}, 422, "validation_error", "types"),
        ({"types": "\x00\x1b[31m"}, 422, "validation_error", "types"),
        ({"order": "newest"}, 422, "validation_error", "order"),
        ({"limit": 0}, 422, "validation_error", "limit"),
        ({"limit": 501}, 422, "validation_error", "limit"),
        ({"before": 5}, 422, "validation_error", "before"),
        ({"after": "-1"}, 400, "malformed_cursor", None),
        ({"after": "1.5"}, 400, "malformed_cursor", None),
        ({"after": "9" * 30}, 400, "malformed_cursor", None),
    ],
)
async def test_invalid_parameters_are_refused(
    client: Client, params: dict[str, Any], status: int, code: str, field: str | None
) -> None:
    session = await client.create()
    problem = assert_refused(await client.http.get(f"/v1/sessions/{session['id']}/log", params=params), status, code)
    if field is not None:
        assert [error["field"] for error in problem["errors"]] == [field]
        assert len(problem["detail"]) < 500


async def test_an_unknown_session_has_no_log(client: Client) -> None:
    assert_refused(await client.http.get(f"/v1/sessions/{UNKNOWN}/log"), 404, "session_not_found")
    session = await client.create()
    await client.http.delete(f"/v1/sessions/{session['id']}")
    assert_refused(await client.http.get(f"/v1/sessions/{session['id']}/log"), 404, "session_not_found")
