"""Manual requests to a session's compaction while its owner works: rounds to make, and reverts to apply."""

from __future__ import annotations

from app.agent.asked import ManualRound
from app.agent.conversation import Conversation
from app.context.policies import CompactionSettings
from app.db.engine import Database
from app.runtime import compactions
from app.runtime.reading import read_again
from app.runtime.recorder import Recorder


class AskedRounds:
    """Remembers that a round was requested until it is made or given up. All methods except `next` and `close` may be
    called at any time."""

    def __init__(self, database: Database, session_id: str) -> None:
        self._database = database
        self._session_id = session_id
        self._requested = False
        self._abandoned = False
        self._cancelled = False
        self._reverted = False

    def begin(self, *, asked: bool) -> None:
        """Starts with the state in the session's row: whether a round is requested. A cancel may have come before."""
        self._requested = asked
        self._abandoned = asked and self._cancelled

    def ask(self) -> None:
        """A round was requested, to be made before the next step. No other is open at that time, so earlier cancels and
        failures are cleared."""
        self._requested, self._abandoned = True, False

    def revert(self) -> None:
        """A round was reverted; the next step does not use it."""
        self._reverted = True

    def cancel(self) -> None:
        """A cancel also cancels a requested round that has not started."""
        self._cancelled = True
        self._abandoned = self._abandoned or self._requested

    def fail(self) -> None:
        """The run has failed, so the requested round will not be made."""
        self._abandoned = True

    async def next(self, conversation: Conversation) -> ManualRound | None:
        """The requested round, once; a revert is applied first."""
        if self._reverted:
            self._reverted = False
            conversation.revert(*await self._database.read(lambda c: read_again(c, self._session_id)))
        if not self._requested:
            return None
        self._requested = self._abandoned = False
        row = await self._database.read(lambda c: compactions.requested(c, self._session_id))
        if row is None:
            return None
        return ManualRound(row.round, CompactionSettings(**row.settings), row.instructions)

    async def close(self, recorder: Recorder, epoch: int) -> None:
        """Closes rounds that were left open by a cancel or a crash."""
        if self._abandoned:
            self._requested = self._abandoned = False
            await recorder.submit(lambda c: (None, compactions.abandon(c, self._session_id, epoch, asked_too=True)))
