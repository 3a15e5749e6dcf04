"""Commands: none ran twice, none in the background is left, none ran without being in the log, and all reported as
run did run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from tests.soak.database import Logged
from tests.soak.model import NO_ROOM

TOKEN = re.compile(r"echo (c[0-9]+) >> ")
KILLED = 128
"""Exit codes from here on are a signal's."""
BACKGROUND = ("command.started", "command.ended")
BEFORE = "before it was started]"
"""The end of the result of a call that never started."""


def check_commands(events: Sequence[Logged], ran: Sequence[str]) -> Iterator[str]:
    """`ran` are the tokens that commands wrote into the workspace, in order."""
    void = {event.data["message_id"] for event in events if event.type == "step.retrying"}
    results = {event.data["call_id"]: event.data for event in events if event.type == "tool.result"}
    times = Counter(ran)
    known: set[str] = set()
    for event in events:
        found = TOKEN.match(str(event.data["arguments"]["command"])) if _is_command(event) else None
        if found is None:
            continue
        token, call_id = found[1], event.data["call_id"]
        known.add(token)
        if times[token] > 1:
            yield f"call {call_id} ({token}) ran {times[token]} times"
        if times[token] and event.data["message_id"] in void:
            yield f"call {call_id} ({token}) of a voided attempt ran"
        result = results.get(call_id)
        if result is None:
            continue
        if times[token] and result["output"].endswith(BEFORE):
            yield f"call {call_id} ({token}) ran, and its result says that it never began"
        # Our own first line ends with a 97 where the disk is full, and a command that was killed may have had no time.
        code = result["exit_code"]
        ended = result["status"] == "completed" and code is not None and code != NO_ROOM and code < KILLED
        if ended and not times[token]:
            yield f"call {call_id} ({token}) ended with {result['exit_code']} and did not run"
    yield from (f"{token} ran and no call asks for it" for token in sorted(set(times) - known))


def check_background(events: Sequence[Logged]) -> Iterator[str]:
    """A command in the background starts once and ends once: at rest, sandboxes are stopped, and it with them."""
    times = Counter((event.type, event.data["command_id"]) for event in events if event.type in BACKGROUND)
    for command_id in sorted({command_id for _, command_id in times}):
        started, ended = (times[kind, command_id] for kind in BACKGROUND)
        if (started, ended) != (1, 1):
            yield f"command {command_id} started {started} times and ended {ended} times"


def _is_command(event: Logged) -> bool:
    return (
        event.type == "tool.call"
        and event.data["name"] == "execute_command"
        and isinstance(event.data["arguments"], dict)
        and isinstance(event.data["arguments"].get("command"), str)
    )
