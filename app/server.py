"""Runs the HTTP server: binds, reports what was found, serves, and shuts down cleanly."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import FrameType

import anyio.lowlevel
import structlog
import uvicorn
from fastapi import FastAPI

from app.api.guard import ApiConfig, no_metrics
from app.api.main import ROUTERS, WORKER_ROUTERS, create_app
from app.bootstrap import (
    Prompts,
    Runtime,
    build,
    cluster_problem,
    default_model,
    exposes_server,
    provider_configs,
    secrets_of,
)
from app.connection_limits import bounded, connections_for, most_readers, raise_file_limit
from app.context.policies import resolve
from app.errors import PalimpsestError, UnknownModelError
from app.llm.catalog import Catalog
from app.llm.registry import ProviderConfig, Providers
from app.logs import configure_logging, drain_logs
from app.runtime.skills import OperatorSkills
from app.settings import Settings

BACKLOG = 2048

KEEP_ALIVE_S = 75
"""Seconds a connection without a request stays open: longer than clients and proxies keep theirs (httpx 5 s, nginx and
most load balancers 60 s), because a request is lost if its connection is closed just as it is sent."""

SYSTEM_PROMPT_BYTES = 1024 * 1024
"""Largest system prompt file: as large as a request with a system prompt may be."""

SUMMARY_TEMPLATE_BYTES = 8 * 1024
"""Largest file with a summary's sections: about 2,000 tokens in ASCII, seven times the longest built-in ones. It is
part of every request for a summary, and takes room from the rest of that request."""

log = structlog.get_logger(__name__)


class StartError(PalimpsestError):
    """The server cannot start; the detail says how to fix it."""

    status = 500
    code = "cannot_start"
    title = "The server cannot start"


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached only from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_role(settings: Settings) -> None:
    """Raises `StartError` if the server cannot have its role in a cluster."""
    if (problem := cluster_problem(settings)) is not None:
        raise StartError(problem, code="invalid_settings")


def bind(settings: Settings) -> socket.socket:
    """The listening socket. Raises `StartError`: without keys on a public address, or for an address in use."""
    if not settings.api_keys and not is_loopback(settings.host):
        raise StartError(
            f"Without PALIMPSEST_API_KEYS the server listens on loopback only, not on {settings.host}.",
            code="key_required",
        )
    if exposes_server(settings.sandbox, settings):
        raise StartError(
            "With PALIMPSEST_SANDBOX_NETWORK=on, commands in bubblewrap could call this server: set"
            " PALIMPSEST_API_KEYS, or leave the network off.",
            code="key_required",
        )
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With the protocol unnamed, asyncio would leave Nagle's algorithm on, which delays small answers by up to 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise _cannot_listen(settings, error) from error
    listener.set_inheritable(False)
    return listener


def check_model(settings: Settings) -> None:
    """Raises `StartError` for a default model, or one for summaries, that no provider can have: every session without
    its own would fail. A known provider may still get its key later."""
    # Without keys, so that no provider is created only for this check.
    known = Providers([ProviderConfig(config.name, config.kind) for config in provider_configs(settings)], Catalog())
    summarizer = resolve(settings.compaction).model
    for variable, model in (("PALIMPSEST_MODEL", default_model(settings)), ("PALIMPSEST_COMPACTION", summarizer)):
        try:
            if model is not None:
                known.info(model)
        except UnknownModelError as error:
            raise _unusable(variable, error.detail) from error


def read_prompts(settings: Settings) -> Prompts:
    """Reads the operator's prompt files and skills from the disk. Raises `StartError`, which names the setting and the
    file."""
    prompts, system, summary = Prompts(), settings.system_prompt_file, settings.summary_template_file
    if system is not None:
        prompts = replace(prompts, system=_text("PALIMPSEST_SYSTEM_PROMPT_FILE", system, SYSTEM_PROMPT_BYTES))
    if summary is not None:
        prompts = replace(prompts, summary=_text("PALIMPSEST_SUMMARY_TEMPLATE_FILE", summary, SUMMARY_TEMPLATE_BYTES))
    try:
        return replace(prompts, skills=OperatorSkills.read(settings.skills_dir))
    except OSError as error:
        reason = f"{settings.skills_dir} cannot be read: {error.strerror}"
        raise _unusable("PALIMPSEST_SKILLS_DIR", reason) from error


def _text(variable: str, path: Path, most: int) -> str:
    """The text of a file of at most `most` bytes, without byte order mark and surrounding whitespace."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise _unusable(variable, f"{path} cannot be read: {error.strerror}") from error
    if len(data) > most:
        raise _unusable(variable, f"{path} is larger than {most // 1024:,} KiB")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n").strip()
    except UnicodeDecodeError as error:
        raise _unusable(variable, f"{path} is not UTF-8") from error
    if not text:
        raise _unusable(variable, f"{path} is empty")
    return text


def _unusable(variable: str, reason: str) -> StartError:
    return StartError(f"{variable} cannot be used: {reason.removesuffix('.')}.", code="invalid_settings")


def _cannot_listen(settings: Settings, error: OSError) -> StartError:
    place = f"Cannot listen on {settings.host}:{settings.port}: {error.strerror}."
    if error.errno == errno.EADDRINUSE:
        return StartError(f"{place} Choose another port with --port.", code="port_in_use")
    return StartError(f"{place} Choose another address with --host and --port.", code="cannot_listen")


class Server(uvicorn.Server):
    """uvicorn's server with the service inside it.

    The service is built before the first connection is accepted, and `serve` raises errors of building it unchanged. At
    shutdown, the readers' streams end first, then their connections, then the service.
    """

    def __init__(self, config: uvicorn.Config, app: FastAPI, settings: Settings, on_ready: Callable[[Runtime], None]):
        super().__init__(config)
        self._app = app
        self._settings = settings
        self._on_ready = on_ready
        self._stack = AsyncExitStack()
        self._close_streams: Callable[[], int] = lambda: 0
        self._readers: Callable[[], int] = lambda: 0
        self._readers_at_signal = 0
        self.metrics: Callable[[], bytes] = no_metrics

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            # Loads most of anyio, which would take 10 to 20 ms of the event loop at the first request that needs it.
            await anyio.lowlevel.checkpoint()
            prompts = await asyncio.to_thread(read_prompts, self._settings)
            runtime = await self._stack.enter_async_context(build(self._settings, prompts))
            self._app.state.services = runtime.services
            self._close_streams = runtime.close_streams
            self._readers = runtime.readers
            self.metrics = runtime.metrics
            await super().startup(sockets)
            self._on_ready(runtime)
            _log_left_out(runtime)
        except BaseException:
            await self._stack.aclose()
            raise

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._readers_at_signal = max(self._readers_at_signal, self._readers())
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        begun = time.monotonic()
        # Some of their streams may have ended from the signal itself.
        readers = max(self._readers_at_signal, self._close_streams())
        log.info("stopping", readers=readers, grace_s=self._settings.shutdown_grace_s)
        try:
            await super().shutdown(sockets)
        finally:
            await self._stack.aclose()
            log.info("stopped", seconds=round(time.monotonic() - begun, 3))
            # uvicorn raises the signal again right after this, which kills the process at once.
            await asyncio.to_thread(drain_logs)


def _log_left_out(runtime: Runtime) -> None:
    """Logs why kinds of sandbox are not used; called after the sandbox in use was reported. This is a warning only if
    there is no sandbox."""
    say = log.warning if runtime.sandbox is None else log.info
    for kind, reason in runtime.left_out.items():
        say("sandbox_left_out", kind=kind, reason=reason)


def make_server(settings: Settings, on_ready: Callable[[Runtime], None]) -> Server:
    """Creates the server without starting it; `on_ready` is called when the service is built and answers. Raises
    `StartError`."""
    check_role(settings)
    check_model(settings)
    files = raise_file_limit()
    connections = connections_for(files, settings.max_readers, settings.max_runs)
    settings = _with_room(settings, files, most_readers(connections))
    routers = WORKER_ROUTERS if settings.role == "worker" else ROUTERS
    app = create_app(_api_config(settings, lambda: server.metrics()), routers=routers)
    server = Server(
        uvicorn.Config(
            app,
            http=bounded(connections),
            lifespan="off",
            # No WebSockets are served, and a handshake with a body would never be answered.
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=max(1, round(settings.shutdown_grace_s)),
        ),
        app,
        settings,
        on_ready,
    )
    return server


def _with_room(settings: Settings, files: int, readers: int) -> Settings:
    """Limits the number of readers to what the open files allow. Raises `StartError` if the operator set a higher
    one."""
    if settings.max_readers <= readers:
        return settings
    if "max_readers" in settings.model_fields_set:
        raise _unusable(
            "PALIMPSEST_MAX_READERS",
            f"{files:,} open files allow {readers:,} readers in addition to {settings.max_runs:,} runs; raise"
            " the hard limit of open files (ulimit -Hn), or lower it or PALIMPSEST_MAX_RUNS",
        )
    log.warning("readers_limited", most=readers, files=files)
    return settings.model_copy(update={"max_readers": readers})


def _api_config(settings: Settings, metrics: Callable[[], bytes]) -> ApiConfig:
    try:
        return ApiConfig(
            api_keys=tuple(key.get_secret_value() for key in settings.api_keys),
            allowed_hosts=settings.allowed_hosts,
            bind_host=settings.host,
            upload_max_bytes=settings.upload_max_bytes,
            archive_max_bytes=settings.archive_max_bytes,
            metrics=metrics,
        )
    except ValueError as error:
        raise _unusable("PALIMPSEST_ALLOWED_HOSTS", str(error)) from error


async def serve(settings: Settings, on_ready: Callable[[Runtime, str], None]) -> None:
    """Serves until a signal ends it. `on_ready` gets the runtime and the server's base URL."""
    configure_logging(settings.log_level, settings.log_format, secrets_of(settings))
    with bind(settings) as listener:
        host, port = listener.getsockname()[:2]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        bound = settings.model_copy(update={"port": port})
        server = make_server(bound, lambda runtime: on_ready(runtime, url))
        await server.serve(sockets=[listener])


def run(settings: Settings, on_ready: Callable[[Runtime, str], None]) -> None:
    """Runs `serve` in uvloop if it is installed, else in asyncio's event loop."""
    loop_factory = uvicorn.Config("app", loop="auto", log_config=None).get_loop_factory()
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(serve(settings, on_ready))
