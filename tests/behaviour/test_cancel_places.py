"""A cancel at each place where a run can stand: it ends as cancelled, nothing of it lives on, and the history is one
that the strict provider takes. How long each took is printed (`pytest -s`); with PALIMPSEST_TEST_LONG=1, fifty times a
place on a quiet machine, none may take longer than the contract says."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.behaviour.checks import Follower, assert_sound, following
from tests.behaviour.harness import ANTHROPIC, OPENAI, Client, Event, of_type
from tests.behaviour.long_task import asks_for_summary
from tests.behaviour.rounds import SHORT_TAIL, assert_rounds, compact
from tests.behaviour.test_cancel_resume import cancel, resume
from tests.behaviour.test_interrupt import stubborn
from tests.provider import FakeProvider, Hang, HttpError, RecordedRequest, Reply, Text, ToolCall
from tests.unit.sandbox.shell import sleepers, unique_seconds

LONG = bool(os.environ.get("PALIMPSEST_TEST_LONG"))
TIMES = 50 if LONG else 3
CONTRACT_S = 2.0
WIDE_S = 20.0
"""Within which a cancel has ended on a machine that has other things to do."""
SECONDS = unique_seconds()
MARK = re.compile(r"\[\[([a-z ]+) (\d+)\]\]")

Reached = Callable[[Event], bool]


def _shows(kind: str) -> Reached:
    return lambda event: event.type == kind


def _prints(event: Event) -> bool:
    return event.type == "tool.output" and "stderr" in event.data["text"]


def _command(text: str) -> ToolCall:
    return ToolCall("execute_command", {"command": text})


PRINTS = Reply(_command("head -c 16000 /dev/zero | tr '\\0' x"))


@dataclass(frozen=True)
class Place:
    """Where a run stands: the answers that lead there, the event that says it is there (None is the model being asked),
    what becomes of its calls, and how its session is made. `asked` is a round of compaction that is asked for when the
    answers are through; `waiting` are messages that wait meanwhile."""

    name: str
    answers: tuple[Any, ...]
    reached: Reached | None = None
    statuses: tuple[str, ...] = ()
    compaction: dict[str, Any] | None = None
    asked: bool = False
    waiting: tuple[str, ...] = ()
    in_sandbox: bool = False


SUMMARISES = {
    "policy": "threshold",
    **SHORT_TAIL,
    "threshold_percent": 0.05,
    "background": False,
    "prune_exempt_tools": ["execute_command"],
}
PLACES = (
    Place("model connect", (Reply(Hang()),)),
    Place("queue wait", (Reply(Hang()),), waiting=("follow_up", "steer")),
    Place("mid stream", (Reply(Text("half of it", 3), Hang()),), _shows("text.delta")),
    Place("retry sleep", (HttpError(429, headers={"retry-after": "90"}),), _shows("step.retrying")),
    Place("foreground compaction", (PRINTS, PRINTS, PRINTS), _shows("compaction.started"), compaction=SUMMARISES),
    Place("asked compaction", (PRINTS, PRINTS, Reply(Text("done"))), _shows("compaction.started"), asked=True),
    Place("command", (Reply(_command(stubborn(SECONDS))),), _prints, ("cancelled",), in_sandbox=True),
    Place(
        "command in a row",
        (Reply(_command("echo first"), _command(stubborn(SECONDS)), _command("touch never")),),
        _prints,
        ("completed", "cancelled", "cancelled"),
        in_sandbox=True,
    ),
    Place(
        "parallel calls",
        (
            Reply(_command("i=0; while [ $i -lt 3000 ]; do echo aaaaaaaaaaaaaaaaaaaaaaaa; i=$((i+1)); done >big")),
            Reply(*(ToolCall("search_files", {"pattern": f"(a*)*b{number}$"}) for number in range(3))),
        ),
        lambda event: event.type == "tool.call" and event.data["index"] == 2,
        in_sandbox=True,
    ),
    Place("sandbox start", (Reply(_command("sleep 30")),), _shows("tool.call"), ("cancelled",), in_sandbox=True),
)


class Model:
    """Answers each session as its place wants it, and whatever comes after the place with a last word. A summary that
    is asked for never ends, the first time."""

    def __init__(self) -> None:
        self._turns: dict[str, int] = defaultdict(int)
        self._summaries: set[str] = set()
        self._lock = threading.Lock()
        self._places = {place.name: place for place in PLACES}

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
        answers = self._places[found[1]].answers
        return answers[turn] if turn < len(answers) else Reply(Text("the rest"))


async def _stand(client: Client, provider: FakeProvider, follower: Follower, place: Place, task: str) -> None:
    """Waits until the session is at its place."""
    session_id = (await follower.type("session.created")).data["session"]["id"]
    if place.asked:
        await follower.type("session.idle")
        await compact(client, session_id)
    for mode in place.waiting:
        await client.post(session_id, f"waits as {mode}", mode)
    if place.reached is not None:
        await follower.seen(place.reached)
        return
    while not any(request.first_user_text.startswith(task) for request in provider.requests):
        await provider.request_count(len(provider.requests) + 1)


async def _cancel_at(client: Client, provider: FakeProvider, place: Place, number: int) -> float:
    """Cancels a session at its place and lets it go on; the seconds that the cancel took."""
    task = f"[[{place.name} {number}]]"
    fields = {"compaction": place.compaction or {"policy": "reactive", **SHORT_TAIL}}
    session_id = (await client.create(task, model=(OPENAI, ANTHROPIC)[number % 2], **fields))["id"]
    async with following(client, session_id) as follower:
        await _stand(client, provider, follower, place, task)
        begun = time.monotonic()
        await cancel(client, session_id)
        await follower.type("compaction.cancelled" if place.asked else "session.idle")
        took = time.monotonic() - begun
    assert took < WIDE_S, f"{place.name}: {took:.1f} s"
    session = await client.session(session_id)
    assert (session["status"], session["outcome"]) == ("idle", "completed" if place.asked else "cancelled"), place.name
    assert session["queue"]["pending"] == len(place.waiting)
    await _assert_results(client, session_id, place)
    await _go_on(client, session_id, place)
    return took


async def _assert_results(client: Client, session_id: str, place: Place) -> None:
    events = await assert_sound(client, session_id)
    results = of_type(events, "tool.result")
    last = max((event.data["message_id"] for event in results), default="")
    newest = sorted((e for e in results if e.data["message_id"] == last), key=lambda event: event.data["index"])
    statuses = tuple(event.data["status"] for event in newest)
    if place.name == "parallel calls":
        # A search may be through before the cancel comes.
        assert set(statuses) <= {"completed", "error", "cancelled"}
        assert len(statuses) == 3
    elif place.statuses:
        assert statuses == place.statuses, place.name


async def _go_on(client: Client, session_id: str, place: Place) -> None:
    """The strict provider takes the history as it is."""
    if place.asked:
        await client.post(session_id, "go on")
    else:
        await resume(client, session_id)
    await client.until_idle(session_id)
    session = await client.session(session_id)
    assert (session["outcome"], session["queue"]["pending"]) == ("completed", 0), place.name
    await assert_sound(client, session_id)
    if place.asked or place.compaction is not None:
        await assert_rounds(client, session_id)


async def _times_at(client: Client, provider: FakeProvider, place: Place) -> list[float]:
    """One after the other where they are measured, else side by side."""
    if LONG:
        return [await _cancel_at(client, provider, place, number) for number in range(TIMES)]
    return list(await asyncio.gather(*(_cancel_at(client, provider, place, number) for number in range(TIMES))))


def _row(name: str, taken: list[float]) -> str:
    return f"{name:32} {len(taken):7} {sorted(taken)[len(taken) // 2]:7.3f}s {max(taken):7.3f}s"


@pytest.mark.timeout(1800 if LONG else 180)
async def test_a_cancel_ends_a_run_wherever_it_stands(client: Client, provider: FakeProvider, sandbox: str) -> None:
    provider.respond(Model())
    places = [place for place in PLACES if place.in_sandbox or sandbox == "bubblewrap"]
    worst = 0.0
    print(f"\n{'place, ' + sandbox:32} cancels   median    worst")
    for place in places:
        times = await _times_at(client, provider, place)
        print(_row(place.name, times))
        worst = max(worst, *times)
    assert sleepers(SECONDS) == 0
    assert provider.refusals == []
    assert provider.script_errors == []
    if LONG:
        assert worst <= CONTRACT_S
