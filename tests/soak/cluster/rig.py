"""A whole run on a cluster: starts services and nodes, lets users work under faults, and checks everything."""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.provider import FakeProvider
from tests.soak import audit
from tests.soak.caller import Caller
from tests.soak.clock import Clock
from tests.soak.cluster.audit import audit_rest, check_all
from tests.soak.cluster.faults import Stage, cause
from tests.soak.cluster.nodes import HEADERS, Node, Role
from tests.soak.cluster.plan import ClusterFault
from tests.soak.cluster.probe import Probe, Window, told
from tests.soak.cluster.services import running_services
from tests.soak.cluster.witness import Witness
from tests.soak.host import LARGE_WINDOW, SMALL_WINDOW, ServerFailed
from tests.soak.ledger import Book
from tests.soak.log_watch import LogWatch
from tests.soak.model import TOOLS, Model, Weather
from tests.soak.plan import sessions_of
from tests.soak.rig import KEPT_REQUESTS
from tests.soak.users import User, pause, read_logs

DRAIN_S = 10.0
"""How long workers let steps end: some are then cut off, as on a deploy that is in a hurry."""
CALL_S = 10.0
"""After so many seconds a caller gives up a node and takes another one."""
TELL_S = 10.0
LAST_S = 10.0
"""Seconds that users keep working after the last fault."""
EXPECTED: Sequence[bytes] = (b'"session_write_failed"', b'"request_failed"', b"returned without completing response")
"""Errors that nodes may log while a fault lasts, and shortly after: a write that failed, and an answer that could not
be given, or not to its end."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    """A run: its faults in order, for how many seconds it causes them (None: until all were caused), how many sessions
    are at work at once, its nodes, and whether these have workspaces of their own, with a store."""

    seed: int
    seconds: float | None
    sessions: int
    faults: Sequence[ClusterFault]
    apis: int = 2
    workers: int = 3
    has_store: bool = True
    keep: bool = False
    reports: bool = False
    """Whether the result has a report of each fault: how much was done meanwhile."""
    probes: bool = False
    """Whether that covers requests and new sessions, which are then made every second or two."""
    drain_s: float = DRAIN_S


@dataclass(slots=True)
class ClusterResult:
    """The end of a run; `told` are the faults as they were caused."""

    seed: int
    seconds: float
    nodes: str
    lives: int
    left_out: dict[str, str]
    told: list[str]
    memory: dict[str, float]
    book: Book
    reports: list[str] = field(default_factory=list)


@asynccontextmanager
async def staged(options: Options, folder: Path, book: Book) -> AsyncIterator[tuple[Stage, FakeProvider]]:
    """Services and nodes, all started; ended again whatever happens."""
    digits = str(random.SystemRandom().randrange(10**8, 10**9))
    weather = Weather()
    async with AsyncExitStack() as stack:
        witness = await stack.enter_async_context(Witness())
        names = [f"a{n}" for n in range(1, options.apis + 1)] + [f"w{n}" for n in range(1, options.workers + 1)]
        services = await asyncio.to_thread(
            stack.enter_context, running_services(folder, names, has_store=options.has_store)
        )
        windows = {"large": LARGE_WINDOW, "small": SMALL_WINDOW}
        provider = stack.enter_context(FakeProvider(windows=windows, keep=KEPT_REQUESTS))
        provider.respond(Model(options.seed, weather, digits, witness.port).answer)
        nodes: list[Node] = []
        # With its library, `time.sleep` fails, so one worker has it, and only if its clock will jump.
        jumps = any(fault.kind == "clock_worker" for fault in options.faults)
        clock = Clock(folder / "clock")
        for name in names:
            more = {**services.settings(name), "PALIMPSEST_DRAIN_S": str(options.drain_s)}
            if not options.has_store:
                more["PALIMPSEST_DATA_DIR"] = str(folder / "data")
            own_clock = clock if jumps and name == names[-1] else None
            role: Role = "api" if name.startswith("a") else "worker"
            nodes.append(Node(name, role, folder, provider, more, own_clock))
        stack.push_async_callback(_end_all, nodes)
        stack.callback(clock.forget, nodes[-1].pids)
        await asyncio.gather(*(node.start() for node in nodes))
        yield Stage(nodes, services, weather, witness, book, digits), provider


async def _end_all(nodes: list[Node]) -> None:
    for node in nodes:
        node.signal(signal.SIGCONT)
        if node.pids and node.exit_code is None:
            await node.end(signal.SIGKILL)


async def run(options: Options, say: Say) -> ClusterResult:
    """Runs the soak; the violations are in the result's book. `say` gets lines for a person."""
    book = Book()
    begun = time.monotonic()
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="palimpsest-cluster-"))
    work: ClusterWork | None = None
    try:
        async with staged(options, folder, book) as (stage, provider):
            work = ClusterWork(options, stage, provider, say, begun)
            try:
                await work.run()
            except ServerFailed as error:
                book.violated("a node starts and ends", str(error))
            finally:
                if options.keep or book.violations:
                    # Also of a run that is cut off; a cancellation must not end the copy.
                    _dump(stage, folder)
    finally:
        if options.keep or book.violations:
            say(f"kept: {folder}")
        else:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    return ClusterResult(
        options.seed,
        time.monotonic() - begun,
        f"{options.apis} API nodes, {options.workers} workers, {'S3' if options.has_store else 'a shared folder'}",
        sum(node.lives for node in stage.nodes),
        {str(kind): why for kind, why in stage.impossible().items()},
        work.told,
        work.memory,
        book,
        work.reports,
    )


def _dump(stage: Stage, folder: Path) -> None:
    """The database, for whoever looks into a violation."""
    with (folder / "database.sql").open("w") as file:
        url = stage.services.database_url.replace("+psycopg", "")
        subprocess.run(["pg_dump", url], stdout=file, stderr=subprocess.DEVNULL, check=False)


class ClusterWork:
    """The phases of one run."""

    def __init__(self, options: Options, stage: Stage, provider: FakeProvider, say: Say, begun: float) -> None:
        self._options = options
        self._stage = stage
        self._provider = provider
        self._say = say
        self._begun = begun
        self._live = 0
        self._stopping = asyncio.Event()
        self._caller = Caller([node.url for node in stage.apis], stage.book, HEADERS, CALL_S)
        self.told: list[str] = []
        self.memory: dict[str, float] = {}
        self.reports: list[str] = []
        self._windows: list[Window] = []
        self._probe = Probe(self._caller, stage.book, options.seed)

    async def run(self) -> None:
        watches = [LogWatch(node.log, self._stage.book, EXPECTED) for node in self._stage.nodes]
        helpers = [asyncio.create_task(job) for job in (*(watch.run() for watch in watches), self._tell())]
        try:
            await self._soak()
            self._say("the last sessions are at rest; checking")
            await self._check(watches)
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.wait(helpers)
            await self._caller.aclose()

    async def _soak(self) -> None:
        """Runs users and faults until the time is over, then users until each session is idle."""
        slots = [asyncio.create_task(self._slot(number)) for number in range(self._options.sessions)]
        helpers = [asyncio.create_task(self._keep_up())]
        if self._options.probes:
            helpers.append(asyncio.create_task(self._probe.run()))
        try:
            await self._cause_all()
            self._stopping.set()
            for probing in helpers[1:]:
                probing.cancel()
            await asyncio.gather(*slots)
        finally:
            self._stopping.set()
            for task in (*helpers, *slots):
                task.cancel()
            await asyncio.wait([*helpers, *slots])
        await self._probe.finish()
        while self._stage.watches:
            await asyncio.wait(set(self._stage.watches))

    async def _cause_all(self) -> None:
        seconds = self._options.seconds
        end = time.monotonic() + seconds if seconds is not None else float("inf")
        for fault in self._options.faults:
            if time.monotonic() + fault.after_s > end:
                break
            await asyncio.sleep(fault.after_s)
            if fault.kind not in self._stage.possible():
                continue
            begun = time.monotonic()
            hit = await self._watched(fault)
            line = f"{begun - self._begun:5.0f} s  {fault.kind} of {hit}, took {time.monotonic() - begun:.1f} s"
            self.told.append(line)
            self._say(line)
        await asyncio.sleep(LAST_S if seconds is None else max(0.0, end - time.monotonic()))

    async def _watched(self, fault: ClusterFault) -> str:
        """Causes a fault; returns what it hit."""
        counts = self._stage.book.counts
        window = Window(fault.kind, time.monotonic(), time.time())
        events, deltas = counts["events seen"], counts["deltas seen"]
        hit = await cause(self._stage, fault)
        window.ended = time.monotonic()
        window.events, window.deltas = counts["events seen"] - events, counts["deltas seen"] - deltas
        self._windows.append(window)
        return hit

    async def _slot(self, number: int) -> None:
        """Session after session, as one user at a time."""
        rng = random.Random(f"{self._options.seed}/{number}/pauses")
        for plan in sessions_of(self._options.seed, number):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause(rng))
            if self._stopping.is_set():
                return
            self._live += 1
            try:
                book, seed = self._stage.book, self._options.seed
                await User(self._caller, book, plan, seed, self._stopping, tools=TOOLS).run()
            finally:
                self._live -= 1

    async def _keep_up(self) -> None:
        """Detects a node that dies by itself, and restarts it so that the run continues."""
        while True:
            await asyncio.sleep(0.5)
            for node in self._stage.nodes:
                if node.changing.locked():
                    continue
                async with node.changing:
                    if node.exit_code is not None:
                        self._stage.book.violated("a node lives", f"{node.name} ended with {node.exit_code}")
                        await node.start()

    async def _check(self, watches: Sequence[LogWatch]) -> None:
        stage, book = self._stage, self._stage.book
        # Only when nothing is owned any more, the last snapshots are those that API nodes read.
        await audit_rest(stage)
        await read_logs(self._caller, book)
        # A workspace may be an older one; what ran is known from the witness.
        workspaces = {ledger.id: ledger.ran for ledger in book.living()}
        for ledger in book.living():
            ledger.ran = None
        await self._caller.aclose()
        self.memory = {node.name: node.cost().rss_mb for node in stage.nodes}
        for node in stage.nodes:
            code = await node.end(signal.SIGTERM)
            if code not in (-signal.SIGTERM, 0):
                book.violated("a node exits cleanly on SIGTERM", f"SIGTERM ended {node.name} with {code}")
        for watch in watches:
            watch.look()
        await asyncio.to_thread(audit.audit, stage.services.database_url, book)
        await asyncio.to_thread(check_all, stage, workspaces)
        if self._options.reports:
            url = stage.services.database_url
            self.reports = [await asyncio.to_thread(told, window, self._probe.samples, url) for window in self._windows]
        audit.audit_provider(self._provider, book)

    async def _tell(self) -> None:
        told = 0
        while True:
            await asyncio.sleep(TELL_S)
            book = self._stage.book
            self._say(
                f"{time.monotonic() - self._begun:5.0f} s  {self._live} sessions at work of {book.counts['sessions']},"
                f" {book.counts['messages accepted']} messages, {book.counts['events seen']} events seen,"
                f" {book.faults.total()} faults, {len(book.violations)} violations"
            )
            # At once, since a run may be cut off before its summary.
            for violation in book.violations[told:]:
                self._say(
                    f"  {datetime.now(UTC):%H:%M:%S}  {violation.rule}: {violation.detail} ({violation.session_id})"
                )
            told = len(book.violations)
