"""Puts together what a session's agent works with: its conversation with the compactor, its step with the tools, and
the compactions that users request while it works."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import Row

from app.agent.changes import PlanChanged
from app.agent.compaction.compactor import Compactor
from app.agent.compaction.ladder import Ladder, RoundSetup
from app.agent.compaction.triggers import ManualRound
from app.agent.conversation import Conversation
from app.agent.interrupt import Interrupt
from app.agent.model_calls import ModelCalls
from app.agent.protocols import CallGate, Collector
from app.agent.step import Step
from app.agent.tool_executor import ToolExecutor, ToolSetup
from app.context.policies import CompactionSettings
from app.db.engine import Database
from app.errors import PalimpsestError
from app.llm.base import ToolSchema
from app.runtime.agents import read_again, read_past
from app.runtime.images import SessionImages
from app.runtime.mcp.tools import McpTools
from app.runtime.owner import subagents
from app.runtime.owner.instructions import FolderInstructions
from app.runtime.owner.notes import StoredHistory
from app.runtime.owner.recorder import Recorder
from app.runtime.owner.state import SessionState
from app.runtime.setup import RuntimeSetup
from app.runtime.skills import OperatorSkills
from app.runtime.transactions import compactions
from app.sandbox.base import Sandbox, Stream
from app.sandbox.paths import resolve
from app.sessions import PlanItem
from app.tools.base import Background
from app.tools.client import ClientTool
from app.tools.delegate import Delegate
from app.tools.masking import MaskedCollector
from app.tools.output import OutputLimit
from app.tools.registry import ToolRegistry
from app.tools.submit import SubmitOutput


def make_compactor(
    setup: RuntimeSetup,
    session: SessionState,
    recorder: Recorder,
    conversation: Conversation,
    interrupt: Interrupt,
    unused: int,
) -> Compactor:
    """What keeps a session's conversation within its window; `unused` as in `StoredConversation`."""
    agents = setup.agents

    async def know_past() -> None:
        if conversation.lacks_past:
            until = conversation.read_until
            conversation.know(await setup.database.read(lambda c: read_past(c, session.id, until)))

    async def reread() -> None:
        conversation.revert(*await setup.database.read(lambda c: read_again(c, session.id)))

    async def revert(round: int) -> None:
        await recorder.submit(lambda c: compactions.revert_own(c, session.id, round))
        await reread()

    rounds = RoundSetup(
        recorder,
        conversation,
        Ladder(recorder, conversation, _models(setup, session), lambda model: agents.window(model)[0]),
        interrupt,
        session.refreshed,
        session.keep_notes,
        agents.budget,
        agents.background_slots,
        know_past,
        reread,
        revert,
    )
    return Compactor(rounds, unused=unused)


def make_step(
    setup: RuntimeSetup,
    session: SessionState,
    recorder: Recorder,
    conversation: Conversation,
    interrupt: Interrupt,
    gate: CallGate,
    background: Background,
) -> Step:
    """The step, which calls the model and runs its tools in the session's sandbox."""

    async def set_plan(items: tuple[PlanItem, ...]) -> None:
        conversation.plan = items
        # Not awaited: it is committed before the call's result, or with it.
        recorder.record(PlanChanged(items))

    async def sandbox() -> Sandbox:
        """The sandbox. Checks ownership again when it is ready, unless the call was stored as started just before: if
        this server was frozen meanwhile, another one has already closed the call and reported that to the model."""
        ready = await session.sandbox()
        if not recorder.has_just_owned and not await setup.still_owns(session.id, recorder.epoch):
            interrupt.fire("shutdown")
            # An interrupt ends the call here.
            await asyncio.Event().wait()
        return ready

    def offered() -> list[str]:
        """The tools offered to the step's model, even if the session was changed since."""
        return [tool.name for tool in conversation.generation.tools]

    def collector(call_id: str, live: Callable[[Stream, str, int], None], limit: OutputLimit) -> Collector:
        """Also masks what tools that run no command show: a command may have written it to a file."""
        plain = setup.collector(session.id, call_id, live, limit)
        return MaskedCollector(plain, session.masking) if session.masking else plain

    agents = setup.agents
    tools = ToolSetup(
        registry=SessionTools(setup, session),
        sandbox=sandbox,
        collector=collector,
        env=lambda: session.masking.values,
        output_limit=session.output_limit,
        command_timeout_s=agents.command_timeout_s,
        max_command_timeout_s=agents.max_command_timeout_s,
        history=StoredHistory(setup.database, session.id, setup.output_path),
        gate=gate,
        files=WatchedFiles(agents.skills, session.instructions, sandbox),
        background=background,
    )
    executor = ToolExecutor(tools, recorder, allowed=offered, set_plan=set_plan, interrupt=interrupt)
    return Step(recorder, conversation, _models(setup, session), executor, interrupt)


def _models(setup: RuntimeSetup, session: SessionState) -> ModelCalls:
    """How models are called for a session."""
    images = SessionImages(setup.database, session.id, setup.image_cache)
    return replace(setup.agents.models, images=images, traceparent=lambda: session.row.run_traceparent)


async def give_instructions(
    session: SessionState, conversation: Conversation, recorder: Recorder, interrupt: Interrupt
) -> None:
    """Adds the instructions of folders that tools have used since the last step, if the model does not see them."""
    if not session.instructions.touched:
        return
    if new := await interrupt.unless_stopped(session.new_instructions(conversation), patient=True):
        # Not guarded: what is stored and what is in memory have to be the same.
        await conversation.add(new, recorder)


class WatchedFiles:
    """What follows from the files that tools use: an operator's skill is copied into the workspace before it is first
    read, and instructions of folders are given before the next step."""

    def __init__(
        self, skills: OperatorSkills, instructions: FolderInstructions, sandbox: Callable[[], Awaitable[Sandbox]]
    ) -> None:
        self._skills = skills
        self._instructions = instructions
        self._sandbox = sandbox
        self._copied: set[str] = set()
        self._turn = asyncio.Lock()

    async def before(self, path: str) -> None:
        """See `FileWatch.before`."""
        if not self._skills.skills:
            return
        try:
            name = self._skills.folder_of(resolve(path))
        except PalimpsestError:
            # A command may work anywhere, and a file tool reports itself what is wrong.
            return
        if name is None:
            return
        async with self._turn:
            if name not in self._copied:
                await self._skills.copy(name, await self._sandbox())
                self._copied.add(name)

    def after(self, path: str) -> None:
        """See `FileWatch.after`."""
        self._instructions.touch(path)


class SessionTools:
    """The tools of a session: those of the server, the client's, those of MCP servers, and `submit_output`, which is
    always included, since a change of the session may ask for it. Client tools stay for a step that was offered them if
    the session loses them meanwhile. Only what the model was offered can be called."""

    def __init__(self, setup: RuntimeSetup, session: SessionState) -> None:
        self._setup = setup
        self._session = session
        self._made: tuple[Any, ToolRegistry] | None = None

    def __call__(self) -> ToolRegistry:
        row = self._session.row
        if self._made is None or self._made[0] is not row:
            clients = [(ClientTool(spec), spec.schema) for spec in self._session.client_tools.values()]
            own = self._setup.agents.registry.plus(self._submit_output(), self._delegate(), *clients)
            self._made = (row, McpTools(own, self._session))
        return self._made[1]

    def _delegate(self) -> tuple[Delegate, ToolSchema]:
        tool = Delegate(partial(subagents.check, self._setup, self._session))
        return tool, self._setup.agents.registry.schema(tool.name)

    def _submit_output(self) -> tuple[SubmitOutput, ToolSchema]:
        tool, format = SubmitOutput(self._session.output_format), self._session.output_format()
        seen = format.tool() if format is not None else ToolSchema(tool.name, tool.description, {"type": "object"})
        return tool, seen


class ManualRounds:
    """Remembers that a round was requested until it is made or given up. All methods except `next` and `close` may be
    called at any time."""

    def __init__(self, database: Database, claimed: Row[Any]) -> None:
        """`claimed` is the session's row at its claim: an earlier owner may have left a round, and a cancel of it."""
        self._database = database
        self._session_id = claimed.id
        self._requested: bool = claimed.compaction_in_progress
        self._abandoned: bool = claimed.cancel_requested
        self._reverted = False

    def ask(self) -> None:
        """A round was requested, to be made before the next step. No other is open at that time, so earlier cancels and
        failures are cleared."""
        self._requested, self._abandoned = True, False

    @property
    def has_request(self) -> bool:
        """Whether a round was requested that is neither made nor given up."""
        return self._requested

    @property
    def has_revert(self) -> bool:
        """Whether a round was reverted that the conversation still uses."""
        return self._reverted

    def revert(self) -> None:
        """A round was reverted; the next step does not use it."""
        self._reverted = True

    def cancel(self) -> None:
        """A cancel also cancels a requested round that has not started."""
        self._abandoned = self._abandoned or self._requested

    def fail(self) -> None:
        """The run has failed, so the requested round will not be made."""
        self._abandoned = True

    async def next(self, conversation: Conversation) -> ManualRound | None:
        """The requested round, once; a revert is applied first."""
        if self._reverted:
            self._reverted = False
            conversation.revert(*await self._database.read(lambda c: read_again(c, self._session_id)))
        if not self._requested or self._abandoned:
            return None
        self._requested = False
        row = await self._database.read(lambda c: compactions.requested(c, self._session_id))
        if row is None:
            return None
        return ManualRound(row.round, CompactionSettings(**row.settings), row.instructions)

    async def close(self, recorder: Recorder, epoch: int) -> None:
        """Closes rounds that were left open by a cancel or a crash."""
        if self._abandoned:
            self._requested = self._abandoned = False
            await recorder.submit(lambda c: (None, compactions.abandon(c, self._session_id, epoch, manual_too=True)))
