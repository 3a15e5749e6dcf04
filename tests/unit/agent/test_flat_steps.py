"""How much of the history a step near a trigger reads, counted rather than timed: no more of a long one than of a short
one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from app.agent.compaction.rounds import RoomResult
from app.agent.conversation import run_off_loop
from app.context.budget import trigger
from app.messages import Usage
from tests.unit.agent.rounds import SUMMARY, Tight, Watched, counted, settings_of, watched
from tests.unit.context import builders as b

SHORT, LONG = 50, 500
"""Steps before those that are counted, each with a call and its output."""

OUTPUT = 1_000
"""Tokens of such an output."""

STEPS = 40


def near(steps: int) -> Tight:
    """At 85 % of the trigger, where old outputs could be cleared."""
    settings = settings_of(background=True, prune_protect=2 * OUTPUT, prune_minimum=OUTPUT)
    return _tight(steps, settings, int(steps * OUTPUT / 0.85))


def beyond_by_system(steps: int) -> Tight:
    """Above a trigger that the system prompt alone exceeds."""
    settings = settings_of("threshold", threshold_percent=0.01)
    return _tight(steps, settings, 2 * steps * OUTPUT, system="You are at work." * steps * 20)


def beyond_by_task(steps: int) -> Tight:
    """Above a trigger that the task alone exceeds."""
    settings = settings_of("threshold", threshold_percent=0.01)
    return _tight(steps, settings, 2 * steps * OUTPUT, task="Do it. " * steps * 40)


def handed_off_by_system(steps: int) -> Tight:
    """Above the early trigger of a hand-off, which the system prompt alone exceeds."""
    return _tight(steps, HANDOFF, 2 * steps * OUTPUT, system="You are at work." * 1_000)


def handed_off_by_task(steps: int) -> Tight:
    """Above the early trigger of a hand-off, which the last request alone exceeds: it would stay verbatim."""
    return _tight(steps, HANDOFF, 2 * steps * OUTPUT, task="Do it. " * 2_000)


HANDOFF = settings_of("handoff", handoff_threshold=2_000)


def _tight(steps: int, settings: Any, usable: int, *, system: str = "", task: str = "the task") -> Tight:
    history = [b.user(1, task), *b.long_task(steps, OUTPUT)[1:]]
    tight = Tight(history=list(map(watched, history)), settings=settings, budget=b.budget_of(usable))
    tight.system = system or tight.system
    return tight


async def make_step(tight: Tight) -> None:
    """Everything a step does with the conversation except calling the model and running tools."""
    conversation = tight.conversation
    tight.refresh()
    assert await tight.make_room() is RoomResult.ENOUGH
    assert await conversation.settle() is None
    assert conversation.request(tight.config).messages
    conversation.observe(Usage(input_tokens=conversation.transcript.request_tokens))
    seq = conversation.history[-1].seq + 1
    answer, results = b.long_step(seq, f"c{seq}", 1)
    conversation.append(counted(watched(answer)))
    conversation.answered()
    conversation.append(counted(watched(results)))


async def reads_of_a_step(tight: Tight) -> float:
    """Message fields that a step reads, on average. The first steps, which take in the existing history, do not
    count."""
    for _ in range(2):
        await make_step(tight)
    before = Watched.reads
    for _ in range(STEPS):
        await make_step(tight)
    return (Watched.reads - before) / STEPS


SCENES = (near, beyond_by_system, beyond_by_task, handed_off_by_system, handed_off_by_task)


@pytest.mark.parametrize("scene", SCENES)
async def test_a_step_reads_no_more_of_a_long_history(scene: Callable[[int], Tight]) -> None:
    short, long = await reads_of_a_step(scene(SHORT)), await reads_of_a_step(scene(LONG))
    assert 0 < long <= 1.1 * short


@pytest.mark.parametrize("scene", SCENES)
def test_the_scenes_are_as_described(scene: Callable[[int], Tight]) -> None:
    for steps in (SHORT, LONG):
        tight = scene(steps)
        share = tight.conversation.estimate / trigger(tight.budget, tight.settings)
        assert 0.84 < share < 0.88 if scene is near else share > 1
        assert tight.conversation.estimate < tight.budget.usable
        assert (tight.clearable is not None) == (scene is near)


@pytest.mark.parametrize("scene", [handed_off_by_system, handed_off_by_task])
async def test_a_hand_off_that_can_do_nothing_asks_no_model(scene: Callable[[int], Tight]) -> None:
    tight = scene(LONG)
    for _ in range(3):
        await make_step(tight)
    assert tight.begun > 0, "it was checked"
    assert (tight.script.requests, tight.rungs) == ([], [])


async def test_counting_messages_differently_reads_none() -> None:
    tight = near(LONG)
    whole, messages = tight.conversation.estimate, len(tight.conversation.transcript.messages)
    before = Watched.reads
    tight.settings = settings_of("threshold")
    tight.refresh()
    assert Watched.reads == before
    assert whole - tight.conversation.estimate == 2 * messages


async def test_a_round_reads_only_the_facts_of_new_messages() -> None:
    tight = Tight(history=list(map(watched, b.long_task(LONG, 10))), budget=b.budget_of(100_000))
    first = tight.conversation.facts()
    tight.grow(1)
    before = Watched.reads
    assert first != tight.conversation.facts()
    assert Watched.reads - before < 10
    assert dict(tight.conversation.facts().calls) == {"execute_command": LONG + 1}


async def test_after_a_round_its_messages_are_no_longer_read() -> None:
    tight = Tight(SUMMARY, history=list(map(watched, b.long_task(LONG, 100))), budget=b.budget_of(40_000))
    assert await tight.make_room() is RoomResult.MADE
    assert len(tight.conversation.history) > 2 * LONG > 4 * len(tight.conversation.rows)
    before = Watched.reads
    tight.selection(urgent=True)
    assert Watched.reads - before < 40 * len(tight.conversation.rows)


async def test_a_round_reads_the_history_off_the_event_loop() -> None:
    tight = Tight(SUMMARY, history=list(map(watched, b.long_task(2 * LONG, 100))), budget=b.budget_of(40_000))
    Watched.thread, before = threading.get_ident(), Watched.reads
    try:
        assert await tight.make_room() is RoomResult.MADE
    finally:
        Watched.thread = None
    assert Watched.reads - before < len(tight.conversation.history) / 2


async def test_other_work_continues_while_a_long_history_is_read() -> None:
    tight = beyond_by_task(LONG)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    assert await tight.make_room() is RoomResult.ENOUGH
    task.cancel()
    assert turns > 2


async def test_a_cancel_waits_for_work_that_reads_the_conversation() -> None:
    tight = _tight(LONG, settings_of(), 10**6)
    ended = threading.Event()
    began = asyncio.Event()
    loop = asyncio.get_running_loop()

    def work() -> None:
        loop.call_soon_threadsafe(began.set)
        tight.conversation.facts()
        ended.set()

    task = asyncio.create_task(run_off_loop(tight.conversation.rows, work))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
