"""Compaction by hand: ask for a round, look at all of them, take the latest back."""

from __future__ import annotations

from app.context.policies import CompactionSettings, resolve
from app.db.repositories import sessions
from app.runtime import compactions, history
from app.runtime.preview import preview
from app.runtime.registry import Registry
from app.runtime.setup import RuntimeSetup
from app.runtime.values.compactions import CompactionCreate, CompactionList, CompactionPreview
from app.sessions import CompactionEvent, Session


class CompactionService:
    """Asks the owners of sessions for rounds; every write is committed when a method returns."""

    def __init__(self, setup: RuntimeSetup, registry: Registry) -> None:
        self._setup = setup
        self._database = setup.database
        self._registry = registry

    async def request(self, session_id: str, body: CompactionCreate) -> CompactionEvent:
        """Accepts a round of compaction; the session's owner makes it between steps. Raises `ConflictError` (code
        `compaction_in_progress`) while another is under way."""
        session = await self._session(session_id)
        settings = _round_settings(session, body)
        state = session.context
        event = await self._setup.write(
            session_id,
            lambda c: compactions.request(c, session_id, settings, body.instructions, state.tokens, state.limit),
        )
        self._registry.ask_round(session_id)
        return event

    async def preview(self, session_id: str, body: CompactionCreate) -> CompactionPreview:
        """What a round would do now, without doing it."""
        agents = self._setup.agents
        session = await self._session(session_id)
        settings = _round_settings(session, body)
        await agents.ask_windows(session.model, settings.model)
        return await self._database.read(lambda c: preview(c, session_id, settings, body.instructions, agents))

    async def list(self, session_id: str) -> CompactionList:
        """All rounds of compaction, those that came to nothing included."""
        return await self._database.read(lambda c: history.round_list(c, session_id))

    async def revert(self, session_id: str, round: int) -> None:
        """Takes the latest round back; a run under way goes on without it from its next step."""
        await self._setup.write(session_id, lambda c: compactions.revert(c, session_id, round))
        self._registry.take_revert(session_id)

    async def _session(self, session_id: str) -> Session:
        return await self._database.read(lambda c: sessions.snapshot(c, session_id))


def _round_settings(session: Session, body: CompactionCreate) -> CompactionSettings:
    """The settings of a round: the session's own, or those of the policy that is asked for."""
    own = CompactionSettings.model_validate({"policy": session.compaction.policy, **session.compaction.settings})
    return resolve(body.policy, own)
