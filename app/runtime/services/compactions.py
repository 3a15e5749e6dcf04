"""Manual compaction: request a round, list all rounds, revert the latest one."""

from __future__ import annotations

from app.agent.asked import ManualRound
from app.context.policies import CompactionSettings, resolve
from app.db.repositories import sessions
from app.runtime import compactions, history
from app.runtime.notes import read_beside_owner
from app.runtime.preview import opening, preview
from app.runtime.registry import Registry
from app.runtime.reverts import revert
from app.runtime.setup import RuntimeSetup
from app.runtime.values.compactions import CompactionCreate, CompactionList, CompactionPreview
from app.sessions import CompactionEvent, Session


class CompactionService:
    """Requests rounds from the owners of sessions; every write is committed when a method returns."""

    def __init__(self, setup: RuntimeSetup, registry: Registry) -> None:
        self._setup = setup
        self._database = setup.database
        self._registry = registry

    async def request(self, session_id: str, body: CompactionCreate) -> CompactionEvent:
        """Accepts a round of compaction; the session's owner makes it between steps. Raises `ConflictError` (code
        `compaction_in_progress`) while another one is running, and `ServerBusyError` if the session is idle and too
        many runs are waiting."""
        settings = await self._settings(session_id, body)
        agents, first = self._setup.agents, await self._database.read(lambda c: history.reads_notes(c, session_id))
        notes = await read_beside_owner(self._setup.sandboxes, first) if first is not None else None
        start = await opening(self._database, session_id, settings, agents, notes)
        with self._registry.admitting() as room:
            if not room and not self._registry.works_on(session_id):
                raise self._registry.no_room()
            event = await self._setup.write(
                session_id, lambda c: compactions.request(c, session_id, start, settings, body.instructions)
            )
            self._registry.ask_round(session_id)
        return event

    async def preview(self, session_id: str, body: CompactionCreate) -> CompactionPreview:
        """What a round would do now, without doing it. Like a round it reads the workspace's notes without starting a
        sandbox."""
        asked = ManualRound(0, await self._settings(session_id, body), body.instructions)
        agents, row = self._setup.agents, await self._database.read(lambda c: sessions.row(c, session_id))
        notes = await read_beside_owner(self._setup.sandboxes, row)
        return await preview(self._database, session_id, asked, agents, notes)

    async def list(self, session_id: str) -> CompactionList:
        """All rounds of compaction, including failed ones."""
        return await self._database.read(lambda c: history.round_list(c, session_id))

    async def revert(self, session_id: str, round: int) -> None:
        """Reverts the latest round; a current run continues without it from its next step."""
        await self._setup.write(session_id, lambda c: revert(c, session_id, round))
        self._registry.take_revert(session_id)

    async def _settings(self, session_id: str, body: CompactionCreate) -> CompactionSettings:
        """The settings of a round, after asking its models' servers for their windows."""
        session = await self._database.read(lambda c: sessions.snapshot(c, session_id))
        settings = _round_settings(session, body)
        await self._setup.agents.ask_windows(session.model, settings.model)
        return settings


def _round_settings(session: Session, body: CompactionCreate) -> CompactionSettings:
    """The settings of a round: the session's, or those of the requested policy."""
    own = CompactionSettings.model_validate({"policy": session.compaction.policy, **session.compaction.settings})
    return resolve(body.policy, own)
