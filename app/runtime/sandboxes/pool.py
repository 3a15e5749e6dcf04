"""The sandboxes of this server: one handle per session, started on use, stopped when idle, removed with the session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import structlog

from app.db.repositories.events import session_not_found
from app.errors import PalimpsestError, SandboxUnavailableError
from app.runtime.sandboxes.kinds import Kinds
from app.runtime.sandboxes.policy import SandboxPolicy
from app.runtime.sandboxes.slots import Lease, Slots
from app.sandbox.base import Sandbox, SandboxFactory
from app.sessions import SandboxSpec

REMOVAL_WAIT_S = 10.0
"""Seconds that the deletion of a session waits for users of its files."""

STOP_WAIT_S = 10.0
"""Seconds to wait for a sandbox that is being stopped: it takes moments, unless the sandbox engine does not answer."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Handle:
    sandbox: Sandbox
    users: int = 0
    timer: asyncio.TimerHandle | None = None
    unused: asyncio.Event | None = None
    stopping: asyncio.Task[bool] | None = None
    counted: bool = False
    removed: bool = False
    """Removed with its session while it was in use."""
    resists: bool = False
    """It did not stop."""


class Sandboxes:
    """Manages the sandboxes of sessions."""

    def __init__(
        self, factories: Mapping[str, SandboxFactory], policy: SandboxPolicy, expected: Collection[str] = ()
    ) -> None:
        """See `Kinds` for `expected`."""
        self.kinds = Kinds(factories, policy, expected)
        self._policy = policy
        self._handles: dict[str, _Handle] = {}
        self._removing: set[str] = set()
        self._disowned = False
        self.unused_elsewhere: Callable[[str], AbstractAsyncContextManager[bool]] | None = None
        """For servers that share sandboxes: entered to stop an idle one; false if another server may be using it, and
        as long as it is true, none begins to. None if this server has its sandboxes for itself."""
        self.on_removal: list[Callable[[str], Awaitable[None]]] = []
        """Each is awaited with the id of a session whose workspace was removed."""
        self.on_use: Callable[[str], None] = lambda _: None
        """Called with the id of a session whenever its workspace may be changed from now on."""
        self.on_stop: Callable[[str], Awaitable[None]] = _nothing
        """Awaited with the id of a session whose sandbox is about to be stopped or removed."""
        self.in_background: Callable[[str], int] = lambda _: 0
        """How many commands a session runs in the background."""
        self.slots = Slots(policy.most, self._stop_one_idle)

    def uses(self, session_id: str) -> bool:
        """Whether this server has the session's sandbox, in use or idle, or is removing it."""
        return session_id in self._handles or session_id in self._removing

    @property
    def idle_s(self) -> float:
        """Seconds of idleness after which a sandbox is stopped."""
        return self._policy.idle_s

    @asynccontextmanager
    async def unused(self, session_id: str) -> AsyncIterator[bool]:
        """See `unused_elsewhere`; always true if this server has its sandboxes for itself."""
        if self.unused_elsewhere is None:
            yield True
            return
        async with self.unused_elsewhere(session_id) as unused:
            yield unused

    def _handle(self, session_id: str, spec: SandboxSpec) -> _Handle:
        handle = self._handles.get(session_id)
        if handle is None:
            handle = self._handles[session_id] = _Handle(self.kinds.open(session_id, spec))
        return handle

    def lease(self, session_id: str, spec: SandboxSpec) -> Lease:
        """Holds a session's sandbox, which is started on first use. Raises `NotFoundError` for a session that is being
        deleted."""
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
            lambda wait_s: self._use(session_id, handle, wait_s),
            self._policy.wait_s,
            admit_ahead=lambda: self._admit(session_id, handle, 0.0),
        )

    def users(self, session_id: str) -> int:
        """The number of leases of a session's sandbox and of its background commands."""
        handle = self._handles.get(session_id)
        return self.in_background(session_id) + (0 if handle is None else handle.users)

    async def _use(self, session_id: str, handle: _Handle, wait_s: float) -> None:
        self.on_use(session_id)
        await self._admit(session_id, handle, wait_s)

    async def _admit(self, session_id: str, handle: _Handle, wait_s: float) -> None:
        """Waits until the sandbox may run, and first until it is stopped if it is just being stopped as idle. Raises
        `SandboxUnavailableError` (code `too_many_sandboxes` if all are in use), and `NotFoundError` if the session is
        deleted in the meantime."""
        while handle.stopping is not None:
            if not (await asyncio.wait({handle.stopping}, timeout=STOP_WAIT_S))[0]:
                raise SandboxUnavailableError("The sandbox is still stopping; try again later.")
        if handle.counted:
            return
        try:
            await self.slots.take(wait_s)
        except TimeoutError as exc:
            most = self.slots.most
            raise SandboxUnavailableError(
                f"All {most:,} sandboxes are in use; try again when one is free.", code="too_many_sandboxes", most=most
            ) from exc
        if handle.removed:
            self.slots.give_back()
            raise session_not_found(session_id)
        if handle.counted:
            # Another call of the session was faster.
            self.slots.give_back()
        handle.counted = True

    def _give_back(self, handle: _Handle) -> None:
        if handle.counted:
            handle.counted = False
            self.slots.give_back()

    def _stop_one_idle(self) -> None:
        """Stops the longest idle sandbox for a waiter."""
        for session_id, handle in self._handles.items():
            if handle.counted and handle.users == 0 and handle.stopping is None and not handle.resists:
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
            # The most recently idle one is the last.
            self._handles[session_id] = self._handles.pop(session_id)
            if self.slots.waiting and handle.counted:
                self._stop_idle(session_id, handle)
                return
            self._stop_later(session_id, handle)

    def _stop_idle(self, session_id: str, handle: _Handle) -> None:
        if handle.timer is not None:
            handle.timer.cancel()
            handle.timer = None
        if handle.users == 0 and handle.stopping is None and self._handles.get(session_id) is handle:
            handle.stopping = asyncio.create_task(self._stop(session_id, handle))
            handle.stopping.add_done_callback(lambda task: self._stopped(session_id, handle, task))

    def _stopped(self, session_id: str, handle: _Handle, task: asyncio.Task[bool]) -> None:
        """Drops the handle of a stopped sandbox, unless it is in use again; then its user waits in line. One that runs
        on is stopped again later."""
        handle.stopping = None
        has_ended = task.cancelled() or task.result()
        handle.resists = not has_ended
        if has_ended:
            self._give_back(handle)
        elif self.slots.waiting:
            self._stop_one_idle()
        if handle.users == 0 and self._handles.get(session_id) is handle:
            if has_ended:
                del self._handles[session_id]
            else:
                self._stop_later(session_id, handle)

    def _stop_later(self, session_id: str, handle: _Handle) -> None:
        loop = asyncio.get_running_loop()
        handle.timer = loop.call_later(self._policy.idle_s, self._stop_idle, session_id, handle)

    def stop_unused(self, session_id: str) -> None:
        """Stops a sandbox that was started but not needed at once, instead of after it has been idle for a while."""
        if (handle := self._handles.get(session_id)) is not None:
            self._stop_idle(session_id, handle)

    def forget_unstarted(self, session_id: str) -> None:
        """Drops what is kept for a sandbox that is not in use and was not started."""
        handle = self._handles.get(session_id)
        if handle is not None and not (handle.users or handle.counted or handle.stopping):
            if handle.timer is not None:
                handle.timer.cancel()
            del self._handles[session_id]

    async def _stop(self, session_id: str, handle: _Handle) -> bool:
        """Whether the sandbox no longer runs for this server."""
        try:
            async with self.unused(session_id) as unused:
                if unused:
                    await self.on_stop(session_id)
                    await handle.sandbox.stop()
        except PalimpsestError as error:
            log.warning("sandbox_stop_failed", session_id=session_id, error=error.detail)
            return False
        except Exception:
            log.exception("sandbox_stop_crashed", session_id=session_id)
            return False
        return True

    async def copy_workspace(self, source_id: str, own: SandboxSpec, target_id: str, spec: SandboxSpec) -> None:
        """Copies a session's workspace, if it has one, to a new session. `own` is the source's spec, and `spec` the new
        one's, of the same kind. Nothing is started, and commands in the source continue. Raises the same errors as
        `lease`."""
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
        """Removes a session's sandbox and workspace; it cannot be leased while the context lasts."""
        self._removing.add(session_id)
        try:
            await self._remove(session_id, spec)
            yield
            # After the session's rows, which name what this removes.
            for call in self.on_removal:
                await call(session_id)
        finally:
            self._removing.discard(session_id)

    async def _remove(self, session_id: str, spec: SandboxSpec) -> None:
        """Removes a sandbox. If its kind is not available now, `Kinds.remove_orphans` does it later."""
        if spec.kind not in self.kinds.names:
            log.warning("sandbox_left_behind", session_id=session_id, kind=spec.kind)
            return
        handle = self._handle(session_id, spec)
        if handle.timer is not None:
            handle.timer.cancel()
        await self._await_users(session_id, handle)
        self._handles.pop(session_id, None)
        handle.removed = True
        await self.on_stop(session_id)
        try:
            await handle.sandbox.remove()
        finally:
            self._give_back(handle)

    async def _await_users(self, session_id: str, handle: _Handle) -> None:
        """Waits for running uploads and downloads, but not for a stalled reader."""
        if handle.users:
            handle.unused = asyncio.Event()
            try:
                async with asyncio.timeout(REMOVAL_WAIT_S):
                    await handle.unused.wait()
            except TimeoutError:
                log.warning("sandbox_removed_in_use", session_id=session_id)
            finally:
                handle.unused = None

    def adopt(self, specs: Mapping[str, SandboxSpec]) -> None:
        """Takes over running sandboxes: they are stopped when idle, or with this server."""
        for session_id, spec in specs.items():
            lease = self.lease(session_id, spec)
            handle = self._handles[session_id]
            if not handle.counted:
                handle.counted = True
                self.slots.force()
            lease.release()

    def disown(self) -> None:
        """Leaves all sandboxes running, including those opened from now on: another server has taken over their
        sessions and may use them."""
        self._disowned = True
        for handle in self._handles.values():
            if handle.timer is not None:
                handle.timer.cancel()
        self._handles.clear()

    async def aclose(self) -> None:
        """Stops all running sandboxes; workspaces are kept."""
        for handle in self._handles.values():
            if handle.timer is not None:
                handle.timer.cancel()
        if self._disowned:
            self._handles.clear()
        if self._handles:
            log.info("sandboxes_stopping", count=len(self._handles))
        await _end([h.stopping or asyncio.create_task(self._stop(id, h)) for id, h in self._handles.items()])
        self._handles.clear()
        await self.kinds.aclose()


async def _end(stopping: Collection[asyncio.Task[bool]]) -> None:
    """Waits for sandboxes to stop. A sandbox that does not stop is left running; the next start takes it over."""
    if not stopping:
        return
    _, late = await asyncio.wait(stopping, timeout=STOP_WAIT_S)
    for task in late:
        task.cancel()
    if late:
        log.warning("sandboxes_left_running", count=len(late))
        await asyncio.wait(late)


async def _nothing(_: str) -> None: ...
