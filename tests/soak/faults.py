"""The faults, each caused for real: signals, a full disk, a wrong clock, a provider that fails."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.soak.audit import audit_seen, is_at_work
from tests.soak.clock import JUMPS_S, Clock
from tests.soak.containers import Containers
from tests.soak.disk import Disk
from tests.soak.host import Host
from tests.soak.ledger import Book
from tests.soak.model import Weather
from tests.soak.plan import FAULTS, Fault, FaultKind
from tests.soak.proc import alive, descendants_of, kill_one, marked

AFTER_S = 15.0
"""Seconds after a fault of the server or its disk in which errors and delays are attributed to it."""
DEAD_S = 20.0
"""How long commands may outlive a server that was killed; the kernel ends them at once, on an idle machine."""
FULL_S = 1.0
"""How long the disk has been full when the server is killed with it."""


@dataclass(slots=True)
class Stage:
    """Everything that faults act on. `digits` mark this run's commands."""

    host: Host
    disk: Disk
    clock: Clock
    weather: Weather
    containers: Containers
    book: Book
    digits: str
    uses_docker: bool
    watches: set[asyncio.Task[None]] = field(default_factory=set)

    def impossible(self) -> dict[FaultKind, str]:
        """The faults that cannot be caused here, and why."""
        why: dict[FaultKind, str] = {}
        if not self.disk.is_small:
            reason = "a small disk cannot be mounted: it takes root and the right to mount"
            why |= {"full_disk": reason, "full_disk_kill": reason}
        if not self.clock.can_jump:
            why["clock"] = "libfaketime is not installed (Debian package libfaketime)"
        if self.uses_docker:
            why["kill_command"] = "commands run in containers"
        else:
            why["kill_container"] = "commands run without containers"
        return why

    def possible(self) -> tuple[FaultKind, ...]:
        why = self.impossible()
        return tuple(kind for kind in FAULTS if kind not in why)


async def cause(stage: Stage, fault: Fault) -> None:
    """Causes one fault and, if it ends the server, waits for the next start. Raises `ServerFailed`."""
    match fault.kind:
        case "kill" | "term":
            await restart(stage, signal.SIGKILL if fault.kind == "kill" else signal.SIGTERM)
        case "freeze":
            await _freeze(stage, fault.seconds)
        case "full_disk" | "full_disk_kill":
            await _fill_disk(stage, fault)
        case "clock" if not stage.host.has_clock:
            return
        case "clock":
            await _jump(stage, JUMPS_S[int(fault.pick * len(JUMPS_S))], fault.seconds)
        case "kill_command":
            if not kill_one(await asyncio.to_thread(descendants_of, stage.host.pid), fault.pick):
                return
        case "kill_container":
            if not await stage.containers.kill_one(fault.pick):
                return
        case _:
            stage.weather.spoil(fault.kind, fault.seconds * 2)
    stage.book.faults[fault.kind] += 1


async def restart(stage: Stage, how: signal.Signals, between: Callable[[], None] | None = None) -> None:
    """Ends the server and starts it again. Everything seen until then must be in its database. `between` is called
    while it is down. Raises `ServerFailed`."""
    async with stage.host.changing:
        with stage.book.excusing(AFTER_S):
            running = await asyncio.to_thread(marked, stage.digits)
            code = await stage.host.end(how)
            if code not in (-how, 0):
                stage.book.violated("the server ends as it is told", f"{how.name} ended it with {code}")
            if not stage.uses_docker:
                watch = asyncio.create_task(_see_dead(stage, running, how))
                stage.watches.add(watch)
                watch.add_done_callback(stage.watches.discard)
            if between is not None:
                between()
            await asyncio.to_thread(audit_seen, stage.host.database, stage.book)
            stage.disk.grow()
            stage.book.slowest_start_s = max(stage.book.slowest_start_s, await stage.host.start())


async def stopped_at_work(stage: Stage) -> bool:
    """Stops the server with SIGSTOP if a session runs; whether one does. Otherwise it would, on a busy machine, often
    have ended before the kill that follows."""
    async with stage.host.changing:
        stays = False
        stage.host.signal(signal.SIGSTOP)
        try:
            stays = await asyncio.to_thread(is_at_work, stage.host.database, stage.book)
        finally:
            if not stays:
                stage.host.signal(signal.SIGCONT)
        return stays


async def _see_dead(stage: Stage, running: dict[int, str], how: signal.Signals) -> None:
    """Commands die with the server that ran them."""
    deadline = time.monotonic() + DEAD_S
    while left := await asyncio.to_thread(alive, running):
        if time.monotonic() > deadline:
            detail = f"{len(left)} of {len(running)} ran on {DEAD_S:.0f} s after {how.name}"
            stage.book.violated("commands die with the server", detail)
            return
        await asyncio.sleep(0.2)


async def _freeze(stage: Stage, seconds: float) -> None:
    async with stage.host.changing:
        with stage.book.excusing(AFTER_S):
            stage.host.signal(signal.SIGSTOP)
            try:
                await asyncio.sleep(seconds)
            finally:
                stage.host.signal(signal.SIGCONT)


async def _fill_disk(stage: Stage, fault: Fault) -> None:
    """Fills the disk for a while; where the server is killed meanwhile, its next life finds room again."""
    with stage.book.excusing(AFTER_S):
        try:
            await asyncio.to_thread(stage.disk.fill)
            if fault.kind == "full_disk_kill":
                await asyncio.sleep(FULL_S)
                await restart(stage, signal.SIGKILL, between=stage.disk.free)
            else:
                await asyncio.sleep(fault.seconds)
        finally:
            await asyncio.to_thread(stage.disk.free)


async def _jump(stage: Stage, seconds: int, lasting: float) -> None:
    stage.clock.set(seconds)
    try:
        await asyncio.sleep(lasting)
    finally:
        stage.clock.set(0)
