"""One node of a cluster: its dispatch, its worker if it has one, and what it does regularly."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from app.cluster.dispatch import ClusterDispatch
from app.cluster.engine import Engine, EngineAddress
from app.cluster.sweep import Sweep
from app.cluster.tenures import Tenures
from app.cluster.worker import EngineWorker
from app.eventlog.polling import ALONE_S, LogPoll
from app.runtime.registry import RunBounds
from app.runtime.setup import RuntimeSetup, in_background


@dataclass(frozen=True, slots=True)
class Node:
    """A node that is not running yet."""

    setup: RuntimeSetup
    engine: Engine
    tenures: Tenures
    dispatch: ClusterDispatch
    most_runs: int

    @classmethod
    async def at(cls, address: EngineAddress, setup: RuntimeSetup, bounds: RunBounds) -> Node:
        """A node of the cluster whose engine is at this address; connects to nothing."""
        engine = await Engine.at(address)
        tenures = Tenures(setup)
        return cls(setup, engine, tenures, ClusterDispatch(setup, engine, tenures, bounds.waiting), bounds.most)

    @asynccontextmanager
    async def running(self, *, works: bool, drain_s: float) -> AsyncIterator[None]:
        """Runs the node; with `works`, it owns sessions. Leaving the context ends that first."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.engine.aclose)
            stack.push_async_callback(self.dispatch.aclose)
            if self.setup.bus.relay is None:
                poll = LogPoll(self.setup.bus, self.setup.database, ALONE_S)
                await stack.enter_async_context(poll.running())
            await stack.enter_async_context(in_background(self.dispatch.count(), "waiting-sessions"))
            await stack.enter_async_context(
                in_background(Sweep(self.setup.database, self.engine).run(), "sweep-of-sessions")
            )
            if works:
                worker = EngineWorker(self.engine, self.tenures, self.most_runs)
                await stack.enter_async_context(worker.working(drain_s))
            yield
