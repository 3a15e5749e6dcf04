"""A server inside the command's process, for a task when no server is running."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from types import TracebackType

from app.bootstrap import prepare_data_dir, secrets_of
from app.cli.startup import claimed, warn_of_unknown_variables
from app.logs import configure_logging
from app.server import Server, bind, make_server
from app.settings import Settings


class EmbeddedServer:
    """Serves on a free loopback port from a thread with its own event loop, so that neither loop blocks the other.
    Entering it yields the URL, or raises the error that keeps the server from starting."""

    def __init__(self, settings: Settings) -> None:
        # A person watches its only task, which may take days; the operator's settings still apply.
        defaults = {"log_level": "warning", "max_steps": None}
        chosen = {name: value for name, value in defaults.items() if name not in settings.model_fields_set}
        self._settings = settings.model_copy(update={"host": "127.0.0.1", "port": 0, **chosen})
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._server: Server | None = None
        self._thread: threading.Thread | None = None
        self._stack = ExitStack()

    async def __aenter__(self) -> str:
        try:
            url = await asyncio.to_thread(self._start)
            if self._failure is not None:
                raise self._failure
        except BaseException:
            await self._stop()
            raise
        return url

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    def _start(self) -> str:
        settings = self._settings
        configure_logging(settings.log_level, settings.log_format, secrets_of(settings))
        warn_of_unknown_variables()
        prepare_data_dir(settings)
        self._stack.enter_context(claimed(settings.data_dir, shared=settings.temporal is not None))
        listener = self._stack.enter_context(bind(settings))
        server = self._server = make_server(settings, lambda _: self._ready.set())

        def serve() -> None:
            try:
                asyncio.run(server.serve(sockets=[listener]))
            except BaseException as error:
                self._failure = error
            finally:
                self._ready.set()

        self._thread = threading.Thread(target=serve, name="embedded-server", daemon=True)
        self._thread.start()
        self._ready.wait()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    async def _stop(self) -> None:
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        self._stack.close()
