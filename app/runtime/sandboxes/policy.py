"""The operator's sandbox policy, and the resulting sandbox of a session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.errors import ForbiddenError, SandboxUnavailableError
from app.sandbox.base import SandboxConfig, SandboxLimits
from app.sessions import MIN_CPUS, AllowedHosts, Network, SandboxSpec, network_within


@dataclass(frozen=True, slots=True)
class SandboxPolicy:
    """What the operator allows, which is also the default of a session. `network` None is the kind's default; `idle_s`
    is how long an unused sandbox is kept running, `wait_s` how long a call waits for one, both in seconds; `most` is
    how many run at the same time."""

    image: str
    network: Network | None
    limits: SandboxLimits
    idle_s: float
    wait_s: float = 60
    most: int = 100

    def complete(self, asked: str | SandboxSpec | None, networks: Mapping[str, bool]) -> SandboxSpec:
        """The complete spec of a new session. `networks` are the available kinds, the default first, each with its
        default network. Raises `SandboxUnavailableError` if no sandbox is available, and `ForbiddenError` for requests
        beyond the operator's settings."""
        spec = SandboxSpec(kind=asked) if isinstance(asked, str) else asked
        kind = kind_of(spec, networks)
        network = self._network(kind, networks)
        wanted = spec or SandboxSpec(kind=kind)
        _forbid(wanted.image not in (None, self.image), "image", self.image)
        chosen = network if wanted.network is None else wanted.network
        _forbid(network_within(chosen, network) != chosen, "network", _describe(network))
        return SandboxSpec(
            kind=kind,
            image=self.image if kind == "docker" else None,
            network=chosen,
            memory_mb=int(_tightened("memory_mb", wanted.memory_mb, self.limits.memory_mb)),
            cpus=_tightened("cpus", wanted.cpus, self.limits.cpus),
            pids=int(_tightened("pids", wanted.pids, self.limits.pids)),
        )

    def within(self, own: SandboxSpec, networks: Mapping[str, bool]) -> SandboxSpec:
        """The spec of a new session that copies another one's, within what the operator allows now. Raises
        `SandboxUnavailableError` if its kind is not available."""
        if own.kind not in networks:
            raise kind_not_here(own.kind)
        most = self.limits
        return SandboxSpec(
            kind=own.kind,
            image=self.image if own.kind == "docker" else None,
            network=network_within(True if own.network is None else own.network, self._network(own.kind, networks)),
            memory_mb=min(own.memory_mb or most.memory_mb, most.memory_mb),
            cpus=min(own.cpus or most.cpus, most.cpus),
            pids=min(own.pids or most.pids, most.pids),
        )

    def _network(self, kind: str, networks: Mapping[str, bool]) -> Network:
        return networks[kind] if self.network is None else self.network

    def config(self, session_id: str, spec: SandboxSpec) -> SandboxConfig:
        """The configuration of the sandbox of a session with this spec."""
        limits = SandboxLimits(
            memory_mb=spec.memory_mb or self.limits.memory_mb,
            # A session created by an earlier version may have a smaller limit.
            cpus=max(MIN_CPUS, spec.cpus or self.limits.cpus),
            pids=spec.pids or self.limits.pids,
            disk_mb=self.limits.disk_mb,
        )
        hosts = spec.network.allowed_hosts if isinstance(spec.network, AllowedHosts) else ()
        return SandboxConfig(session_id, spec.image or self.image, spec.network is True, limits, hosts)


def kind_not_here(kind: str) -> SandboxUnavailableError:
    """The error for an existing session."""
    return SandboxUnavailableError(f"The session's sandbox kind, {kind}, is not available now.")


def kind_of(spec: SandboxSpec | None, kinds: Mapping[str, object]) -> str:
    """The kind of a session's sandbox. Raises the same errors as `SandboxPolicy.complete`."""
    if spec is not None and spec.kind == "local-unsafe":
        raise ForbiddenError(
            "A request may not ask for local-unsafe; only the operator can enable it.", code="sandbox_not_allowed"
        )
    if not kinds:
        raise SandboxUnavailableError("This server has no sandbox; run `palimpsest doctor` to see what is missing.")
    if spec is None:
        return next(iter(kinds))
    if spec.kind not in kinds:
        raise ForbiddenError(
            f"This server runs commands in {', '.join(kinds)}; {spec.kind} is not allowed.",
            code="sandbox_not_allowed",
        )
    return spec.kind


def _describe(network: Network) -> str:
    return ", ".join(network.allowed_hosts) if isinstance(network, AllowedHosts) else "on" if network else "off"


def _forbid(refused: bool, name: str, allowed: object) -> None:
    if refused:
        raise ForbiddenError(
            f"sandbox.{name} exceeds the server's limit ({allowed}), set by PALIMPSEST_SANDBOX_{name.upper()}.",
            code="sandbox_not_allowed",
        )


def _tightened(name: str, asked: float | None, allowed: float) -> float:
    _forbid(asked is not None and asked > allowed, name, allowed)
    return allowed if asked is None else asked
