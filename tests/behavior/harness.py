"""Runs the real server in a thread with its own event loop, and talks to it over HTTP."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from types import FrameType
from typing import Any, Self

import httpx
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from app.server import Server, bind, make_server
from app.settings import Settings
from tests.accepting import stop_accepting
from tests.databases import database_settings
from tests.provider import FakeProvider, ToolCall

OPENAI, ANTHROPIC, RESPONSES = "fake-openai/model", "fake-anthropic/model", "fake-responses/model"
Content = str | list[dict[str, Any]]
"""A message: its text, or its parts."""
"""One strict provider under a name per wire format."""


@dataclass(slots=True)
class Event:
    """An event as a client reads it; `id` is None for a live one."""

    type: str
    data: dict[str, Any]
    id: int | None = None


@dataclass
class RunningServer:
    """The server under test. Leaving the context shuts it down gracefully."""

    settings: Settings
    _url: str = ""
    _server: Server | None = None
    _loop: asyncio.AbstractEventLoop | None = None
    _thread: threading.Thread | None = None
    _failure: BaseException | None = None
    _ready: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return self._url

    def start(self) -> Self:
        listener = bind(self.settings)
        self._url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self._server = make_server(self.settings, lambda _: self._ready.set())

        def run() -> None:
            assert self._server is not None
            try:
                with listener, asyncio.Runner() as runner:
                    self._loop = runner.get_loop()
                    runner.run(self._server.serve(sockets=[listener]))
            except BaseException as error:
                self._failure = error
            finally:
                self._ready.set()

        self._thread = threading.Thread(target=run, name="server-under-test", daemon=True)
        self._thread.start()
        assert self._ready.wait(60), "the server did not start"
        if self._failure is not None:
            raise self._failure
        return self

    def stop(self) -> None:
        if self._server is None or self._thread is None:
            return
        if self._loop is not None and self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._stop(), self._loop)
        self._thread.join(60)
        assert not self._thread.is_alive(), f"the server did not stop:\n{_waits(self._thread, self._loop)}"
        self._server = None

    async def _stop(self) -> None:
        assert self._server is not None
        await stop_accepting(self._server.servers)
        self._server.should_exit = True


def _waits(thread: threading.Thread, loop: asyncio.AbstractEventLoop | None) -> str:
    """What a thread and the tasks of its event loop wait for."""
    lines = traceback.format_stack(sys._current_frames().get(thread.ident or 0))
    for task in asyncio.all_tasks(loop) if loop is not None else ():
        lines.append(f"{task.get_name()}\n")
        awaited: Any = task.get_coro()
        while (frame := getattr(awaited, "cr_frame", None)) is not None:
            lines += traceback.format_list([traceback.FrameSummary(*_at(frame))])
            awaited = awaited.cr_await
    return "".join(lines)


def _at(frame: FrameType) -> tuple[str, int, str]:
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name


@dataclass(frozen=True, slots=True)
class _Nodes:
    """The nodes of a cluster: those that serve requests, and all."""

    api: tuple[httpx.URL, ...]
    all: tuple[httpx.URL, ...]


OF_THE_CLUSTER = {
    "palimpsest_waiting_runs",
    "palimpsest_pending_messages",
    "palimpsest_mcp_servers",
    "palimpsest_running_subagents",
    "palimpsest_webhooks_failing",
    "palimpsest_webhooks_disabled",
}
"""Metrics that each node counts for the whole cluster."""

_peers: dict[str, _Nodes] = {}
"""By the URLs of nodes that serve requests."""


def alternate(api: Sequence[str], others: Sequence[str]) -> None:
    """Has clients of any of these nodes of a cluster send their requests to those with an API in turn. Metrics are the
    sums over all nodes, as operators see them."""
    nodes = _Nodes(tuple(map(httpx.URL, api)), tuple(map(httpx.URL, [*api, *others])))
    _peers.update(dict.fromkeys(api, nodes))


class _Alternating(httpx.AsyncHTTPTransport):
    """Sends each request to the next node."""

    def __init__(self, nodes: _Nodes) -> None:
        super().__init__(verify=False, trust_env=False)
        self._next = cycle(nodes.api)
        self._all = nodes.all

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/metrics":
            return await self._metrics(request)
        return await self._ask(request, next(self._next))

    async def _ask(self, request: httpx.Request, node: httpx.URL) -> httpx.Response:
        request.url = request.url.copy_with(port=node.port)
        return await super().handle_async_request(request)

    async def _metrics(self, request: httpx.Request) -> httpx.Response:
        # By the line that begins a family, and without a value for its other comments.
        families: dict[str, dict[str, float | None]] = {}
        family: dict[str, float | None] = {}
        for node in self._all:
            answer = await self._ask(request, node)
            if not answer.is_success:
                return answer
            for line in (await answer.aread()).decode().splitlines():
                name, _, value = line.rpartition(" ")
                if line.startswith("# HELP"):
                    family = families.setdefault(line, {})
                elif line.startswith("#"):
                    family[line] = None
                else:
                    add = max if name in OF_THE_CLUSTER else float.__add__
                    family[name] = add(float(family.get(name) or 0), float(value))
            await answer.aclose()
        lines = []
        for first, rest in families.items():
            lines += [first, *(name if value is None else f"{name} {value}" for name, value in rest.items())]
        headers = {"content-type": answer.headers["content-type"]}
        return httpx.Response(answer.status_code, headers=headers, content="\n".join([*lines, ""]).encode())


class Client:
    """A client of the server under test, with the calls that most tests make."""

    def __init__(self, url: str, *, key: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        # `verify` has no effect on HTTP; without it, each client would load the machine's certificates.
        transport = _Alternating(_peers[url]) if url in _peers else None
        self.http = httpx.AsyncClient(
            base_url=url, headers=headers, timeout=60, trust_env=False, verify=False, transport=transport
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    async def create(self, task: Content | None = None, **fields: Any) -> dict[str, Any]:
        """A new session, of the strict provider's OpenAI model unless `model` is given."""
        body = {"model": OPENAI, **({"task": task} if task is not None else {}), **fields}
        return _ok(await self.http.post("/v1/sessions", json=body))

    async def post(self, session_id: str, content: Content, mode: str = "steer", **fields: Any) -> dict[str, Any]:
        """Queues a message."""
        body = {"content": content, "mode": mode, **fields}
        return _ok(await self.http.post(f"/v1/sessions/{session_id}/queue", json=body))

    async def change(self, session_id: str, **fields: Any) -> dict[str, Any]:
        """Changes fields of the session."""
        return _ok(await self.http.patch(f"/v1/sessions/{session_id}", json=fields))

    async def resume(self, session_id: str) -> None:
        response = await self.http.post(f"/v1/sessions/{session_id}/resume")
        assert response.status_code == 202, response.text

    async def get(self, path: str, **params: Any) -> dict[str, Any]:
        return _ok(await self.http.get(path, params=params))

    async def session(self, session_id: str) -> dict[str, Any]:
        return await self.get(f"/v1/sessions/{session_id}")

    async def messages(self, session_id: str) -> list[dict[str, Any]]:
        """The whole history."""
        items: list[dict[str, Any]] = []
        after: str | None = None
        while True:
            page = await self.get(f"/v1/sessions/{session_id}/messages", **({"after": after} if after else {}))
            items += page["items"]
            after = page["next_cursor"]
            if after is None:
                return items

    async def steps(self, session_id: str) -> list[dict[str, Any]]:
        """The first page of its steps."""
        items: list[dict[str, Any]] = (await self.get(f"/v1/sessions/{session_id}/steps"))["items"]
        return items

    async def events(
        self, session_id: str, *, after: int | None = None, until_idle: bool = False, last_event_id: int | None = None
    ) -> AsyncIterator[Event]:
        """The session's stream, event by event."""
        params: dict[str, Any] = {"after": after} if after is not None else {}
        if until_idle:
            params["until"] = "idle"
        headers = {"Last-Event-ID": str(last_event_id)} if last_event_id is not None else {}
        path = f"/v1/sessions/{session_id}/events"
        async with self.http.stream("GET", path, params=params, headers=headers) as response:
            if not response.is_success:
                await response.aread()
            assert response.is_success, response.text
            async for event in read_events(response):
                yield event

    async def until_idle(self, session_id: str, after: int | None = None) -> list[Event]:
        """All events until the session is idle."""
        return [event async for event in self.events(session_id, after=after, until_idle=True)]

    async def say(self, session_id: str, content: Content, after: int | None = None) -> list[Event]:
        """Queues a message and waits until the session is idle; the events until then."""
        await self.post(session_id, content)
        return await self.until_idle(session_id, after)

    async def wait_for(self, session_id: str, wanted: Callable[[Event], bool], after: int | None = None) -> Event:
        """The first matching event, from the log or live."""
        async with asyncio.timeout(60):
            async for event in self.events(session_id, after=after):
                if wanted(event):
                    return event
        raise AssertionError("the stream ended without the event")

    async def run(self, task: Content, **fields: Any) -> tuple[dict[str, Any], list[Event]]:
        """Creates a session with a task and follows it to its end; returns the final session and its events."""
        made = await self.create(task, **fields)
        events = await self.until_idle(made["id"])
        return await self.session(made["id"]), events


def _ok(response: httpx.Response) -> dict[str, Any]:
    assert response.is_success, f"{response.status_code} {response.text}"
    body: dict[str, Any] = response.json()
    return body


async def read_events(response: httpx.Response) -> AsyncIterator[Event]:
    """Parses an event stream as the standard specifies; comments and `retry` are skipped."""
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line:
            name, _, value = line.partition(":")
            if name:
                fields[name] = value.removeprefix(" ")
        elif "data" in fields:
            seq = int(fields["id"]) if "id" in fields else None
            yield Event(fields.get("event", "message"), json.loads(fields["data"]), seq)
            fields = {}
        else:
            fields = {}


def command(text: str, **more: Any) -> ToolCall:
    """A model's call of a shell command."""
    return ToolCall("execute_command", {"command": text, **more})


def durable(events: list[Event]) -> list[Event]:
    return [event for event in events if event.id is not None]


def of_type(events: list[Event], *types: str) -> list[Event]:
    return [event for event in events if event.type in types]


def shows(kind: str) -> Callable[[Event], bool]:
    """Whether an event is of this type."""
    return lambda event: event.type == kind


class _GivenSettings(Settings):
    """Settings that come from nowhere else: to look for each in the environment takes a tenth of a small test."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


def settings_for(data_dir: Path, provider: FakeProvider, sandbox: str, **more: Any) -> Settings:
    """Settings of a server under test: loopback, a free port, the strict provider under three names, no `.env`."""
    values: dict[str, Any] = {
        "port": 0,
        "data_dir": data_dir,
        "model": OPENAI,
        "sandbox": sandbox,
        "providers": {
            "fake-openai": {"kind": "openai", "base_url": provider.openai_url},
            "fake-anthropic": {"kind": "anthropic", "base_url": provider.url},
            "fake-responses": {"kind": "openai-responses", "base_url": provider.openai_url},
        },
        "models": {name: {"context_window": 128_000} for name in (OPENAI, ANTHROPIC, RESPONSES)},
        "log_level": "error",
        "shutdown_grace_s": 5,
        **database_settings(data_dir),
        **more,
    }
    return _GivenSettings(**values)
