"""A bounded number of sandboxes: idle ones are stopped for others, and calls wait for a limited time."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from app.errors import SandboxAwayError, SandboxUnavailableError
from app.runtime.sandboxes.pool import Sandboxes
from app.sandbox.base import SandboxConfig
from app.sessions import SandboxSpec
from tests.unit.agent.scenes import turns
from tests.unit.runtime.stage import make_sandboxes
from tests.unit.runtime.test_sandboxes import SPEC, Box, Boxes


async def test_the_longest_idle_sandbox_is_stopped() -> None:
    boxes = Boxes()
    sandboxes = make_sandboxes(boxes, most=2)
    for name in ("a", "b"):
        lease = sandboxes.lease(name, SPEC)
        await lease.start()
        lease.release()
    back = sandboxes.lease("a", SPEC)
    back.release()
    await sandboxes.lease("c", SPEC).start()
    assert boxes.journal == ["a started", "b started", "b stopping", "b stopped", "c started"]
    assert sandboxes.slots.taken == 2


async def test_a_used_sandbox_is_stopped_for_a_waiter_as_soon_as_it_is_idle() -> None:
    boxes = Boxes()
    sandboxes = make_sandboxes(boxes, most=1)
    first = sandboxes.lease("a", SPEC)
    await first.start()
    second = asyncio.create_task(sandboxes.lease("b", SPEC).start())
    await turns()
    assert boxes.journal == ["a started"]
    assert sandboxes.slots.waiting == 1
    first.release()
    await second
    assert boxes.journal == ["a started", "a stopping", "a stopped", "b started"]


async def test_a_user_of_a_stopping_sandbox_waits_in_line() -> None:
    boxes = Boxes()
    sandboxes = make_sandboxes(boxes, most=1)
    first = sandboxes.lease("a", SPEC)
    await first.start()
    first.release()
    boxes.go.clear()
    other = sandboxes.lease("b", SPEC)
    second = asyncio.create_task(other.start())
    await boxes.seen("a stopping")
    third = asyncio.create_task(sandboxes.lease("a", SPEC).start())
    await turns()
    boxes.go.set()
    await second
    await turns()
    assert not third.done()
    other.release()
    await third
    assert boxes.journal[-3:] == ["b stopping", "b stopped", "a started"]


async def test_calls_of_one_session_take_one_slot() -> None:
    boxes = Boxes()
    sandboxes = make_sandboxes(boxes, most=1)
    lease = sandboxes.lease("a", SPEC)
    await asyncio.gather(*(lease.start() for _ in range(3)))
    assert sandboxes.slots.taken == 1


async def test_a_waiter_that_times_out_gets_an_error() -> None:
    sandboxes = make_sandboxes(Boxes(), most=1, wait_s=0)
    await sandboxes.lease("a", SPEC).start()
    with pytest.raises(SandboxUnavailableError, match="All 1 sandboxes are in use") as caught:
        await sandboxes.lease("b", SPEC).start()
    assert caught.value.code == "too_many_sandboxes"
    assert sandboxes.slots.refused == 1


async def test_a_removed_sandbox_frees_its_slot() -> None:
    sandboxes = make_sandboxes(Boxes(), most=1, wait_s=0)
    lease = sandboxes.lease("a", SPEC)
    await lease.start()
    lease.release()
    async with sandboxes.removed("a", SPEC):
        assert sandboxes.slots.taken == 0
    await sandboxes.lease("b", SPEC).start()


async def test_adopted_sandboxes_count() -> None:
    sandboxes = make_sandboxes(Boxes(), most=1, wait_s=0)
    sandboxes.adopt({"a": SPEC, "b": SPEC})
    assert sandboxes.slots.taken == 2


class Away(Boxes):
    """Boxes whose engine does not answer for some calls."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.calls = calls

    def open(self, config: SandboxConfig) -> Box:
        boxes = self

        class Waiting(Box):
            async def start(self) -> None:
                boxes.calls -= 1
                if boxes.calls >= 0:
                    raise SandboxAwayError("It does not answer.")
                await super().start()

        return Waiting(config.session_id, self)


async def test_an_unavailable_engine_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.runtime.sandboxes.slots.AWAY_RETRY_S", 0.001)
    boxes = Away(3)
    await make_sandboxes(boxes).lease("a", SPEC).start()
    assert boxes.journal == ["a started"]


async def test_an_unavailable_engine_is_not_waited_for_longer_than_allowed() -> None:
    with pytest.raises(SandboxAwayError):
        await make_sandboxes(Away(1), wait_s=0).lease("a", SPEC).start()


async def test_an_expected_kind_is_waited_for() -> None:
    sandboxes: Sandboxes = make_sandboxes(expected=["docker"])
    waiting = asyncio.create_task(sandboxes.kinds.wait_for("docker"))
    await turns()
    assert not waiting.done()
    sandboxes.kinds.add(Boxes())
    await waiting
    assert sandboxes.kinds.names == ("docker",)
    await sandboxes.lease("a", SandboxSpec(kind="docker")).start()


async def test_an_unexpected_kind_is_not_waited_for() -> None:
    async with asyncio.timeout(5):
        await make_sandboxes(Boxes()).kinds.wait_for("bubblewrap")


async def test_a_sandbox_that_does_not_stop_blocks_neither_its_user_nor_the_shutdown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.runtime.sandboxes.pool.STOP_WAIT_S", 0.01)
    boxes = Boxes()
    sandboxes = make_sandboxes(boxes, most=1)
    first = sandboxes.lease("a", SPEC)
    await first.start()
    first.release()
    boxes.go.clear()
    other = asyncio.create_task(sandboxes.lease("b", SPEC).start())
    await boxes.seen("a stopping")
    back = sandboxes.lease("a", SPEC)
    with pytest.raises(SandboxUnavailableError, match="still stopping"):
        await back.start()
    back.release()
    other.cancel()
    async with asyncio.timeout(60):
        await sandboxes.aclose()
    assert boxes.journal[-1] == "closed"
    assert "a stopped" not in boxes.journal


async def test_a_waiter_gets_the_slot_of_another_sandbox_if_one_does_not_stop() -> None:
    class Stubborn(Boxes):
        def open(self, config: SandboxConfig) -> Box:
            class Resisting(Box):
                async def stop(self) -> None:
                    if self.name == "a":
                        raise RuntimeError("the engine refuses")
                    await super().stop()

            return Resisting(config.session_id, self)

    boxes = Stubborn()
    sandboxes = make_sandboxes(boxes, most=2)
    for name in ("a", "b"):
        lease = sandboxes.lease(name, SPEC)
        await lease.start()
        lease.release()
    with capture_logs() as logs:
        await sandboxes.lease("c", SPEC).start()
    assert [line["event"] for line in logs] == ["sandbox_stop_crashed"]
    assert boxes.journal[2:] == ["b stopping", "b stopped", "c started"]
    assert sandboxes.slots.taken == 2, "the one that did not stop still runs"
