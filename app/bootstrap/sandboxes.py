"""The configured sandboxes: the allowed kinds, those available on this machine, and why the others are not."""

from __future__ import annotations

from app.errors import SandboxAwayError, SandboxUnavailableError
from app.runtime.sandbox_policy import SandboxPolicy
from app.runtime.sandboxes import Sandboxes
from app.sandbox.base import SandboxFactory, SandboxLimits
from app.sandbox.detect import SandboxKind, open_factory
from app.settings import Settings


def exposes_server(kind: str, settings: Settings) -> bool:
    """Whether commands in this kind of sandbox could reach this server while it requires no key."""
    return kind == "bubblewrap" and settings.sandbox_network == "on" and not settings.api_keys


def sandbox_kinds(settings: Settings) -> tuple[SandboxKind, ...]:
    """The allowed kinds of sandbox, the preferred one first."""
    return ("docker", "bubblewrap") if settings.sandbox == "auto" else (settings.sandbox,)


async def open_factories(
    settings: Settings, instance_id: str
) -> tuple[dict[str, SandboxFactory], dict[str, SandboxUnavailableError]]:
    """The allowed kinds of sandbox that are available on this machine; and those that are unavailable or unsafe, each
    with the reason."""
    factories: dict[str, SandboxFactory] = {}
    left_out: dict[str, SandboxUnavailableError] = {}
    for kind in sandbox_kinds(settings):
        if exposes_server(kind, settings):
            left_out[kind] = SandboxUnavailableError("It shares the host's network, and the server requires no key.")
            continue
        try:
            factories[kind] = await open_factory(
                kind,
                data_dir=settings.data_dir,
                instance_id=instance_id,
                docker_host=settings.docker_host,
                image=settings.sandbox_image,
                host_network=bool(settings.api_keys),
            )
        except SandboxUnavailableError as error:
            left_out[kind] = error
    return factories, left_out


async def build_sandboxes(settings: Settings, instance_id: str) -> tuple[Sandboxes, dict[str, str]]:
    """The sandboxes of this server, and the unavailable kinds with the reasons. A server without sandboxes still
    starts: sessions can be read, `readyz` reports what is missing, and an Engine that answers later is added then."""
    factories, left_out = await open_factories(settings, instance_id)
    set_to = settings.sandbox_network
    network = set_to == "on" if isinstance(set_to, str) else set_to
    limits = SandboxLimits(
        settings.sandbox_memory_mb, settings.sandbox_cpus, settings.sandbox_pids, settings.sandbox_disk_mb
    )
    policy = SandboxPolicy(
        settings.sandbox_image,
        network,
        limits,
        settings.sandbox_idle_s,
        settings.sandbox_wait_s,
        settings.max_sandboxes,
    )
    away = () if factories else [kind for kind, why in left_out.items() if isinstance(why, SandboxAwayError)]
    sandboxes = Sandboxes(factories, policy, expected=away)
    return sandboxes, {kind: why.detail for kind, why in left_out.items()}
