"""The checkpoints of a run: one of its beginning, taken during the first model call, and one of its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import structlog
from sqlalchemy import Connection

from app.db.repositories import events
from app.errors import ConflictError, PalimpsestError, StaleOwnerError, StorageError, SupersededError
from app.eventlog.log import Appender, StreamItem
from app.messages import now
from app.runtime.checkpoints.shared import Taken
from app.runtime.owner.recorder import Recorder
from app.runtime.owner.state import SessionState
from app.runtime.setup import RuntimeSetup
from app.runtime.transactions import checkpoints
from app.runtime.values.checkpoints import CheckpointReason
from app.sessions import SandboxSpec, SessionKind

log = structlog.get_logger(__name__)

HEAD_START_S = 0.02
"""Seconds that the first request to the model has before the workspace is read, which needs the interpreter too."""
UNUSED_WAIT_S = 2.0
"""Seconds that the end of a run waits for the checkpoint of its beginning if it has not used the sandbox."""
CANCELLED_WAIT_S = 0.5
"""Seconds that the end of a cancelled run waits for its checkpoints: a cancel ends a run within two."""
TIDY_RUNS = 10
"""A session's repository is maintained once in this many runs."""
RunNote = Callable[[Connection, Appender], None]
"""What is written with the end of a run."""
FEW = 10
"""Checkpoints that stay if their repository has become too large."""
_LOST = (StaleOwnerError, SupersededError, StorageError)


class RunCheckpoints:
    """Takes the checkpoints of an owner's runs. One that fails costs an event, not the run."""

    def __init__(self, setup: RuntimeSetup, session: SessionState, recorder: Recorder) -> None:
        # A sub-agent works in a run of its parent, which has the checkpoints.
        self._keeper = None if session.row.kind == SessionKind.SUBAGENT else setup.checkpoints
        self._database = setup.database
        self._session = session
        self._recorder = recorder
        self._beginning: asyncio.Task[Taken | PalimpsestError | None] | None = None
        self._is_untidy = False
        self._used = self._is_noted = False
        self._has_read = asyncio.Event()
        self._is_due = asyncio.Event()

    async def until_read(self) -> None:
        """Waits until the workspace has been read as it was at the beginning of the run."""
        if self._keeper is not None:
            await self._has_read.wait()

    def begin(self) -> None:
        """A run begins: whatever uses the sandbox waits until its workspace has been read."""
        if self._keeper is None:
            return
        self._used = self._is_noted = False
        self._has_read = asyncio.Event()
        self._is_due = asyncio.Event()
        self._beginning = asyncio.create_task(self._begin(), name=f"checkpoint-{self._session.id}")
        self._beginning.add_done_callback(self._begun)
        self._session.before_use = self._before_use

    def _begun(self, done: asyncio.Task[Taken | PalimpsestError | None]) -> None:
        self._has_read.set()
        # Its error is raised by `end`, if there is one.
        done.cancelled() or done.exception()

    async def _before_use(self) -> None:
        assert self._keeper is not None
        self._used = True
        self._is_due.set()
        await self._has_read.wait()
        if not self._is_noted:
            await self._keeper.use(self._session.id)
            self._is_noted = True

    async def _begin(self) -> Taken | PalimpsestError | None:
        """The workspace at the beginning; None if the run continues after a restart and has one already."""
        with suppress(TimeoutError):
            async with asyncio.timeout(HEAD_START_S):
                await self._is_due.wait()
        session_id, since = self._session.id, self._session.row.run_started_at
        if await self._database.read(lambda c: checkpoints.has_begun(c, session_id, since)):
            return None
        taken = await self._take()
        try:
            await self._add_first(taken)
        except ConflictError as error:
            return error
        return taken

    async def _add_first(self, taken: Taken | PalimpsestError) -> None:
        if isinstance(taken, Taken):
            with suppress(*_LOST):  # the run's next write fails too
                run = await self._recorder.submit(lambda c: self._store(c, taken))
                self._is_untidy |= run % TIDY_RUNS == 0

    def _store(self, connection: Connection, taken: Taken) -> tuple[int, list[StreamItem]]:
        # Without an event; the fence applies here too.
        events.lock(connection, self._session.id, now(), epoch=self._recorder.epoch)
        return checkpoints.add(connection, self._session.id, "run_started", taken).run, []

    async def _tidy(self) -> None:
        """Drops the oldest checkpoints if there are too many, or their repository is too large."""
        assert self._keeper is not None
        session_id, most = self._session.id, self._keeper.most
        try:
            if await self._keeper.size(session_id) > self._keeper.repository_bytes:
                most = min(most, FEW)
            kept = await self._recorder.submit(lambda c: self._drop(c, most))
            await self._keeper.keep_only(session_id, kept)
        except PalimpsestError as error:
            log.warning("checkpoints_not_tidied", session_id=session_id, reason=error.detail)

    def _drop(self, connection: Connection, most: int) -> tuple[set[str], list[StreamItem]]:
        events.lock(connection, self._session.id, now(), epoch=self._recorder.epoch)
        return checkpoints.drop_excess(connection, self._session.id, most), []

    async def _take(self) -> Taken | PalimpsestError:
        assert self._keeper is not None
        session = self._session
        try:
            return await self._keeper.take(
                session.id,
                SandboxSpec(**session.row.sandbox),
                held=session.leases,
                epoch=self._recorder.epoch,
                has_read=self._has_read.set,
            )
        except (StaleOwnerError, SupersededError) as error:
            return error  # the run's next write fails too
        except PalimpsestError as error:
            log.warning("checkpoint_failed", session_id=session.id, code=error.code, reason=error.detail)
            return error
        except Exception:
            log.exception("checkpoint_crashed", session_id=session.id)
            return PalimpsestError("The checkpoint failed because of an internal error.")

    async def end(self, *, is_cancelled: bool) -> RunNote:
        """The run ends: what to write with its end. If it is cancelled, a checkpoint that takes long is left out."""
        beginning, self._beginning = self._beginning, None
        self._session.before_use = None
        if self._keeper is None:
            return _nothing
        self._is_due.set()
        ending = asyncio.create_task(self._end(beginning), name=f"checkpoint-{self._session.id}")
        try:
            await asyncio.wait({ending}, timeout=CANCELLED_WAIT_S if is_cancelled else None)
            if ending.done():
                return ending.result()
        finally:
            ending.cancel()
        log.warning("checkpoint_left_out", session_id=self._session.id)
        return _nothing

    async def _end(self, beginning: asyncio.Task[Taken | PalimpsestError | None] | None) -> RunNote:
        if beginning is None:
            # A run that ends because an earlier server was interrupted in it.
            return self._note(None, await self._take())
        if not self._used:
            # A run without commands must not wait for a sandbox that does not answer.
            await asyncio.wait({beginning}, timeout=UNUSED_WAIT_S)
            if not beginning.done():
                beginning.cancel()
                return _nothing
        begun = await beginning
        if self._used or begun is None:
            return self._note(begun, await self._take())
        # What it has stored is recorded already.
        return self._note(begun, replace(begun, recording=None) if isinstance(begun, Taken) else begun)

    def _note(self, begun: Taken | PalimpsestError | None, ended: Taken | PalimpsestError) -> RunNote:
        session_id = self._session.id

        def note(connection: Connection, appender: Appender) -> None:
            failures: list[tuple[CheckpointReason, PalimpsestError]] = []
            if isinstance(begun, PalimpsestError) and self._used:
                failures.append(("run_started", begun))
            if isinstance(ended, PalimpsestError):
                failures += [("run_ended", ended)] if self._used else []
            else:
                try:
                    checkpoints.add(connection, session_id, "run_ended", ended)
                except ConflictError as conflict:
                    failures.append(("run_ended", conflict))
            for reason, error in failures:
                checkpoints.fail(appender, reason, error)

        return note

    async def conclude(self, until: asyncio.Event | None, rest: Callable[[bool], None]) -> None:
        """The owner ends: removes what its checkpoints have replaced and, once in `TIDY_RUNS` runs, the oldest ones, at
        most `until` there is new work, which must not wait for that. None if another owner follows at once. `rest` is
        called with True before what may take long, during which other sessions may run."""
        if self._keeper is None:
            return
        with suppress(PalimpsestError):  # the next one removes it
            await self._keeper.conclude(self._session.id)
        if self._is_untidy and until is not None:
            rest(True)
            await self._tidy_until(until)

    async def _tidy_until(self, event: asyncio.Event) -> None:
        tidying = asyncio.create_task(self._tidy(), name=f"checkpoints-{self._session.id}")
        waiting = asyncio.create_task(event.wait())
        try:
            await asyncio.wait({tidying, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            tidying.cancel()
            waiting.cancel()
            # Until no git process is left.
            await asyncio.wait({tidying, waiting})

    def close(self) -> None:
        """The owner ends, perhaps in the middle of a run."""
        self._session.before_use = None
        if self._beginning is not None:
            self._beginning.cancel()
            self._beginning = None


def _nothing(_: Connection, __: Appender) -> None: ...
