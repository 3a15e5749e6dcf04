"""Which sandbox a session gets, and how long it is kept: while used, a while after, never past its session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ForbiddenError, NotFoundError, SandboxError, SandboxUnavailableError
from app.runtime.sandboxes.pool import Sandboxes
from app.sandbox.base import Present, SandboxConfig, SandboxLimits
from app.sessions import AllowedHosts, Network, SandboxSpec
from tests.unit.agent.scenes import turns
from tests.unit.runtime.stage import make_sandboxes
from tests.unit.tools.workbench import DirectorySandbox


class Box(DirectorySandbox):
    """Records its operations; `go` lets its stops finish."""

    def __init__(self, name: str, boxes: Boxes) -> None:
        super().__init__(Path("unused"))
        self.name, self._boxes = name, boxes

    async def start(self) -> None:
        self._boxes.note(f"{self.name} started")

    async def stop(self) -> None:
        self._boxes.note(f"{self.name} stopping")
        await self._boxes.go.wait()
        if self._boxes.broken:
            raise SandboxError("It does not stop.")
        self._boxes.note(f"{self.name} stopped")

    async def remove(self) -> None:
        if self._boxes.broken:
            raise SandboxError("It does not go away.")
        self._boxes.note(f"{self.name} removed")


class Boxes:
    """A kind of sandbox whose operations are recorded."""

    refused_connections = 1

    def __init__(self, kind: str = "docker", *, network: bool = False, limitable: bool = True) -> None:
        self.kind, self.network_default, self.network_can_be_limited = kind, network, limitable
        self.opened: list[SandboxConfig] = []
        self.journal: list[str] = []
        self.go, self.broken, self._news = asyncio.Event(), False, asyncio.Event()
        self.go.set()

    def note(self, entry: str) -> None:
        self.journal.append(entry)
        self._news.set()

    async def seen(self, entry: str) -> None:
        async with asyncio.timeout(60):
            while entry not in self.journal:
                self._news.clear()
                await self._news.wait()

    def open(self, config: SandboxConfig) -> Box:
        self.opened.append(config)
        return Box(config.session_id, self)

    def describe(self) -> str:
        return f"boxes of the kind {self.kind}"

    async def check(self) -> None:
        if self.broken:
            raise SandboxUnavailableError("Broken.")

    async def machine(self) -> None: ...

    async def present(self) -> list[Present]:
        return []

    async def remove_orphans(self, live_sessions: set[str], at_work: Collection[str] = ()) -> list[str]:
        return [f"{self.kind} {name}" for name in sorted({"a", "gone"} - live_sessions)]

    async def running(self) -> set[str]:
        return {f"{self.kind} session"}

    async def aclose(self) -> None:
        self.note("closed")


SPEC = SandboxSpec(kind="docker")


# what a session gets


def test_the_default_is_the_first_kind_with_the_operators_settings() -> None:
    sandboxes = make_sandboxes(Boxes(), Boxes("bubblewrap", network=True))
    complete = SandboxSpec(kind="docker", image="image", network=False, memory_mb=1024, cpus=2.0, pids=128)
    assert sandboxes.kinds.resolve(None) == sandboxes.kinds.resolve("docker") == complete
    other = sandboxes.kinds.resolve("bubblewrap")
    assert (other.kind, other.image, other.network) == ("bubblewrap", None, True)


def test_the_operator_s_default_may_be_unsafe_but_requests_may_not() -> None:
    sandboxes = make_sandboxes(Boxes("local-unsafe"))
    assert sandboxes.kinds.resolve(None).kind == "local-unsafe"
    with pytest.raises(ForbiddenError, match="only the operator"):
        sandboxes.kinds.resolve("local-unsafe")


@pytest.mark.parametrize("asked", ["bubblewrap", SandboxSpec(kind="bubblewrap")])
def test_an_unavailable_kind_is_refused_with_a_list_of_the_available_ones(asked: str | SandboxSpec) -> None:
    with pytest.raises(ForbiddenError, match="runs commands in docker; bubblewrap") as caught:
        make_sandboxes(Boxes()).kinds.resolve(asked)
    assert caught.value.code == "sandbox_not_allowed"


@pytest.mark.parametrize("asked", [None, "docker", SPEC])
def test_without_any_kind_there_is_no_sandbox(asked: str | SandboxSpec | None) -> None:
    with pytest.raises(SandboxUnavailableError, match="has no sandbox"):
        make_sandboxes().kinds.resolve(asked)


@pytest.mark.parametrize("setting", [None, False, True])
@pytest.mark.parametrize("default", [False, True])
@pytest.mark.parametrize("asked", [None, False, True])
def test_a_network_can_be_given_up_but_not_gained(setting: bool | None, default: bool, asked: bool | None) -> None:
    sandboxes = make_sandboxes(Boxes(network=default), network=setting)
    allowed = default if setting is None else setting
    spec = SandboxSpec(kind="docker", network=asked)
    if asked and not allowed:
        with pytest.raises(ForbiddenError, match=r"sandbox\.network"):
            sandboxes.kinds.resolve(spec)
    else:
        assert sandboxes.kinds.resolve(spec).network is (allowed if asked is None else asked)


def hosts(*names: str) -> AllowedHosts:
    return AllowedHosts(allowed_hosts=names)


@pytest.mark.parametrize(
    ("setting", "asked", "got"),
    [
        (True, hosts("a.example"), hosts("a.example")),
        (hosts("a.example", "*.b.example"), None, hosts("a.example", "*.b.example")),
        (hosts("a.example", "*.b.example"), False, False),
        (
            hosts("a.example", "*.b.example"),
            hosts("*.c.b.example", "x.b.example"),
            hosts("*.c.b.example", "x.b.example"),
        ),
        (hosts("*.b.example", "c.b.example"), hosts("*.b.example"), hosts("*.b.example")),
        (hosts("a.example"), True, None),
        (hosts("a.example", "*.b.example"), hosts("a.example", "b.example"), None),
        (hosts("a.b.example"), hosts("*.b.example"), None),
        (False, hosts("a.example"), None),
    ],
)
def test_a_list_of_hosts_can_be_shortened_but_not_lengthened(setting: Network, asked: Any, got: Network | None) -> None:
    sandboxes, spec = make_sandboxes(Boxes(), network=setting), SandboxSpec(kind="docker", network=asked)
    if got is None:
        with pytest.raises(ForbiddenError, match=r"sandbox\.network") as caught:
            sandboxes.kinds.resolve(spec)
        assert caught.value.code == "sandbox_not_allowed"
    else:
        assert sandboxes.kinds.resolve(spec).network == got


def test_a_list_is_refused_if_it_cannot_be_enforced() -> None:
    sandboxes = make_sandboxes(Boxes(network=True, limitable=False))
    assert sandboxes.kinds.resolve(None).network is True
    for take in (sandboxes.kinds.resolve, sandboxes.kinds.within):
        with pytest.raises(SandboxUnavailableError, match="allowed_hosts") as caught:
            take(SandboxSpec(kind="docker", network=hosts("a.example")))
        assert caught.value.code == "allowed_hosts_unavailable"


async def test_a_sandbox_with_a_list_has_no_network_of_its_own() -> None:
    boxes = Boxes(network=True)
    sandboxes = make_sandboxes(boxes)
    sandboxes.lease("a", SandboxSpec(kind="docker", network=hosts("a.example")))
    (config,) = boxes.opened
    assert (config.network, config.allowed_hosts) == (False, ("a.example",))
    assert sandboxes.kinds.refused_connections == 1


MOST = SandboxLimits(memory_mb=1024, cpus=2.0, pids=128)


@given(
    memory_mb=st.none() | st.integers(64, 2048),
    cpus=st.none() | st.floats(0.01, 4),
    pids=st.none() | st.integers(16, 256),
    image=st.sampled_from([None, "image", "other"]),
)
def test_limits_can_only_be_tightened(
    memory_mb: int | None, cpus: float | None, pids: int | None, image: str | None
) -> None:
    asked: dict[str, Any] = {"memory_mb": memory_mb, "cpus": cpus, "pids": pids}
    beyond = {name for name, value in asked.items() if value is not None and value > getattr(MOST, name)}
    beyond |= {"image"} if image == "other" else set()
    sandboxes, wanted = make_sandboxes(Boxes()), SandboxSpec(kind="docker", image=image, **asked)
    if beyond:
        with pytest.raises(ForbiddenError, match=rf"sandbox\.({'|'.join(sorted(beyond))}) ") as caught:
            sandboxes.kinds.resolve(wanted)
        assert caught.value.code == "sandbox_not_allowed"
        return
    spec = sandboxes.kinds.resolve(wanted)
    for name, value in asked.items():
        assert getattr(spec, name) == (getattr(MOST, name) if value is None else value)
    assert spec.image == "image"


@given(
    memory_mb=st.none() | st.integers(64, 2048),
    cpus=st.none() | st.floats(0.01, 4),
    pids=st.none() | st.integers(16, 256),
    image=st.sampled_from([None, "image", "other"]),
    asked=st.sampled_from([None, False, True, hosts("a.example", "*.b.example")]),
    network=st.sampled_from([None, False, True, hosts("c.b.example", "d.example"), hosts("e.example")]),
)
def test_a_copied_spec_is_limited_to_what_may_be_requested(
    memory_mb: int | None, cpus: float | None, pids: int | None, image: str | None, asked: Network | None, network: Any
) -> None:
    sandboxes = make_sandboxes(Boxes(), network=network)
    own = SandboxSpec(kind="docker", image=image, memory_mb=memory_mb, cpus=cpus, pids=pids, network=asked)
    spec = sandboxes.kinds.within(own)
    assert sandboxes.kinds.resolve(spec) == spec
    for name in ("memory_mb", "cpus", "pids"):
        had, most = getattr(own, name), getattr(MOST, name)
        assert getattr(spec, name) == (most if had is None else min(had, most))
    if isinstance(network, bool | None) and isinstance(asked, bool | None):
        assert spec.network is (bool(network) and asked is not False)
    elif isinstance(network, AllowedHosts) and isinstance(asked, AllowedHosts):
        assert spec.network == (hosts("c.b.example") if "d.example" in network.allowed_hosts else False)


def test_a_spec_of_an_unavailable_kind_cannot_be_copied() -> None:
    with pytest.raises(SandboxUnavailableError, match="docker, is not available now"):
        make_sandboxes(Boxes("bubblewrap")).kinds.within(SPEC)


# leases


@pytest.fixture
async def boxes() -> Boxes:
    return Boxes()


@pytest.fixture
async def sandboxes(boxes: Boxes) -> AsyncIterator[Sandboxes]:
    """Sandboxes that are stopped as soon as they are unused."""
    sandboxes = make_sandboxes(boxes, idle_s=0)
    yield sandboxes
    boxes.go.set()
    await sandboxes.aclose()


async def test_a_session_has_one_sandbox_started_on_first_use(sandboxes: Sandboxes, boxes: Boxes) -> None:
    spec = SandboxSpec(kind="docker", network=True, cpus=0.5, image="old")
    one, two = sandboxes.lease("a", spec), sandboxes.lease("a", spec)
    other = sandboxes.lease("b", SPEC)
    assert one.sandbox is two.sandbox is not other.sandbox
    assert boxes.opened == [
        SandboxConfig("a", "old", True, SandboxLimits(memory_mb=1024, cpus=0.5, pids=128)),
        SandboxConfig("b", "image", False, MOST),
    ]
    assert boxes.journal == []
    assert await two.start() is one.sandbox
    assert boxes.journal == ["a started"]


async def test_it_is_stopped_after_the_last_user_and_started_again_for_the_next(
    sandboxes: Sandboxes, boxes: Boxes
) -> None:
    one, two = sandboxes.lease("a", SPEC), sandboxes.lease("a", SPEC)
    two.release()
    await turns()
    assert boxes.journal == []
    one.release()
    await boxes.seen("a stopped")
    await turns()
    assert sandboxes.lease("a", SPEC).sandbox is not one.sandbox
    assert len(boxes.opened) == 2


async def test_only_a_started_sandbox_is_kept_and_one_started_ahead_is_not_in_use(boxes: Boxes) -> None:
    sandboxes = make_sandboxes(boxes, idle_s=60)
    used: list[str] = []
    sandboxes.on_use = used.append
    never, ahead = sandboxes.lease("never", SPEC), sandboxes.lease("ahead", SPEC)
    await ahead.start_ahead()
    assert (boxes.journal, used) == (["ahead started"], [])
    for session_id, lease in (("never", never), ("ahead", ahead)):
        sandboxes.forget_unstarted(session_id)
        assert sandboxes.uses(session_id), "it is held"
        lease.release()
        sandboxes.forget_unstarted(session_id)
    assert not sandboxes.uses("never")
    assert sandboxes.uses("ahead")
    sandboxes.stop_unused("ahead")
    await boxes.seen("ahead stopped")
    again = sandboxes.lease("ahead", SPEC)
    await again.start()
    sandboxes.stop_unused("ahead")
    assert used == ["ahead"]
    assert boxes.journal[-1] == "ahead started", "one that is held is not stopped"
    await sandboxes.aclose()


async def test_a_user_that_returns_in_time_keeps_it_running(sandboxes: Sandboxes, boxes: Boxes) -> None:
    one = sandboxes.lease("a", SPEC)
    one.release()
    two = sandboxes.lease("a", SPEC)
    await turns()
    assert two.sandbox is one.sandbox
    assert boxes.journal == []
    two.release()
    await boxes.seen("a stopped")


async def test_a_user_that_returns_too_late_waits_for_the_stop_and_restarts_it(
    sandboxes: Sandboxes, boxes: Boxes
) -> None:
    boxes.go.clear()
    sandboxes.lease("a", SPEC).release()
    await boxes.seen("a stopping")
    back = sandboxes.lease("a", SPEC)
    given_up, starting = asyncio.create_task(back.start()), asyncio.create_task(back.start())
    await turns()
    given_up.cancel()
    await turns()
    assert boxes.journal == ["a stopping"]
    boxes.go.set()
    assert await starting is back.sandbox
    assert boxes.journal == ["a stopping", "a stopped", "a started"]
    assert sandboxes.lease("a", SPEC).sandbox is back.sandbox, "it is still the session's"


async def test_a_sandbox_that_does_not_stop_is_stopped_again_later(sandboxes: Sandboxes, boxes: Boxes) -> None:
    boxes.broken = True
    lease = sandboxes.lease("a", SPEC)
    await lease.start()
    lease.release()
    await boxes.seen("a stopping")
    await turns()
    assert sandboxes.slots.taken == 1, "it still runs"
    boxes.broken = False
    await boxes.seen("a stopped")
    await turns()
    assert sandboxes.slots.taken == 0
    sandboxes.lease("a", SPEC)
    assert len(boxes.opened) == 2


async def test_a_kind_that_is_gone_cannot_be_leased(sandboxes: Sandboxes) -> None:
    with pytest.raises(SandboxUnavailableError, match="bubblewrap, is not available now"):
        sandboxes.lease("a", SandboxSpec(kind="bubblewrap"))


async def test_running_sandboxes_are_adopted_and_stopped_when_idle(sandboxes: Sandboxes, boxes: Boxes) -> None:
    sandboxes.adopt({"a": SPEC, "b": SPEC})
    await boxes.seen("a stopped")
    await boxes.seen("b stopped")
    assert "a started" not in boxes.journal


# removal


async def test_a_removal_waits_for_users_and_keeps_others_out(sandboxes: Sandboxes, boxes: Boxes) -> None:
    users = [sandboxes.lease("a", SPEC), sandboxes.lease("a", SPEC)]
    inside, leave = asyncio.Event(), asyncio.Event()

    async def remove() -> None:
        async with sandboxes.removed("a", SPEC):
            inside.set()
            await leave.wait()

    removal = asyncio.create_task(remove())
    for user in users:
        await turns()
        assert boxes.journal == []
        with pytest.raises(NotFoundError) as caught:
            sandboxes.lease("a", SPEC)
        assert caught.value.code == "session_not_found"
        user.release()
    async with asyncio.timeout(60):
        await inside.wait()
    assert boxes.journal == ["a removed"]
    with pytest.raises(NotFoundError):
        sandboxes.lease("a", SPEC)
    sandboxes.lease("b", SPEC)
    leave.set()
    await removal
    sandboxes.lease("a", SPEC)
    assert [config.session_id for config in boxes.opened] == ["a", "b", "a"]


async def test_a_call_that_waits_for_a_slot_gets_none_after_a_removal(
    monkeypatch: pytest.MonkeyPatch, boxes: Boxes
) -> None:
    monkeypatch.setattr("app.runtime.sandboxes.pool.REMOVAL_WAIT_S", 0.01)
    sandboxes = make_sandboxes(boxes, most=1)
    user = sandboxes.lease("a", SPEC)
    await user.start()
    late = asyncio.create_task(sandboxes.lease("b", SPEC).start())
    await turns()
    async with sandboxes.removed("b", SPEC):
        assert boxes.journal == ["a started", "b removed"]
    user.release()
    with pytest.raises(NotFoundError):
        await late
    await turns()
    assert sandboxes.slots.taken == 0
    assert "b started" not in boxes.journal


async def test_a_removed_sandbox_is_not_stopped_later(sandboxes: Sandboxes, boxes: Boxes) -> None:
    sandboxes.lease("a", SPEC).release()
    async with sandboxes.removed("a", SPEC):
        await turns()
    await turns()
    assert boxes.journal == ["a removed"]


async def test_a_sandbox_that_was_never_used_is_removed_too(sandboxes: Sandboxes, boxes: Boxes) -> None:
    async with sandboxes.removed("a", SPEC):
        assert boxes.journal == ["a removed"]


async def test_a_failed_removal_raises_and_leaves_the_session_usable(sandboxes: Sandboxes, boxes: Boxes) -> None:
    boxes.broken = True
    with pytest.raises(SandboxError, match="go away"):
        async with sandboxes.removed("a", SPEC):
            pytest.fail("nothing else of the session may be deleted")
    boxes.broken = False
    await sandboxes.lease("a", SPEC).start()
    assert boxes.journal == ["a started"]


async def test_an_unavailable_kind_does_not_block_the_deletion_of_a_session(sandboxes: Sandboxes, boxes: Boxes) -> None:
    async with sandboxes.removed("a", SandboxSpec(kind="bubblewrap")):
        assert (boxes.opened, boxes.journal) == ([], [])


async def test_a_sandbox_whose_removal_was_given_up_is_stopped_when_idle(sandboxes: Sandboxes, boxes: Boxes) -> None:
    user = sandboxes.lease("a", SPEC)

    async def remove() -> None:
        async with sandboxes.removed("a", SPEC):
            pytest.fail("it is in use")

    removal = asyncio.create_task(remove())
    await turns()
    removal.cancel()
    with suppress(asyncio.CancelledError):
        await removal
    user.release()
    await turns()
    assert "a stopping" in boxes.journal


# all of them


async def test_closing_stops_all_running_sandboxes_and_closes_every_kind() -> None:
    one, two = Boxes(), Boxes("bubblewrap")
    sandboxes = make_sandboxes(one, two)
    sandboxes.lease("used", SPEC)
    sandboxes.lease("idle", SPEC).release()
    sandboxes.lease("other", SandboxSpec(kind="bubblewrap"))
    one.broken = True
    await sandboxes.aclose()
    assert one.journal == ["used stopping", "idle stopping", "closed"]
    assert two.journal == ["other stopping", "other stopped", "closed"]


async def test_a_superseded_server_stops_no_sandbox() -> None:
    boxes = Boxes()
    sandboxes = make_sandboxes(boxes, idle_s=0)
    sandboxes.lease("used", SPEC)
    sandboxes.disown()
    sandboxes.lease("a", SPEC).release()
    held = sandboxes.lease("b", SPEC)
    await turns()
    await sandboxes.aclose()
    held.release()
    await turns()
    assert boxes.journal == ["closed"]


async def test_leftovers_are_requested_from_every_kind() -> None:
    sandboxes = make_sandboxes(Boxes(), Boxes("bubblewrap"))
    assert await sandboxes.kinds.remove_orphans({"a"}) == ["docker gone", "bubblewrap gone"]
    assert await sandboxes.kinds.running() == {"docker session", "bubblewrap session"}


async def test_the_default_kind_describes_the_server() -> None:
    good, broken = Boxes("bubblewrap"), Boxes()
    broken.broken = True
    sandboxes = make_sandboxes(broken, good)
    assert sandboxes.kinds.describe() == "boxes of the kind docker"
    with pytest.raises(SandboxUnavailableError, match=r"Broken\."):
        await sandboxes.kinds.check()
    assert make_sandboxes().kinds.describe() == "no sandbox"
    with pytest.raises(SandboxUnavailableError, match="doctor"):
        await make_sandboxes().kinds.check()
    await make_sandboxes(good, broken).kinds.check()
