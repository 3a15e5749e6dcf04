"""A whole run: sets up, warms up the server, starts users and faults, and checks everything."""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.databases import make_database
from tests.mcp_servers import McpServer, mcp_server
from tests.provider import FakeProvider
from tests.soak import audit
from tests.soak.caller import Caller
from tests.soak.clock import Clock
from tests.soak.containers import Containers
from tests.soak.database import instance_id
from tests.soak.disk import Disk
from tests.soak.faults import Stage, cause, restart, stopped_at_work
from tests.soak.host import LARGE_WINDOW, SMALL_WINDOW, SMALLEST_WINDOW, Host, ServerFailed
from tests.soak.ledger import Book
from tests.soak.log_watch import LogWatch
from tests.soak.model import COMMAND_SERVER, TOOLS, Model, Weather
from tests.soak.plan import ENDS_SERVER, MODELS, SMALL_MODELS, SessionPlan, faults_of, kills_of, sessions_of, warm_ups
from tests.soak.proc import Cost
from tests.soak.report import PROGRESS_S, LifeMemory, Result, progress
from tests.soak.users import User, pause, read_logs

KILLS_TOLD = 10
KEPT_REQUESTS = 50
"""Requests kept by the provider; those of a whole run would take gigabytes."""

WARM_UPS = 12
"""Sessions at once before the first look at what the server holds, at least; as many as the run has, if those are
more."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    """A run: its seed, how long it works in seconds, how many sessions are at work at once, how far its faults lie
    apart in seconds, and where commands run. With `kills` it works until the server was killed so often, which is then
    its only fault, and all windows are small; with `at_work` those kills come only while a session runs. With
    `one_life` no fault ends the server."""

    seed: int
    seconds: float
    sessions: int
    gap_s: float
    sandbox: str
    image: str
    keep: bool = False
    kills: int | None = None
    at_work: bool = False
    one_life: bool = False


@asynccontextmanager
async def _stage(options: Options, folder: Path, book: Book) -> AsyncIterator[tuple[Stage, FakeProvider, McpServer]]:
    """Everything but the server's first life; taken down again at the end, whatever happened."""
    digits = str(random.SystemRandom().randrange(10**8, 10**9))
    disk = Disk(folder / "data")
    clock = Clock(folder / "clock")
    weather = Weather()
    containers = Containers()
    model = Model(options.seed, weather, digits)
    small = SMALL_WINDOW if options.kills is None else SMALLEST_WINDOW
    windows = {"large": LARGE_WINDOW, "small": small}
    async with AsyncExitStack() as stack:
        stack.callback(disk.remove)
        provider = stack.enter_context(FakeProvider(windows=windows, keep=KEPT_REQUESTS))
        provider.respond(model.answer)
        remote = stack.enter_context(mcp_server())
        log = folder / "server.log"
        # Kills come alone, without jumps of the clock.
        environment = clock.environment if options.kills is None else {}
        host = Host(disk.path, log, provider, options.sandbox, options.image, environment, small)
        stack.callback(clock.forget, host.pids)
        stack.push_async_callback(containers.remove)
        stack.push_async_callback(_gone, host)
        uses_docker = options.sandbox == "docker"
        yield Stage(host, disk, clock, weather, containers, book, digits, uses_docker), provider, remote


@asynccontextmanager
async def _folder(options: Options, book: Book) -> AsyncIterator[Path]:
    """A temporary folder for the run, kept if there is something to inspect in it."""
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="palimpsest-soak-"))
    try:
        yield folder
    finally:
        if not (options.keep or book.violations):
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _gone(host: Host) -> None:
    if host.pids and host.exit_code is None:
        await host.end(signal.SIGKILL)


async def run(options: Options, say: Say) -> Result:
    """Runs the soak; the violations are in the result. `say` gets lines for a person."""
    book = Book()
    begun = time.monotonic()
    async with _folder(options, book) as folder, _stage(options, folder, book) as (stage, provider, remote):
        left_out = {str(kind): why for kind, why in stage.impossible().items()}
        work = _Work(options, stage, provider, remote, book, say, begun)
        try:
            await work.run()
        except ServerFailed as error:
            book.violated("the server starts and ends", str(error))
        if options.keep or book.violations:
            say(f"kept: {folder}")
            await asyncio.to_thread(stage.disk.keep, folder / "kept")
        result = Result(
            options.seed,
            time.monotonic() - begun,
            options.sandbox,
            stage.host.lives,
            work.life_s,
            work.memory.by_the_minute,
            work.before,
            work.after,
            work.tasks,
            left_out,
            book,
        )
    return result


class _Work:
    """The phases of one run."""

    def __init__(
        self,
        options: Options,
        stage: Stage,
        provider: FakeProvider,
        remote: McpServer,
        book: Book,
        say: Say,
        begun: float,
    ) -> None:
        self._options = options
        self._stage = stage
        self._provider = provider
        self._remote = remote
        self._book = book
        self._say = say
        self._begun = begun
        self._live = 0
        self._stopping = asyncio.Event()
        self._caller = Caller([stage.host.url], book)
        self.before: Cost | None = None
        self.after: Cost | None = None
        self.tasks: tuple[float, float] | None = None
        self._at_start: audit.Rest | None = None
        self.life_s = 0.0
        self.memory = LifeMemory()

    async def run(self) -> None:
        host = self._stage.host
        self._say(f"seed {self._options.seed}; the server at {host.url}, its log {host.log}")
        watch = LogWatch(host.log, self._book)
        # A life that makes the database holds what that takes to its end, 20 MB, which no later life does.
        await asyncio.to_thread(make_database, host.database)
        await host.start()
        self._stage.containers.instance_id = await asyncio.to_thread(instance_id, host.database)
        helpers = [asyncio.create_task(job) for job in (watch.run(), self._tell())]
        try:
            await self._warm_up()
            await self._soak()
            self._say("the last sessions are at rest; checking")
            await self._check(watch)
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.wait(helpers)
            await self._caller.aclose()

    async def _warm_up(self) -> None:
        caller = Caller([self._stage.host.url], self._book)
        try:
            async with asyncio.TaskGroup() as users:
                for plan in warm_ups(self._warm_ups):
                    users.create_task(self._user(plan, caller).run())
        finally:
            # With its connections, so that they are not among those that the server may hold at the end.
            await caller.aclose()
        self._at_start = await audit.settled(self._stage.host)
        self.before = self._at_start.cost

    @property
    def _warm_ups(self) -> int:
        # The life that repeated kills leave at the end is a new one, whatever was done in the first.
        at_least = WARM_UPS if self._options.kills is None else 1
        return max(at_least, self._options.sessions)

    async def _soak(self) -> None:
        """Runs users and faults until the time is over, then users until each session is idle."""
        slots = [asyncio.create_task(self._slot(number)) for number in range(self._options.sessions)]
        keeper = asyncio.create_task(self._keep_up())
        try:
            await self._cause_all()
            self._stopping.set()
            await asyncio.gather(*slots)
        finally:
            self._stopping.set()
            for task in (keeper, *slots):
                task.cancel()
            await asyncio.wait([keeper, *slots])
        while self._stage.watches:
            await asyncio.wait(set(self._stage.watches))

    async def _kill_all(self, kills: int) -> None:
        """Kills the server at random instants of its lives."""
        instants, number = kills_of(self._options.seed), 0
        while number < kills:
            await asyncio.sleep(next(instants))
            if self._options.at_work and not await stopped_at_work(self._stage):
                continue
            await restart(self._stage, signal.SIGKILL)
            self._book.faults["kill"] += 1
            number += 1
            if number % KILLS_TOLD == 0:
                self._say(f"{time.monotonic() - self._begun:5.0f} s  killed {number} times of {kills}")

    async def _cause_all(self) -> None:
        options = self._options
        if options.kills is not None:
            await self._kill_all(options.kills)
            return
        first = time.monotonic()
        kinds = [kind for kind in self._stage.possible() if not (options.one_life and kind in ENDS_SERVER)]
        for fault in faults_of(options.seed, options.seconds, options.gap_s, kinds):
            await asyncio.sleep(max(0.0, first + fault.at_s - time.monotonic()))
            if time.monotonic() > first + options.seconds:
                break
            begun = time.monotonic()
            await cause(self._stage, fault)
            took = time.monotonic() - begun
            self._say(f"{begun - self._begun:5.0f} s  {fault.kind}, planned for {fault.at_s:.0f} s, took {took:.1f} s")
        await asyncio.sleep(max(0.0, first + options.seconds - time.monotonic()))

    async def _slot(self, number: int) -> None:
        """Session after session, as one user at a time."""
        rng = random.Random(f"{self._options.seed}/{number}/pauses")
        models = MODELS if self._options.kills is None else SMALL_MODELS
        for plan in sessions_of(self._options.seed, number, models):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause(rng))
            if self._stopping.is_set():
                return
            self._live += 1
            try:
                await self._user(plan, self._caller).run()
            finally:
                self._live -= 1

    def _user(self, plan: SessionPlan, caller: Caller) -> User:
        # Repeated kills are to be met in small windows, without room for more tools.
        if self._options.kills is not None:
            return User(caller, self._book, plan, self._options.seed, self._stopping)
        servers = {"url": {"url": self._remote.url, "tools": ["add"]}, "sh": COMMAND_SERVER}
        return User(caller, self._book, plan, self._options.seed, self._stopping, servers, TOOLS)

    async def _keep_up(self) -> None:
        """Detects a server that dies by itself, and restarts it so that the run continues."""
        host = self._stage.host
        while True:
            await asyncio.sleep(0.5)
            async with host.changing:
                if host.exit_code is not None:
                    self._book.violated("the server lives", f"it ended by itself with {host.exit_code}")
                    await host.start()

    async def _check(self, watch: LogWatch) -> None:
        stage, book = self._stage, self._book
        await read_logs(self._caller, book)
        await self._caller.aclose()
        self.life_s = time.monotonic() - stage.host.started_at
        assert self._at_start is not None
        at_end = await audit.audit_rest(stage.host, stage.containers, stage.digits, self._at_start, book)
        self.after = at_end.cost
        self.tasks = (self._at_start.tasks, at_end.tasks)
        code = await stage.host.end(signal.SIGTERM)
        if code not in (-signal.SIGTERM, 0):
            book.violated("the server ends as it is told", f"SIGTERM ended it with {code}")
        watch.look()
        await asyncio.to_thread(audit.audit, stage.host.database, book)
        await audit.audit_deleted(stage.host.data_dir, stage.containers, book)
        audit.audit_provider(self._provider, book)
        audit.audit_remote(self._remote.calls, book)

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_S)
            cost: Cost | None = None
            with suppress(OSError):
                cost = self._stage.host.cost()
                self.memory.note(self._stage.host.lives, cost.rss_mb)
            self._say(progress(self._begun, self._book, self._live, self._stage.host.lives, cost))
