"""`palimpsest doctor`: checks this machine and suggests fixes. No check prints a key or changes anything that is
kept."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Awaitable
from dataclasses import asdict
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import typer

from app.bootstrap import default_model, provider_configs
from app.cli.check import Check
from app.cli.cluster_checks import cluster
from app.cli.screen import COMPLETED, FAILED, InvalidSettingsError, Screen, columns, wrapped
from app.cli.server_checks import running_server
from app.cli.startup import how_to_close, load_settings, unknown_variables
from app.cli.target import answers, own_url
from app.db.backends import backend_of
from app.db.migrate import revisions
from app.db.postgres import PostgresServer
from app.db.sqlite import SqliteFile
from app.errors import PalimpsestError, SandboxUnavailableError, StorageError
from app.sandbox.base import SandboxFactory
from app.sandbox.docker.engine import Engine
from app.sandbox.docker.factory import DockerFactory
from app.sandbox.host.bubblewrap import BubblewrapFactory
from app.server import bind, check_model, is_loopback, read_prompts
from app.settings import DEMO_MODEL, Settings

_INDENT = " " * 15
"""Before lines that continue a check's detail."""
_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "missing": ("✗", "red")}

OLDEST_PYTHON = (3, 11)
OLDEST_GIT = (2, 37)
"""The first that connects to the addresses that it is given (`http.curloptResolve`)."""
A_DEMO = "a scripted demo; no real model"
NO_KEY = "its provider has no key"
GIVE_A_KEY = "set OPENAI_API_KEY or ANTHROPIC_API_KEY, or configure your own provider in PALIMPSEST_PROVIDERS"


def examine(server: str | None, key: str | None, *, as_json: bool) -> int:
    """Prints all findings, those of a running server too; returns the exit status."""
    found = asyncio.run(_all(server, key))
    healthy = all(check.status != "missing" for check in found)
    if as_json:
        typer.echo(json.dumps({"healthy": healthy, "checks": [asdict(check) for check in found]}, indent=2))
    else:
        screen = Screen(sys.stdout)
        for check in found:
            mark, color = _MARKS[check.status]
            name = check.name.replace("server.", "· ")
            text = f"{mark} {name:<12} {check.detail}"
            shown = wrapped(text, columns(sys.stdout), _INDENT) if sys.stdout.isatty() else text
            screen.write(shown[0], fg=color)
            screen.write(f"{shown[1:]}\n")
            if check.fix:
                screen.line(f"{_INDENT}→ {check.fix}", indent=_INDENT, dim=True)
        screen.line("Ready to go." if healthy else "Something required is missing.", bold=True)
    return COMPLETED if healthy else FAILED


async def _all(server: str | None, key: str | None) -> list[Check]:
    first = [python()]
    try:
        settings = await asyncio.to_thread(load_settings)
    except InvalidSettingsError as error:
        return [*first, Check("settings", "missing", error.detail, "Set the variable to a valid value.")]
    remote = running_server(settings, server, key)
    groups = await asyncio.gather(asyncio.to_thread(variables), _of(settings), remote)
    return [*first, *(check for group in groups for check in group)]


async def _of(settings: Settings) -> list[Check]:
    work: list[Awaitable[list[Check]]] = [
        asyncio.to_thread(storage, settings),
        asyncio.to_thread(git),
        sandboxes(settings),
        asyncio.to_thread(models, settings),
        asyncio.to_thread(prompts, settings),
        address(settings),
        asyncio.to_thread(access, settings),
        asyncio.to_thread(webhooks, settings),
        cluster(settings),
    ]
    return [check for group in await asyncio.gather(*work) for check in group]


def python() -> Check:
    version = platform.python_version()
    if sys.version_info >= OLDEST_PYTHON:
        return Check("python", "ok", version)
    return Check("python", "missing", version, "Install Python 3.11 or newer.")


def variables() -> list[Check]:
    """Variables that look like settings but are not. Values are not printed."""
    return [
        Check(
            "settings",
            "warning",
            f"{name} is not a setting; nothing reads it",
            f"Did you mean {near}?" if near else "Unset it, or look up the name in docs/settings.md.",
        )
        for name, near in unknown_variables().items()
    ]


def storage(settings: Settings) -> list[Check]:
    """The data directory and the state of the database's schema."""
    return [_data_dir(settings.data_dir), _database(settings)]


def _data_dir(path: Path) -> Check:
    if (reason := _refusal(path)) is not None:
        detail = f"{path} cannot be written: {reason}"
        return Check("data", "missing", detail, "Make it writable for this user, or set PALIMPSEST_DATA_DIR.")
    if not path.exists():
        return Check("data", "ok", f"{path}, created at the first start")
    if (remedy := how_to_close(path)) is not None:
        return Check("data", "warning", f"other users of this machine can read {path}", f"`{remedy}` prevents that.")
    return Check("data", "ok", f"{path}")


def _refusal(folder: Path) -> str | None:
    """Why `folder` cannot be created or written, or None. Creates and removes a directory in the nearest existing
    parent: permissions alone say little for root, or for file systems such as /proc."""
    place = folder
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    try:
        with tempfile.TemporaryDirectory(prefix=".palimpsest-doctor-", dir=place):
            return None
    except OSError as error:
        return f"{error.strerror} ({place})" if place != folder else error.strerror


def _database(settings: Settings) -> Check:
    try:
        backend = backend_of(settings.url)
    except StorageError as error:
        return Check("database", "missing", error.detail, "Fix PALIMPSEST_DATABASE_URL.")
    return _file(backend, settings) if isinstance(backend, SqliteFile) else _server(backend, settings)


def _file(database: SqliteFile, settings: Settings) -> Check:
    path = database.path
    try:
        if not path.exists():
            return _new_database(path, settings.data_dir)
        current, newest = revisions(settings.url)
    except StorageError as error:
        return Check("database", "missing", error.detail, "Fix PALIMPSEST_DATABASE_URL, or restore the file.")
    if not os.access(path, os.W_OK):
        return Check("database", "missing", f"{path} cannot be written", "Make it writable for this user.")
    return _schema(str(path), current, newest)


def _server(database: PostgresServer, settings: Settings) -> Check:
    """A Postgres database: whether it can be used, its version, its schema and its size."""
    try:
        state = database.examine()
        current, newest = revisions(settings.url)
    except StorageError as error:
        return Check("database", "missing", error.detail, "Start the server, or fix PALIMPSEST_DATABASE_URL.")
    return _schema(f"{database}, Postgres {state.version}, {state.bytes / (1 << 20):,.0f} MiB", current, newest)


def _schema(what: str, current: str | None, newest: str | None) -> Check:
    if current != newest:
        detail = f"{what} is at schema {current or 'none'}, the newest is {newest}"
        return Check("database", "warning", detail, "`palimpsest db upgrade`, or the next start, upgrades it.")
    return Check("database", "ok", f"{what}, schema {current}")


def _new_database(path: Path, data_dir: Path) -> Check:
    """A file that does not exist yet; of its parent directories, only the data directory is created."""
    if not (path.parent == data_dir or path.parent.is_dir()) or _refusal(path.parent) is not None:
        return Check("database", "missing", f"{path} cannot be created", "Fix PALIMPSEST_DATABASE_URL.")
    return Check("database", "ok", f"{path}, created at the first start")


def git() -> list[Check]:
    """The server's git, for clones and checkpoints."""
    try:
        printed = subprocess.run(["git", "--version"], capture_output=True, text=True, timeout=10).stdout  # noqa: S607
    except (OSError, subprocess.SubprocessError):
        detail = "git is not installed: no repository can be cloned, and without checkpoints no changes can be shown or"
        return [Check("git", "warning", f"{detail} restored", "Install git.")]
    found = re.search(r"(\d+)\.(\d+)\S*", printed)
    if found is None or (int(found[1]), int(found[2])) < OLDEST_GIT:
        oldest = ".".join(map(str, OLDEST_GIT))
        detail = f"{printed.strip() or 'unknown version'}: before {oldest}, git resolves host names itself, so a"
        detail += " clone may connect to a different address from the one that was checked"
        return [Check("git", "warning", detail, f"Install git {oldest} or newer.")]
    return [Check("git", "ok", found[0])]


async def sandboxes(settings: Settings) -> list[Check]:
    """Each kind of sandbox that the settings allow; at least one is required."""
    if settings.sandbox == "local-unsafe":
        detail = "commands run as the server's own user, without any isolation"
        return [Check("sandbox", "warning", detail, "Set PALIMPSEST_SANDBOX to docker or bubblewrap.")]
    found = []
    if settings.sandbox in ("auto", "docker"):
        found.append(await _docker(settings))
    if settings.sandbox in ("auto", "bubblewrap"):
        found.append(await _bubblewrap())
    if any(check.status != "missing" for check in found):
        found = [_only_warned(check) for check in found]
    return found


def _only_warned(check: Check) -> Check:
    return Check(check.name, "warning", check.detail, check.fix) if check.status == "missing" else check


async def _bubblewrap() -> Check:
    with tempfile.TemporaryDirectory(prefix="palimpsest-doctor-") as folder:
        return await _works("bubblewrap", BubblewrapFactory(Path(folder)))


async def _docker(settings: Settings) -> Check:
    check = await _works("docker", DockerFactory("doctor", settings.docker_host))
    return check if check.status != "ok" else await _image(settings, check.detail)


async def _image(settings: Settings, engine_is: str) -> Check:
    """Whether the image is present or can be pulled; if not, a server does not use Docker."""
    image, engine = settings.sandbox_image, Engine(settings.docker_host)
    try:
        if await engine.has_image(image):
            return Check("docker", "ok", f"{engine_is}, image {image} is present")
        await engine.find_remote(image)
    except SandboxUnavailableError as error:
        fix = "Without the image, the server starts without Docker."
        return Check("docker", "missing", f"{engine_is}. {error.detail}", fix)
    finally:
        await engine.aclose()
    fix = f"The first session pulls it; `docker pull {image}` pulls it now."
    return Check("docker", "warning", f"{engine_is}, image {image} is not present yet", fix)


async def _works(name: str, factory: SandboxFactory) -> Check:
    try:
        await factory.check()
    except SandboxUnavailableError as error:
        return Check(name, "missing", error.detail, "Start a Docker Engine or install bubblewrap.")
    finally:
        await factory.aclose()
    return Check(name, "ok", factory.describe())


def models(settings: Settings) -> list[Check]:
    """Which providers can be called, and whether the default model works."""
    real = [config for config in provider_configs(settings) if config.kind != "scripted"]
    ready = [config.name for config in real if config.ready]
    without = [config.name for config in real if not config.ready]
    detail = f"ready: {', '.join(ready) or 'none'}" + (f"; without a key: {', '.join(without)}" if without else "")
    keys = Check("providers", "ok" if ready else "warning", detail, None if ready else _sentence(GIVE_A_KEY))
    return [keys, _default_model(settings)]


def _default_model(settings: Settings) -> Check:
    model = default_model(settings)
    if model == DEMO_MODEL:
        return Check("model", "warning", f"{model}: {A_DEMO}", _sentence(GIVE_A_KEY))
    try:
        check_model(settings)
    except PalimpsestError as error:
        return Check("model", "missing", error.detail, "Set PALIMPSEST_MODEL to a model of one of these providers.")
    if (variable := missing_key(settings)) is not None:
        fix = f"Set {variable}, or choose another model in PALIMPSEST_MODEL."
        return Check("model", "missing", f"{model}: {NO_KEY}", fix)
    return Check("model", "ok", model)


def prompts(settings: Settings) -> list[Check]:
    """The operator's prompt files, if any are set."""
    given = {"system prompt": settings.system_prompt_file, "summary template": settings.summary_template_file}
    set_here = [f"{name} {path}" for name, path in given.items() if path is not None]
    if not set_here:
        return []
    try:
        read_prompts(settings)
    except PalimpsestError as error:
        return [Check("prompts", "missing", error.detail, "Fix the file, or unset the variable.")]
    return [Check("prompts", "ok", ", ".join(set_here))]


def missing_key(settings: Settings) -> str | None:
    """The variable for the key that the default model lacks; None if it can be called."""
    provider = default_model(settings).partition("/")[0]
    waits = any(config.name == provider and not config.ready for config in provider_configs(settings))
    return f"{provider.upper()}_API_KEY" if waits else None


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


async def address(settings: Settings) -> list[Check]:
    """Whether the server can listen, or is already running."""
    where = f"{settings.host}:{settings.port}"
    url = own_url(settings)
    if url is not None and await answers(url):
        return [Check("address", "ok", f"a Palimpsest server answers at {url}")]
    try:
        bind(settings).close()
    except PalimpsestError as error:
        if error.code == "key_required":
            return []
        return [Check("address", "missing", error.detail, "Set PALIMPSEST_PORT to a free port.")]
    return [Check("address", "ok", f"{where} is free")]


def access(settings: Settings) -> list[Check]:
    """Who may call the server, and whether sandboxed commands could call it too."""
    found = [_keys(settings)]
    if settings.sandbox_network == "on" and settings.sandbox != "docker" and not settings.api_keys:
        detail = "commands in bubblewrap would share the host's network and reach this server without a key"
        found.append(Check("network", "missing", detail, "Set PALIMPSEST_API_KEYS, or PALIMPSEST_SANDBOX_NETWORK=off."))
    return found


def webhooks(settings: Settings) -> list[Check]:
    """The private networks that webhooks may be sent to, if any are named."""
    if not settings.webhook_networks:
        return []
    detail = f"webhooks may be sent to {', '.join(map(str, settings.webhook_networks))}"
    dangerous = [text for text, what in _DANGEROUS.items() if _names(settings, what)]
    if not dangerous:
        return [Check("webhooks", "ok", detail)]
    fix = "Name only the receivers' networks in PALIMPSEST_WEBHOOK_NETWORKS: everyone with an API key can call them."
    return [Check("webhooks", "warning", f"{detail}, which includes {' and '.join(dangerous)}", fix)]


_DANGEROUS = {
    "this machine's services": ip_address("127.0.0.1"),
    "credentials of cloud machines": ip_address("169.254.169.254"),
}


def _names(settings: Settings, address: IPv4Address | IPv6Address) -> bool:
    return any(address in network for network in settings.webhook_networks if network.version == address.version)


def _keys(settings: Settings) -> Check:
    if settings.api_keys:
        count = len(settings.api_keys)
        return Check("access", "ok", f"{count} API keys are set" if count > 1 else "an API key is set")
    if is_loopback(settings.host):
        return Check("access", "ok", "no key is set: this machine only")
    detail = f"{settings.host} is reachable from outside, and no key is set"
    return Check("access", "missing", detail, "Set PALIMPSEST_API_KEYS, or listen on 127.0.0.1.")
