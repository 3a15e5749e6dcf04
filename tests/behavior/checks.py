"""Invariants of every session's log and history, and helpers to follow a session."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from tests.behavior.harness import Client, Event, of_type
from tests.provider import FakeProvider, RecordedRequest

CLOSED = {"completed", "error", "denied", "cancelled", "interrupted"}


async def log_of(client: Client, session_id: str) -> list[Event]:
    """All durable events so far, from the log."""
    last = (await client.session(session_id))["last_seq"]
    found: list[Event] = []
    async for event in client.events(session_id):
        if event.id is not None:
            found.append(event)
            if event.id >= last:
                break
    return found


async def assert_sound(client: Client, session_id: str) -> list[Event]:
    """Checks the log and the history of an idle session; returns its durable events."""
    session = await client.session(session_id)
    assert session["status"] == "idle"
    events = await log_of(client, session_id)
    assert [event.id for event in events] == list(range(1, session["last_seq"] + 1))
    assert_runs(events)
    assert_steps(events)
    assert_queue(events)
    assert_subagents(events)
    assert_history(await client.messages(session_id))
    return events


def assert_runs(events: Sequence[Event]) -> None:
    """Each run starts once and ends once, and no agent event occurs outside a run."""
    running = False
    for event in events:
        if event.type == "session.running":
            assert not running or event.data["trigger"] == "recovery"
            running = True
        elif event.type == "session.idle":
            assert running
            running = False
        elif event.type.startswith(("step.", "text.", "tool.", "message.dequeued")):
            assert running, f"{event.type} {event.id} while idle"
    assert not running


def assert_steps(events: Sequence[Event]) -> None:
    """Every step has one `step.finished`, after the results of its calls, and a separate message for each attempt."""
    attempts: dict[int, list[int]] = defaultdict(list)
    started: Counter[str] = Counter()
    for event in of_type(list(events), "step.started"):
        attempts[event.data["step"]].append(event.data["attempt"])
        started[event.data["message_id"]] += 1
    assert list(attempts) == list(range(1, len(attempts) + 1))
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in attempts.values())
    assert set(started.values()) <= {1}
    finished = [event.data["step"] for event in of_type(list(events), "step.finished")]
    assert finished == list(attempts), f"finished {finished}, started {dict(attempts)}"
    assert_calls(events)


def assert_calls(events: Sequence[Event]) -> None:
    """Every call has exactly one result, between its own event and the end of its step; a call of a voided attempt has
    none."""
    void = {event.data["message_id"] for event in of_type(list(events), "step.retrying")}
    open_calls: set[str] = set()
    for event in events:
        if event.type == "tool.call" and event.data["message_id"] not in void:
            open_calls.add(event.data["call_id"])
        elif event.type == "tool.result":
            open_calls.remove(event.data["call_id"])
        elif event.type == "step.finished":
            assert not open_calls


def assert_subagents(events: Sequence[Event]) -> None:
    """Every sub-agent that was started has ended, once."""
    started, finished = of_type(list(events), "subagent.started"), of_type(list(events), "subagent.finished")
    ids = [sorted(event.data["subagent_id"] for event in ends) for ends in (started, finished)]
    assert ids[0] == ids[1]


def assert_queue(events: Sequence[Event]) -> None:
    """Every dequeued message was queued before, once, and became the next message."""
    pending: set[str] = set()
    for place, event in enumerate(events):
        if event.type == "message.queued":
            pending.add(event.data["message_id"])
        elif event.type in ("message.dequeued", "message.withdrawn"):
            pending.remove(event.data["message_id"])
        if event.type == "message.dequeued":
            created = events[place + 1]
            assert created.type == "message.created"
            assert created.data["message"]["id"] == event.data["message_id"]


def assert_history(messages: Sequence[dict[str, Any]]) -> None:
    """Each message once; results right after their calls, in order; no call without a result."""
    assert len({message["id"] for message in messages}) == len(messages)
    assert [message["seq"] for message in messages] == sorted(message["seq"] for message in messages)
    live = [message for message in messages if message["voided_at"] is None]
    for place, message in enumerate(live):
        calls = [part["call_id"] for part in message["parts"] if part["type"] == "tool_call"]
        if calls:
            following = live[place + 1]
            assert following["role"] == "tool"
            assert [part["call_id"] for part in following["parts"] if part["type"] != "image"] == calls
        assert all(part.get("status", "completed") in CLOSED for part in message["parts"])


def requests_of(provider: FakeProvider, task: str) -> list[RecordedRequest]:
    """The requests of the session with this task; one wire format merges messages that follow it unanswered."""
    return [request for request in provider.requests if request.first_user_text.startswith(task)]


def user_texts(messages: Sequence[dict[str, Any]]) -> list[str]:
    """The texts of the user's messages, in order."""
    return [message["parts"][0]["text"] for message in messages if message["role"] == "user"]


def at(event: Event) -> datetime:
    return datetime.fromisoformat(event.data["at"])


class Follower:
    """Reads a session's stream in the background."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._news = asyncio.Condition()

    async def add(self, event: Event) -> None:
        async with self._news:
            self.events.append(event)
            self._news.notify_all()

    async def seen(self, wanted: Callable[[Event], bool], count: int = 1) -> Event:
        """Waits for the `count`-th matching event."""

        def matching() -> list[Event]:
            return [event for event in self.events if wanted(event)]

        async with asyncio.timeout(60), self._news:
            await self._news.wait_for(lambda: len(matching()) >= count)
        return matching()[count - 1]

    async def type(self, name: str, count: int = 1) -> Event:
        return await self.seen(lambda event: event.type == name, count)


@asynccontextmanager
async def following(client: Client, session_id: str) -> AsyncIterator[Follower]:
    """Reads a session's stream from its first event until exit."""
    follower = Follower()

    async def read() -> None:
        async for event in client.events(session_id):
            await follower.add(event)

    task = asyncio.create_task(read())
    try:
        yield follower
    finally:
        task.cancel()
        await asyncio.wait({task})
