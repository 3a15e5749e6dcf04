"""What `palimpsest doctor` asks a running server: its version, its parts, its models and its nodes."""

from __future__ import annotations

from typing import Any

from app import __version__
from app.cli.check import Check
from app.cli.client import Client, Target
from app.cli.screen import CliError, ServerRefusedError
from app.cli.target import given, local
from app.settings import Settings

_LOOK = "See the server's log."


async def running_server(settings: Settings, server: str | None, key: str | None) -> list[Check]:
    """The checks of the given server, or of the one on this machine; empty if none was given and none is running."""
    try:
        target = given(server, key) or await local(settings, key)
        return [] if target is None else await examine_server(target)
    except CliError as error:
        return [Check("server", "missing", error.detail, "Start it, or fix --server, PALIMPSEST_URL or the key.")]


async def examine_server(target: Target) -> list[Check]:
    """The checks of one server. Raises `CliError`."""
    async with Client(target) as client:
        health = await client.call("GET", "/healthz")
        found = [version_check(client.url, str(health["version"])), *part_checks(await _readiness(client))]
        models = await client.call("GET", "/v1/models")
        nodes = await client.call("GET", "/v1/nodes")
    return [*found, model_check(models["items"]), *node_checks(nodes["items"])]


async def _readiness(client: Client) -> dict[str, Any]:
    """The components by name, also of a server that is not ready."""
    try:
        answer = await client.call("GET", "/readyz")
    except ServerRefusedError as error:
        answer = error.extra
    components: dict[str, Any] = answer.get("components", {})
    return components


def version_check(url: str, version: str) -> Check:
    """Whether the server and this command are of the same version."""
    if version == __version__:
        return Check("server", "ok", f"{url}, version {version}")
    detail = f"{url}, version {version}; this command is version {__version__}"
    return Check("server", "warning", detail, "Use the same version on both sides.")


def part_checks(components: dict[str, Any]) -> list[Check]:
    """A check for each component of `readyz`: database, disk, sandbox, providers."""
    return [
        Check(f"server.{name}", "ok", component["detail"])
        if component["ok"]
        else Check(f"server.{name}", "missing", f"{component['status']}: {component['detail']}", _LOOK)
        for name, component in components.items()
    ]


def model_check(items: list[dict[str, Any]]) -> Check:
    """The default model, and the providers with a key."""
    ready = sorted({item["provider"] for item in items if item["key_present"] and item["provider"] != "scripted"})
    default = next((item["name"] for item in items if item["default"]), "none")
    detail = f"default {default}; with a key: {', '.join(ready) or 'none'}"
    if ready:
        return Check("server.models", "ok", detail)
    return Check("server.models", "warning", detail, "Give the server a key, such as OPENAI_API_KEY, and restart it.")


def node_checks(items: list[dict[str, Any]]) -> list[Check]:
    """The nodes of a cluster; none for a server on its own."""
    if not items:
        return []
    lost = [node["name"] for node in items if node["status"] == "lost"]
    detail = f"{len(items)}, running {sum(node['sessions'] for node in items):,} sessions"
    if lost:
        return [
            Check("server.nodes", "warning", f"{detail}; lost: {', '.join(lost)}", "`palimpsest nodes` lists them.")
        ]
    return [Check("server.nodes", "ok", detail)]
