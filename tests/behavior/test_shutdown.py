"""A server told to shut down while runs are at every place: its readers' streams end cleanly, the runs are parked
within the grace period, and the next server continues them by itself."""

from __future__ import annotations

import asyncio
import signal
import time

import pytest

from tests.behavior.checks import Follower, assert_sound
from tests.behavior.conftest import StartProcess
from tests.behavior.harness import Client, Event, of_type
from tests.behavior.places import PLACES, Model, Place, digits, living
from tests.behavior.rounds import assert_rounds
from tests.load import LONG
from tests.provider import FakeProvider

GRACE_S = 5.0
WIDE_S = 20.0
"""The same on a busy machine."""
GO_ON = [place for place in PLACES if place.approval is None]
"""Calls that wait for approval keep waiting."""


async def _read(client: Client, session_id: str, follower: Follower) -> None:
    async for event in client.events(session_id):
        await follower.add(event)


async def _begin(client: Client, provider: FakeProvider, place: Place) -> tuple[str, asyncio.Task[None]]:
    """A session at its place, and its reader."""
    session_id, follower = await place.create(client, 0), Follower()
    reader = asyncio.create_task(_read(client, session_id, follower))
    await place.stand(client, provider, follower, 0)
    return session_id, reader


@pytest.mark.bubblewrap
@pytest.mark.slow
async def test_a_shutdown_parks_runs_at_every_place(start_process: StartProcess, provider: FakeProvider) -> None:
    provider.respond(Model())
    first = start_process(PALIMPSEST_SHUTDOWN_GRACE_S=str(GRACE_S))
    async with Client(first.url) as client:
        begun = await asyncio.gather(*(_begin(client, provider, place) for place in GO_ON))
        told = time.monotonic()
        code = await asyncio.to_thread(first.end, signal.SIGTERM)
        took = time.monotonic() - told
        async with asyncio.timeout(WIDE_S):
            # A connection that was cut would raise here.
            await asyncio.gather(*(reader for _, reader in begun))
    print(f"\nSIGTERM with {len(begun)} sessions at work and read: {took:.3f} s")
    assert code in (0, -signal.SIGTERM)
    assert took < (GRACE_S if LONG else WIDE_S)
    assert "runs_cut_off" not in first.log
    assert [place.name for place in GO_ON if living(digits(place.name, 0))] == [], "their processes live"

    async with Client(start_process().url) as client:
        for place, (session_id, _) in zip(GO_ON, begun, strict=True):
            if place.asked:
                await client.post(session_id, "go on")
            await client.until_idle(session_id)
            session = await client.session(session_id)
            assert (session["outcome"], session["queue"]["pending"]) == ("completed", 0), place.name
            events = await assert_sound(client, session_id)
            assert place.asked or "recovery" in _triggers(events), place.name
            if place.asked or place.compaction is not None:
                await assert_rounds(client, session_id)
    assert provider.refusals == []
    assert provider.script_errors == []


def _triggers(events: list[Event]) -> list[str]:
    return [event.data["trigger"] for event in of_type(events, "session.running")]
