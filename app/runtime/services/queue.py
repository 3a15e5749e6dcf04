"""The queue of a session, and its calls that wait for a person or for their result from a client."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row

from app.db.repositories import sessions
from app.errors import NotFoundError
from app.eventlog.log import StreamItem
from app.runtime.admission import LEAST_ROOM, check_fits, check_output
from app.runtime.content import Content, TakenContent, awaited, take
from app.runtime.dispatch import Dispatch, Started
from app.runtime.mcp.stored import stored_offer
from app.runtime.run_starts import NOBODY, Caller, RunStarts
from app.runtime.services.files import FileService
from app.runtime.setup import RuntimeSetup
from app.runtime.sources import is_due
from app.runtime.transactions import client_calls, queue, runs
from app.runtime.values.queue import (
    ApprovalAnswer,
    ApprovalList,
    PendingToolCalls,
    QueueAdd,
    QueuedMessage,
    QueueEdit,
    QueuePage,
    QueueReceipt,
    ToolCallAnswer,
)
from app.sessions import QueueMode


class QueueService:
    """Writes to queues and notifies the owners of their sessions; every write is committed when a method returns."""

    def __init__(
        self, setup: RuntimeSetup, registry: Dispatch, limit: int, starts: RunStarts, files: FileService
    ) -> None:
        """`limit` is the maximum number of pending messages of a session; `files` has what messages name."""
        self._files = files
        self._setup = setup
        self._registry = registry
        self._limit = limit
        self._starts = starts

    async def add(self, session_id: str, body: QueueAdd, caller: Caller = NOBODY) -> QueueReceipt:
        """Accepts a message in any state of the session. Raises `TooManyRunsError` if it would start a run while too
        many are waiting or the caller's key has too many, `MessageTooLargeError` if it cannot fit the model's window,
        and the same as `take`."""
        await check_output(body.output)
        if not isinstance(body.content, str):
            # A retry succeeds even if a file that it names has changed.
            known = await self._setup.database.read(lambda c: queue.repeated(c, session_id, body))
            if known is not None:
                return known
        content = await self._take(session_id, body.content)
        await self._learn_window(session_id, content)
        with self._starts.by(caller) as starter:
            at_once = self._registry.starts_at_once(session_id)

            def enqueue(connection: Connection) -> tuple[tuple[QueueReceipt, bool, Started | None], list[StreamItem]]:
                return queue.enqueue(
                    connection,
                    session_id,
                    body,
                    content,
                    limit=self._limit,
                    starter=starter,
                    check=self._check,
                    at_once=at_once,
                )

            receipt, is_new, started = await self._setup.write(session_id, enqueue)
            if is_new:
                self._registry.wake(session_id, caller.key, started)
                if body.mode is QueueMode.INTERRUPT:
                    self._registry.interrupt(session_id, "interrupt", receipt.id)
        return receipt

    async def list(self, session_id: str) -> QueuePage:
        """Pending messages in delivery order."""
        items, last_seq = await queue.read_queue(self._setup.database, session_id)
        return QueuePage(items=tuple(items), last_seq=last_seq)

    async def edit(self, session_id: str, message_id: str, body: QueueEdit) -> QueuedMessage:
        """Changes a pending message. Raises `ConflictError` once it is delivered, and `MessageTooLargeError` if its new
        text cannot fit the model's window."""
        content = None if body.content is None else await self._take(session_id, body.content)
        if content is not None:
            await self._learn_window(session_id, content)
        edited = await self._setup.write(
            session_id, lambda c: queue.edit(c, session_id, message_id, body, content, check=self._check)
        )
        self._registry.ring(session_id)
        if body.mode is QueueMode.INTERRUPT:
            self._registry.interrupt(session_id, "interrupt", message_id)
        return edited

    async def withdraw(self, session_id: str, message_id: str) -> None:
        """Withdraws a pending message. Raises `ConflictError` once it is delivered."""
        await self._setup.write(session_id, lambda c: queue.withdraw(c, session_id, message_id))

    async def _take(self, session_id: str, content: Content) -> TakenContent:
        async def read(path: str, most: int) -> bytes:
            try:
                return await self._files.read(session_id, path, most)
            except NotFoundError:
                if not is_due(await self._setup.database.read(lambda c: sessions.row(c, session_id))):
                    raise
                return awaited(path, most)

        return await take(content, read)

    async def _learn_window(self, session_id: str, content: TakenContent) -> None:
        """Asks for the window of the session's model, if the size of this content may matter."""
        if content.parts is not None or content.text_tokens > LEAST_ROOM:
            row = await self._setup.database.read(lambda c: sessions.row(c, session_id))
            await self._setup.agents.ask_windows(row.model)

    def _check(self, connection: Connection, row: Row[Any], content: TakenContent) -> None:
        agents = self._setup.agents
        # A session whose model is gone takes texts as before.
        is_text = content.parts is None
        tokens = content.text_tokens if is_text else content.tokens(agents.model_info(row.model))
        check_fits(agents, row, tokens, lambda window: stored_offer(connection, row, self._setup.mcp)(window))


class ApprovalService:
    """Stores decisions and notifies the owners of their sessions; a decision is committed when `decide` returns."""

    def __init__(self, setup: RuntimeSetup, registry: Dispatch) -> None:
        self._setup = setup
        self._registry = registry

    async def list(self, session_id: str) -> ApprovalList:
        """The pending approvals, with those of sub-agents."""
        return await runs.read_pending(self._setup.database, session_id)

    async def decide(self, session_id: str, call_id: str, answer: ApprovalAnswer) -> None:
        """Approves or denies a call. Raises `NotFoundError` (code `approval_not_found`) and `ConflictError`
        (`approval_resolved`)."""
        asker = await self._setup.database.read(lambda c: runs.asker(c, session_id, call_id))
        await self._setup.write(asker, lambda c: runs.decide_approval(c, asker, call_id, answer), to_subagent=True)
        self._registry.take_decision(asker)


class ClientCallService:
    """Stores the results that clients post and notifies the owners of their sessions; a result is committed when
    `answer` returns."""

    def __init__(self, setup: RuntimeSetup, registry: Dispatch) -> None:
        self._setup = setup
        self._registry = registry

    async def pending(self, session_id: str) -> PendingToolCalls:
        """The calls that wait for a client."""
        return await self._setup.database.read(lambda c: client_calls.pending(c, session_id))

    async def answer(self, session_id: str, call_id: str, posted: ToolCallAnswer) -> None:
        """Takes the result of a call. Raises `NotFoundError` (code `call_not_found`) and `ConflictError`
        (`call_resolved`, `call_not_waiting`)."""
        await self._setup.write(session_id, lambda c: client_calls.answer(c, session_id, call_id, posted))
        self._registry.take_decision(session_id)
