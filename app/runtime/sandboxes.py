"""The sandboxes of this server: one handle per session, started on use, stopped when idle, removed with the session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import structlog

from app.db.repositories.events import session_not_found
from app.errors import PalimpsestError, SandboxUnavailableError
from app.runtime.lease import Lease
from app.runtime.sandbox_policy import SandboxPolicy, kind_not_here, kind_of
from app.runtime.slots import Slots
from app.sandbox import egress
from app.sandbox.base import Sandbox, SandboxFactory
from app.sessions import AllowedHosts, SandboxSpec

REMOVAL_WAIT_S = 10.0
"""How long the deletion of a session waits for those who use its files."""

STOP_WAIT_S = 10.0
"""How long anybody waits for a sandbox that is being stopped, in seconds: it takes moments, unless what makes sandboxes
does not answer."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Handle:
    sandbox: Sandbox
    users: int = 0
    timer: asyncio.TimerHandle | None = None
    unused: asyncio.Event | None = None
    stopping: asyncio.Task[None] | None = None
    counted: bool = False


class Sandboxes:
    """Gives out sandboxes of the kinds that this machine has; the first one is the default."""

    def __init__(
        self, factories: Mapping[str, SandboxFactory], policy: SandboxPolicy, expected: Collection[str] = ()
    ) -> None:
        """`expected` are kinds that do not answer yet, and that `add` may bring."""
        self.expected = set(expected)
        self._came = asyncio.Event()
        self._factories = dict(factories)
        self._policy = policy
        self._handles: dict[str, _Handle] = {}
        self._removing: set[str] = set()
        self._disowned = False
        self.slots = Slots(policy.most, self._stop_one_idle)

    @property
    def kinds(self) -> tuple[str, ...]:
        """What this machine has, the default first."""
        return tuple(self._factories)

    def add(self, factory: SandboxFactory) -> None:
        """Takes in a kind that was not there at the start."""
        self._factories[factory.kind] = factory
        self.expected.clear()
        self._came.set()

    async def await_kind(self, kind: str) -> None:
        """Waits for a kind that is expected, as long as a call waits for a sandbox at most."""
        if kind in self.expected:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._came.wait(), self._policy.wait_s)

    def resolve(self, asked: str | SandboxSpec | None) -> SandboxSpec:
        """The complete spec of a new session; see `SandboxPolicy.complete` for its errors."""
        return self._limitable(self._policy.complete(asked, self._networks()))

    def within(self, own: SandboxSpec) -> SandboxSpec:
        """The complete spec of a new session that takes over another one's; see `SandboxPolicy.within` for its errors.
        May be called from any thread."""
        return self._limitable(self._policy.within(own, self._networks()))

    def _limitable(self, spec: SandboxSpec) -> SandboxSpec:
        """The spec, unless its kind cannot be held to a list of hosts here."""
        if isinstance(spec.network, AllowedHosts) and not self._factories[spec.kind].network_can_be_limited:
            raise egress.unavailable(
                f"the server cannot enter networks of {spec.kind} here, as root on one machine can"
            )
        return spec

    @property
    def refused_connections(self) -> int:
        """How many connections of all sandboxes were refused by the list of their hosts."""
        return sum(factory.refused_connections for factory in list(self._factories.values()))

    def _networks(self) -> dict[str, bool]:
        # A list first, since a kind may be added meanwhile.
        return {kind: factory.network_default for kind, factory in list(self._factories.items())}

    def _handle(self, session_id: str, spec: SandboxSpec) -> _Handle:
        handle = self._handles.get(session_id)
        if handle is None:
            factory = self._factories.get(spec.kind)
            if factory is None:
                raise kind_not_here(spec.kind)
            handle = self._handles[session_id] = _Handle(factory.open(self._policy.config(session_id, spec)))
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

        return Lease(
            handle.sandbox,
            lambda: self._release(session_id, handle),
            lambda wait_s: self._admit(handle, wait_s),
            self._policy.wait_s,
        )

    async def _admit(self, handle: _Handle, wait_s: float) -> None:
        """Waits until the sandbox may run; one that is just being stopped for having been idle, until it is. Raises
        `SandboxUnavailableError` (code `too_many_sandboxes` where all are in use)."""
        while handle.stopping is not None:
            if not (await asyncio.wait({handle.stopping}, timeout=STOP_WAIT_S))[0]:
                raise SandboxUnavailableError("The sandbox is being stopped and has not ended; try again later.")
        if handle.counted:
            return
        try:
            await self.slots.take(wait_s)
        except TimeoutError as exc:
            most = self.slots.most
            raise SandboxUnavailableError(
                f"All {most:,} sandboxes are in use; try again when one is free.", code="too_many_sandboxes", most=most
            ) from exc
        if handle.counted:
            # Another call of the session was first.
            self.slots.give_back()
        handle.counted = True

    def _give_back(self, handle: _Handle) -> None:
        if handle.counted:
            handle.counted = False
            self.slots.give_back()

    def _stop_one_idle(self) -> None:
        """Stops the sandbox that is idle longest, for somebody who waits."""
        for session_id, handle in self._handles.items():
            if handle.counted and handle.users == 0 and handle.stopping is None:
                self._stop_idle(session_id, handle)
                return

    def _release(self, session_id: str, handle: _Handle) -> None:
        handle.users -= 1
        if handle.users == 0 and handle.unused is not None:
            handle.unused.set()
            return
        if handle.users == 0 and self._handles.get(session_id) is handle:
            if self._disowned:
                del self._handles[session_id]
                self._give_back(handle)
                return
            # The newest of the idle ones is the last.
            self._handles[session_id] = self._handles.pop(session_id)
            if self.slots.waiting and handle.counted:
                self._stop_idle(session_id, handle)
                return
            loop = asyncio.get_running_loop()
            handle.timer = loop.call_later(self._policy.idle_s, self._stop_idle, session_id, handle)

    def _stop_idle(self, session_id: str, handle: _Handle) -> None:
        if handle.timer is not None:
            handle.timer.cancel()
            handle.timer = None
        if handle.users == 0 and handle.stopping is None and self._handles.get(session_id) is handle:
            handle.stopping = asyncio.create_task(self._stop(session_id, handle))
            handle.stopping.add_done_callback(lambda _: self._forget(session_id, handle))

    def _forget(self, session_id: str, handle: _Handle) -> None:
        """A stopped sandbox needs no handle, unless somebody has come back for it meanwhile; who has, waits in line."""
        handle.stopping = None
        self._give_back(handle)
        if handle.users == 0 and self._handles.get(session_id) is handle:
            del self._handles[session_id]

    async def _stop(self, session_id: str, handle: _Handle) -> None:
        try:
            await handle.sandbox.stop()
        except PalimpsestError as error:
            log.warning("sandbox_stop_failed", session_id=session_id, error=error.detail)

    async def copy_workspace(self, source_id: str, own: SandboxSpec, target_id: str, spec: SandboxSpec) -> None:
        """Gives a new session a copy of another one's workspace, where that has one. `own` is the other one's spec, and
        `spec` the new one's, of the same kind. Nothing is started, and commands of the other one go on. Raises as
        `lease` does."""
        source = self.lease(source_id, own)
        try:
            if not await source.sandbox.has_workspace():
                return
            target = self.lease(target_id, spec)
            try:
                await target.sandbox.copy_from(source.sandbox)
            finally:
                target.release()
        finally:
            source.release()

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
        try:
            await handle.sandbox.remove()
        finally:
            self._give_back(handle)

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
            lease = self.lease(session_id, spec)
            handle = self._handles[session_id]
            if not handle.counted:
                handle.counted = True
                self.slots.force()
            lease.release()

    def describe(self) -> str:
        """One sentence on the default kind."""
        return next(iter(self._factories.values())).describe() if self._factories else "no sandbox"

    async def check(self) -> None:
        """Raises `SandboxUnavailableError` where the default kind does not answer."""
        kind_of(None, self._factories)
        await next(iter(self._factories.values())).check()

    def disown(self) -> None:
        """Leaves all sandboxes as they are, and those too that are looked into from now on: another server has their
        sessions, and may use them."""
        self._disowned = True
        for handle in self._handles.values():
            if handle.timer is not None:
                handle.timer.cancel()
        self._handles.clear()

    async def aclose(self) -> None:
        """Stops what runs; workspaces stay."""
        for handle in self._handles.values():
            if handle.timer is not None:
                handle.timer.cancel()
        if self._disowned:
            self._handles.clear()
        if self._handles:
            log.info("sandboxes_stopping", count=len(self._handles))
        await _end([h.stopping or asyncio.create_task(self._stop(id, h)) for id, h in self._handles.items()])
        self._handles.clear()
        for factory in self._factories.values():
            await factory.aclose()


async def _end(stopping: Collection[asyncio.Task[None]]) -> None:
    """Waits for sandboxes to stop. One that does not is left running: the next start takes it over."""
    if not stopping:
        return
    _, late = await asyncio.wait(stopping, timeout=STOP_WAIT_S)
    for task in late:
        task.cancel()
    if late:
        log.warning("sandboxes_left_running", count=len(late))
        await asyncio.wait(late)
