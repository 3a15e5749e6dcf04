"""The owner of a running session: one task, from the first run until there is nothing left to do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from datetime import datetime
from typing import Any

import structlog
from sqlalchemy import Row
from structlog.contextvars import unbind_contextvars

from app.agent.approvals import WaitingStep
from app.agent.compaction.compactor import Compactor
from app.agent.compaction.triggers import ManualRound
from app.agent.conversation import Conversation, is_unanswered
from app.agent.interrupt import Interrupt, StopReason
from app.agent.limits import Progress
from app.agent.loop import AgentLoop, RunResult, RunStart
from app.agent.protocols import AgentConfig
from app.agent.record import StoredConversation
from app.agent.step import LOGGED
from app.db.repositories import steps
from app.errors import PalimpsestError, StaleOwnerError, StorageError, SupersededError
from app.messages import Message, Usage, now
from app.runtime.kept import KeptConversation
from app.runtime.owner import leftover, source
from app.runtime.owner.assembly import ManualRounds, give_instructions, make_step
from app.runtime.owner.checkpoints import RunCheckpoints, RunNote
from app.runtime.owner.commands import SessionCommands
from app.runtime.owner.mcp import McpServers
from app.runtime.owner.opening import ConversationSource
from app.runtime.owner.recorder import Recorder
from app.runtime.owner.state import SessionState
from app.runtime.owner.subagents import SessionSubagents
from app.runtime.owner.waits import StoredWaits
from app.runtime.setup import RuntimeSetup
from app.runtime.sources import is_due
from app.runtime.transactions import runs
from app.runtime.transactions.queue import StoredMessages
from app.sessions import Limits, Outcome, Status

log = structlog.get_logger(__name__)


async def finish(recorder: Recorder, claimed: Row[Any], result: RunResult, note: RunNote = lambda _, __: None) -> bool:
    """Ends the run of a session, with a note in the same transaction; returns whether its next one has started."""
    continues = await recorder.submit(lambda c: runs.finish(c, claimed.id, claimed.epoch, result, note))
    log.info("run_ended", session_id=claimed.id, continues=continues, **result.for_log())
    return continues


class SessionOwner:
    """Owns one session while it works. Made and awaited by `own`; `interrupt`, `ring` and `reconfigure` may be called
    at any time."""

    def __init__(
        self,
        setup: RuntimeSetup,
        claimed: Row[Any],
        resting: Callable[[bool], None],
        delivered: Sequence[Message] = (),
        kept: KeptConversation | None = None,
    ) -> None:
        """`claimed` is the session's row at its claim; `delivered` are the messages that its new run has got with that,
        and `kept` is the conversation before them, None if it must be read. `resting` is called with True when the run
        starts to wait for a person or a client, and with False when it continues."""
        self._setup = setup
        self._claimed = claimed
        self._session = session = SessionState(setup, claimed)
        self._rounds = ManualRounds(setup.database, claimed)
        self._interrupt = Interrupt()
        self._recorder = Recorder(setup.database, setup.bus, claimed.id, claimed.epoch, setup.repaired, setup.fence)
        ids = frozenset(message.id for message in delivered)
        self._message_source = StoredMessages(self._recorder, claimed.id, claimed.epoch, session.read, ids)
        self._source = ConversationSource(setup, session, self._recorder, self._interrupt)
        self._delivered, self._kept = delivered, kept
        self.left: KeptConversation | None = None
        """The conversation that the session's next run continues with, once this owner has ended without an error."""
        self._broke_off = False
        self._checkpoints = RunCheckpoints(setup, session, self._recorder)
        self._mcp = McpServers(setup, session, self._recorder)
        self._commands = SessionCommands(setup, session, self._recorder)
        self.catch_up: Callable[[int | None], Awaitable[None]] | None = None
        """Called before each step and after the last one, with `Recorder.take_nudges`: acts on what other nodes of a
        cluster have changed."""
        self._has_work = asyncio.Event()
        self._hands_over = False

        # No method: a reference cycle is only freed by the garbage collector, and that runs rarely.
        def rest(rests: bool) -> None:
            if rests:
                # While it waits it needs no sandbox, but others may.
                session.release()
            resting(rests)

        self._rests = rest
        self._subagents = SessionSubagents(setup, session)
        waited = setup.counts.client_waited
        self._gate = StoredWaits(self._recorder, claimed.id, claimed.epoch, rest, waited, self._subagents)

    @property
    def model(self) -> str:
        """The session's model."""
        return str(self._session.row.model)

    @property
    def claimed(self) -> Row[Any]:
        """The session's row at its claim."""
        return self._claimed

    @property
    def run_started_at(self) -> datetime | None:
        """When the current run began, as far as the owner knows; None before the first one."""
        started: datetime | None = self._session.row.run_started_at
        return started

    def ring(self) -> None:
        """There may be a new message."""
        self._message_source.ring()
        self._has_work.set()

    def interrupt(self, reason: StopReason, message_id: str | None = None) -> None:
        """Ends the current step. An interrupting message that was already delivered has no effect; a cancel also
        cancels a requested compaction that has not started."""
        self._has_work.set()
        if reason == "cancel":
            self._rounds.cancel()
        if message_id is None or message_id not in self._message_source.delivered:
            self._interrupt.fire(reason)

    def end_after_step(self) -> None:
        """Stops once the current step has ended; another owner continues, maybe on another machine."""
        self._hands_over = True
        self._interrupt.end_after_step()

    def ask_round(self) -> None:
        """A compaction was requested, to be made before the next step."""
        self._rounds.ask()
        self._has_work.set()

    def take_revert(self) -> None:
        """A compaction was reverted; the next step does not use it."""
        self._rounds.revert()

    def take_decision(self) -> None:
        """A waiting call was approved or denied, or a client has posted its result."""
        self._gate.ring()

    def take_secrets(self) -> None:
        """A secret was set or removed; the next step uses the new ones."""
        self._session.has_new_secrets = True

    def reconfigure(self, row: Row[Any]) -> None:
        """The session was changed; its next step uses the new row. A change always has an event, so a known row with
        the same `last_seq` was read after it, and may be a later one of the claim."""
        if row.last_seq > self._session.row.last_seq:
            self._session.adopt(row)

    async def run(self) -> bool:
        """Works until the session is idle or stopped with the server; returns whether a requested compaction is left to
        the next owner. Raises `StaleOwnerError` or `SupersededError` if it was taken over."""
        with ExitStack() as stack:
            stack.callback(self._recorder.close)
            stack.callback(self._session.close)
            stack.callback(self._checkpoints.close)
            if (workspaces := self._setup.workspaces) is not None:
                stack.callback(workspaces.leave, self._session.id)
            try:
                await self._work()
                # A cancel may have come since the last run ended.
                await self._rounds.close(self._recorder, self._claimed.epoch)
            finally:
                # Before the sandbox is released, in which some run.
                await asyncio.shield(self._mcp.aclose())
                await asyncio.shield(self._commands.leave(hands_over=self._hands_over))
            # The sandbox stays: its idle time begins when the snapshot is taken.
            await self._settle()
            await self._checkpoints.conclude(None if self._hands_over else self._has_work, self._rests)
        return self._rounds.has_request

    async def _settle(self) -> None:
        """Stores the workspace before the session is left to other machines, unless there is new work here. If that
        fails, an idle session is kept for a while, without a slot, so that no request replaces its files. A sub-agent
        stores it only if its session has left before it, as after a cancel."""
        workspaces, session = self._setup.workspaces, self._session
        if workspaces is None or (session.is_subagent and workspaces.is_owned(session.workspace_id)):
            return
        until = asyncio.Event() if self._hands_over else self._has_work
        if not await workspaces.settle(session.workspace_id, until) and not (self._hands_over or until.is_set()):
            self._rests(True)
            await workspaces.settle_late(session.workspace_id, until)

    async def _bring_workspace(self) -> None:
        """Restores the workspace if another machine had it, before anything needs it; no step of a session that is
        handed over at once does."""
        if (self._setup.workspaces is not None or self._subagents.are_left) and not self._hands_over:
            await self._interrupt.unless_stopped(self._session.take_workspace_first(), patient=True)

    async def _work(self) -> None:
        await self._commands.recover()
        await self._subagents.recover()
        await self._bring_workspace()
        row = self._claimed
        if row.status == Status.IDLE:
            try:
                await self._compact_idle()
            except (StaleOwnerError, SupersededError, StorageError):
                raise
            except Exception:
                log.exception("compaction_crashed", session_id=row.id)
                self._rounds.fail()
            await self._rounds.close(self._recorder, row.epoch)
            # Forgotten before the row is read: a cancel is then in the row, or comes after it.
            self._interrupt.begin_run()
            row = await self._session.read()
            if row.status == Status.IDLE:
                return
        result, stored = None, None
        if self._kept is None:
            result, stored = await leftover.recover_interrupted(
                self._setup, self._session, self._recorder, row, is_new=bool(self._delivered)
            )
        if result is not None:
            if not await self._finish(result):
                return
            await self._renew()
        if await self._has_source():
            await self._runs(stored)

    async def _has_source(self) -> bool:
        """Brings the source into the workspace if that is due. If it fails, so does the run, and False is returned."""
        sources = self._setup.sources
        if sources is None or self._hands_over or not is_due(self._session.row):
            return True
        try:
            await self._interrupt.unless_stopped(source.bring(sources, self._session, self._recorder), patient=True)
            return True
        except (StaleOwnerError, SupersededError, StorageError):
            raise
        except PalimpsestError as error:
            result = RunResult(Outcome.FAILED, error.problem(), holds=True)
        await self._finish(result)
        return False

    async def _compact_idle(self) -> None:
        """Makes a manual round while no run is active."""
        conversation, compactor = await self._source.read()
        asked = await self._rounds.next(conversation)
        if asked is None:
            return
        await self._interrupt.unless_stopped(self._session.ask_windows(), insist=True)
        await self._source.read_first_notes(conversation)
        await self._mcp.recall()
        config = self._session.config()
        if (opened := await conversation.refresh(config)) is not None:
            await self._recorder.record(opened)
        await compactor.manual(config, asked)

    async def prepare(self, conversation: Conversation) -> None:
        """See `RunningSession.prepare`."""
        if self.catch_up is not None:
            await self.catch_up(self._recorder.take_nudges())
        if self._setup.workspaces is not None:
            await self._commands.touch()
            self._setup.workspaces.between_steps(self._session.workspace_id)
        await self._subagents.count(self._recorder, self._progress)
        await self._session.load_secrets()
        await self._interrupt.unless_stopped(self._mcp.prepare())
        await self._interrupt.unless_stopped(self._session.ask_windows(), insist=True)
        await give_instructions(self._session, conversation, self._recorder, self._interrupt)
        if not self._interrupt.ends_run:
            # No step follows here, and a call may still wait, whose result has to come first.
            await self._commands.report(conversation)
        if spilled := conversation.spilled():
            await self._interrupt.unless_stopped(self._session.write_spilled(spilled), patient=True)

    async def before_end(self) -> None:
        """See `RunningSession.before_end`."""
        if self.catch_up is not None:
            await self.catch_up(self._recorder.take_nudges())

    async def manual_round(self, conversation: Conversation) -> ManualRound | None:
        """See `RunningSession.manual_round`."""
        return await self._rounds.next(conversation)

    def config(self) -> AgentConfig:
        """See `RunningSession.config`."""
        return self._session.step_config()

    def limits(self) -> Limits:
        """See `RunningSession.limits`."""
        return self._session.limits()

    async def _runs(self, stored: StoredConversation | None) -> None:
        """Makes run after run until the session is idle or parked. `stored` is the conversation if it was read."""
        waiting: WaitingStep | None = None
        if self._kept is not None:
            conversation, compactor = self._source.continued(self._kept, self._delivered)
        elif stored is not None:
            conversation, compactor = await self._source.open(stored)
        else:
            (conversation, compactor), waiting = await self._source.read_interrupted()
        await self._source.read_first_notes(conversation)
        # A message that was delivered just before a crash still needs an answer.
        unanswered = is_unanswered(conversation.history)
        continues = unanswered or waiting is not None or self._session.row.run_trigger in ("resume", "recovery")
        if not self._delivered:
            self._message_source.begin_run(takes_follow_up=not continues)
        while True:
            result = await self._run(conversation, compactor, continues=continues, waiting=waiting)
            await self._rounds.close(self._recorder, self._claimed.epoch)
            if result.parked or not await self._finish(result):
                # Others only change it by a revert; one that comes later gives the session another version.
                is_stored = not (self._broke_off or self._rounds.has_revert)
                if is_stored and result.outcome in (Outcome.COMPLETED, Outcome.CANCELLED):
                    self.left = self._source.keep(conversation, compactor)
                return
            continues, waiting = False, None
            await self._renew()
            if self._broke_off:
                # The context in memory may never have been stored; read the stored one again.
                conversation, compactor = await self._source.read()

    async def _run(
        self, conversation: Conversation, compactor: Compactor, *, continues: bool, waiting: WaitingStep | None
    ) -> RunResult:
        """One run; failures become its result."""
        row = self._session.row
        usage = Usage(**row.usage)
        cost = usage.cost_usd
        # Secrets and MCP servers now: a call that waited for approval runs before the first step is prepared.
        if cost is None:
            cost = await self._session.read_with_secrets(lambda c: steps.known_cost_usd(c, row.id))
        else:
            await self._session.load_secrets()
        if waiting is not None:
            await self._interrupt.unless_stopped(self._mcp.prepare())
        self._progress = Progress(row.run_steps, row.steps, usage, cost)
        elapsed_s = max(0.0, (now() - row.run_started_at).total_seconds()) if row.run_started_at else 0.0
        loop = AgentLoop(
            self._recorder,
            self,
            self._message_source,
            conversation,
            make_step(
                self._setup, self._session, self._recorder, conversation, self._interrupt, self._gate, self._commands
            ),
            self._interrupt,
            compactor,
            RunStart(self._progress, continues, elapsed_s, waiting),
            self._setup.agents.run_rules,
        )
        self._broke_off = True
        self._checkpoints.begin()
        self._session.start_ahead(self._checkpoints.until_read)
        log.info("run_started", session_id=row.id, model=row.model, steps=row.steps, continues=continues)
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
            log.exception("run_crashed", session_id=row.id)
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
        self._message_source.begin_run(takes_follow_up=True)

    async def _finish(self, result: RunResult) -> bool:
        if result.outcome is Outcome.CANCELLED:
            await self._commands.end("cancelled")
        note = await self._checkpoints.end(is_cancelled=result.outcome is Outcome.CANCELLED)
        # What comes from now on may not be seen by the end of the run.
        self._has_work.clear()
        continues = await finish(self._recorder, self._claimed, result, note)
        await self._subagents.cancel_left()
        return continues
