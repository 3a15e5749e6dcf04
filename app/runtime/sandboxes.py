"""The sandboxes of this server: one handle per session, started on use, stopped when idle, removed with the session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog

from app.db.repositories.events import session_not_found
from app.errors import ForbiddenError, PalimpsestError, SandboxUnavailableError
from app.sandbox.base import Sandbox, SandboxConfig, SandboxFactory, SandboxLimits
from app.sessions import SandboxSpec

REMOVAL_WAIT_S = 10.0
"""How long the deletion of a session waits for those who use its files."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SandboxPolicy:
    """What the operator allows, which is also what a session gets that asks for nothing. `network` None is the kind's
    own default; `idle_s` is how long an unused sandbox is kept running, in seconds."""

    image: str
    network: bool | None
    limits: SandboxLimits
    idle_s: float


@dataclass(slots=True)
class _Handle:
    sandbox: Sandbox
    users: int = 0
    timer: asyncio.TimerHandle | None = None
    unused: asyncio.Event | None = None
    stopping: asyncio.Task[None] | None = None


@dataclass(slots=True)
class Lease:
    """A session's hold on its sandbox: while it lasts, the sandbox is not stopped for being idle."""

    sandbox: Sandbox
    release: Callable[[], None] = field(repr=False)
    stopped: Callable[[], Awaitable[None]] = field(repr=False)

    async def start(self) -> Sandbox:
        """The sandbox, ready; one that is just being stopped for having been idle is started after that."""
        await self.stopped()
        await self.sandbox.start()
        return self.sandbox


class Sandboxes:
    """Gives out sandboxes of the kinds that this machine has; the first one is the default."""

    def __init__(self, factories: Mapping[str, SandboxFactory], policy: SandboxPolicy) -> None:
        self._factories = dict(factories)
        self._policy = policy
        self._handles: dict[str, _Handle] = {}
        self._removing: set[str] = set()

    def resolve(self, asked: str | SandboxSpec | None) -> SandboxSpec:
        """The complete spec of a new session. Raises `SandboxUnavailableError` where there is no sandbox, and
        `ForbiddenError` for what goes beyond the operator's settings."""
        spec = SandboxSpec(kind=asked) if isinstance(asked, str) else asked
        kind = self._kind(spec)
        policy, limits = self._policy, self._policy.limits
        network = self._network(kind)
        wanted = spec or SandboxSpec(kind=kind)
        _forbid(wanted.image not in (None, policy.image), "image", policy.image)
        _forbid(wanted.network is True and not network, "network", "off")
        return SandboxSpec(
            kind=kind,
            image=policy.image if kind == "docker" else None,
            network=network if wanted.network is None else wanted.network,
            memory_mb=int(_tightened("memory_mb", wanted.memory_mb, limits.memory_mb)),
            cpus=_tightened("cpus", wanted.cpus, limits.cpus),
            pids=int(_tightened("pids", wanted.pids, limits.pids)),
        )

    def _kind(self, spec: SandboxSpec | None) -> str:
        if spec is not None and spec.kind == "local-unsafe":
            raise ForbiddenError(
                "A request may not ask for local-unsafe; the operator alone can.", code="sandbox_not_allowed"
            )
        if not self._factories:
            raise SandboxUnavailableError("This server has no sandbox; `palimpsest doctor` says what is missing.")
        if spec is None:
            return next(iter(self._factories))
        if spec.kind not in self._factories:
            raise ForbiddenError(
                f"This server runs commands with {', '.join(self._factories)}; {spec.kind} is not allowed.",
                code="sandbox_not_allowed",
            )
        return spec.kind

    def _network(self, kind: str) -> bool:
        return self._factories[kind].network_default if self._policy.network is None else self._policy.network

    def _handle(self, session_id: str, spec: SandboxSpec) -> _Handle:
        handle = self._handles.get(session_id)
        if handle is None:
            factory = self._factories.get(spec.kind)
            if factory is None:
                raise SandboxUnavailableError(
                    f"The session's sandbox is of the kind {spec.kind}, which is not here now."
                )
            limits = SandboxLimits(
                memory_mb=spec.memory_mb or self._policy.limits.memory_mb,
                cpus=spec.cpus or self._policy.limits.cpus,
                pids=spec.pids or self._policy.limits.pids,
            )
            config = SandboxConfig(session_id, spec.image or self._policy.image, bool(spec.network), limits)
            handle = self._handles[session_id] = _Handle(factory.open(config))
        return handle

    def lease(self, session_id: str, spec: SandboxSpec) -> Lease:
        """Holds a session's sandbox, which is started by its first use. Raises `NotFoundError` for a session that is
        being deleted."""
        if session_id in self._removing:
            raise session_not_found(session_id)
        handle = self._handle(session_id, spec)
        handle.users += 1
        if handle.timer is not None:
            handle.timer.cancel()
            handle.timer = None

        async def stopped() -> None:
            if handle.stopping is not None:
                await asyncio.shield(handle.stopping)

        return Lease(handle.sandbox, lambda: self._release(session_id, handle), stopped)

    def _release(self, session_id: str, handle: _Handle) -> None:
        handle.users -= 1
        if handle.users == 0 and handle.unused is not None:
            handle.unused.set()
            return
        if handle.users == 0 and self._handles.get(session_id) is handle:
            loop = asyncio.get_running_loop()
            handle.timer = loop.call_later(self._policy.idle_s, self._stop_idle, session_id, handle)

    def _stop_idle(self, session_id: str, handle: _Handle) -> None:
        if handle.users == 0 and self._handles.get(session_id) is handle:
            handle.stopping = asyncio.create_task(self._stop(session_id, handle))
            handle.stopping.add_done_callback(lambda _: self._forget(session_id, handle))

    def _forget(self, session_id: str, handle: _Handle) -> None:
        """A stopped sandbox needs no handle, unless somebody has come back for it meanwhile."""
        handle.stopping = None
        if handle.users == 0 and self._handles.get(session_id) is handle:
            del self._handles[session_id]

    async def _stop(self, session_id: str, handle: _Handle) -> None:
        try:
            await handle.sandbox.stop()
        except PalimpsestError as error:
            log.warning("sandbox_stop_failed", session_id=session_id, error=error.detail)

    @asynccontextmanager
    async def removed(self, session_id: str, spec: SandboxSpec) -> AsyncIterator[None]:
        """Ends a session's sandbox and deletes its workspace; nobody may lease it while the context lasts."""
        self._removing.add(session_id)
        try:
            await self._remove(session_id, spec)
            yield
        finally:
            self._removing.discard(session_id)

    async def _remove(self, session_id: str, spec: SandboxSpec) -> None:
        """Where the sandbox's kind is not here now, that is left to `remove_orphans` of a server that has it."""
        if spec.kind not in self._factories:
            log.warning("sandbox_left_behind", session_id=session_id, kind=spec.kind)
            return
        handle = self._handle(session_id, spec)
        if handle.timer is not None:
            handle.timer.cancel()
        await self._await_users(session_id, handle)
        self._handles.pop(session_id, None)
        await handle.sandbox.remove()

    async def _await_users(self, session_id: str, handle: _Handle) -> None:
        """Lets uploads and downloads under way end, but does not wait for a reader that has gone to sleep."""
        if handle.users:
            handle.unused = asyncio.Event()
            try:
                await asyncio.wait_for(handle.unused.wait(), REMOVAL_WAIT_S)
            except TimeoutError:
                log.warning("sandbox_removed_in_use", session_id=session_id)
            finally:
                handle.unused = None

    async def remove_orphans(self, live_sessions: set[str]) -> list[str]:
        """Removes what an earlier life of the server has left of sessions that are gone."""
        removed: list[str] = []
        for factory in self._factories.values():
            removed += await factory.remove_orphans(live_sessions)
        return removed

    async def running(self) -> set[str]:
        """The sessions whose sandboxes an earlier life of the server left running."""
        return set().union(*[await factory.running() for factory in self._factories.values()])

    def adopt(self, specs: Mapping[str, SandboxSpec]) -> None:
        """Takes over sandboxes that run already: they are stopped when idle, or with this server."""
        for session_id, spec in specs.items():
            self.lease(session_id, spec).release()

    def describe(self) -> str:
        """One sentence on the default kind."""
        return next(iter(self._factories.values())).describe() if self._factories else "no sandbox"

    async def check(self) -> None:
        """Raises `SandboxUnavailableError` where the default kind does not answer."""
        self._kind(None)
        await next(iter(self._factories.values())).check()

    async def aclose(self) -> None:
        """Stops what runs; workspaces stay."""
        for handle in self._handles.values():
            if handle.timer is not None:
                handle.timer.cancel()
        async with asyncio.TaskGroup() as tasks:
            for session_id, handle in self._handles.items():
                tasks.create_task(self._stop(session_id, handle))
        self._handles.clear()
        for factory in self._factories.values():
            await factory.aclose()


def _forbid(refused: bool, name: str, allowed: object) -> None:
    if refused:
        raise ForbiddenError(
            f"sandbox.{name} goes beyond what this server allows ({allowed}).", code="sandbox_not_allowed"
        )


def _tightened(name: str, asked: float | None, allowed: float) -> float:
    _forbid(asked is not None and asked > allowed, name, allowed)
    return allowed if asked is None else asked
