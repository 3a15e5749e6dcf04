"""A provider that is away while a step, a summary, a background summary or a recount is due: the session waits, nothing
is folded while there is room, and the run completes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tests.behavior.checks import assert_sound
from tests.behavior.conftest import StartServer
from tests.behavior.harness import Client, of_type
from tests.behavior.long_task import LongTask, asks_for_summary
from tests.behavior.rounds import POLICIES, SMALL, settings
from tests.load import LONG
from tests.provider import Answer, FakeProvider, Hang, HttpError, RecordedRequest, Reply, Reset

STEPS = 12
AWAY = (HttpError(503), Reply(Hang()), Reply(Reset()), HttpError(502, b"<html>Bad Gateway</html>"))
"""How a provider is away, in turn."""
CODES = {"provider_overloaded", "provider_timeout", "provider_unreachable", "provider_server_error"}

PLACES: dict[str, Callable[[RecordedRequest], bool]] = {
    "step": lambda request: len(request.tool_results) >= 3 and not asks_for_summary(request),
    "summary": asks_for_summary,
    "background": asks_for_summary,
    "recount": lambda request: request.max_output_tokens == 16,
}


@dataclass
class Outage:
    """Answers a session's requests; from the first one at its place on, the provider is away for `seconds`."""

    policy: str
    place: str
    seconds: float
    work: LongTask = field(default_factory=lambda: LongTask(STEPS, most=4_000, seed=5))
    began: float = 0.0
    refused: int = 0

    @property
    def task(self) -> str:
        return f"task of {self.policy} at {self.place}"

    def __call__(self, request: RecordedRequest) -> Answer:
        if not self.began and PLACES[self.place](request):
            self.began = time.monotonic()
        if self.began and time.monotonic() - self.began < self.seconds:
            self.refused += 1
            return AWAY[self.refused % len(AWAY)]
        return self.work(request)

    async def check(self, client: Client) -> None:
        more = {"recount_probe": True} if self.place == "recount" else {}
        compaction = settings(self.policy, background=self.place == "background", **more)
        session, events = await client.run(self.task, compaction=compaction, limits={"max_steps": None})
        assert (session["outcome"], session["error"]) == ("completed", None), self
        assert self.refused, self
        rungs = {event.data["rung"] for event in of_type(events, "compaction.completed")}
        assert rungs == {"summary"}, self
        retries = [event.data for event in of_type(events, "compaction.retrying")]
        assert bool(retries) == (self.place in ("summary", "background")), self
        assert all(retry["delay_ms"] > 0 and retry["detail"] for retry in retries), self
        assert {retry["code"] for retry in retries} <= CODES, self
        await assert_sound(client, session["id"])


@pytest.mark.timeout(1_000)
@pytest.mark.parametrize("seconds", [8, *([60, 300] if LONG else [])])
async def test_a_provider_that_is_away_is_waited_for(
    start_server: StartServer, provider: FakeProvider, seconds: float
) -> None:
    outages = [Outage(policy, place, seconds) for policy in POLICIES for place in PLACES if place != "recount"]
    outages.append(Outage("handoff", "recount", seconds))
    by_task = {outage.task: outage for outage in outages}
    provider.respond(lambda request: next(by_task[task] for task in by_task if task.encode() in request.raw)(request))
    url = start_server(models=SMALL, provider_idle_timeout_s=1).url
    async with Client(url) as client, asyncio.TaskGroup() as tasks:
        for outage in outages:
            tasks.create_task(outage.check(client))
