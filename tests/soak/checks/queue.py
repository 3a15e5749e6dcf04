"""Messages: accepted ones are delivered exactly once, in order, with their content; others never."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tests.soak.database import Logged, Stored
from tests.soak.ledger import Said, SessionLedger


def check_order(events: Sequence[Logged]) -> Iterator[str]:
    """Steers and interrupts share one line in order of acceptance, follow-ups come after them; a message that leaves
    the queue is the next of the history."""
    modes: dict[str, str] = {}
    for place, event in enumerate(events):
        message_id = event.data.get("message_id", "")
        if event.type == "message.queued" or event.type == "message.edited":
            modes[message_id] = event.data["mode"]
        elif event.type in ("message.dequeued", "message.withdrawn"):
            if message_id not in modes:
                yield f"{event.seq} {event.type} of {message_id}, which does not wait"
                continue
            if event.type == "message.dequeued":
                yield from _turn(event, modes)
                yield from _arrival(event, events[place + 1] if place + 1 < len(events) else None)
            del modes[message_id]


def _turn(event: Logged, modes: dict[str, str]) -> Iterator[str]:
    urgent = [message_id for message_id, mode in modes.items() if mode != "follow_up"]
    first = (urgent or list(modes))[0]
    if event.data["message_id"] != first:
        yield f"{event.seq} delivers {event.data['message_id']} before {first}"


def _arrival(event: Logged, following: Logged | None) -> Iterator[str]:
    message_id = event.data["message_id"]
    if following is None or following.type != "message.created" or following.data["message"]["id"] != message_id:
        yield f"{event.seq} delivers {message_id}, but is followed by {following and following.type}"


def check_messages(stored: Stored, ledger: SessionLedger) -> Iterator[str]:
    """Everything that the user has said against the log and the tables."""
    of: dict[str, list[Logged]] = defaultdict(list)
    for event in stored.events:
        if event.type.startswith("message."):
            created = event.data.get("message", {}).get("id")
            of[event.data.get("message_id") or created].append(event)
    for said in ledger.said:
        yield from (f"{said.id} ({said.mode}, {said.outcome}): {wrong}" for wrong in _one(said, of[said.id], ledger))
    known = {said.id for said in ledger.said}
    others = [e for e in stored.events if e.type == "message.queued" and e.data["message_id"] not in known]
    if [event.data["content"] for event in others] != [ledger.task]:
        yield f"besides what the user said, {len(others)} messages were queued, not the task alone"
    for event in others:
        task = Said(event.data["message_id"], ledger.task, "steer", 0.0, outcome="accepted")
        yield from (f"the task: {wrong}" for wrong in _one(task, of[task.id], ledger))
    yield from _sequence(ledger.said, of)
    yield from _tables(stored, of)


def _one(said: Said, events: list[Logged], ledger: SessionLedger) -> Iterator[str]:
    kinds = [event.type for event in events]
    queued, left = kinds.count("message.queued"), kinds.count("message.created")
    withdrawn = kinds.count("message.withdrawn")
    if queued > 1 or left > 1 or withdrawn > 1 or left + withdrawn > queued:
        yield f"its events are {kinds}"
        return
    if said.outcome == "accepted" and queued != 1:
        yield "it was accepted and is not in the log"
    if said.outcome == "refused" and queued:
        yield "it was refused and is in the log"
    if said.withdrawn == "accepted" and withdrawn != 1:
        yield f"it was withdrawn, its events are {kinds}"
    if withdrawn and said.withdrawn not in ("accepted", "unknown") and not ledger.cleared:
        yield "it was withdrawn by nobody"
    if queued and not left and not withdrawn and ledger.settled:
        yield f"it was never delivered, its events are {kinds}"
    yield from _content(said, events)


def _content(said: Said, events: list[Logged]) -> Iterator[str]:
    edited = [event.data["content"] for event in events if event.type == "message.edited"]
    must = [edit.content for edit in said.edits if edit.outcome == "accepted"]
    may = [edit.content for edit in said.edits if edit.outcome != "refused"]
    if not set(must) <= set(edited) or not set(edited) <= set(may):
        yield f"edits accepted {must}, in the log {edited}"
    contents = [said.content, *edited]
    for event in events:
        if event.type == "message.created":
            text = "".join(part.get("text", "") for part in event.data["message"]["parts"])
            if text != contents[-1]:
                yield f"delivered as {text!r} instead of {contents[-1]!r}"


def _sequence(said: Sequence[Said], of: dict[str, list[Logged]]) -> Iterator[str]:
    """A message sent after the response to another is behind it."""
    places = {one.id: event.seq for one in said for event in of[one.id] if event.type == "message.queued"}
    accepted = [one for one in said if one.outcome == "accepted" and one.id in places]
    for one in accepted:
        for other in accepted:
            if one.answered_at is not None and one.answered_at < other.sent_at and places[one.id] > places[other.id]:
                yield f"{one.id} was accepted before {other.id} was sent, and stands behind it"


def _tables(stored: Stored, of: dict[str, list[Logged]]) -> Iterator[str]:
    """The queue's rows and the history say the same as the log."""
    user = {row["id"] for row in stored.messages if row["role"] == "user" and not row["is_summary"]}
    for row in stored.queue:
        kinds = [event.type for event in of[row["id"]]]
        want = {"delivered": "message.created", "withdrawn": "message.withdrawn"}.get(row["status"])
        if want is not None and want not in kinds:
            yield f"{row['id']} is {row['status']} in the queue, its events are {kinds}"
        if (row["status"] == "delivered") != (row["id"] in user):
            yield f"{row['id']} is {row['status']} in the queue and {'' if row['id'] in user else 'not '}in the history"
