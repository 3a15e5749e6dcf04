"""The owner of a running session: one task, from the first run until there is nothing left to do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from typing import Any

import structlog
from sqlalchemy import Row
from structlog.contextvars import unbind_contextvars

from app.agent.approvals import WaitingStep
from app.agent.compaction.compactor import Compactor
from app.agent.conversation import Conversation, refresh
from app.agent.interrupt import Interrupt, Stopped, StopReason
from app.agent.limits import Progress
from app.agent.loop import AgentLoop, RunResult
from app.agent.step import LOGGED
from app.db.repositories import steps
from app.errors import PalimpsestError, StaleOwnerError, StorageError, SupersededError
from app.messages import Role, Usage, now
from app.runtime.agents import StoredConversation
from app.runtime.owner import approvals
from app.runtime.owner.approvals import StoredApprovals
from app.runtime.owner.assembly import ManualRounds, make_step, open_conversation
from app.runtime.owner.memory import are_due as notes_are_due
from app.runtime.owner.recorder import Recorder
from app.runtime.owner.state import SessionState
from app.runtime.setup import RuntimeSetup
from app.runtime.transactions import runs
from app.runtime.transactions.queue import StoredMessages
from app.sessions import Outcome, Status

log = structlog.get_logger(__name__)


class SessionOwner:
    """Owns one session while it works. Made and awaited by the registry; `interrupt`, `ring` and `reconfigure` may be
    called at any time."""

    def __init__(self, setup: RuntimeSetup, session_id: str, resting: Callable[[bool], None] = lambda _: None) -> None:
        """`resting` is called with True when the run starts to wait for an approval, and with False when it
        continues."""
        self._setup = setup
        self._resting = resting
        self._session_id = session_id
        self._session = SessionState(setup, session_id)
        self._rounds = ManualRounds(setup.database, session_id)
        self._interrupt = Interrupt()
        self._message_source: StoredMessages | None = None
        self._approval_gate: StoredApprovals | None = None
        self._stored: StoredConversation | None = None
        self._broke_off = False

    @property
    def model(self) -> str | None:
        """The session's model, None before its row is read."""
        return self._session.model

    def ring(self) -> None:
        """There may be a new message."""
        if self._message_source is not None:
            self._message_source.ring()

    def interrupt(self, reason: StopReason, message_id: str | None = None) -> None:
        """Ends the current step. An interrupting message that was already delivered has no effect; a cancel also
        cancels a requested compaction that has not started."""
        if reason == "cancel":
            self._rounds.cancel()
        if message_id is None or self._message_source is None or message_id not in self._message_source.delivered:
            self._interrupt.fire(reason)

    def ask_round(self) -> None:
        """A compaction was requested, to be made before the next step."""
        self._rounds.ask()

    def take_revert(self) -> None:
        """A compaction was reverted; the next step does not use it."""
        self._rounds.revert()

    def take_decision(self) -> None:
        """A waiting call was approved or denied."""
        if self._approval_gate is not None:
            self._approval_gate.ring()

    def reconfigure(self, row: Row[Any]) -> None:
        """The session was changed; its next step uses the new row."""
        self._session.adopt(row)

    async def run(self) -> None:
        """Owns the session until it is idle, stopped with the server, or taken over."""
        channel = self._setup.bus.channel(self._session_id)
        channel.running = True
        try:
            async with AsyncExitStack() as stack:
                await self._own(stack)
        except (StaleOwnerError, SupersededError):
            log.warning("session_taken_over", session_id=self._session_id)
        finally:
            # Breaks a reference cycle, which only the garbage collector would free, and that runs rarely.
            self._approval_gate = None
            channel.running = False
            channel.parts.clear()
            self._setup.bus.release(self._session_id)

    async def give_up(self) -> None:
        """Ends the session's run without reading its content, since that crashed its owners."""
        row = await self._setup.claim(self._session_id)
        if row is not None and row.status != Status.IDLE:
            error = PalimpsestError("The run crashed repeatedly; see the server's log for details.")
            recorder = Recorder(self._setup.database, self._setup.bus, self._session_id, row.epoch)
            try:
                await self._finish(recorder, row.epoch, RunResult(Outcome.INTERRUPTED, error.problem()))
            finally:
                self._setup.bus.release(self._session_id)

    async def _own(self, stack: AsyncExitStack) -> None:
        row = await self._setup.claim(self._session_id)
        if row is None or (row.status == Status.IDLE and not row.compaction_in_progress):
            return
        self._session.adopt(row)
        self._rounds.begin(asked=row.compaction_in_progress)
        setup = self._setup
        recorder = Recorder(setup.database, setup.bus, self._session_id, row.epoch, setup.repaired)
        stack.callback(recorder.close)
        self._approval_gate = StoredApprovals(recorder, self._session_id, row.epoch, self._rest)
        stack.callback(self._session.release)
        epoch = row.epoch
        if row.status == Status.IDLE:
            try:
                await self._compact_idle(recorder)
            except (StaleOwnerError, SupersededError, StorageError):
                raise
            except Exception:
                log.exception("compaction_crashed", session_id=self._session_id)
                self._rounds.fail()
            await self._rounds.close(recorder, epoch)
            # Forgotten before the row is read: a cancel is then in the row, or comes after it.
            self._interrupt.begin_run()
            row = await self._session.read()
            if row.status == Status.IDLE:
                return
        result, self._stored = await approvals.recover_interrupted(setup, self._session, recorder, row)
        self._message_source = StoredMessages(recorder, self._session_id, row.epoch)
        if result is not None:
            if not await self._finish(recorder, row.epoch, result):
                await self._rounds.close(recorder, epoch)
                return
            await self._renew()
        await self._runs(recorder, row)

    def _rest(self, rests: bool) -> None:
        if rests:
            # While it waits it needs no sandbox, but others may.
            self._session.release()
        self._resting(rests)

    async def _compact_idle(self, recorder: Recorder) -> None:
        """Makes a manual round while no run is active."""
        stored = await self._session.conversation()
        conversation, compactor = await self._open(recorder, stored)
        asked = await self._rounds.next(conversation)
        if asked is None:
            return
        await self._ask_windows()
        await self._read_first_notes(stored)
        config = self._session.config()
        if (opened := await refresh(conversation, config)) is not None:
            await recorder.record(opened)
        await compactor.manual(config, asked)

    async def _open(self, recorder: Recorder, stored: StoredConversation) -> tuple[Conversation, Compactor]:
        return await open_conversation(self._setup, self._session, recorder, stored, self._interrupt)

    async def _read_first_notes(self, stored: StoredConversation) -> None:
        """Reads the workspace's notes for a session's first context."""
        if notes_are_due(self._session.row, has_generation=stored.generation is not None):
            with suppress(Stopped):
                await self._interrupt.guard(self._session.refresh_notes(), patient=True)

    async def _ask_windows(self) -> None:
        """Asks the models' servers for their windows, unless the step is about to end anyway."""
        with suppress(Stopped):
            await self._interrupt.guard(self._session.ask_windows(), insist=True)

    async def _prepare(self, conversation: Conversation) -> None:
        """Prepares a step before it starts."""
        await self._ask_windows()
        if spilled := conversation.spilled():
            with suppress(Stopped):
                await self._interrupt.guard(self._session.write_spilled(spilled), patient=True)

    async def _runs(self, recorder: Recorder, row: Row[Any]) -> None:
        """Makes run after run until the session is idle or parked."""
        stored, self._stored = self._stored, None
        waiting: WaitingStep | None = None
        if stored is None:
            left = self._session.row
            loaded, waiting, reason = await self._setup.database.read(lambda c: approvals.read_interrupted(c, left))
            stored = loaded
            if waiting is not None and reason is not None:
                self._interrupt.fire(reason)
        await self._read_first_notes(stored)
        conversation, compactor = await self._open(recorder, stored)
        # A message that was delivered just before a crash still needs an answer.
        said = (message for message in reversed(stored.history) if message.voided_at is None and not message.is_summary)
        last = next(said, None)
        unanswered = last is not None and last.role is Role.USER
        goes_on = unanswered or waiting is not None or self._session.row.run_trigger in ("resume", "recovery")
        assert self._message_source is not None
        self._message_source.begin_run(takes_follow_up=not goes_on)
        while True:
            result = await self._run(recorder, conversation, compactor, goes_on=goes_on, waiting=waiting)
            await self._rounds.close(recorder, row.epoch)
            if result.parked or not await self._finish(recorder, row.epoch, result):
                return
            goes_on, waiting = False, None
            await self._renew()
            if self._broke_off:
                # The context in memory may never have been stored; read the stored one again.
                conversation, compactor = await self._open(recorder, await self._session.conversation())

    async def _run(
        self,
        recorder: Recorder,
        conversation: Conversation,
        compactor: Compactor,
        *,
        goes_on: bool,
        waiting: WaitingStep | None,
    ) -> RunResult:
        """One run; failures become its result."""
        assert self._message_source is not None
        assert self._approval_gate is not None
        row = self._session.row
        usage = Usage(**row.usage)
        cost = usage.cost_usd
        if cost is None:
            cost = await self._setup.database.read(lambda c: steps.known_cost_usd(c, self._session_id))
        progress = Progress(row.run_steps, row.steps, usage, cost)
        loop = AgentLoop(
            recorder,
            self._message_source,
            conversation,
            make_step(self._setup, self._session, recorder, conversation, self._interrupt, self._approval_gate),
            self._interrupt,
            compactor,
            prepare=lambda: self._prepare(conversation),
            manual_round=lambda: self._rounds.next(conversation),
            config=self._session.config,
            limits=self._session.limits,
            progress=progress,
            goes_on=goes_on,
            elapsed_s=max(0.0, (now() - row.run_started_at).total_seconds()) if row.run_started_at else 0.0,
            waiting=waiting,
            last_step_s=self._setup.agents.last_step_s,
            guard=self._setup.agents.guard,
        )
        self._broke_off = True
        log.info("run_started", session_id=self._session_id, model=row.model, steps=row.steps, continues=goes_on)
        try:
            result = await loop.run()
            if not result.parked:
                await loop.close()
            self._broke_off = False
            return result
        except (StaleOwnerError, SupersededError, StorageError):
            raise
        except PalimpsestError as error:
            self._rounds.fail()
            return RunResult(Outcome.FAILED, error.problem())
        except Exception:
            log.exception("run_crashed", session_id=self._session_id)
            self._rounds.fail()
            crash = PalimpsestError("The run failed because of an internal error; see the server's log for details.")
            return RunResult(Outcome.FAILED, crash.problem())
        finally:
            unbind_contextvars(*LOGGED)
            self._setup.agents.learn(conversation)
            # Background work stops with the run, whatever its result.
            await compactor.discard()

    async def _renew(self) -> None:
        """Prepares for the next run of the same owner."""
        # Forgotten before the row is read: a cancel is then in the row, or comes after it.
        self._interrupt.begin_run()
        row = await self._session.read()
        if row.cancel_requested:
            self._interrupt.fire("cancel")
        assert self._message_source is not None
        self._message_source.begin_run(takes_follow_up=True)

    async def _finish(self, recorder: Recorder, epoch: int, result: RunResult) -> bool:
        """Ends the run; returns whether the next one has started."""
        goes_on = await recorder.submit(lambda c: runs.finish(c, self._session_id, epoch, result))
        code = (result.error or {}).get("code")
        log.info("run_ended", session_id=self._session_id, outcome=result.outcome, code=code, continues=goes_on)
        return goes_on
