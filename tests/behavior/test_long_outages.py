"""The outages of `test_outages.py` at full length, while runs continue and messages are posted: the database locked for
ten seconds, an Engine stopped and started, a provider away for a minute. Only with PALIMPSEST_TEST_LONG=1; prints its
measurements (`pytest -s`)."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.messages import new_id
from tests.behavior.checks import assert_sound
from tests.behavior.conftest import StartServer
from tests.behavior.harness import Client, RunningServer, command, of_type, shows
from tests.behavior.own_engine import OwnEngine, why_not
from tests.behavior.test_outages import TRUTH_S
from tests.load import LONG
from tests.provider import FakeProvider, RecordedRequest, Reply, Text
from tests.requirements import need

pytestmark = [
    pytest.mark.skipif(not LONG, reason="takes minutes"),
    pytest.mark.timeout(400),
]

SESSIONS = 6
STOPPED_S = 15.0
DOWN_S = 60.0
POST_EVERY_S = 0.5
LOOK_EVERY_S = 0.05
BEFORE_S = 2.0
"""Seconds that the sessions work before the outage starts."""


class Watch:
    """Statuses from `readyz`, with times."""

    def __init__(self, component: str) -> None:
        self._component = component
        self._said: list[tuple[float, dict[str, Any]]] = []

    def hear(self, found: dict[str, Any]) -> None:
        self._said.append((time.monotonic(), found))

    def _is_well(self, found: dict[str, Any]) -> bool:
        return bool(found["ready"] and found["components"][self._component]["ok"])

    def seconds_until(self, well: bool, since: float) -> float:
        """Seconds from `since` to the first report of this status."""
        return min(at for at, found in self._said if at >= since and self._is_well(found) is well) - since

    def said_well_between(self, begin: float, end: float) -> int:
        return sum(begin <= at < end and self._is_well(found) for at, found in self._said)

    def statuses(self, begin: float, end: float) -> set[str]:
        """The part's statuses while it was not well."""
        return {
            found["components"][self._component]["status"]
            for at, found in self._said
            if begin <= at < end and not self._is_well(found)
        }


@asynccontextmanager
async def watching(client: Client, component: str) -> AsyncIterator[Watch]:
    watch = Watch(component)

    async def look() -> None:
        while True:
            watch.hear((await client.http.get("/readyz")).json())
            await asyncio.sleep(LOOK_EVERY_S)

    task = asyncio.create_task(look())
    try:
        yield watch
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled(), task.exception()


class Posts:
    """Messages posted to each session at a steady rate, regardless of responses, and their outcomes."""

    def __init__(self, client: Client, session_ids: list[str]) -> None:
        self._client = client
        self.accepted: dict[str, list[str]] = {session_id: [] for session_id in session_ids}
        self.answers: Counter[str] = Counter()
        self.delivered = 0

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Posts inside the context, then waits for the responses."""

        async def post() -> None:
            while True:
                for session_id in self.accepted:
                    tasks.create_task(self._post(session_id))
                await asyncio.sleep(POST_EVERY_S)

        async with asyncio.TaskGroup() as tasks:
            posting = tasks.create_task(post())
            try:
                yield
            finally:
                posting.cancel()

    async def _post(self, session_id: str) -> None:
        message = {"content": "and then", "id": new_id()}
        answer = await self._client.http.post(f"/v1/sessions/{session_id}/queue", json=message)
        if answer.is_success:
            self.accepted[session_id].append(str(message["id"]))
        self.answers[str(answer.status_code) if answer.is_success else answer.json()["code"]] += 1

    async def assert_delivered(self) -> None:
        """Each accepted message is in the log once, no other is, and every session has ended well."""
        for session_id, accepted in self.accepted.items():
            async with asyncio.timeout(120):
                await self._client.until_idle(session_id)
            events = await assert_sound(self._client, session_id)
            delivered = [event.data["message_id"] for event in of_type(events, "message.dequeued")][1:]
            assert sorted(delivered) == sorted(accepted)
            assert (await self._client.session(session_id))["outcome"] == "completed"
            self.delivered += len(delivered)


def report(what: str, watch: Watch, posts: Posts, begin: float, end: float, back: float | None = None) -> None:
    """Prints the measurements, and checks `readyz`'s response times. `back` is when all is surely well again, if later
    than the `end` of the outage."""
    until_said = watch.seconds_until(False, begin)
    until_well = max(0.0, watch.seconds_until(True, end) + end - (back or end))
    accepted = sum(map(len, posts.accepted.values()))
    print(
        f"\n{what}: away for {end - begin:.1f} s; readyz said so after {until_said:.2f} s"
        f" ({', '.join(sorted(watch.statuses(begin, end)))}) and was well again after {until_well:.2f} s;"
        f" {posts.answers.total()} messages posted to {len(posts.accepted)} sessions, {accepted} accepted,"
        f" {posts.delivered} delivered; answers {dict(posts.answers)}"
    )
    assert until_said <= TRUTH_S
    assert until_well <= TRUTH_S
    assert watch.said_well_between(begin + until_said, end) == 0
    assert posts.delivered == accepted > 0


@contextmanager
def locked(database: Path) -> Iterator[None]:
    """Another process locks the database."""
    code = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30);"
        " c.execute('BEGIN EXCLUSIVE'); print('held', flush=True); sys.stdin.read(); c.execute('ROLLBACK')"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield


@pytest.mark.parametrize("locked_s", [10, 13])
async def test_a_locked_database(
    client: Client, server: RunningServer, provider: FakeProvider, locked_s: float
) -> None:
    """A commit waits for five seconds. After ten, the second one just gets through; after more, it is refused too."""
    provider.respond(lambda _: Reply(Text("word " * 60, 60), pace=20))
    session_ids = [(await client.create(f"task {number}"))["id"] for number in range(SESSIONS)]
    posts, holding = Posts(client, session_ids), locked(server.settings.data_dir / "palimpsest.db")
    async with watching(client, "database") as watch, posts.going_on():
        await asyncio.sleep(BEFORE_S)
        await asyncio.to_thread(holding.__enter__)
        begin = time.monotonic()
        await asyncio.sleep(locked_s)
        end = time.monotonic()
        await asyncio.to_thread(holding.__exit__, None, None, None)
        await asyncio.sleep(TRUTH_S)
    await posts.assert_delivered()
    report("a locked database", watch, posts, begin, end)
    assert posts.answers.keys() <= {"202", "storage_busy"}
    assert provider.refusals == []


@pytest.fixture
def engine(sandbox_image: str) -> Iterator[OwnEngine]:
    need("docker")
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    with OwnEngine(sandbox_image) as engine:
        yield engine


def commands(count: int) -> Callable[[RecordedRequest], Reply]:
    """Runs `count` commands, one after the other, then ends."""

    def respond(request: RecordedRequest) -> Reply:
        done = len(request.tool_results)
        if done >= count:
            return Reply(Text("word " * 10, 10), pace=20)
        return Reply(command(f"sleep 0.5; echo {done} >> ran; echo it ran"))

    return respond


@pytest.mark.docker
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
async def test_an_engine_that_is_stopped_and_started(
    engine: OwnEngine, start_server: StartServer, provider: FakeProvider, how: signal.Signals
) -> None:
    """Running commands end with it, and the model is told; new ones wait for it."""
    provider.respond(commands(8))
    server = await asyncio.to_thread(
        lambda: start_server(sandbox="docker", docker_host=engine.host, sandbox_network="off")
    )
    async with Client(server.url) as client:
        session_ids = [(await client.create(f"task {number}"))["id"] for number in range(SESSIONS)]
        for session_id in session_ids:
            await client.wait_for(session_id, shows("tool.result"))
        posts = Posts(client, session_ids)
        async with watching(client, "sandbox") as watch, posts.going_on():
            begin = time.monotonic()
            await asyncio.to_thread(engine.stop, how)
            await asyncio.sleep(STOPPED_S)
            end = time.monotonic()
            await asyncio.to_thread(engine.start)
            started = time.monotonic()
            await asyncio.sleep(TRUTH_S)
        await posts.assert_delivered()
        report(f"an Engine, {how.name}", watch, posts, begin, end, started)
        print(f"  it took {started - end:.1f} s to start")
        await _print_results(client, session_ids)
    assert provider.refusals == []


async def _print_results(client: Client, session_ids: list[str]) -> None:
    """Every call has ended, each command has run at most once, and those reported as run did run."""
    statuses: Counter[str] = Counter()
    for session_id in session_ids:
        results = [event.data for event in of_type(await client.until_idle(session_id), "tool.result")]
        statuses.update(result["status"] for result in results)
        said = sum(result["output"].startswith("it ran") for result in results)
        ran = (await client.http.get(f"/v1/sessions/{session_id}/files/ran")).text.split()
        assert len(ran) == len(set(ran))
        assert said <= len(ran) <= len(results)
    print(f"  results of calls: {dict(statuses)}")


async def test_a_provider_that_is_down_for_a_minute(start_server: StartServer) -> None:
    """Its runs retry until it is back, and complete by themselves."""
    respond: Callable[[RecordedRequest], Reply] = lambda _: Reply(Text("word " * 60, 60), pace=20)  # noqa: E731
    up = FakeProvider()
    with up:
        up.respond(respond)
        url = up.openai_url
        providers = {"down": {"kind": "openai", "base_url": url}}
        more = {"model": "down/model", "providers": providers, "models": {"down/model": {"context_window": 128_000}}}
        server = await asyncio.to_thread(lambda: start_server(**more))
        client = Client(server.url)
        session_ids = [(await client.create(f"task {n}", model="down/model"))["id"] for n in range(SESSIONS)]
        posts = Posts(client, session_ids)
        await up.request_count(SESSIONS)
    async with client, watching(client, "provider") as watch:
        begin = time.monotonic()
        async with posts.going_on():
            await asyncio.sleep(DOWN_S / 4)
        await asyncio.sleep(DOWN_S * 3 / 4)
        end = time.monotonic()
        statuses = [(await client.session(session_id))["status"] for session_id in session_ids]
        assert statuses == ["running"] * SESSIONS
        with FakeProvider(port=int(url.rpartition(":")[2].partition("/")[0])) as back:
            back.respond(respond)
            await posts.assert_delivered()
            took = time.monotonic() - end
            assert back.refusals == []
        attempts = [
            event.data["attempt"] for event in of_type(await client.until_idle(session_ids[0]), "step.retrying")
        ]
        report("a provider", watch, posts, begin, end)
        print(f"  all runs had ended {took:.1f} s after it was back; the first had failed {len(attempts)} times before")
