"""The sub-agents of a session as its owner has them: checked when a call is made, then started and answered while the
call waits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row

from app.agent.limits import Progress
from app.context.budget import context_state, make_budget
from app.context.policies import CompactionSettings
from app.db.repositories import client_calls, ownership, sessions
from app.errors import PalimpsestError, StaleOwnerError, StorageError, SupersededError, ToolError
from app.eventlog.log import Appender
from app.runtime.admission import Draft, DraftedRow, check_fits
from app.runtime.content import TakenContent, task_fields
from app.runtime.owner.recorder import Recorder
from app.runtime.owner.state import SessionState
from app.runtime.setup import RuntimeSetup
from app.runtime.transactions import steps, subagents
from app.sessions import Limits, SessionKind
from app.tools.background import NAMES as BACKGROUND_TOOLS
from app.tools.delegate import NAME as DELEGATE
from app.tools.delegate import DelegateArguments
from app.tools.registry import load_object

ROLE = (
    "You are a sub-agent: another agent has given you one task, in the workspace that you share. Nobody answers "
    "questions. Your last message is all that it gets, so put the complete result there, in as few words as it takes, "
    "with the paths of files that you have changed."
)
_NOT_FOR_THEM = frozenset({DELEGATE, *BACKGROUND_TOOLS})
"""Tools that a sub-agent never has: there is one level of them, and what runs in the background belongs to the run of a
session."""


class SessionSubagents:
    """Made with the owner of a session."""

    def __init__(self, setup: RuntimeSetup, session: SessionState) -> None:
        self._setup = setup
        self._session = session
        self._known = subagents.Known()
        self._unwanted: list[str] = []
        self.are_left = False
        """Whether an earlier owner has left some that work."""

    def settle(self, connection: Connection, appender: Appender, waits: Sequence[Row[Any]]) -> None:
        """See `subagents.settle`; `committed` has to be called after the commit."""
        self._known.started.clear()
        if any(wait.child_id is not None for wait in waits):
            subagents.settle(connection, appender, waits, self._draft, self._known)

    def withdraw(self, connection: Connection) -> None:
        """Called in the transaction that ends all waits of the session, before it does: its sub-agents are cancelled
        once that is committed."""
        waits = client_calls.open_ones(connection, self._session.id)
        self._unwanted = [wait.child_id for wait in waits if wait.child_id is not None]
        self._known.held = None

    def committed(self) -> None:
        """What was written is committed: shows and runs the new sub-agents, and cancels unwanted ones."""
        reach, session_id, key = self._setup.subagents, self._session.id, self._session.row.run_key
        for child_id, items in self._known.started.items():
            self._setup.bus.publish(child_id, items)
            reach.wake(session_id, child_id, key)
        for child_id in self._known.working:
            reach.resume(session_id, child_id)
        for child_id in self._unwanted:
            reach.cancel(session_id, child_id)
        self._known.started.clear()
        self._known.working.clear()
        self._unwanted.clear()

    async def recover(self) -> None:
        """In a cluster, fences off the sub-agents that an earlier owner, which may be frozen, has left, and cancels
        those whose call no longer waits; `settle` has the others continue here. Raises `StorageError`."""
        setup, session_id = self._setup, self._session.id
        if setup.node is None or self._session.row.kind == SessionKind.SUBAGENT:
            return
        for child in await setup.database.read(lambda c: sessions.working_children(c, session_id)):
            # In a transaction each: one of a sub-agent locks its own session first, then that of its parent.
            fence = partial(_fence, session_id=session_id, child_id=child.id)
            if await setup.database.writer.write(fence, session_id=child.id):
                self.are_left = True
            else:
                setup.subagents.cancel(session_id, child.id)

    async def cancel_left(self) -> None:
        """Cancels sub-agents that still work although the run has ended, as after a crash of it."""
        if DELEGATE in (self._session.row.tools or ()):
            working = await self._setup.database.read(lambda c: sessions.working_children(c, self._session.id))
            for child in working:
                self._setup.subagents.cancel(self._session.id, child.id)

    async def count(self, recorder: Recorder, progress: Progress) -> None:
        """Updates what counts against the limits: what the sub-agents have used and, for a sub-agent, what is left for
        it."""
        row = self._session.row
        if row.kind != SessionKind.SUBAGENT and DELEGATE not in (row.tools or ()):
            return
        # A write, since it comes after what is recorded and not stored yet.
        totals = await asyncio.shield(recorder.submit(lambda c: (steps.totals(c, row.id), [])))
        progress.usage, progress.cost_usd = totals.usage, totals.cost_usd
        self._session.shared_limits = totals.limits if row.kind == SessionKind.SUBAGENT else None

    def _draft(self, wait: Row[Any]) -> Draft:
        try:
            arguments = DelegateArguments.model_validate(load_object(wait.body["arguments_text"]))
        except ValueError as error:
            raise ToolError(f"The arguments cannot be read: {error}") from error
        fields = _fields(self._setup, self._session, arguments)
        return Draft(wait.child_id, TakenContent(arguments.message), f"delegate {wait.call_id}", fields)


def _fence(connection: Connection, session_id: str, child_id: str) -> bool:
    """Fences off the owner of a sub-agent; returns whether its call still waits."""
    ownership.take_over(connection, child_id)
    return client_calls.is_awaited(connection, session_id, child_id)


async def check(setup: RuntimeSetup, session: SessionState, arguments: DelegateArguments) -> None:
    """Raises `ToolError` for a task that cannot be given. The workspace may be changed from now on."""
    if session.row.kind == SessionKind.SUBAGENT:
        raise ToolError("No sub-agent can be started here.")
    agents = setup.agents
    try:
        fields = _fields(setup, session, arguments)
        await agents.ask_windows(fields["model"])
        tokens = TakenContent(arguments.message).tokens(agents.model_info(fields["model"]))
        check_fits(agents, DraftedRow(fields), tokens)
        await session.take_workspace()
    except (ToolError, StaleOwnerError, SupersededError, StorageError):
        raise
    except PalimpsestError as error:
        raise ToolError(error.detail) from error
    if session.before_use is not None:
        await session.before_use()


def _fields(setup: RuntimeSetup, session: SessionState, arguments: DelegateArguments) -> dict[str, Any]:
    """The columns of a sub-agent: those of its session, except for what the call says. Raises `PalimpsestError`."""
    agents, row = setup.agents, session.row
    model = arguments.model or row.model
    agents.models.resolve(model)
    info = agents.model_info(model)
    if (
        model != row.model
        and row.limits["max_cost_usd"] is not None
        and None in (info.prices.input, info.prices.output)
    ):
        # The session's model would choose one whose cost no limit counts.
        raise ToolError(f"The session has a cost limit, and the price of {model} is unknown: choose another model.")
    budget = make_budget(info, CompactionSettings(**row.compaction))
    most = [each for each in (arguments.max_steps, row.limits["max_steps"]) if each is not None]
    return {
        "kind": SessionKind.SUBAGENT,
        "parent_id": row.id,
        **task_fields(TakenContent(arguments.message), None),
        "model": model,
        "reasoning_effort": row.reasoning_effort,
        "system_prompt": f"{row.system_prompt}\n\n{ROLE}" if row.system_prompt else ROLE,
        "tools": _tools(row.tools or (), arguments.tools),
        "mcp_servers": row.mcp_servers,
        "sandbox": row.sandbox,
        "compaction": row.compaction,
        "limits": Limits(max_steps=min(most, default=None)).model_dump(),
        "approval": row.approval,
        "metadata": {},
        "context": context_state(budget, 0, reported=False).model_dump(),
    }


def _tools(own: Sequence[str], asked: Sequence[str] | None) -> list[str]:
    """The built-in tools of a sub-agent: its parent's, or some of them. Raises `ToolError`."""
    may = [name for name in own if name not in _NOT_FOR_THEM]
    for name in asked or ():
        if name not in may:
            known = ", ".join(may) or "none"
            raise ToolError(f"A sub-agent cannot have the tool {name[:100]!r}; it can have: {known}.")
    return may if asked is None else list(dict.fromkeys(asked))
