"""The commands that sessions run in the background: each is an `exec` of its sandbox that lasts beyond the call that
started it, and beyond the run, until it ends, is stopped, its run is cancelled, or its sandbox stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import structlog
from sqlalchemy import Connection

from app.agent.protocols import CollectedOutput, Collector
from app.db.engine import Database
from app.db.repositories import commands as rows
from app.errors import NotFoundError, PalimpsestError, StorageError, SupersededError, ToolError
from app.eventlog.log import StreamItem
from app.runtime.transactions import commands as transactions
from app.runtime.transactions.commands import End
from app.runtime.workspaces.keeper import Workspaces
from app.sandbox.base import BackgroundInput, ExecResult, Sandbox, Stream
from app.sessions import CommandStatus
from app.tools.base import CommandState
from app.tools.masking import MaskedCollector, Masking
from app.tools.output import OutputLimit

T = TypeVar("T")
MAX_RUNNING = 8
"""Maximum number of background commands of one session at the same time. Each may have as many processes as any
command."""
LIFE_S = 30 * 24 * 3600.0
"""Longest life of a background command, in seconds."""
CANCEL_S = 1.0
"""Seconds that a cancel waits for them."""
RECENT_BYTES = 128 * 1024
"""How much of the end of an output is in memory: more than the store is behind, unless the output floods it."""
STORE_S = 2.0
"""Longest wait until the ends of commands are stored, in seconds: an owner must not keep its session while the database
does not answer."""
LOOK_S = 1.0
"""Seconds between checks for commands that other nodes of a cluster ask to stop, and before an end is stored again."""
ALONE = "other commands cannot reach its ports: each has its own network"

log = structlog.get_logger(__name__)


class Server(Protocol):
    """What the commands use from the server that runs them; see `RuntimeSetup`."""

    @property
    def database(self) -> Database: ...
    @property
    def collector(self) -> Callable[[str, str, Callable[[Stream, str, int], None], OutputLimit], Collector]: ...
    @property
    def output_path(self) -> Callable[[str], Path] | None: ...
    @property
    def node(self) -> str | None: ...
    @property
    def workspaces(self) -> Workspaces | None: ...
    async def write(self, session_id: str, work: Callable[[Connection], tuple[T, list[StreamItem]]]) -> T: ...


class CommandLog:
    """The output of a running command: all of it goes to the store, its end is kept in memory."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._recent = bytearray()
        self.bytes = 0
        self.grown = asyncio.Event()
        """Set by each output."""

    def write(self, stream: Stream, data: bytes) -> None:
        self._collector.write(stream, data)
        self.bytes += len(data)
        self._recent += data
        if len(self._recent) > 2 * RECENT_BYTES:
            del self._recent[:-RECENT_BYTES]
        self.grown.set()

    def as_terminal(self) -> None:
        self._collector.as_terminal()

    async def finish(self, note: str = "") -> CollectedOutput:
        return await self._collector.finish(note)

    @property
    def recent(self) -> tuple[int, bytes]:
        """The end of the output, and the place of its first byte."""
        return self.bytes - len(self._recent), bytes(self._recent)

    def recent_from(self, place: int) -> bytes | None:
        """The output from a place on; None if that is not in memory."""
        first = self.bytes - len(self._recent)
        return bytes(self._recent[place - first :]) if place >= first else None


@dataclass(eq=False)
class RunningCommand:
    """A command that runs here. `sink` takes its output, which `log` has without the secrets. `reason` is set by what
    ends it from outside, `ended` once it has ended, `end` once that is stored."""

    session_id: str
    call_id: str
    log: CommandLog
    sink: Collector
    stdin: BackgroundInput = field(default_factory=BackgroundInput)
    reason: CommandStatus | None = None
    execution: asyncio.Task[ExecResult] | None = None
    task: asyncio.Task[None] | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    end: End | None = None

    def state(self) -> CommandState:
        end = self.end
        if end is None:
            return CommandState(self.call_id, "running", None, self.log.bytes, ALONE if self.stdin.is_alone else None)
        return CommandState(self.call_id, end.status, end.exit_code, end.bytes, end.remark)

    def stop(self, reason: CommandStatus) -> None:
        self.reason = self.reason or reason
        if self.execution is not None:
            self.execution.cancel()


class BackgroundCommands:
    """Those of all sessions of this server."""

    def __init__(self) -> None:
        self._running: dict[str, dict[str, RunningCommand]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._closing = False

    def __len__(self) -> int:
        """May be called in any thread."""
        return sum(len(here) for here in list(self._running.values()))

    def of(self, session_id: str) -> Mapping[str, RunningCommand]:
        """The commands of a session that run here, by id."""
        return self._running.get(session_id, {})

    async def start(
        self,
        server: Server,
        session_id: str,
        call_id: str,
        command: str,
        *,
        sandbox: Sandbox,
        env: Mapping[str, str],
        masking: Masking,
    ) -> RunningCommand:
        """Runs a command that is stored as started, and returns once it does or has ended already. Cancelling this
        stops it."""
        inner = CommandLog(server.collector(session_id, call_id, lambda *_: None, OutputLimit(2)))
        running = RunningCommand(session_id, call_id, inner, MaskedCollector(inner, masking))
        self._running.setdefault(session_id, {})[call_id] = running
        running.execution = asyncio.create_task(
            sandbox.exec(command, timeout_s=LIFE_S, on_output=running.sink.write, stdin=running.stdin, env=env)
        )
        running.task = asyncio.create_task(self._follow(server, running), name=f"command-{call_id}")
        running.task.add_done_callback(lambda _: running.ended.set())
        if server.node is not None and self._looking is None:
            self._looking = asyncio.create_task(self._look(server), name="commands-to-stop")
        begun = asyncio.create_task(running.stdin.begun.wait())
        try:
            await asyncio.wait({begun, running.task}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await end_all([running], "stopped")
            raise
        finally:
            begun.cancel()
        return running

    async def _follow(self, server: Server, running: RunningCommand) -> None:
        """Waits for the end of a command and stores it."""
        assert running.execution is not None
        end = await _end_of(running, running.execution)
        try:
            if server.workspaces is not None:
                # It may have changed files until now.
                async with server.workspaces.using(running.session_id):
                    pass
            running.ended.set()
            await self._store(server, running, end)
        except (NotFoundError, SupersededError):
            pass  # The session was deleted, or the next server notes the end.
        except Exception:
            log.exception("command_end_not_stored", call_id=running.call_id)
        finally:
            running.end = end
            running.log.grown.set()
            here = self._running[running.session_id]
            del here[running.call_id]
            if not here:
                del self._running[running.session_id]
        log.info("command_ended", session_id=running.session_id, call_id=running.call_id, status=end.status)

    async def _store(self, server: Server, running: RunningCommand, end: End) -> None:
        """Retries while the database refuses; if it does so until this server stops, the next one records the end."""
        work = partial(transactions.ended, session_id=running.session_id, call_id=running.call_id, end=end)
        while True:
            try:
                return await server.write(running.session_id, work)
            except StorageError as error:
                log.warning("command_end_not_stored", call_id=running.call_id, error=error.detail)
            if self._closing:
                return
            await asyncio.sleep(LOOK_S)

    async def end(self, session_id: str, reason: CommandStatus) -> None:
        """Ends all commands of a session; see `end_all`. A sandbox that does not answer must not delay the end of a
        cancelled run, which waits for less long."""
        await end_all(self.of(session_id).values(), reason, CANCEL_S if reason == "cancelled" else None)

    async def recover(self, server: Server, session_id: str | None = None, epoch: int | None = None) -> None:
        """Notes that commands have ended with the server that ran them: those of a session, or of all. With an epoch,
        only while that is the session's: later owners have commands that still run. Raises `StorageError`,
        `SupersededError` and `StaleOwnerError`."""
        left = await server.database.read(lambda c: rows.running(c, session_id))
        for row in left:
            if row.call_id not in self.of(row.session_id):
                ref, size = await asyncio.to_thread(_stored, server.output_path, f"{row.session_id}/{row.call_id}")
                end = End("interrupted", bytes=size, output_ref=ref)
                ids = {"session_id": row.session_id, "call_id": row.call_id}
                work = partial(transactions.ended, **ids, end=end, epoch=epoch)
                with suppress(NotFoundError):
                    await server.write(row.session_id, work)

    async def _look(self, server: Server) -> None:
        """Stops the commands that requests on other nodes ask to stop, while any command runs."""
        try:
            while self._running:
                await asyncio.sleep(LOOK_S)
                with suppress(StorageError):
                    for row in await server.database.read(lambda c: rows.asked_to_stop(c, list(self._running))):
                        if (running := self.of(row.session_id).get(row.call_id)) is not None:
                            running.stop("stopped")
        finally:
            self._looking = None

    async def aclose(self) -> None:
        """Ends all commands of this server."""
        self._closing = True
        if self._looking is not None:
            self._looking.cancel()
        left = [running for here in self._running.values() for running in here.values()]
        # Their ends are tried once more.
        await end_all(left, "interrupted", store_s=None)


async def end_all(
    commands: Iterable[RunningCommand],
    reason: CommandStatus,
    timeout_s: float | None = None,
    *,
    store_s: float | None = STORE_S,
) -> None:
    """Ends commands at the same time, and waits at most `timeout_s` for that: until they have ended, and then at most
    `store_s` until that is stored. Without a limit it waits for as long as it takes."""
    ended = list(commands)
    for running in ended:
        running.stop(reason)
    tasks = [running.task for running in ended if running.task is not None]
    if not tasks:
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            for running in ended:
                await running.ended.wait()
            await asyncio.wait(tasks, timeout=store_s)


async def _end_of(running: RunningCommand, execution: asyncio.Task[ExecResult]) -> End:
    await asyncio.wait({execution})
    result: ExecResult | None = None
    problem: str | None = None
    try:
        result = execution.result()
    except asyncio.CancelledError:
        pass
    except PalimpsestError as error:
        problem = error.detail
    except Exception:
        log.exception("command_crashed", call_id=running.call_id)
        problem = "It failed inside the service."
    output = await running.sink.finish()
    status, remark = _outcome(running, result, problem)
    code = result.exit_code if result is not None and status == "exited" else None
    return End(status, code, remark, running.log.bytes, output.ref)


def _outcome(
    running: RunningCommand, result: ExecResult | None, problem: str | None
) -> tuple[CommandStatus, str | None]:
    if running.reason is not None:
        return running.reason, None
    if result is None:
        return ("limit" if running.stdin.begun.is_set() else "failed"), problem
    remarks = [result.remark, *(f"network: {refusal}" for refusal in result.refused_hosts)]
    if result.timed_out:
        remarks.append("it reached the time limit of background commands")
    remark = "; ".join(filter(None, remarks)) or None
    return ("limit" if result.exit_code is None else "exited"), remark


def _stored(path_of: Callable[[str], Path] | None, key: str) -> tuple[str | None, int]:
    """The key and size of an output, if it is stored. Blocks."""
    if path_of is not None:
        with suppress(OSError, PalimpsestError):
            return key, path_of(key).stat().st_size
    return None, 0


def too_many() -> ToolError:
    return ToolError(f"{MAX_RUNNING} commands are already running in the background; stop one of them first.")
