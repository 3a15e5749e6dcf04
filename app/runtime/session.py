"""The owner of a running session: one task, from the first run until there is nothing left to do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import Connection, Row

from app.agent.compactor import Compactor, ManualRound
from app.agent.conversation import AgentConfig, Conversation
from app.agent.interrupt import Interrupt, StopReason
from app.agent.ladder import Ladder
from app.agent.loop import AgentLoop, Progress, RunResult
from app.agent.ports import Collector, PlanChanged
from app.agent.step import Step
from app.agent.tool_executor import ToolExecutor, ToolSetup
from app.context.policies import CompactionSettings
from app.context.tokens import estimate_text
from app.db.engine import Database
from app.db.repositories import compactions as rounds
from app.db.repositories import sessions, steps
from app.errors import PalimpsestError, StaleOwnerError, StorageError
from app.eventlog.bus import Bus
from app.events import PlanItem
from app.messages import Role, Usage, now
from app.runtime import compactions, recovery, runs
from app.runtime.agents import AgentSetup, StoredConversation, load_conversation
from app.runtime.inbox import RunInbox
from app.runtime.notes import may_have_files, refresh_notes
from app.runtime.recall import StoredHistory
from app.runtime.recorder import Recorder
from app.runtime.sandboxes import Lease, Sandboxes
from app.sandbox.base import Sandbox, Stream
from app.sessions import Limits, Outcome, SandboxSpec, Status
from app.tools.output import OutputLimit

STEP_OUTPUT_SHARE = 0.25
"""Share of usable that all results of one step may have together."""

LEAST_OUTPUT_TOKENS = 200
"""What is shown of each output even where a step has very many calls."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RuntimeSetup:
    """What owners share. `collector` makes a call's collector from session id, call id and the live callback;
    `output_path` gives the file of a raw output by its key."""

    database: Database
    bus: Bus
    sandboxes: Sandboxes
    agents: AgentSetup
    collector: Callable[[str, str, Callable[[Stream, str, int], None], OutputLimit], Collector]
    output_path: Callable[[str], Path] | None = None


class SessionOwner:
    """Owns one session while it works. Made and awaited by the registry; `interrupt`, `ring` and `reconfigure` may be
    called at any time."""

    def __init__(self, setup: RuntimeSetup, session_id: str) -> None:
        self._setup = setup
        self._session_id = session_id
        self._interrupt = Interrupt()
        self._inbox: RunInbox | None = None
        self._row: Row[Any] | None = None
        self._config: AgentConfig | None = None
        self._lease: Lease | None = None
        self._stored: StoredConversation | None = None
        self._conversation: Conversation | None = None
        self._compactor: Compactor | None = None
        self._asked = False
        self._asked_in_vain = False
        self._reverted = False
        self._window: int | None = None

    def ring(self) -> None:
        """There may be a new message."""
        if self._inbox is not None:
            self._inbox.ring()

    def interrupt(self, reason: StopReason, message_id: str | None = None) -> None:
        """Ends the step under way. An interrupting message that was delivered meanwhile ends nothing, and a cancel
        takes a compaction along that was asked for and has not begun."""
        self._asked_in_vain = self._asked_in_vain or (reason == "cancel" and self._asked)
        if message_id is None or self._inbox is None or message_id not in self._inbox.delivered:
            self._interrupt.fire(reason)

    def ask_round(self) -> None:
        """Somebody has asked for a compaction, which is made before the next step."""
        self._asked = True

    def take_revert(self) -> None:
        """A compaction was reverted; the next step goes without it."""
        self._reverted = True

    def reconfigure(self, row: Row[Any]) -> None:
        """The session was changed; its next step goes by the new row."""
        self._adopt(row)

    def _adopt(self, row: Row[Any]) -> None:
        """Takes a row unless a newer one is known: a read may come back after a change that was told."""
        if self._row is None or row.last_seq >= self._row.last_seq:
            self._row = row
            self._config = None

    async def run(self) -> None:
        """Owns the session until it is idle, stopped with the server, or taken over."""
        channel = self._setup.bus.channel(self._session_id)
        channel.running = True
        try:
            async with AsyncExitStack() as stack:
                await self._own(stack)
        except StaleOwnerError:
            log.warning("session_taken_over", session_id=self._session_id)
        finally:
            channel.running = False
            channel.parts.clear()
            self._setup.bus.release(self._session_id)

    async def give_up(self) -> None:
        """Ends the session's run without looking at what is in it, since that is what crashed its owners."""
        row = await self._setup.database.writer.write(lambda c: sessions.claim(c, self._session_id))
        if row is not None and row.status != Status.IDLE:
            error = PalimpsestError("The run crashed the service again and again; its log has the details.")
            recorder = Recorder(self._setup.database, self._setup.bus, self._session_id, row.epoch)
            try:
                await self._finish(recorder, row.epoch, RunResult(Outcome.INTERRUPTED, error.problem()))
            finally:
                self._setup.bus.release(self._session_id)

    async def _own(self, stack: AsyncExitStack) -> None:
        row = await self._setup.database.writer.write(lambda c: sessions.claim(c, self._session_id))
        if row is None or (row.status == Status.IDLE and not row.compaction_in_progress):
            return
        self._adopt(row)
        self._asked = row.compaction_in_progress
        recorder = Recorder(self._setup.database, self._setup.bus, self._session_id, row.epoch)
        stack.callback(recorder.close)
        stack.callback(self._release)
        epoch = row.epoch
        await recorder.submit(lambda c: (None, compactions.abandon(c, self._session_id, epoch, asked_too=False)))
        if row.status == Status.IDLE:
            try:
                await self._compact_idle(recorder)
            except (StaleOwnerError, StorageError):
                raise
            except Exception:
                log.exception("compaction_crashed", session_id=self._session_id)
                self._asked_in_vain = True
            await self._give_up_rounds(recorder, epoch)
            # Forgotten before the row is read: a cancel is then in the row, or comes after it.
            self._interrupt.begin_run()
            row = await self._setup.database.read(lambda c: sessions.row(c, self._session_id))
            self._adopt(row)
            if row.status == Status.IDLE:
                return
        result = await self._recovered(recorder, row)
        self._inbox = RunInbox(recorder, self._session_id, row.epoch)
        if result is not None:
            if not await self._finish(recorder, row.epoch, result):
                return
            await self._renew()
        await self._runs(recorder, row)

    async def _compact_idle(self, recorder: Recorder) -> None:
        """Makes a round that was asked for while nothing runs."""
        stored = await self._setup.database.read(lambda c: load_conversation(c, self._session_id))
        assert self._row is not None
        conversation = self._setup.agents.conversation(stored, self._row)
        self._compactor = self._make_compactor(recorder, conversation)
        asked = await self._asked_round()
        if asked is None:
            return
        config = self._current_config()
        if (opened := conversation.refresh(config)) is not None:
            await recorder.record(opened)
        await self._compactor.manual(config, asked)

    def _make_compactor(self, recorder: Recorder, conversation: Conversation) -> Compactor:
        agents = self._setup.agents
        self._conversation = conversation
        ladder = Ladder(recorder, conversation, agents.models, lambda model: agents.model_info(model).context_window)
        return Compactor(recorder, conversation, ladder, self._interrupt, refreshed=self._refreshed_config)

    async def _refreshed_config(self) -> AgentConfig:
        await self._refresh_notes()
        return self._current_config()

    async def _refresh_notes(self) -> None:
        """Reads AGENTS.md and MEMORY.md again, for the system text of a new context."""
        assert self._row is not None
        row = await refresh_notes(self._setup.database, self._row, lambda: self._hold().sandbox)
        if row is not None:
            self._adopt(row)

    async def _asked_round(self) -> ManualRound | None:
        """The round that somebody has asked for, once; a revert is taken over first."""
        if self._reverted and self._conversation is not None:
            self._reverted = False
            read = self._setup.database.read
            checkpoints = await read(lambda c: compactions.checkpoints(c, self._session_id))
            self._conversation.revert(checkpoints, await read(lambda c: rounds.pruned_calls(c, self._session_id)))
        if not self._asked:
            return None
        self._asked = self._asked_in_vain = False
        row = await self._setup.database.read(lambda c: compactions.requested(c, self._session_id))
        if row is None:
            return None
        return ManualRound(row.round, CompactionSettings(**row.settings), row.instructions)

    async def _recovered(self, recorder: Recorder, row: Row[Any]) -> RunResult | None:
        """Puts right what an earlier owner left; the result is there if the run ends with it."""

        def look(connection: Connection) -> StoredConversation | None:
            return None if recovery.is_needed(connection, row) else load_conversation(connection, self._session_id)

        self._stored = await self._setup.database.read(look)
        if self._stored is not None:
            return RunResult(Outcome.CANCELLED) if row.cancel_requested else None
        result = await recorder.submit(lambda c: recovery.recover(c, self._session_id, row.epoch))
        self._adopt(await self._setup.database.read(lambda c: sessions.row(c, self._session_id)))
        return result

    async def _runs(self, recorder: Recorder, row: Row[Any]) -> None:
        """Makes run after run until the session is idle or parked."""
        stored, self._stored = self._stored, None
        if stored is None:
            stored = await self._setup.database.read(lambda c: load_conversation(c, self._session_id))
        assert self._row is not None
        if stored.generation is None and may_have_files(self._row):
            await self._refresh_notes()
        conversation = self._setup.agents.conversation(stored, self._row)
        # A message that was delivered just before a crash is still to be answered.
        said = (message for message in reversed(stored.history) if message.voided_at is None and not message.is_summary)
        last = next(said, None)
        unanswered = last is not None and last.role is Role.USER
        goes_on = unanswered or self._row.run_trigger in ("resume", "recovery")
        assert self._inbox is not None
        self._compactor = self._make_compactor(recorder, conversation)
        self._inbox.begin_run(takes_follow_up=not goes_on)
        while True:
            result = await self._run(recorder, conversation, goes_on=goes_on)
            await self._give_up_rounds(recorder, row.epoch)
            if result.parked or not await self._finish(recorder, row.epoch, result):
                return
            goes_on = False
            await self._renew()

    async def _run(self, recorder: Recorder, conversation: Conversation, *, goes_on: bool) -> RunResult:
        """One run; whatever goes wrong in it is its result."""
        assert self._row is not None
        assert self._inbox is not None
        assert self._compactor is not None
        usage = Usage(**self._row.usage)
        cost = usage.cost_usd
        if cost is None:
            cost = await self._setup.database.read(lambda c: steps.known_cost_usd(c, self._session_id))
        progress = Progress(self._row.run_steps, self._row.steps, usage, cost)
        loop = AgentLoop(
            recorder,
            self._inbox,
            conversation,
            self._step(recorder, conversation),
            self._interrupt,
            self._compactor,
            asked_round=self._asked_round,
            config=self._current_config,
            limits=self._limits,
            progress=progress,
            goes_on=goes_on,
            elapsed_s=max(0.0, (now() - self._row.run_started_at).total_seconds()) if self._row.run_started_at else 0.0,
        )
        try:
            result = await loop.run()
            if not result.parked:
                await loop.close()
            return result
        except (StaleOwnerError, StorageError):
            raise
        except PalimpsestError as error:
            self._asked_in_vain = True
            return RunResult(Outcome.FAILED, error.problem())
        except Exception:
            log.exception("run_crashed", session_id=self._session_id)
            self._asked_in_vain = True
            crash = PalimpsestError("The run failed inside the service; its log has the details.")
            return RunResult(Outcome.FAILED, crash.problem())
        finally:
            self._setup.agents.learn(conversation)
            # Nothing is written in the background once the run is over, however it ended.
            await self._compactor.discard()

    async def _give_up_rounds(self, recorder: Recorder, epoch: int) -> None:
        """Closes what a cancel or a crash has left of rounds of compaction."""
        if self._asked_in_vain:
            self._asked = self._asked_in_vain = False
            await recorder.submit(lambda c: (None, compactions.abandon(c, self._session_id, epoch, asked_too=True)))

    def _step(self, recorder: Recorder, conversation: Conversation) -> Step:
        async def set_plan(items: tuple[PlanItem, ...]) -> None:
            conversation.plan = items
            # Not waited for: it is committed before the call's result, or with it.
            recorder.record(PlanChanged(items))

        agents = self._setup.agents
        tools = ToolSetup(
            registry=agents.registry,
            sandbox=self._sandbox,
            collector=lambda call_id, live, limit: self._setup.collector(self._session_id, call_id, live, limit),
            output_limit=self._output_limit,
            command_timeout_s=agents.command_timeout_s,
            max_command_timeout_s=agents.max_command_timeout_s,
            history=StoredHistory(self._setup.database, self._session_id, self._setup.output_path),
        )

        def offered() -> list[str]:
            """The tools that the step's model was shown, whatever a change of the session says by now."""
            return [tool.name for tool in conversation.generation.tools]

        executor = ToolExecutor(tools, recorder, allowed=offered, set_plan=set_plan, interrupt=self._interrupt)
        return Step(recorder, conversation, agents.models, executor, self._interrupt)

    def _output_limit(self, calls: int) -> OutputLimit:
        """How much of each output of a message with so many calls the model sees: all of them together take a quarter
        of the context at most, so that one step never fills it."""
        config = self._current_config()
        tokens = max(LEAST_OUTPUT_TOKENS, int(config.budget.usable * STEP_OUTPUT_SHARE) // calls)
        return OutputLimit(min(config.settings.clip_chars, tokens * 4), tokens, estimate_text)

    async def _renew(self) -> None:
        """Prepares for the next run of the same owner."""
        # Forgotten before the row is read: a cancel is then in the row, or comes after it.
        self._interrupt.begin_run()
        row = await self._setup.database.read(lambda c: sessions.row(c, self._session_id))
        self._adopt(row)
        if row.cancel_requested:
            self._interrupt.fire("cancel")
        assert self._inbox is not None
        self._inbox.begin_run(takes_follow_up=True)

    async def _finish(self, recorder: Recorder, epoch: int, result: RunResult) -> bool:
        """Ends the run; true where the next one has begun with it."""
        return await recorder.submit(lambda c: runs.finish(c, self._session_id, epoch, result))

    def _current_config(self) -> AgentConfig:
        assert self._row is not None
        agents = self._setup.agents
        if self._config is None or self._window != agents.windows.get(self._row.model):
            self._window = agents.windows.get(self._row.model)
            self._config = agents.config(self._row)
        return self._config

    def _limits(self) -> Limits:
        assert self._row is not None
        return Limits(**self._row.limits)

    async def _sandbox(self) -> Sandbox:
        """The session's sandbox, started, and held until the session is idle."""
        return await self._hold().start()

    def _hold(self) -> Lease:
        assert self._row is not None
        if self._lease is None:
            self._lease = self._setup.sandboxes.lease(self._session_id, SandboxSpec(**self._row.sandbox))
        return self._lease

    def _release(self) -> None:
        if self._lease is not None:
            self._lease.release()
            self._lease = None
