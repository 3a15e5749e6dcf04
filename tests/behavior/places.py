"""The points at which a run can be interrupted: how to bring a session to each, and which processes run there."""

from __future__ import annotations

import asyncio
import os
import random
import re
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.behavior.approving import ALWAYS
from tests.behavior.checks import Follower
from tests.behavior.harness import ANTHROPIC, OPENAI, Client, Event, command, shows
from tests.behavior.long_task import asks_for_summary
from tests.behavior.rounds import SHORT_TAIL, compact
from tests.behavior.test_interrupt import stubborn
from tests.provider import FakeProvider, Hang, HttpError, RecordedRequest, Reply, Text, ToolCall

MARK = re.compile(r"\[\[([a-z ]+) (\d+)\]\]")
FIRST = random.randrange(10**8, 10**9)
"""Sleep time of the first session's commands, in seconds; each session has its own number."""

Answers = Callable[[str], tuple[Any, ...]]
"""The answers that lead to a place, given the digits in the session's commands."""


@dataclass(frozen=True)
class Place:
    """A point of a run: the event that shows it was reached (None: the model was called), the statuses of its calls
    after a cancel, and how its session is created. `summarises`: a summary was requested from the model; `asked`: a
    manual compaction is requested after the answers; `waiting`: messages that wait meanwhile. One process runs for each
    letter of `processes`, with the session's digits and that letter in its arguments."""

    name: str
    answers: Answers
    reached: Callable[[Event], bool] | None = None
    statuses: tuple[str, ...] = ()
    compaction: dict[str, Any] | None = None
    approval: dict[str, Any] | None = None
    summarises: bool = False
    asked: bool = False
    waiting: tuple[str, ...] = ()
    processes: str = ""
    in_sandbox: bool = False

    def task(self, number: int) -> str:
        return f"[[{self.name} {number}]]"

    async def create(self, client: Client, number: int) -> str:
        """Creates the session of this number; returns its id."""
        fields: dict[str, Any] = {"compaction": self.compaction or {"policy": "reactive", **SHORT_TAIL}}
        if self.approval is not None:
            fields["approval"] = self.approval
        session = await client.create(self.task(number), model=(OPENAI, ANTHROPIC)[number % 2], **fields)
        return str(session["id"])

    async def stand(self, client: Client, provider: FakeProvider, follower: Follower, number: int) -> None:
        """Waits until the session has reached the place."""
        session_id = (await follower.type("session.created")).data["session"]["id"]
        if self.asked:
            await follower.type("session.idle")
            await compact(client, session_id)
        if self.reached is not None:
            await follower.seen(self.reached)
            await _until_living([digits(self.name, number) + letter for letter in self.processes])
        if self.reached is None or self.summarises:
            await self._until_asked(provider, number)
        for mode in self.waiting:
            await client.post(session_id, f"waits as {mode}", mode)

    async def _until_asked(self, provider: FakeProvider, number: int) -> None:
        """Waits until the model has received the session's request, or the one for its summary."""
        task = self.task(number).encode()
        while not any(
            task in request.raw and asks_for_summary(request) == self.summarises for request in provider.requests
        ):
            await provider.request_count(len(provider.requests) + 1)


def digits(name: str, number: int) -> str:
    """Digits in all commands of one session, and in no other process on this machine."""
    return f"{os.getpid()}{FIRST + 1000 * [place.name for place in ALL].index(name) + number}"


def living(mark: str) -> int:
    """The number of live processes with `mark` in their arguments, in any namespace."""
    return sum(_is_alive_with(process, mark.encode()) for process in Path("/proc").glob("[0-9]*"))


async def _until_living(marks: list[str]) -> None:
    async with asyncio.timeout(60):
        while not all(map(living, marks)):  # noqa: ASYNC110
            await asyncio.sleep(0.1)  # processes of another namespace raise no event here, and a check is slow


def _is_alive_with(process: Path, mark: bytes) -> bool:
    with suppress(OSError):
        if mark in (process / "cmdline").read_bytes():
            return (process / "stat").read_bytes().rpartition(b")")[2].split()[0] not in b"ZX"
    return False


def _prints(event: Event) -> bool:
    return event.type == "tool.output" and "stderr" in event.data["text"]


def _always(*answers: Any) -> Answers:
    return lambda _: answers


def _searches(seconds: str) -> tuple[Any, ...]:
    """Searches that take many seconds with every engine, through one long line created first."""
    line = "head -c 3000000 /dev/urandom | base64 | tr -d '\\n' >line"
    patterns = [f"[A-Za-m].{{900}}[!?]|!{seconds}{end}" for end in SEARCHES]
    return Reply(command(line)), Reply(*(ToolCall("search_files", {"pattern": pattern}) for pattern in patterns))


SEARCHES = "xyz"
PRINTS = Reply(command("head -c 16000 /dev/zero | tr '\\0' x"))
SUMMARISES = {
    "policy": "threshold",
    **SHORT_TAIL,
    "threshold_percent": 0.1,
    "background": False,
    "prune_exempt_tools": ["execute_command"],
}
COMMAND = Place("command", lambda s: (Reply(command(stubborn(s))),), _prints, ("cancelled",), in_sandbox=True)
PLACES = (
    Place("model connect", _always(Reply(Hang()))),
    Place("waiting messages", _always(Reply(Hang())), waiting=("follow_up", "steer")),
    Place("mid stream", _always(Reply(Text("half of it", 3), Hang())), shows("text.delta")),
    Place("retry sleep", _always(HttpError(429, headers={"retry-after": "90"})), shows("step.retrying")),
    Place(
        "foreground compaction",
        _always(PRINTS, PRINTS, PRINTS),
        shows("compaction.started"),
        compaction=SUMMARISES,
        summarises=True,
    ),
    Place(
        "asked compaction",
        _always(PRINTS, PRINTS, Reply(Text("done"))),
        shows("compaction.started"),
        summarises=True,
        asked=True,
    ),
    Place("approval", _always(PRINTS), shows("approval.requested"), ("cancelled",), approval=ALWAYS),
    COMMAND,
    Place(
        "command in a row",
        lambda s: (Reply(command("echo first"), command(stubborn(s)), command("touch never")),),
        _prints,
        ("completed", "cancelled", "cancelled"),
        in_sandbox=True,
    ),
    Place(
        "parallel calls",
        _searches,
        lambda event: event.type == "tool.call" and event.data["index"] == len(SEARCHES) - 1,
        ("cancelled",) * len(SEARCHES),
        processes=SEARCHES,
        in_sandbox=True,
    ),
    Place(
        "sandbox start",
        lambda s: (Reply(command(f"sleep {s}")),),
        shows("tool.call"),
        ("cancelled",),
        in_sandbox=True,
    ),
)
IN_LINE = Place("in line", _always(Reply(command("true"))))
"""A session that must wait for another's run or sandbox."""
ALL = (*PLACES, IN_LINE)


class Model:
    """Answers each session as its place requires, and everything after that with a last word. The first summary
    requested never ends."""

    def __init__(self) -> None:
        self._turns: dict[str, int] = defaultdict(int)
        self._summaries: set[str] = set()
        self._lock = threading.Lock()
        self._places = {place.name: place for place in ALL}

    def __call__(self, request: RecordedRequest) -> Any:
        found = MARK.search(request.raw.decode())
        assert found is not None
        with self._lock:
            if asks_for_summary(request):
                hangs = found[0] not in self._summaries
                self._summaries.add(found[0])
                return Reply(Text("## Completed"), Hang()) if hangs else Reply(Text("## Completed\nAll of it."))
            turn = self._turns[found[0]]
            self._turns[found[0]] += 1
        answers = self._places[found[1]].answers(digits(found[1], int(found[2])))
        return answers[turn] if turn < len(answers) else Reply(Text("the rest"))
