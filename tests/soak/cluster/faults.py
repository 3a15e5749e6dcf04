"""The faults of a cluster, each caused for real: signals, cut and stalled links, services that end, a wrong clock."""

from __future__ import annotations

import asyncio
import signal
import time
from dataclasses import dataclass, field, replace

from tests.soak.clock import JUMPS_S
from tests.soak.cluster.looks import look
from tests.soak.cluster.nodes import Node, pick_node
from tests.soak.cluster.plan import CLUSTER_FAULTS, ClusterFault, ClusterFaultKind
from tests.soak.cluster.services import Services
from tests.soak.cluster.witness import Witness
from tests.soak.ledger import Book
from tests.soak.model import Weather
from tests.soak.proc import alive, descendants_of, kill_one, marked

AFTER_S = 15.0
"""Seconds after a fault in which errors and delays are attributed to it."""
DEAD_S = 20.0
"""How long commands may outlive a node that was killed, on a busy machine."""


@dataclass(slots=True)
class Stage:
    """Everything that faults act on. `digits` mark this run's commands."""

    nodes: list[Node]
    services: Services
    weather: Weather
    witness: Witness
    book: Book
    digits: str
    watches: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def workers(self) -> list[Node]:
        return [node for node in self.nodes if node.role == "worker"]

    @property
    def apis(self) -> list[Node]:
        return [node for node in self.nodes if node.role == "api"]

    def impossible(self) -> dict[ClusterFaultKind, str]:
        """The faults that cannot be caused here, and why."""
        why: dict[ClusterFaultKind, str] = {}
        clocks = [node.clock for node in self.nodes if node.clock is not None]
        if clocks and not any(clock.can_jump for clock in clocks):
            why["clock_worker"] = "libfaketime is not installed (Debian package libfaketime)"
        if self.services.s3 is None:
            why |= dict.fromkeys(("cut_store", "stall_store", "store_away"), "workspaces are in a shared folder")
        return why

    def possible(self) -> set[ClusterFaultKind]:
        return set(CLUSTER_FAULTS) - self.impossible().keys()


async def cause(stage: Stage, fault: ClusterFault) -> str:
    """Causes one fault and waits for its end; returns what it hit."""
    stage.book.faults[fault.kind] += 1
    # A node that runs sessions and serves nobody costs no caller an answer.
    with stage.book.excusing(AFTER_S, calls=not fault.kind.endswith(("_worker", "_command", "_broker"))):
        return await _cause(stage, fault)


async def _cause(stage: Stage, fault: ClusterFault) -> str:
    what, _, whom = fault.kind.partition("_")
    match what, whom:
        case (("kill" | "term"), ("worker" | "api")):
            node = pick_node(stage.workers if whom == "worker" else stage.apis, fault.pick)
            await restart(stage, node, signal.SIGKILL if what == "kill" else signal.SIGTERM)
            return node.name
        case "freeze", _:
            node = pick_node(stage.workers if whom == "worker" else stage.apis, fault.pick)
            await _freeze(node, fault.seconds)
            return f"{node.name} for {fault.seconds:.0f} s"
        case (("cut" | "stall"), service):
            node = pick_node(stage.nodes, fault.pick)
            await _isolate(stage, node, service, "cut" if what == "cut" else "stall", fault.seconds)
            return f"{node.name} for {fault.seconds:.0f} s"
        case service, "away":
            await stage.services.away(service, fault.seconds)
            return f"for {fault.seconds:.0f} s"
        case "clock", _:
            return await _jump(stage, fault)
        case "roll", _:
            for node in [*stage.workers, *stage.apis]:
                await restart(stage, node, signal.SIGTERM)
            return "all nodes"
        case "kill", _:
            node = pick_node(stage.workers, fault.pick)
            killed = kill_one(await asyncio.to_thread(descendants_of, node.pid), fault.pick)
            return node.name if killed else "nothing"
        case _:
            stage.weather.spoil(fault.kind, fault.seconds)
            return f"for {fault.seconds:.0f} s"


async def restart(stage: Stage, node: Node, how: signal.Signals) -> None:
    """Ends a node and starts it again. Everything seen until then must be in the database. Raises `ServerFailed`."""
    async with node.changing:
        below = await asyncio.to_thread(descendants_of, node.pid)
        commands = {
            pid: start for pid, start in (await asyncio.to_thread(marked, stage.digits)).items() if pid in below
        }
        code = await node.end(how)
        if code not in (-how, 0):
            stage.book.violated("a node exits as the signal says", f"{node.name}: {how.name} ended it with {code}")
        watch = asyncio.create_task(_see_dead(stage, commands, f"{node.name} and {how.name}"))
        stage.watches.add(watch)
        watch.add_done_callback(stage.watches.discard)
        # Taken before the database is read, since users keep working meanwhile.
        seen = {ledger.id: replace(ledger, seen=dict(ledger.seen)) for ledger in stage.book.living()}
        await asyncio.to_thread(look, stage.services.database_url, stage.book, seen)
        stage.book.slowest_start_s = max(stage.book.slowest_start_s, await node.start())


async def _see_dead(stage: Stage, commands: dict[int, str], what: str) -> None:
    """Commands die with the node that ran them."""
    deadline = time.monotonic() + DEAD_S
    while left := await asyncio.to_thread(alive, commands):
        if time.monotonic() > deadline:
            detail = f"{len(left)} of {len(commands)} ran on {DEAD_S:.0f} s after {what}"
            stage.book.violated("commands die with their node", detail)
            return
        await asyncio.sleep(0.2)


async def _freeze(node: Node, seconds: float) -> None:
    async with node.changing:
        node.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            node.signal(signal.SIGCONT)


async def _isolate(stage: Stage, node: Node, service: str, how: str, seconds: float) -> None:
    links = stage.services.links
    link = f"{node.name}/{service}"
    await asyncio.to_thread(links.set, [link], "cut" if how == "cut" else "stall")
    try:
        await asyncio.sleep(seconds)
    finally:
        await asyncio.to_thread(links.set, [link], "flow")


async def _jump(stage: Stage, fault: ClusterFault) -> str:
    with_clock = [node for node in stage.nodes if node.clock is not None]
    node = pick_node(with_clock, fault.pick)
    offset = JUMPS_S[int(fault.pick * len(JUMPS_S))]
    assert node.clock is not None
    node.clock.set(offset)
    try:
        await asyncio.sleep(fault.seconds)
    finally:
        node.clock.set(0)
    return f"{node.name} by {offset} s for {fault.seconds:.0f} s"
