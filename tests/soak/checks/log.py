"""The event log by itself: its seqs, runs, steps, calls and rounds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from tests.soak.database import Logged

IN_A_RUN = ("step.", "text.", "reasoning.", "tool.", "message.dequeued")
"""Events that occur only in a run."""
ENDS_ROUND = ("compaction.completed", "compaction.cancelled", "compaction.discarded", "compaction.failed")


def check_seqs(events: Sequence[Logged], last_seq: int) -> Iterator[str]:
    """1, 2, 3 … up to the session's own count."""
    seqs = [event.seq for event in events]
    if seqs != list(range(1, len(seqs) + 1)):
        wrong = next(place for place, seq in enumerate(seqs, 1) if seq != place)
        yield f"place {wrong} holds {seqs[wrong - 1]}"
    if (seqs[-1] if seqs else 0) != last_seq:
        yield f"the session says {last_seq}, the log ends with {seqs[-1:]}"


def check_runs(events: Sequence[Logged]) -> Iterator[str]:
    """Each run starts once and ends once, and no agent event occurs outside a run."""
    running = False
    for event in events:
        if event.type == "session.running":
            if running and event.data["trigger"] != "recovery":
                yield f"{event.seq} begins a run within a run"
            if not running and event.data["trigger"] == "recovery":
                yield f"{event.seq} recovers a run that had ended"
            running = True
        elif event.type == "session.idle":
            if not running:
                yield f"{event.seq} ends no run"
            running = False
        elif event.type.startswith(IN_A_RUN) and not running:
            yield f"{event.seq} {event.type} while idle"
    if running:
        yield "the last run has no end"


def check_steps(events: Sequence[Logged]) -> Iterator[str]:
    """Steps and their attempts are numbered from 1 without a gap; each has exactly one `step.finished`."""
    attempts: dict[int, list[int]] = defaultdict(list)
    messages: Counter[str] = Counter()
    finished: Counter[int] = Counter()
    for event in events:
        if event.type == "step.started":
            attempts[event.data["step"]].append(event.data["attempt"])
            messages[event.data["message_id"]] += 1
        elif event.type == "step.finished":
            finished[event.data["step"]] += 1
            if event.data["step"] not in attempts:
                yield f"{event.seq} finishes step {event.data['step']}, which did not start"
    if list(attempts) != list(range(1, len(attempts) + 1)):
        yield f"steps started as {list(attempts)}"
    for step, numbers in attempts.items():
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"step {step} has attempts {numbers}"
        if finished[step] != 1:
            yield f"step {step} has {finished[step]} step.finished"
    yield from (f"{count} attempts fill message {message}" for message, count in messages.items() if count > 1)


def check_calls(events: Sequence[Logged]) -> Iterator[str]:
    """Each call has exactly one result, after it and before its step's end; one of a voided attempt none. A call that a
    client carries out may come again when the client can begin."""
    void = {event.data["message_id"] for event in events if event.type == "step.retrying"}
    called: set[str] = set()
    waiting: set[str] = set()
    for event in events:
        call_id = str(event.data.get("call_id"))
        if event.type == "tool.call" and event.data["message_id"] not in void:
            if call_id in called and not (event.data.get("waits_for_client") and call_id in waiting):
                yield f"{event.seq} repeats call {call_id}"
            called.add(call_id)
            waiting.add(call_id)
        elif event.type == "tool.result":
            if call_id not in waiting:
                yield f"{event.seq} is a {'second' if call_id in called else 'result without a call'}: {call_id}"
            waiting.discard(call_id)
        elif event.type in ("step.finished", "step.started", "session.idle") and waiting:
            yield f"{event.seq} {event.type} with calls open: {sorted(waiting)}"
            waiting.clear()
    yield from (f"call {call_id} has no result" for call_id in sorted(waiting))


def check_parts(events: Sequence[Logged]) -> Iterator[str]:
    """A part is closed once; see `check_calls`."""
    kinds = ("text.completed", "reasoning.completed", "tool.call", "tool.result")
    closed = Counter((e.type, e.data["part_id"], e.data.get("waits_for_client")) for e in events if e.type in kinds)
    yield from (f"{kind} of part {part} came {count} times" for (kind, part, _), count in closed.items() if count > 1)


def check_posted(events: Sequence[Logged], posted: Mapping[str, str]) -> Iterator[str]:
    """The result of a call has what its client posted, once that was accepted; a run that was ended may have come
    first."""
    results = {event.data["call_id"]: event.data for event in events if event.type == "tool.result"}
    for call_id, text in posted.items():
        result = results.get(call_id)
        if result is None or (result["status"] in ("completed", "error") and not result["output"].startswith(text)):
            yield f"call {call_id}: {text!r} was accepted, its result is {result and result['output'][:100]!r}"


def check_rounds(events: Sequence[Logged]) -> Iterator[str]:
    """Each round of compaction begins once, with a number never used before, and ends once."""
    under_way: set[int] = set()
    last = 0
    for event in events:
        number = int(event.data.get("round") or 0)
        if event.type == "compaction.started":
            if number <= last:
                yield f"{event.seq} begins round {number} after round {last}"
            last = max(last, number)
            under_way.add(number)
        elif event.type in ENDS_ROUND and (event.type != "compaction.failed" or event.data["next"] is None):
            if number not in under_way:
                yield f"{event.seq} {event.type} ends round {number}, which is not under way"
            under_way.discard(number)
    yield from (f"round {number} has no end" for number in sorted(under_way))
