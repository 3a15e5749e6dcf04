"""A receiver of webhooks is away for ten minutes, in every way a receiver can be, while sessions work and the server is
killed. Only with PALIMPSEST_TEST_LONG=1: it takes up to half an hour. Prints its measurements (`pytest -s`)."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

import httpx
import pytest
from standardwebhooks.webhooks import Webhook

from tests.behavior.conftest import StartProcess
from tests.behavior.harness import Client, durable
from tests.behavior.process import ServerProcess
from tests.behavior.test_webhooks import create
from tests.load import LONG
from tests.provider import FakeProvider, Reply, Text
from tests.receiver import Received, Receiver, receiving

pytestmark = [pytest.mark.skipif(not LONG, reason="takes half an hour"), pytest.mark.timeout(2700)]

SESSIONS = 6
POST_EVERY_S = 4.0
SLOW_BYTE_S = 0.2
"""Seconds between two bytes of a slow response of 40 bytes, which ends within the 15 s of an attempt."""
CATCH_UP_S = 1200.0
"""The longest pause between two attempts is 900 s, give or take a quarter (`app.runtime.webhooks.results`)."""

OUTAGE = (("hangs", 60.0), ("slow", 60.0), ("500", 90.0), ("refused", 390.0))
"""How the receiver fails, one way after the other, in seconds; ten minutes in all. The server is killed in the middle
of each. The longest way is the last one, since pauses between attempts become longer than the others."""


@dataclass
class Unsteady:
    """What the receiver does with a request. Signatures are verified on receipt, as a receiver does it, since the
    library also refuses timestamps that are more than five minutes old."""

    way: str = "up"
    secret: str = ""
    requests: Counter[str] = field(default_factory=Counter)

    def answer(self, received: Received) -> int | None:
        assert Webhook(self.secret).verify(received.raw, received.headers) == received.body
        self.requests[self.way] += 1
        match self.way:
            case "500":
                return 500
            case "hangs":
                return None
            case _:
                return 204


class Work:
    """Sessions that get a message every few seconds, from whichever server process is up."""

    def __init__(self, start: StartProcess) -> None:
        self._start = start
        self.sessions: list[str] = []
        self.kills = 0
        self.server = self._start_server()

    def _start_server(self) -> ServerProcess:
        return self._start(PALIMPSEST_WEBHOOK_NETWORKS="127.0.0.0/8")

    async def go_on(self, seconds: float) -> None:
        """Posts for a time."""
        end = time.monotonic() + seconds
        async with Client(self.server.url) as client:
            while time.monotonic() < end:
                for session_id in self.sessions:
                    await client.post(session_id, "and then", mode="follow_up")
                await asyncio.sleep(POST_EVERY_S)

    async def kill(self) -> None:
        """Kills the server while messages are being answered, and starts another."""
        async with Client(self.server.url) as client:
            with suppress(httpx.TransportError):
                async with asyncio.TaskGroup() as tasks:
                    for session_id in self.sessions:
                        tasks.create_task(client.post(session_id, "and then", mode="follow_up"))
        await asyncio.to_thread(self.server.end, signal.SIGKILL)
        self.kills += 1
        self.server = await asyncio.to_thread(self._start_server)


async def test_ten_minutes_without_a_receiver(start_process: StartProcess, provider: FakeProvider) -> None:
    provider.respond(lambda _: Reply(Text("word " * 20, 20), pace=40))
    unsteady = Unsteady()
    receiver = Receiver(answer=unsteady.answer)
    work = await asyncio.to_thread(Work, start_process)
    with ExitStack() as up:
        up.enter_context(receiving(receiver))
        async with Client(work.server.url) as client:
            webhook = await create(client, receiver.url)
            unsteady.secret = webhook["secret"]
            work.sessions = [(await client.create(f"task {number}"))["id"] for number in range(SESSIONS)]
        await work.go_on(20)
    began = time.monotonic()
    for way, seconds in OUTAGE:
        unsteady.way = way
        receiver.pause_s = SLOW_BYTE_S if way == "slow" else 0
        with ExitStack() as up:
            if way != "refused":
                up.enter_context(receiving(receiver))
            await work.go_on(seconds / 2)
            await work.kill()
            await work.go_on(seconds / 2)
    away_s = time.monotonic() - began
    unsteady.way, receiver.pause_s = "up", 0
    with receiving(receiver):
        back = time.monotonic()
        await work.go_on(10)
        async with Client(work.server.url) as client:
            logs = {
                session_id: [event.data for event in durable(await client.until_idle(session_id))]
                for session_id in work.sessions
            }
            total = sum(map(len, logs.values()))
            await asyncio.to_thread(receiver.wait, lambda r: len({x.id for x in r.accepted}) >= total, CATCH_UP_S)
            caught_up_s = time.monotonic() - back
            shown = await client.get(f"/v1/webhooks/{webhook['id']}")
    print(
        f"\nreceiver away for {away_s:.0f} s, {work.kills} kills; {total} events of {SESSIONS} sessions, all delivered"
        f" {caught_up_s:.0f} s after it was back; requests {dict(unsteady.requests)},"
        f" {len(receiver.accepted) - total} events delivered twice"
    )
    for session_id, log in logs.items():
        accepted = [r for r in receiver.accepted if r.body["session_id"] == session_id]
        firsts = list({r.id: r for r in accepted}.values())
        assert [r.seq for r in firsts] == [event["seq"] for event in log], "in order, without a hole"
        assert [r.body["data"] for r in firsts] == log
    assert len({(r.body["session_id"], r.seq, r.id) for r in receiver.requests}) == len(
        {r.id for r in receiver.requests}
    )
    assert len({r.raw for r in receiver.requests}) == len({r.id for r in receiver.requests}), "the same bytes each time"
    assert shown["status"] == "active"
    assert {"up", "500", "hangs", "slow"} <= unsteady.requests.keys()
