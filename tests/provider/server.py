"""The fake provider: an HTTP server that tests script, watch and wait for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from types import TracebackType
from typing import Any

from uvicorn import Config
from uvicorn.server import ServerState

from tests.accepting import stop_accepting
from tests.provider.answers import Predicate, Rule, always, repeat
from tests.provider.asgi import App
from tests.provider.board import Condition
from tests.provider.connections import Connections, TrackedProtocol
from tests.provider.desk import Desk
from tests.provider.records import RecordedRequest, Refusal
from tests.provider.script import Responder, Scripted, sequence
from tests.provider.settings import Settings

TIMEOUT_S = 60.0
"""Seconds a test may wait before it fails with the provider's recorded requests."""

KEEP_ALIVE = 300
"""Idle connections are kept this long, in seconds: no client should use one that is just being closed."""


class FakeProvider:
    """A strict model provider on 127.0.0.1.

    `with FakeProvider() as provider` serves from a thread with a loop of its own, for servers in this process or
    another; `async with` serves from the running loop. All methods may be called from any thread; the awaitable ones
    from any loop. Settings are the fields of `Settings`.
    """

    def __init__(self, *, port: int = 0, **settings: Any) -> None:
        self._desk = Desk(Settings(**settings))
        self._port = port
        self._listener: Listener | None = None
        self._thread: ListenerThread | None = None

    # what happened

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`, without a path: the base URL in the Anthropic manner."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def openai_url(self) -> str:
        """The base URL in the OpenAI manner, with `/v1`."""
        return f"{self.url}/v1"

    @property
    def requests(self) -> list[RecordedRequest]:
        """All requests in order of arrival, refused ones too."""
        return list(self._desk.requests)

    @property
    def refusals(self) -> list[Refusal]:
        return list(self._desk.refusals)

    @property
    def looked(self) -> list[str]:
        """Requests other than model calls: path and query, in order of arrival."""
        return list(self._desk.looked)

    @property
    def broken(self) -> list[Refusal]:
        """The refusals that mean a malformed request: neither an overflow, nor a parameter that the model does not
        know, nor a rule that only some servers have."""
        return [r for r in self._desk.refusals if r.rule not in ("overflow", "parameter", "insistence")]

    @property
    def script_errors(self) -> list[Exception]:
        """Exceptions raised by scripts, which are mistakes in a test."""
        return list(self._desk.script_errors)

    @property
    def client_left(self) -> int:
        """How many clients left before their answer was complete."""
        return self._desk.board.left

    @property
    def settings(self) -> Settings:
        return self._desk.settings

    # scripting

    def configure(self, **settings: Any) -> None:
        """Changes settings from the next request on."""
        self._desk.settings = replace(self._desk.settings, **settings)

    def reset(self) -> None:
        """Makes it a fresh provider at the same address, once no request is under way."""
        fresh = Desk(Settings())
        for field in fields(Desk):
            setattr(self._desk, field.name, getattr(fresh, field.name))

    def rebind_thinking(self) -> None:
        """Has all thinking that was signed so far count as bound to another conversation."""
        with self._desk.board.lock:
            self._desk.seals.rebind()

    def script(self, *answers: Scripted, per_conversation: bool = False) -> None:
        """The default script, in order of arrival; `per_conversation` gives a copy of it to each first user message."""
        with self._desk.board.lock:
            self._desk.scripts.set_default(answers, per_conversation=per_conversation)

    def script_for(self, key: str, *answers: Scripted) -> None:
        """The script of the conversations of model `key`, or with `key` in a user message."""
        with self._desk.board.lock:
            self._desk.scripts.keys[key] = Rule(always, sequence(answers))

    def script_when(self, predicate: Predicate, *answers: Scripted) -> None:
        """The script of requests matching `predicate`, before all others; when used up, the others apply."""
        with self._desk.board.lock:
            self._desk.scripts.predicates.append(Rule(predicate, iter(answers)))

    def respond(self, responder: Responder, *, when: Predicate | None = None) -> None:
        """A function that answers every request of the default script, or of those matching `when`."""
        with self._desk.board.lock:
            if when is None:
                self._desk.scripts.responder = responder
            else:
                self._desk.scripts.predicates.append(Rule(when, repeat(responder)))

    def open(self, gate: str) -> None:
        """Releases all answers that wait, or will wait, at this gate."""
        with self._desk.board.change() as board:
            board.opened.add(gate)

    def forget_thinking(self) -> None:
        """Makes all reasoning that was issued so far unreadable, as a provider does that has retired a key."""
        self._desk.seals.blocks.clear()

    # waiting

    async def request_count(self, count: int, timeout: float = TIMEOUT_S) -> list[RecordedRequest]:
        """Waits until `count` requests have arrived, and returns all that have."""
        await self._until(lambda board: board.arrived >= count, f"{count} requests", timeout)
        return self.requests

    async def reached(self, gate: str, count: int = 1, timeout: float = TIMEOUT_S) -> None:
        """Waits until `count` answers in total have reached this gate."""
        await self._until(lambda board: board.reached[gate] >= count, f"gate {gate!r} {count} times", timeout)

    async def answered(self, count: int, timeout: float = TIMEOUT_S) -> None:
        """Waits until `count` answers were sent to their end."""
        await self._until(lambda board: board.answered >= count, f"{count} answers", timeout)

    async def left(self, count: int = 1, timeout: float = TIMEOUT_S) -> None:
        """Waits until `count` clients have left before their answer was complete."""
        await self._until(lambda board: board.left >= count, f"{count} clients to leave", timeout)

    async def _until(self, condition: Condition, what: str, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._desk.board.until(condition)
        except TimeoutError:
            raise TimeoutError(f"waited {timeout} s for {what}; {self._state()}") from None

    def _state(self) -> str:
        board = self._desk.board
        return (
            f"{board.arrived} arrived, {board.answered} answered, {board.left} left,"
            f" gates reached: {dict(board.reached)}, refusals: {self._desk.refusals}"
        )

    # life

    async def __aenter__(self) -> FakeProvider:
        self._listener = Listener(self._desk)
        self._port = await self._listener.start(self._port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self._listener is not None:
            await self._listener.stop()

    def __enter__(self) -> FakeProvider:
        self._thread = ListenerThread(self._desk)
        self._port = self._thread.start(self._port)
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        if self._thread is not None:
            self._thread.stop()


class Listener:
    """The listening socket and its connections, in the running loop.

    uvicorn's protocol is used without its `Server`, whose start and stop wait for ticks of a tenth of a second.
    """

    def __init__(self, desk: Desk) -> None:
        self._connections = Connections()
        app = App(desk, self._connections)
        self._config = Config(
            app, lifespan="off", log_config=None, access_log=False, proxy_headers=False, timeout_keep_alive=KEEP_ALIVE
        )
        self._state = ServerState()
        self._server: asyncio.Server | None = None

    async def start(self, port: int) -> int:
        """Listens on `port`, or on a free one if it is 0; returns the port."""
        loop = asyncio.get_running_loop()
        self._config.load()
        self._server = await loop.create_server(self._protocol, "127.0.0.1", port, backlog=1024)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def _protocol(self) -> TrackedProtocol:
        return TrackedProtocol(self._connections, config=self._config, server_state=self._state, app_state={})

    async def stop(self) -> None:
        """Closes the socket, drops all connections, and waits for the requests' tasks."""
        assert self._server is not None
        await stop_accepting([self._server])
        self._server.close()
        while self._state.tasks or self._state.connections:
            self._connections.abort_all()
            await asyncio.gather(*self._state.tasks, return_exceptions=True)
            await asyncio.sleep(0)
        await self._server.wait_closed()


class ListenerThread:
    """A listener in a thread with a loop of its own."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake-provider", daemon=True)
        self._listener: Listener | None = None

    def start(self, port: int) -> int:
        self._thread.start()
        return asyncio.run_coroutine_threadsafe(self._start(port), self._loop).result(TIMEOUT_S)

    async def _start(self, port: int) -> int:
        self._listener = Listener(self._desk)
        return await self._listener.start(port)

    def stop(self) -> None:
        assert self._listener is not None
        asyncio.run_coroutine_threadsafe(self._listener.stop(), self._loop).result(TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_S)
        self._loop.close()


@contextmanager
def running_provider(**settings: Any) -> Iterator[FakeProvider]:
    """A provider in a thread; fails at the end if a script of the test has raised."""
    with FakeProvider(**settings) as provider:
        yield provider
    for error in provider.script_errors:
        raise error
