"""The engine's client: rings for sessions, and says whether the engine answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

import structlog
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    GetSystemInfoRequest,
    RecordActivityTaskHeartbeatRequest,
)
from temporalio.client import Client
from temporalio.common import Priority
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import KeepAliveConfig, RPCError, RPCStatusCode

from app.cluster.workflow import RING, TASK_TIMEOUT, SessionWorkflow, session_workflow_id
from app.errors import UnavailableError

RPC_TIMEOUT = timedelta(seconds=5)

LOOK_S = 15.0
"""Seconds for a look from outside, with its connection."""

RING_RETRIES_S = (0.1, 0.3, 1.0, *(3.0,) * 30)
"""Waits between attempts to ring, so that a session begins within seconds of the end of an outage of a minute or more.
After the last one, the sweep finds the session, which may take half a minute longer."""

KEEP_ALIVE = KeepAliveConfig(interval_millis=2_000, timeout_millis=2_000)
"""Notices an engine that disappeared without closing its connections."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """Where the engine is. `target` is host:port; `api_key` implies TLS. Nodes with one `task_queue` share the work."""

    target: str
    namespace: str
    tls: bool
    api_key: str | None
    task_queue: str


class Engine:
    """The engine as all nodes use it. Connects on first use, so that a node starts without it."""

    def __init__(self, client: Client, address: EngineAddress) -> None:
        """`client` may be one that has not connected yet."""
        self._client = client
        self._address = address
        self.task_queue = address.task_queue
        self._ringing: dict[str, bool] = {}
        """Sessions that are being rung for; True if another ring is needed after this one."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.failed_rings = 0

    @classmethod
    async def at(cls, address: EngineAddress) -> Engine:
        """The engine at an address, without connecting to it."""
        return cls(await _client(address, lazy=True), address)

    async def connected(self) -> Client:
        """A client for a worker, which cannot use one that connects later. Raises `UnavailableError`."""
        try:
            return await _client(self._address, lazy=False)
        except (RPCError, RuntimeError) as error:
            raise _unavailable(error, self._address) from error

    def ring(self, session_id: str, key: str | None = None) -> None:
        """Has the session owned, at once or again. Never waits; a ring that fails is repeated, then left to the
        sweep. Sessions that wait for a worker take turns by `key`, if the engine is set up for it."""
        if session_id in self._ringing:
            self._ringing[session_id] = True
            return
        self._ringing[session_id] = False
        task = asyncio.create_task(self._ring(session_id, key), name=f"ring-{session_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ring(self, session_id: str, key: str | None) -> None:
        try:
            while True:
                self._ringing[session_id] = False
                await self._ring_until_heard(session_id, key)
                if not self._ringing[session_id]:
                    return
        finally:
            del self._ringing[session_id]

    async def _ring_until_heard(self, session_id: str, key: str | None) -> None:
        for wait_s in (*RING_RETRIES_S, None):
            try:
                await self._start(session_id, rings=True, key=key)
                return
            except (RPCError, RuntimeError) as error:
                if wait_s is None:
                    self.failed_rings += 1
                    log.warning("ring_failed", session_id=session_id, reason=str(error))
                    return
            await asyncio.sleep(wait_s)

    async def start_if_absent(self, session_id: str) -> bool:
        """Has a session owned if nothing does so yet; returns whether that was necessary. Raises `UnavailableError`."""
        try:
            await self._start(session_id, rings=False)
        except WorkflowAlreadyStartedError:
            return False
        except (RPCError, RuntimeError) as error:
            raise _unavailable(error, self._address) from error
        return True

    async def _start(self, session_id: str, *, rings: bool, key: str | None = None) -> None:
        await self._client.start_workflow(
            SessionWorkflow.run,
            session_id,
            id=session_workflow_id(session_id),
            task_queue=self.task_queue,
            task_timeout=TASK_TIMEOUT,
            # A signal starts the workflow or reaches the one that runs; without one, a running workflow is an error.
            start_signal=RING if rings else None,
            # Inherited by its activities, which are what waits for a worker.
            priority=Priority(fairness_key=key),
            rpc_timeout=RPC_TIMEOUT,
        )

    async def awaits(self, task_token: bytes) -> bool:
        """Whether the engine still awaits the end of an activity that it has given to this node: it does not if the
        node was frozen for too long when it got it. Raises `UnavailableError`."""
        request = RecordActivityTaskHeartbeatRequest(namespace=self._address.namespace, task_token=task_token)
        try:
            await self._client.workflow_service.record_activity_task_heartbeat(request, timeout=RPC_TIMEOUT)
        except (RPCError, RuntimeError) as error:
            if isinstance(error, RPCError) and error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise _unavailable(error, self._address) from error
        return True

    async def check(self) -> None:
        """Raises `UnavailableError` if the engine does not answer, or refuses this node: its namespace, key or
        certificate. It is asked about the namespace, since its health says nothing of these."""
        request = DescribeNamespaceRequest(namespace=self._address.namespace)
        try:
            await self._client.workflow_service.describe_namespace(request, timeout=RPC_TIMEOUT)
        except (RPCError, RuntimeError) as error:
            raise _unavailable(error, self._address) from error

    async def aclose(self) -> None:
        """Waits for rings that are under way, a moment at most: the sweep of another node makes up for the rest."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=1.0)
            for task in late:
                task.cancel()


async def _client(address: EngineAddress, *, lazy: bool) -> Client:
    return await Client.connect(
        address.target,
        namespace=address.namespace,
        api_key=address.api_key,
        tls=address.tls or address.api_key is not None,
        keep_alive_config=KEEP_ALIVE,
        lazy=lazy,
    )


def _unavailable(error: Exception, address: EngineAddress) -> UnavailableError:
    status = error.status if isinstance(error, RPCError) else None
    if status is RPCStatusCode.NOT_FOUND:
        return UnavailableError(f"The engine has no namespace {address.namespace}.")
    if status in (RPCStatusCode.UNAUTHENTICATED, RPCStatusCode.PERMISSION_DENIED):
        return UnavailableError(f"The engine refuses this server's key: {error}.")
    return UnavailableError(f"The engine does not answer: {error}.")


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What an engine reports about itself. `version` is empty if it reports none."""

    version: str
    has_namespace: bool


async def look_at(address: EngineAddress) -> EngineInfo:
    """Asks the engine at an address for its version and its namespace. Raises `UnavailableError` if it does not answer,
    or refuses."""
    try:
        async with asyncio.timeout(LOOK_S):
            client = await _client(address, lazy=False)
            service = client.workflow_service
            info = await service.get_system_info(GetSystemInfoRequest(), timeout=RPC_TIMEOUT)
            try:
                await service.describe_namespace(
                    DescribeNamespaceRequest(namespace=address.namespace), timeout=RPC_TIMEOUT
                )
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise
                return EngineInfo(info.server_version, has_namespace=False)
    except (RPCError, RuntimeError, TimeoutError) as error:
        raise _unavailable(error, address) from error
    return EngineInfo(info.server_version, has_namespace=True)
