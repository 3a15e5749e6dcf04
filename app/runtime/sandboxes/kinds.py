"""The kinds of sandbox that are available on this machine, and what a new session gets of them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from app.runtime.sandboxes.policy import SandboxPolicy, kind_not_here, kind_of
from app.sandbox import egress
from app.sandbox.base import Present, Sandbox, SandboxFactory
from app.sessions import AllowedHosts, SandboxSpec


class Kinds:
    """The available kinds; the first one is the default."""

    def __init__(
        self, factories: Mapping[str, SandboxFactory], policy: SandboxPolicy, expected: Collection[str] = ()
    ) -> None:
        """`expected` are kinds that are not available yet and may be added with `add`."""
        self.expected = set(expected)
        self._came = asyncio.Event()
        self._factories = dict(factories)
        self._policy = policy

    @property
    def names(self) -> tuple[str, ...]:
        """The available kinds, the default first."""
        return tuple(self._factories)

    def add(self, factory: SandboxFactory) -> None:
        """Adds a kind that was not available at the start."""
        self._factories[factory.kind] = factory
        self.expected.clear()
        self._came.set()

    async def wait_for(self, kind: str) -> None:
        """Waits for an expected kind, at most as long as a call waits for a sandbox."""
        if kind in self.expected:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._policy.wait_s):
                    await self._came.wait()

    async def machine(self, kind: str, data_dir: str) -> str:
        """The id of what has the workspaces of a kind on this server; `data_dir` is that of its data directory. Raises
        `SandboxUnavailableError` if the kind is not available."""
        factory = self._factories.get(kind)
        if factory is None:
            raise kind_not_here(kind)
        return await factory.machine() or data_dir

    async def present(self, kind: str) -> Sequence[Present]:
        """See `SandboxFactory.present`."""
        return await self._factories[kind].present()

    def resolve(self, asked: str | SandboxSpec | None) -> SandboxSpec:
        """The complete spec of a new session; see `SandboxPolicy.complete` for its errors."""
        return self._limitable(self._policy.complete(asked, self.networks()))

    def within(self, own: SandboxSpec) -> SandboxSpec:
        """The complete spec of a new session that copies another one's; see `SandboxPolicy.within` for its errors.
        Thread-safe."""
        return self._limitable(self._policy.within(own, self.networks()))

    def _limitable(self, spec: SandboxSpec) -> SandboxSpec:
        """The spec. Raises an error if its kind cannot enforce a list of hosts here."""
        if isinstance(spec.network, AllowedHosts) and not self._factories[spec.kind].network_can_be_limited:
            raise egress.unavailable(
                f"the server cannot enter networks of {spec.kind} here; it must run as root on the same machine"
            )
        return spec

    @property
    def refused_connections(self) -> int:
        """Number of connections of all sandboxes refused by their lists of hosts."""
        return sum(factory.refused_connections for factory in list(self._factories.values()))

    def networks(self) -> dict[str, bool]:
        # Copied, since a kind may be added in the meantime.
        return {kind: factory.network_default for kind, factory in list(self._factories.items())}

    async def remove_orphans(self, live_sessions: set[str], at_work: Collection[str] = ()) -> list[str]:
        """Removes leftovers of deleted sessions from before a restart, and all processes of those that were at
        work."""
        removed: list[str] = []
        for factory in self._factories.values():
            removed += await factory.remove_orphans(live_sessions, at_work)
        return removed

    async def running(self) -> set[str]:
        """The sessions whose sandboxes are still running from before a restart."""
        return set().union(*[await factory.running() for factory in self._factories.values()])

    def describe(self) -> str:
        """One sentence on the default kind."""
        return next(iter(self._factories.values())).describe() if self._factories else "no sandbox"

    async def check(self) -> None:
        """Raises `SandboxUnavailableError` if the default kind does not answer."""
        kind_of(None, self._factories)
        await next(iter(self._factories.values())).check()

    def open(self, session_id: str, spec: SandboxSpec) -> Sandbox:
        """A session's sandbox, which is not started yet. Raises `SandboxUnavailableError` if its kind is not
        available."""
        factory = self._factories.get(spec.kind)
        if factory is None:
            raise kind_not_here(spec.kind)
        return factory.open(self._policy.config(session_id, spec))

    async def aclose(self) -> None:
        for factory in self._factories.values():
            await factory.aclose()
