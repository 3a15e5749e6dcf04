from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx

from app.bootstrap.sandboxes import open_factory
from tests.behavior import clustered
from tests.behavior.harness import Client, RunningServer, settings_for
from tests.behavior.not_in_cluster import excluded
from tests.behavior.process import ServerProcess
from tests.behavior.shared_servers import SharedServers, delete_sessions, is_sharing
from tests.databases import in_cluster, make_database, opened, prepare
from tests.logs import quiet_logs
from tests.provider import FakeProvider
from tests.provider.server import running_provider
from tests.requirements import missing, need

__all__ = ["quiet_logs"]

FOLDER = Path(__file__).parent
LOOKS_IN_CLUSTER = {"test_cancel_resume", "test_queue", "test_streams", "test_subagents", "test_webhooks"}
"""They reach most of what only a cluster's nodes do on their event loops."""
StartServer = Callable[..., RunningServer]
StartProcess = Callable[..., ServerProcess]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what does not run against a cluster. Tests that share one come before others that are as slow, and
    those without settings of their own first: a shared one ends when others start."""
    if in_cluster():
        left_out = excluded(item for item in items if item.path.parent == FOLDER)
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
        items.sort(key=lambda item: (not is_sharing(item), "server_with" in getattr(item, "fixturenames", ())))


@pytest.fixture(autouse=True, scope="module")
def no_blocking(request: pytest.FixtureRequest) -> Iterator[None]:
    """A blocking call by the service on an event loop fails the test that made it. Exempt are file status calls, which
    take microseconds on a local disk, and locks, which coverage measurement takes. In a cluster, only some tests look
    for such calls, which takes a twentieth of the CPU time: the same tests look for them without one."""
    if in_cluster() and request.path.stem not in LOOKS_IN_CLUSTER:
        yield
        return
    with blockbuster_ctx("app") as guard:
        for name, function in guard.functions.items():
            if name.startswith(("os.path.", "os.stat", "os.access", "os.readlink", "threading.")):
                function.deactivate()
        yield


@pytest.fixture(autouse=True, scope="session")
def empty_database() -> None:
    """Migrates once, here, where it blocks no event loop."""
    prepare()
    if in_cluster():
        clustered.prepare()


@pytest.fixture(autouse=True, scope="session")
def heeds_interrupts() -> None:
    """Restores SIGINT: a shell's background jobs ignore it, and so would every command started by the tests."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name.startswith(("PALIMPSEST_", "OPENAI_", "ANTHROPIC_")) and not name.startswith("PALIMPSEST_TEST_"):
            monkeypatch.delenv(name)


WALLED = (
    pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
    pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.extended]),
)
"""The kinds of sandbox that keep commands from the host, by default only the first."""


@pytest.fixture(params=WALLED)
def sandbox(request: pytest.FixtureRequest) -> str:
    """The kind of sandbox; a test that uses it runs with each, by default with bubblewrap only."""
    need(request.param)
    return str(request.param)


def sandbox_of(request: pytest.FixtureRequest) -> str:
    """The kind of sandbox that the test's servers have."""
    kind = request.getfixturevalue("sandbox") if "sandbox" in request.fixturenames else "bubblewrap"
    need(kind)
    return str(kind)


@pytest.fixture
def sandbox_image() -> str:
    return os.environ.get("PALIMPSEST_TEST_IMAGE", "palimpsest/test-busybox:latest")


def remove_containers(data_dir: Path) -> None:
    """Removes a server's containers from the Engine after the test."""
    if not (data_dir / "palimpsest.db").exists():
        return
    with opened(data_dir / "palimpsest.db") as database:
        found = database.exec_driver_sql("SELECT value FROM server WHERE key = 'instance_id'").scalar()

    async def remove() -> None:
        factory = await open_factory("docker", data_dir=data_dir, instance_id=str(found))
        await factory.remove_orphans(set())
        await factory.aclose()

    if found is not None and missing("docker") is None:
        with asyncio.Runner() as runner:
            runner.run(remove())


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServers]:
    shared = SharedServers(tmp_path_factory.mktemp("shared"))
    yield shared
    shared.close()


@pytest.fixture
def start_server(
    request: pytest.FixtureRequest, tmp_path: Path, provider: FakeProvider, sandbox_image: str, shared: SharedServers
) -> Iterator[StartServer]:
    """Starts servers, all on one data directory by default, with the test's sandbox, else bubblewrap. The data
    directory starts with an empty database."""
    kind = sandbox_of(request)
    running: list[RunningServer] = []
    if in_cluster() and not shares(request):
        shared.stop()

    def start(**more: Any) -> RunningServer:
        data_dir = more.pop("data_dir", tmp_path / "data")
        settings = settings_for(
            data_dir, provider, more.pop("sandbox", kind), **{"sandbox_image": sandbox_image, **more}
        )
        if not data_dir.exists():
            make_database(data_dir / "palimpsest.db")
        server = clustered.start(settings)
        running.append(server)
        return server

    yield start
    for server in running:
        server.stop()
    for server in running:
        if server.settings.sandbox in ("docker", "auto"):
            remove_containers(server.settings.data_dir)


@pytest.fixture
def start_process(
    request: pytest.FixtureRequest, tmp_path: Path, provider: FakeProvider, sandbox_image: str
) -> Iterator[StartProcess]:
    """Starts server processes, one after the other, on one data directory, with the test's sandbox, else bubblewrap."""
    kind, data_dir = sandbox_of(request), tmp_path / "data"
    with ExitStack() as stack:
        if kind == "docker":
            stack.callback(remove_containers, data_dir)
        yield lambda **more: stack.enter_context(ServerProcess(data_dir, provider, kind, sandbox_image, more))


def shares(request: pytest.FixtureRequest) -> bool:
    """Whether the test uses a shared server, which has bubblewrap."""
    return is_sharing(request.node) and sandbox_of(request) == "bubblewrap"


@pytest.fixture
def provider(request: pytest.FixtureRequest, shared: SharedServers) -> Iterator[FakeProvider]:
    """A fresh provider in its own thread."""
    if shares(request):
        shared.provider.reset()
        yield shared.provider
        for error in shared.provider.script_errors:
            raise error
    else:
        with running_provider() as provider:
            yield provider


@pytest.fixture
def server_with(request: pytest.FixtureRequest, provider: FakeProvider, shared: SharedServers) -> Iterator[StartServer]:
    """Gives a server with these settings and without sessions, which other tests use before and after. The test leaves
    nothing behind but sessions, teaches the server nothing of its models, and compares no metrics."""
    if not shares(request):
        yield request.getfixturevalue("start_server")
        return
    used: list[RunningServer] = []

    def get(**settings: Any) -> RunningServer:
        used.append(shared.get(**settings))
        return used[-1]

    yield get
    try:
        for server in used:
            delete_sessions(server)
    except BaseException:
        shared.stop()  # the next test would find what is left
        raise


@pytest.fixture
def server(request: pytest.FixtureRequest) -> RunningServer:
    """A server without sessions."""
    found: RunningServer = request.getfixturevalue("server_with" if shares(request) else "start_server")()
    return found


@pytest.fixture
async def client(server: RunningServer) -> AsyncIterator[Client]:
    async with Client(server.url) as client:
        yield client
