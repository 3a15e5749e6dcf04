"""A node's worker: takes sessions from the engine, and confirms twice a second that it still has them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial

import structlog
from temporalio import activity
from temporalio.client import Client
from temporalio.common import WorkerDeploymentVersion
from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    FixedSizeSlotSupplier,
    PollerBehaviorSimpleMaximum,
    UnsandboxedWorkflowRunner,
    Worker,
    WorkerDeploymentConfig,
    WorkerTuner,
)

from app import __version__
from app.cluster.engine import Engine
from app.cluster.slots import RunSlots
from app.cluster.tenures import DrainingError, Tenures
from app.cluster.workflow import DRAINING, OWN, SessionWorkflow
from app.errors import UnavailableError
from app.runtime.background import in_background

HEARTBEAT_S = 0.5
"""Six of them fit into the heartbeat's time-out, so that a busy event loop loses no session."""

STICKY_TIMEOUT = timedelta(seconds=1)
"""How long a decision waits for the worker that made the last one, which may be gone."""

WORKFLOW_POLLERS = 1
"""A decision that is given to a frozen worker's poller waits for its time-out. With one, a session meets it once: a
third attempt would wait for several seconds more."""

DEPLOYMENT = WorkerDeploymentConfig(WorkerDeploymentVersion("palimpsest", __version__), use_worker_versioning=False)
"""Names the code. Without it, the client hashes all imported modules, for which the event loop stops for 0.2 s."""

DECISIONS = 2
"""Workflows that are decided on at the same time. The time-out of a decision begins when a worker gets it: those that a
busy worker cannot make yet are better left with the engine."""

RETRY_S = 1.0
"""Seconds between attempts to reach an engine that does not answer."""

LOG_S = 60.0
"""Seconds between two lines in the log about an engine that does not answer or refuses this node."""

ENDING_S = 15.0
"""How long owners may take to end at once, and the worker to tell the engine. Then the node ends all the same, as in a
crash."""

CUT_OFF_S = 1.0
"""How long a canceled worker may take to end."""

log = structlog.get_logger(__name__)


class EngineWorker:
    """Owns sessions that the engine offers, at most `most` that are running at the same time."""

    def __init__(self, engine: Engine, tenures: Tenures, most: int) -> None:
        self._engine = engine
        self._tenures = tenures
        self._slots = RunSlots(most, lambda: tenures.resting)
        tenures.on_change = self._slots.change
        self._worker: Worker | None = None
        self._task: asyncio.Task[None] | None = None
        self._closes = False
        self._logs_at = 0.0

    @activity.defn(name=OWN)
    async def own(self, session_id: str) -> bool:
        """Owns a session until it is idle; returns whether it still has work, for another worker."""
        async with in_background(_heartbeats(), "heartbeats"):
            try:
                # A worker that was frozen may be given the session when another one owns it already.
                wanted = partial(self._engine.awaits, activity.info().task_token)
                return await self._tenures.hold(session_id, is_wanted=wanted)
            except DrainingError as error:
                raise ApplicationError(error.detail, type=DRAINING) from error

    @asynccontextmanager
    async def working(self, drain_s: float) -> AsyncIterator[None]:
        """Takes sessions while the context lasts. Leaving it lets current steps end, for at most `drain_s` seconds."""
        async with in_background(self._tenures.watch(), "tenures"):
            self._task = asyncio.create_task(self._run(drain_s), name="engine-worker")
            try:
                yield
            finally:
                await self.end(drain_s)

    async def _run(self, drain_s: float) -> None:
        """Works until it is shut down, and begins again if the engine refuses it or its client fails."""
        while not self._closes:
            try:
                # A worker reports a missing namespace as an error that cannot be told from others.
                await self._engine.check()
                self._worker = self._make(await self._engine.connected(), drain_s)
                await self._worker.run()
            except UnavailableError as error:
                self._log_once(error.detail)
            except Exception as error:
                self._log_once(str(error), exc_info=True)
            if not self._closes:
                await asyncio.sleep(RETRY_S)

    def _log_once(self, reason: str, *, exc_info: bool = False) -> None:
        """Logs why there is no worker, once a minute: it is tried again every second."""
        at = asyncio.get_running_loop().time()
        if at >= self._logs_at:
            self._logs_at = at + LOG_S
            log.warning("engine_worker_failed", reason=reason, exc_info=exc_info)

    def _make(self, client: Client, drain_s: float) -> Worker:
        fixed = FixedSizeSlotSupplier(DECISIONS)
        return Worker(
            client,
            task_queue=self._engine.task_queue,
            workflows=[SessionWorkflow],
            activities=[self.own],
            # The workflow reads no clock and calls nothing: the sandbox would import all modules once more for it.
            workflow_runner=UnsandboxedWorkflowRunner(),
            tuner=WorkerTuner.create_composite(
                workflow_supplier=fixed,
                activity_supplier=self._slots,
                local_activity_supplier=fixed,
                nexus_supplier=fixed,
            ),
            deployment_config=DEPLOYMENT,
            max_cached_workflows=0,
            workflow_task_poller_behavior=PollerBehaviorSimpleMaximum(WORKFLOW_POLLERS),
            activity_task_poller_behavior=PollerBehaviorSimpleMaximum(1),
            sticky_queue_schedule_to_start_timeout=STICKY_TIMEOUT,
            max_heartbeat_throttle_interval=timedelta(seconds=HEARTBEAT_S),
            default_heartbeat_throttle_interval=timedelta(seconds=HEARTBEAT_S),
            graceful_shutdown_timeout=timedelta(seconds=drain_s + ENDING_S),
        )

    async def end(self, drain_s: float) -> None:
        """Takes no more sessions; gives current steps `drain_s` seconds to end, then the worker `ENDING_S`. May be
        called again."""
        task = self._task
        if task is None or task.done():
            return
        log.info("worker_draining", sessions=len(self._tenures), drain_s=drain_s)
        self._closes = True
        self._tenures.drain()
        try:
            async with in_background(self._shut_down(task), "engine-worker-shutdown"):
                await self._tenures.until_ended(drain_s)
                # Its client keeps retrying an engine that does not answer.
                await asyncio.wait({task}, timeout=ENDING_S)
        finally:
            if not task.done():
                log.warning("engine_worker_cut_off", sessions=len(self._tenures))
                task.cancel()
                await asyncio.wait({task}, timeout=CUT_OFF_S)

    async def _shut_down(self, task: asyncio.Task[None]) -> None:
        if self._worker is not None and self._worker.is_running:
            await self._worker.shutdown()
        else:
            # It waits for the engine, or was refused by it: such a worker owns nothing, and cannot be shut down.
            task.cancel()


async def _heartbeats() -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(HEARTBEAT_S)
