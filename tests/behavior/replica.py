"""A client's view of one session, built only from the API contract, without the server's code.

Events are upserts by id. A live delta that breaks the contract (a gap, a repeat, text for a closed part) fails at once,
so every test that reads through a replica checks the stream as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.behavior.harness import Event
from tests.databases import in_cluster

Json = dict[str, Any]

USAGE = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
PART_FIELDS = {
    "text": ("text", "interrupted"),
    "reasoning": ("text", "interrupted"),
    "tool_call": ("call_id", "name", "arguments"),
    "tool_result": (
        "call_id",
        "name",
        "status",
        "output",
        "truncated",
        "bytes",
        "exit_code",
        "duration_ms",
        "compacted_at",
    ),
    "image": ("media_type", "digest", "bytes", "width", "height", "path", "of_call", "compacted_at"),
    "compaction_marker": ("round",),
}
"""A part as clients know it. A pruned result's `original_tokens` is not included: no event carries tokens of parts, so
that number comes only with a snapshot."""
LIVE_TYPES = {"text.delta": "text", "reasoning.delta": "reasoning", "tool.arguments": "tool_call"}
SESSION_FIELDS = ("status", "outcome", "steps", "title", "model")


@dataclass
class Rounds:
    """A client's view of compactions.

    - `Message.round` is known for the model's messages and for results, not for the user's: a round leaves some of them
      out, and no event names these.
    - The session's usage is known except during a round: its model calls count in the session's total at once, but in
      events only when the round ends. A client that loaded its snapshot in between would count them twice, and is not
      `sure_of_usage`.
    """

    status: dict[int, str] = field(default_factory=dict)
    last_message: dict[int, str | None] = field(default_factory=dict)
    completed_at: dict[int, str] = field(default_factory=dict)
    background: set[int] = field(default_factory=set)
    usage: dict[int, Json] = field(default_factory=dict)
    sure_of_usage: bool = True
    _last_at: str | None = None
    _known_until: int = 0

    def load(self, rounds: Json, state: Json) -> None:
        for item in rounds["items"]:
            self.status[item["round"]] = item["status"]
            self.last_message[item["round"]] = item["last_message_id"]
            self.usage[item["round"]] = item["usage"]
            if item["status"] == "running":
                self.sure_of_usage = False
                if item["reason"] == "threshold" and not state["in_progress"]:
                    self.background.add(item["round"])
        completed = [number for number, status in self.status.items() if status in ("completed", "reverted")]
        if completed:
            self.completed_at[max(completed)] = state["last_at"]
        self._last_at = state["last_at"]
        self._known_until = rounds["last_seq"]

    def apply(self, event: Event) -> dict[str, int]:
        """Applies an event; returns the usage that it adds to the session's."""
        kind, data, nothing = event.type.removeprefix("compaction."), event.data, dict.fromkeys(USAGE, 0)
        assert event.id is not None
        if kind == event.type:
            return nothing
        if kind == "completed":
            self.completed_at[data["round"]] = data["at"]
        if event.id <= self._known_until:
            return nothing
        number = data["round"]
        self._advance(number, kind, data)
        before, spent = self.usage.get(number, nothing), data.get("usage")
        if spent is None or kind == "reverted":
            return nothing
        if kind == "failed":
            # Only the rung's usage; other final events carry the round's total.
            spent = {name: before[name] + spent[name] for name in USAGE}
        self.usage[number] = spent
        return {name: spent[name] - before[name] for name in USAGE}

    def _advance(self, number: int, kind: str, data: Json) -> None:
        if kind == "started":
            assert number not in self.status, f"round {number} began twice"
            self.status[number] = "running"
            if data["background"]:
                self.background.add(number)
        elif kind == "failed":
            assert self.status[number] == "running", f"a rung of round {number}, which is {self.status[number]}"
            self.status[number] = "running" if data["next"] is not None else "failed"
        else:
            before = "completed" if kind == "reverted" else "running"
            assert self.status[number] == before, f"round {number} {kind} after {self.status[number]}"
            self.status[number] = kind
        if kind == "completed":
            self.last_message[number] = data["last_message_id"]
            self._last_at = data["at"]

    def time(self, number: int) -> str | None:
        """When a round was completed, if known."""
        return self.completed_at.get(number, "unknown")

    def covering(self, message: Json, places: dict[str, int]) -> int | None:
        """The round that covers a message of the model's, or results: of all that do, the latest, which covers the
        most."""
        if message["role"] not in ("assistant", "tool") or message["is_summary"]:
            return None
        ends = {number: places.get(self.last_message[number] or "", 0) for number in self._of("completed")}
        over = [(end, number) for number, end in ends.items() if message["seq"] <= end]
        return max(over)[1] if over else None

    def _of(self, *statuses: str) -> list[int]:
        return [number for number, status in self.status.items() if status in statuses]

    @property
    def state(self) -> Json:
        """As shown by the session."""
        return {
            "count": len(self._of("completed", "reverted")),
            "last_at": self._last_at,
            "in_progress": bool(set(self._of("running")) - self.background),
        }


@dataclass
class Replica:
    """The state of one client. Call `connect` for each connection and `apply` for each of its events."""

    session: Json = field(default_factory=dict)
    rounds: Rounds = field(default_factory=lambda: Rounds())
    messages: dict[str, Json] = field(default_factory=dict)
    queue: dict[str, Json] = field(default_factory=dict)
    steps: dict[int, str] = field(default_factory=dict)
    plan: list[Json] = field(default_factory=list)
    previews: dict[str, str] = field(default_factory=dict)
    live: dict[str, str] = field(default_factory=dict)
    log: list[Event] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=lambda: dict.fromkeys(USAGE, 0))
    last_seq: int = 0
    deleted: bool = False
    _known_until: int = 0
    _ends: dict[str, int] = field(default_factory=dict)
    _closed: set[str] = field(default_factory=set)
    _voided: set[str] = field(default_factory=set)
    _loaded: set[str] = field(default_factory=set)

    # loading

    def load(
        self, session: Json, messages: Sequence[Json], queue: Json, last_seq: int, rounds: Json | None = None
    ) -> None:
        """Loads a snapshot; `last_seq` is the oldest of its parts, from which to follow the events. `rounds` is the
        list of compactions, required for a session that has any."""
        self.session = session
        self.rounds.load(rounds or {"items": [], "last_seq": 0}, session["compaction"])
        self.usage = {name: session["usage"][name] for name in USAGE}
        self.messages = {message["id"]: _stored(message) for message in messages if message["voided_at"] is None}
        self._voided = {message["id"] for message in messages if message["voided_at"] is not None}
        self._loaded = {part["id"] for message in messages for part in message["parts"]}
        self.queue = {item["id"]: item for item in queue["items"]}
        self.last_seq = last_seq
        self._known_until = session["last_seq"]

    def connect(self) -> None:
        """Starts a new connection: the first delta of each part replaces its known text."""
        self._ends.clear()

    # following

    def apply(self, event: Event) -> None:
        if event.id is None:
            self._delta(event)
            return
        assert event.id == self.last_seq + 1, f"after event {self.last_seq} came {event.id}"
        self.last_seq = event.id
        self.log.append(event)
        handler = _HANDLERS.get(event.type)
        assert handler is not None, f"unknown event {event.type}"
        handler(self, event.data, event.id)
        spent = self.rounds.apply(event)
        if event.id > self._known_until:
            self.usage = {name: count + spent[name] for name, count in self.usage.items()}
        self._mark(event)

    def _mark(self, event: Event) -> None:
        """Sets and removes the marks of cleared outputs. Outputs cleared by a round carry its time."""
        if event.type not in ("prune.completed", "compaction.reverted"):
            return
        data = event.data
        for part in (part for message in self.messages.values() for part in message["parts"].values()):
            keys = [part["id"], part["call_id"] if part["type"] == "tool_result" else None]
            cleared = {*data["call_ids"], *data.get("image_ids", ())} if event.type == "prune.completed" else set()
            if not cleared.isdisjoint(keys):
                part["compacted_at"] = data["at"]
            elif event.type == "compaction.reverted" and part.get("compacted_at") == self.rounds.time(data["round"]):
                part["compacted_at"] = None

    def _delta(self, event: Event) -> None:
        data = event.data
        part_id, offset, text = data["part_id"], data["offset"], data["text"]
        late = part_id in self._closed | self._loaded or data.get("message_id") in self._voided
        if in_cluster() and late:
            # Text from another node may come after the end of its part, which was read from the log: clients ignore it.
            return
        assert part_id not in self._closed, f"{event.type} for a part that is closed"
        assert data.get("message_id") not in self._voided, f"{event.type} for a message that is void"
        assert text, "an empty delta"
        if event.type == "tool.output":
            assert offset >= self._ends.get(part_id, 0), "a preview that goes back"
            self.previews[data["call_id"]] = (self.previews[data["call_id"]] if part_id in self._ends else "") + text
        else:
            assert offset == self._ends.get(part_id, 0), f"{event.type} at {offset}, not {self._ends.get(part_id, 0)}"
            self.live[part_id] = (self.live[part_id] if part_id in self._ends else "") + text
            part = {"id": part_id, "index": data["index"], "type": LIVE_TYPES[event.type], "text": self.live[part_id]}
            self.messages[data["message_id"]]["parts"][part_id] = part
        self._ends[part_id] = offset + len(text)

    def _close(self, part_id: str, text: str) -> None:
        seen = self.live.pop(part_id, "")
        assert text.startswith(seen), f"what was shown is not how the part begins: {seen!r}, {text!r}"
        self._closed.add(part_id)

    def _put(self, kind: str, data: Json, message: Json | None) -> None:
        if message is None:
            assert data["message_id"] in self._voided, "a part of a message that nobody knows"
            return
        part = {"id": data["part_id"], "index": data["index"], "type": kind}
        message["parts"][data["part_id"]] = part | {name: data.get(name) for name in PART_FIELDS[kind]}

    def _text_completed(self, data: Json, _seq: int) -> None:
        self._close(data["part_id"], data["text"])
        self._put("text", data, self.messages.get(data["message_id"]))

    def _reasoning_completed(self, data: Json, _seq: int) -> None:
        self._close(data["part_id"], data["text"])
        self._put("reasoning", data, self.messages.get(data["message_id"]))

    def _tool_called(self, data: Json, _seq: int) -> None:
        self.live.pop(data["part_id"], None)
        self._closed.add(data["part_id"])
        self._put("tool_call", data, self.messages.get(data["message_id"]))

    def _tool_resulted(self, data: Json, seq: int) -> None:
        self.previews.pop(data["call_id"], None)
        self._closed.add(data["part_id"])
        message = self.messages.setdefault(data["message_id"], _message(data["message_id"], seq, "tool"))
        self._put("tool_result", data, message)
        for image in data.get("images", ()):
            known = {name: image.get(name) for name in ("id", "index", "type", *PART_FIELDS["image"])}
            message["parts"][image["id"]] = known

    def _message_created(self, data: Json, _seq: int) -> None:
        self.messages[data["message"]["id"]] = _stored(data["message"])

    def _step_started(self, data: Json, seq: int) -> None:
        if data["message_id"] not in self._voided:
            self.messages.setdefault(data["message_id"], _message(data["message_id"], seq, "assistant"))
        self.session["steps"] = max(self.session["steps"], data["step"])

    def _step_retrying(self, data: Json, _seq: int) -> None:
        self._voided.add(data["message_id"])
        self.messages.pop(data["message_id"], None)

    def _step_finished(self, data: Json, seq: int) -> None:
        assert data["step"] not in self.steps, "a step that finished twice"
        self.steps[data["step"]] = data["finish_reason"]
        self._spent(data, seq)

    def _spent(self, data: Json, seq: int) -> None:
        if seq > self._known_until:
            self.usage = {name: count + data["usage"][name] for name, count in self.usage.items()}

    def _session_changed(self, data: Json, _seq: int) -> None:
        self.session = dict(data["session"])

    def _session_deleted(self, data: Json, _seq: int) -> None:
        self.deleted = True

    def _session_running(self, _data: Json, _seq: int) -> None:
        self.session |= {"status": "running", "outcome": None}

    def _session_idle(self, data: Json, _seq: int) -> None:
        self.session |= {"status": "idle", "outcome": data["outcome"]}

    def _queued(self, data: Json, _seq: int) -> None:
        self.queue[data["message_id"]] = {"content": data["content"], "mode": data["mode"]}

    def _left_queue(self, data: Json, _seq: int) -> None:
        self.queue.pop(data["message_id"], None)

    def _workspace(self, data: Json, _seq: int) -> None:
        """About files, which are not part of the state."""

    def _plan_updated(self, data: Json, _seq: int) -> None:
        self.plan = data["items"]

    def _noted(self, _data: Json, _seq: int) -> None:
        pass

    # comparing

    @property
    def view(self) -> Json:
        """Everything two clients of one session must agree on once it is idle."""
        places = {id: int(message["seq"]) for id, message in self.messages.items()}
        messages = [{**_plain(m), "round": self.rounds.covering(m, places)} for m in self.messages.values()]
        return {
            "session": {name: self.session[name] for name in SESSION_FIELDS},
            "compaction": self.rounds.state,
            "messages": sorted(messages, key=lambda m: int(m["seq"])),
            "queue": {id: (item["content"], item["mode"]) for id, item in self.queue.items()},
            "usage": self.usage,
            "last_seq": self.last_seq,
        }


_HANDLERS: dict[str, Callable[[Replica, Json, int], None]] = {
    "session.created": Replica._session_changed,
    "session.updated": Replica._session_changed,
    "session.deleted": Replica._session_deleted,
    "session.running": Replica._session_running,
    "session.idle": Replica._session_idle,
    "session.recovered": Replica._noted,
    "source.started": Replica._noted,
    "source.completed": Replica._noted,
    "source.failed": Replica._noted,
    "command.started": Replica._noted,
    "command.ended": Replica._noted,
    "subagent.started": Replica._noted,
    "subagent.finished": Replica._spent,
    "mcp.ready": Replica._noted,
    "mcp.failed": Replica._noted,
    "message.queued": Replica._queued,
    "message.edited": Replica._queued,
    "message.withdrawn": Replica._left_queue,
    "message.dequeued": Replica._left_queue,
    "message.created": Replica._message_created,
    "step.started": Replica._step_started,
    "step.retrying": Replica._step_retrying,
    "step.finished": Replica._step_finished,
    "text.completed": Replica._text_completed,
    "reasoning.completed": Replica._reasoning_completed,
    "tool.call": Replica._tool_called,
    "tool.result": Replica._tool_resulted,
    "plan.updated": Replica._plan_updated,
    "checkpoint.failed": Replica._workspace,
    "workspace.restored": Replica._workspace,
    "prune.completed": Replica._noted,
    "compaction.started": Replica._noted,
    "compaction.completed": Replica._noted,
    "compaction.failed": Replica._noted,
    "compaction.retrying": Replica._noted,
    "compaction.cancelled": Replica._noted,
    "compaction.reverted": Replica._noted,
    "compaction.discarded": Replica._noted,
}


def _message(id: str, seq: int, role: str, *, is_summary: bool = False) -> Json:
    return {"id": id, "seq": seq, "role": role, "is_summary": is_summary, "parts": {}}


def _stored(message: Json) -> Json:
    """A message as the API returns it, with its parts by id."""
    parts = {
        part["id"]: {name: part.get(name) for name in ("id", "index", "type", *PART_FIELDS[part["type"]])}
        for part in message["parts"]
    }
    summary = message["is_summary"]
    return {**_message(message["id"], message["seq"], message["role"], is_summary=summary), "parts": parts}


def _plain(message: Json) -> Json:
    parts = sorted(message["parts"].values(), key=lambda part: int(part["index"]))
    return {**message, "parts": parts}
