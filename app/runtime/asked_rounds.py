"""What somebody asks of a session's compaction while its owner works: rounds to make, and reverts to take over."""

from __future__ import annotations

from app.agent.asked import ManualRound
from app.agent.conversation import Conversation
from app.context.policies import CompactionSettings
from app.db.engine import Database
from app.runtime import compactions
from app.runtime.reading import read_again
from app.runtime.recorder import Recorder


class AskedRounds:
    """Remembers that a round was asked for until it is made or given up. All but `next` and `close` may be called at
    any time."""

    def __init__(self, database: Database, session_id: str) -> None:
        self._database = database
        self._session_id = session_id
        self._asked = False
        self._in_vain = False
        self._cancelled = False
        self._reverted = False

    def begin(self, *, asked: bool) -> None:
        """Starts from what the session's row says: whether a round is asked for. A cancel may have come before."""
        self._asked = asked
        self._in_vain = asked and self._cancelled

    def ask(self) -> None:
        """A round was asked for, which is made before the next step. No other is open then, so that what was in vain
        before is over."""
        self._asked, self._in_vain = True, False

    def revert(self) -> None:
        """A round was reverted; the next step goes without it."""
        self._reverted = True

    def cancel(self) -> None:
        """A cancel takes a round along that was asked for and has not begun."""
        self._cancelled = True
        self._in_vain = self._in_vain or self._asked

    def fail(self) -> None:
        """The run has failed, so that nobody makes what was asked for."""
        self._in_vain = True

    async def next(self, conversation: Conversation) -> ManualRound | None:
        """The round that somebody has asked for, once; a revert is taken over first."""
        if self._reverted:
            self._reverted = False
            conversation.revert(*await self._database.read(lambda c: read_again(c, self._session_id)))
        if not self._asked:
            return None
        self._asked = self._in_vain = False
        row = await self._database.read(lambda c: compactions.requested(c, self._session_id))
        if row is None:
            return None
        return ManualRound(row.round, CompactionSettings(**row.settings), row.instructions)

    async def close(self, recorder: Recorder, epoch: int) -> None:
        """Closes what a cancel or a crash has left of rounds of compaction."""
        if self._in_vain:
            self._asked = self._in_vain = False
            await recorder.submit(lambda c: (None, compactions.abandon(c, self._session_id, epoch, asked_too=True)))
