"""One node of a cluster: its dispatch, its worker if it has one, and what it does regularly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import structlog

from app.cluster.dispatch import ClusterDispatch
from app.cluster.engine import Engine, EngineAddress
from app.cluster.membership import Membership
from app.cluster.sweep import Sweep
from app.cluster.tenures import Tenures
from app.cluster.worker import EngineWorker
from app.errors import PalimpsestError
from app.eventlog.polling import ALONE_S, LogPoll
from app.runtime.background import in_background
from app.runtime.registry import RunBounds
from app.runtime.setup import RuntimeSetup

LEARN_S = 2.0
"""Seconds between looks at what other nodes have learned of models: a table with a row for each."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Node:
    """A node that is not running yet."""

    setup: RuntimeSetup
    engine: Engine
    tenures: Tenures
    dispatch: ClusterDispatch
    worker: EngineWorker
    sweep: Sweep
    membership: Membership

    @classmethod
    async def at(
        cls, engine_address: EngineAddress, setup: RuntimeSetup, bounds: RunBounds, role: str, address: str | None
    ) -> Node:
        """A node of the cluster whose engine is at this address; connects to nothing. Other nodes reach it at
        `address`."""
        engine = await Engine.at(engine_address)
        slots = bounds.most if role != "api" else 0
        tenures = Tenures(setup, slots)
        assert setup.node is not None
        membership = Membership(setup.database, setup.node, role, slots, lambda: tenures.draining, address)
        dispatch = ClusterDispatch(setup, engine, tenures, bounds.waiting, membership)
        setup.sandboxes.unused_elsewhere = dispatch.while_unowned
        worker = EngineWorker(engine, tenures, bounds.most)
        return cls(setup, engine, tenures, dispatch, worker, Sweep(setup.database, engine), membership)

    async def _learn(self) -> None:
        """Takes over what other nodes have learned about models, until it is cancelled."""
        while True:
            await asyncio.sleep(LEARN_S)
            try:
                await self.setup.agents.exchange(self.setup.database)
            except PalimpsestError as error:
                log.debug("models_not_loaded", reason=error.detail)

    async def supersede(self) -> None:
        """Stops all runs at once, since another server has taken over, and asks the engine for no more."""
        self.sweep.end()
        self.tenures.drain()
        await self.tenures.until_ended(0)
        await self.worker.end(0)

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
            await stack.enter_async_context(in_background(self.sweep.run(), "sweep-of-sessions"))
            await stack.enter_async_context(self.membership.kept())
            await stack.enter_async_context(in_background(self._learn(), "learned-models"))
            if works:
                await stack.enter_async_context(self.worker.working(drain_s))
            yield
