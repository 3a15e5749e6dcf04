"""A cancel at each point of a run: the run ends as cancelled, none of its processes survives, and the strict provider
accepts the history. Prints how long each took (`pytest -s`); with PALIMPSEST_TEST_LONG=1, fifty times per place on an
idle machine, none may take longer than the contract allows."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.behavior.checks import assert_sound, following
from tests.behavior.conftest import StartServer
from tests.behavior.harness import Client, of_type
from tests.behavior.places import COMMAND, IN_LINE, PLACES, Model, Place, digits, living
from tests.behavior.rounds import assert_rounds
from tests.behavior.test_cancel_resume import cancel
from tests.behavior.test_start import numbers
from tests.load import CANCEL_S, LONG
from tests.provider import FakeProvider

TIMES = 50 if LONG else 1
"""Cancels at each place: one shows what becomes of the run, and fifty how long it takes."""


async def _cancel_at(client: Client, provider: FakeProvider, place: Place, number: int) -> float:
    """Cancels a session at its place and continues it; returns the seconds the cancel took."""
    session_id = await place.create(client, number)
    async with following(client, session_id) as follower:
        await place.stand(client, provider, follower, number)
        begun = time.monotonic()
        await cancel(client, session_id)
        await follower.type("compaction.cancelled" if place.asked else "session.idle")
        took = time.monotonic() - begun
        assert living(digits(place.name, number)) == 0, f"{place.name}: its processes live"
    assert took < CANCEL_S, f"{place.name}: {took:.1f} s"
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
    if place.statuses:
        assert tuple(event.data["status"] for event in newest) == place.statuses, place.name


async def _go_on(client: Client, session_id: str, place: Place) -> None:
    """The strict provider accepts the history."""
    if place.asked:
        await client.post(session_id, "go on")
    else:
        await client.resume(session_id)
    await client.until_idle(session_id)
    session = await client.session(session_id)
    assert (session["outcome"], session["queue"]["pending"]) == ("completed", 0), place.name
    await assert_sound(client, session_id)
    if place.asked or place.compaction is not None:
        await assert_rounds(client, session_id)


async def _times_at(client: Client, provider: FakeProvider, place: Place) -> list[float]:
    """Sequentially if they are measured, else in parallel."""
    if LONG:
        return [await _cancel_at(client, provider, place, number) for number in range(TIMES)]
    return await asyncio.gather(*(_cancel_at(client, provider, place, number) for number in range(TIMES)))


def _print_row(name: str, taken: list[float]) -> None:
    print(
        f"\n{name:36} {len(taken):3} cancels, median {sorted(taken)[len(taken) // 2]:.3f} s, worst {max(taken):.3f} s"
    )


@pytest.mark.shared_server
@pytest.mark.timeout(1800 if LONG else 180)
@pytest.mark.slow
async def test_a_cancel_ends_a_run_at_every_place(client: Client, provider: FakeProvider, sandbox: str) -> None:
    provider.respond(Model())
    places = [place for place in PLACES if place.in_sandbox or sandbox == "bubblewrap"]
    for place in places:
        taken = await _times_at(client, provider, place)
        _print_row(f"{place.name}, {sandbox}", taken)
    assert provider.refusals == []
    assert provider.script_errors == []


@pytest.mark.bubblewrap
@pytest.mark.timeout(1800 if LONG else 180)
@pytest.mark.parametrize(
    ("name", "bound", "gauge"),
    [
        ("queue wait", {"max_runs": 1, "max_waiting_runs": 2 * TIMES}, "palimpsest_waiting_runs"),
        ("sandbox wait", {"max_sandboxes": 1}, "palimpsest_sandbox_waiters"),
    ],
)
async def test_a_cancel_ends_a_run_that_waits_for_another(
    start_server: StartServer, provider: FakeProvider, name: str, bound: dict[str, Any], gauge: str
) -> None:
    provider.respond(Model())
    taken: list[float] = []
    waited: list[str] = []
    async with Client(start_server(**bound).url) as client:
        holder = await COMMAND.create(client, 0)
        async with following(client, holder) as follower:
            await COMMAND.stand(client, provider, follower, 0)
        for number in range(TIMES):
            waited.append(await IN_LINE.create(client, number))
            async with asyncio.timeout(60), following(client, waited[-1]) as follower:
                while (await numbers(client))[gauge] != 1:
                    pass
                begun = time.monotonic()
                await cancel(client, waited[-1])
                await follower.type("session.idle")
                taken.append(time.monotonic() - begun)
            assert (await client.session(waited[-1]))["outcome"] == "cancelled"
            await assert_sound(client, waited[-1])
        await cancel(client, holder)
        await client.until_idle(holder)
        for session_id in (holder, *waited):
            await _go_on(client, session_id, IN_LINE)
    _print_row(name, taken)
    assert living(digits(COMMAND.name, 0)) == 0
    assert provider.refusals == []
    assert provider.script_errors == []
    assert max(taken) < CANCEL_S
