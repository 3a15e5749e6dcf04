"""The tools that find what a context has lost, over a recorded history: it is stored in a separate database, and
searched as a session's is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Connection

from app.db.engine import open_database
from app.db.migrate import upgrade
from app.db.repositories import messages as stored_messages
from app.db.repositories import sessions
from app.errors import PalimpsestError
from app.messages import Message, Role, ToolCallPart, Usage, new_id, now
from app.runtime.owner.notes import StoredHistory
from app.sessions import Status
from app.tools.files import READ_CHARS
from app.tools.recall import MAX_FINDINGS, render_findings


@asynccontextmanager
async def open_searcher(messages: Sequence[Message]) -> AsyncIterator[RecordedSearch]:
    """The tools over these messages, for as long as the context is open."""
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder, 'history.db')}"
        await asyncio.to_thread(upgrade, url)
        database = open_database(url)
        try:
            asking = new_id()
            session_id = await database.writer.write(lambda c: store(c, messages, asking))
            yield RecordedSearch(StoredHistory(database, session_id, None), asking)
        finally:
            await database.aclose()


class RecordedSearch:
    """`history_search` and `recall` as the history's next step could call them."""

    def __init__(self, history: StoredHistory, asking: str) -> None:
        self._history = history
        self._asking = asking

    async def search(self, query: str) -> Sequence[tuple[str, str]]:
        """The places that `history_search` returns, each with its id for `recall` and its line."""
        found = await self._history.search(query, asked_by=self._asking, limit=MAX_FINDINGS)
        return [(place.call_id or place.message_id, render_findings([place])) for place in found]

    async def recall(self, id: str) -> str:
        """The start of what `recall` returns, as much as one call may; empty if nothing is stored."""
        try:
            past = await self._history.output(id)
        except PalimpsestError:
            return ""
        return past.data.decode("utf-8", "replace")[:READ_CHARS]


def store(connection: Connection, messages: Sequence[Message], asking: str) -> str:
    """Stores a session with these messages and a last one that has the call which searches."""
    session_id = new_id()
    sessions.add(
        connection,
        id=session_id,
        status=Status.IDLE,
        model="none/none",
        sandbox={},
        compaction={},
        limits={},
        approval={},
        metadata={},
        plan=[],
        usage=Usage().model_dump(),
        run_usage=Usage().model_dump(),
        context={},
        fingerprint="",
        created_at=now(),
        updated_at=now(),
    )
    for seq, message in enumerate(messages, 1):
        stored_messages.add(connection, session_id, message.model_copy(update={"seq": seq}))
    call = ToolCallPart(id=new_id(), index=0, call_id=asking, name="history_search", arguments_text="{}")
    last = Message(id=new_id(), seq=len(messages) + 1, role=Role.ASSISTANT, parts=(call,), created_at=now())
    stored_messages.add(connection, session_id, last)
    return session_id
