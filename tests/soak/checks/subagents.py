"""Sub-agents: each was started and has ended once, is idle when its session is, and passes the same checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.soak.checks.commands import check_background
from tests.soak.checks.history import check_history, check_rest, check_sums
from tests.soak.checks.log import check_calls, check_parts, check_rounds, check_runs, check_seqs, check_steps
from tests.soak.database import Stored

ENDS = ("subagent.started", "subagent.finished")


def check_subagents(stored: Stored) -> Iterator[str]:
    times = Counter((event.type, event.data["subagent_id"]) for event in stored.events if event.type in ENDS)
    children = {child.row["id"]: child for child in stored.children}
    for subagent_id in sorted(children.keys() | {subagent_id for _, subagent_id in times}):
        started, finished = (times[kind, subagent_id] for kind in ENDS)
        if (started, finished) != (1, 1):
            yield f"{subagent_id} was started {started} times and has ended {finished} times"
        if subagent_id not in children:
            yield f"{subagent_id} was started and has no row"
    for subagent_id, child in children.items():
        yield from (f"{subagent_id}: {detail}" for detail in _check_child(child))


def _check_child(child: Stored) -> Iterator[str]:
    events = child.events
    yield from check_seqs(events, child.row["last_seq"])
    for check in (check_runs, check_steps, check_calls, check_parts, check_rounds, check_background):
        yield from check(events)
    for look in (check_rest, check_history, check_sums):
        yield from look(child)
